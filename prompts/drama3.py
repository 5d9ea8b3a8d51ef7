"""The Drama 3 prompt: the `reference-bracket-v1` layout, the described character, the directing history.

A prompt is a list of segments. Each text segment is tokenized on its own, because tokenizing the joined text
changes the ids at the seams: the colon of "…following:" would fuse with the line breaks of the next segment.

Borders are the places where a prefix can be kept and used again: after the system part with its references,
and after each turn of the history. Prefill always splits there, so a remembered prefix changes nothing but
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prompts import text as words
from prompts.text import PromptError

SYSTEM = "convert the provided text to speech"
SYSTEM_WITH_REFERENCES = "convert the provided text to speech reference to the following:"
VOICE_THE_SCRIPT = (
    "Voice every line of the script in order, with <|audio_separator|> between consecutive lines."
)
SYSTEM_START = "<|im_start|>system\n"
USER_START = "<|im_start|>user\n"
VOICE_START = "<|im_start|>assistant\n<|voice|>"
END = "<|im_end|>\n"


@dataclass(frozen=True, eq=False)
class Codes:
    """Audio inside a prompt: `array` int [num_codebooks, frames]; `name` says which, in messages."""

    array: np.ndarray
    name: str


Segment = str | Codes


@dataclass(frozen=True)
class Described:
    """A character made up from words. The fields are single lines; white space around them is dropped."""

    name: str
    description: str
    scene: str | None = None


@dataclass(frozen=True, eq=False)
class Layout:
    """`segments` in order; each border b says that a reusable prefix is `segments[:b]`. Borders rise."""

    segments: tuple[Segment, ...]
    borders: tuple[int, ...]


def layout(
    text: str,
    references: Sequence[tuple[str, np.ndarray]] = (),
    character: Described | None = None,
    history: Sequence[tuple[str, np.ndarray]] = (),
) -> Layout:
    """The prompt for one line.

    `references` are (transcript, codes) pairs, `history` (text, codes) pairs, oldest first. Raises
    PromptError if a text would break out of its place, or for references together with a described character.
    """
    if character and references:
        raise PromptError(
            "A voice is cloned from clips or described, not both; remove the clips or the description."
        )
    segments = [SYSTEM_START, *_system(references, character), END]
    borders = [len(segments)]
    for number, (spoken, codes) in enumerate(history, start=1):
        field = f"History turn {number}"
        segments += [
            *_turn(spoken, character, field),
            Codes(codes, f"history turn {number}"),
            END,
        ]
        borders.append(len(segments))
    segments += _turn(text, character, "The line")
    return Layout(tuple(segments), tuple(borders))


def directed(text: str, direction: str) -> str:
    """`text` with a direction as a bracketed cue in front: "[colder, slower] No."

    Raises PromptError for a direction that would end the cue early.
    """
    cue = words.strip(direction).strip("[]()")
    if not words.strip(cue):
        return text
    if any(mark in cue for mark in "[]\n\r"):
        raise PromptError("The direction has a bracket or a line break; write it as plain words on one line.")
    return f"[{cue}] {text}"


def _system(references: Sequence[tuple[str, np.ndarray]], character: Described | None) -> list[Segment]:
    if character:
        return [_cast(character)]
    if not references:
        return [SYSTEM]
    segments: list[Segment] = [SYSTEM_WITH_REFERENCES]
    for number, (transcript, codes) in enumerate(references, start=1):
        words.refuse_content(transcript, f"Transcript {number}")
        segments.append(f"\n\n[Reference {number}]\nText: {words.reference_block(transcript)}\nSpeech: ")
        segments.append(Codes(codes, f"reference {number}"))
    return segments


def _cast(character: Described) -> str:
    words.check_character_field(character.name, "name")
    words.check_character_field(character.description, "description")
    lines = [
        "Characters:",
        f"- {words.strip(character.name)}: {words.strip(character.description)}",
        VOICE_THE_SCRIPT,
    ]
    if character.scene is not None:
        words.check_character_field(character.scene, "scene")
        lines.insert(0, f"Scene: {words.strip(character.scene)}")
    return "\n".join(lines)


def _turn(text: str, character: Described | None, field: str) -> list[Segment]:
    words.refuse_request_text(text, field)
    said = f"{words.strip(character.name)}: {text}" if character else words.tag(text)
    return [USER_START, said, END, VOICE_START]
