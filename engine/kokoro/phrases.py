"""A line to the phrases Kokoro speaks one by one: a sentence each, or the parts of a very long one.

Kokoro speaks 50 to 150 phonemes best and rushes beyond 400 (its model card); its context ends at 510. What
it can't perform, a cue in square brackets, is left out of what it reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kokoro_onnx.chunker import pause_after, split_phonemes

from engine.kokoro.characters import CHARACTERS
from engine.kokoro.espeak import phonemes
from prompts.letters import fold
from prompts.numbers import read_numbers
from prompts.text import SPEAKER, without_cues

MAX_PHONEMES = 400
SENTENCE_PAUSE_S = 0.25
CLAUSE_PAUSE_S = 0.1

_PICTURE = re.compile(
    "[\u2190-\u2bff\ufe0e\ufe0f\u200d\U0001f000-\U0001faff]+"
)  # espeak-ng reads an emoji's name
_SENTENCE_END = re.compile(r"([.!?…]+['\"”’»)\]]*)\s+(?![a-z])")
_DOTTED = re.compile(r"(?:^|\s)(?:[A-Za-z]\.)*[A-HJ-Za-z]$")  # "J", "U.S", "a.m", but not the pronoun


@dataclass(frozen=True)
class Phrase:
    """Phonemes for one run of the model and the silence to leave before them, in seconds."""

    phonemes: str
    pause_s: float


def phrases(text: str, accent: str) -> list[Phrase]:
    """What is spoken of `text`, in order; empty where nothing is to say. `accent`: american or british."""
    found: list[Phrase] = []
    pause_s = 0.0
    for sentence in sentences(spoken(text)):
        for part in split_phonemes(phonemes(sentence, accent), MAX_PHONEMES):
            if any(sound.isalpha() for sound in part):
                found.append(Phrase(part, pause_s if found else 0.0))
                pause_s = pause_after(part, SENTENCE_PAUSE_S, CLAUSE_PAUSE_S)
        pause_s = SENTENCE_PAUSE_S
    return found


def spoken(text: str) -> str:
    """`text` as it is read: without cues and pictures; numbers and abbreviations in words."""
    text = _PICTURE.sub(" ", without_cues(text.replace(SPEAKER, " ")))
    text = read_numbers(fold(text, CHARACTERS).text).text
    return re.sub(r"\s+([.,;:!?…])", r"\1", " ".join(text.split()))


def sentences(text: str) -> list[str]:
    """`text` cut behind each full stop, question or exclamation mark that ends a sentence."""
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if match[1] == "." and _DOTTED.search(text[start : match.start()]):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found
