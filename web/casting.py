"""Who plays whom on the page: the voice on a card, from wherever it came, and the casting call.

A voice is a choice that any model can look at: a ready voice by its id, words, or codes of clips by the model
that made them. No sound is kept: a clip is encoded when it is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.family import Family
from engine.scene import SceneTake
from engine.take import MAX_REFERENCES, Character, Reference, RequestError, from_json
from engine.voices import ReadyVoice, all_voices, ready_character
from prompts.cues import folded
from prompts.text import FIELD_CHARACTERS

OWN, READY, DESCRIBED, CLIPS, FILE = "own", "ready", "described", "clips", "file"


@dataclass(frozen=True, eq=False)
class Voice:
    """What a card says. `played` holds cloned characters by (model, revision).

    `keys` are (name@revision, key) of the clips in each model's cache, and ("", hash) of them as they came;
    `files` are what the visitor uploaded; `about` is said of clips and voice files.
    """

    kind: str = OWN
    ready: str = ""
    description: str = ""
    scene: str = ""
    about: str = ""
    played: Mapping[tuple[str, str], Character] = field(default_factory=dict)
    keys: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()

    def character(self, name: str, family: Family) -> Character:
        """The character `name` as `family` plays it; clips of a ready voice are not yet encoded. Raises
        RequestError where the family can't."""
        able = family.capabilities
        if self.kind == READY:
            return ready_character(ready(self.ready), able, name)
        if self.kind == DESCRIBED:
            if not self.description.strip():
                raise RequestError(f"There is no description of {name}; say in a few words who speaks.")
            return Character(name, None, self.description.strip(), self.scene.strip() or None)
        if self.kind in (CLIPS, FILE):
            if not able.clone:
                raise RequestError(f"{family.name} can't follow a clip; give {name} a ready voice or words.")
            if not self.played:
                raise RequestError(f"{name} has no clip yet; give one, or choose another voice.")
            played = self.played.get((family.name, family.revision))
            if played is None:
                raise RequestError(
                    f"The voice of {name} was made for another model; give it its clips again."
                )
            return Character(name, played.voice)
        return Character(name)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One who read at a casting call. `loudness` in LUFS."""

    letter: str
    voice: Voice
    character: Character
    about: str
    take: SceneTake
    loudness: float


@dataclass
class Call:
    """A casting call: one line, read by several. Nobody's name is told until one was `chosen`."""

    line_id: str
    actor: str
    speaker: str
    text: str
    candidates: list[Candidate] = field(default_factory=list)
    asked: int = 0
    chosen: str | None = None

    @property
    def take_ids(self) -> set[str]:
        return {each.take.id for each in self.candidates}

    def candidate(self, letter: Any) -> Candidate:
        """The one with that letter. Raises RequestError where there is none."""
        for each in self.candidates:
            if each.letter == letter:
                return each
        raise RequestError("Nobody with that letter read; choose another one.")

    def facts(self) -> dict[str, Any]:
        """What the page is told."""
        told = [
            {
                "letter": each.letter,
                "seconds": f"{each.take.num_samples / each.take.sample_rate:.1f} s",
                "about": each.about if self.chosen else "",
                "chosen": each.letter == self.chosen,
            }
            for each in self.candidates
        ]
        return {"speaker": self.speaker, "text": self.text, "asked": self.asked, "candidates": told}


def ready(voice_id: Any) -> ReadyVoice:
    """The ready voice with that id. Raises RequestError where there is none."""
    voices = all_voices()
    if not isinstance(voice_id, str) or voice_id not in voices:
        raise RequestError(f"There is no voice {voice_id!r:.80}; use one of {', '.join(voices)}.")
    return voices[voice_id]


def voices_of(cast: Any, family: Family) -> dict[str, Voice]:
    """Voices by folded name from a caller's JSON: as a CAST.json, with codes for clips and no files.

    Raises RequestError, one sentence, for another shape.
    """
    if not isinstance(cast, dict):
        raise RequestError('The cast is no object; give {"NAME": {"voice": "am_onyx"}}.')
    return {folded(name): voice_of(name, entry, family) for name, entry in cast.items()}


def voice_of(name: str, entry: Any, family: Family) -> Voice:
    """One entry of a caller's cast. Raises RequestError, one sentence, for another shape."""
    shape = '{"voice": id or [{"codes", "words"}]} or {"description", "scene"}'
    if not isinstance(entry, dict) or not entry or entry.keys() - {"voice", "description", "scene"}:
        raise RequestError(f"The voice of {name:.80} has another shape; give {shape}.")
    voice = entry.get("voice")
    if voice is not None and len(entry) > 1:
        raise RequestError(f"{name:.80} has a voice and a description; leave one of them out.")
    if isinstance(voice, list):
        references = tuple(_reference(name, each) for each in voice)
        if not 1 <= len(references) <= MAX_REFERENCES:
            raise RequestError(f"{name:.80} has {len(references)} clips; use 1 to {MAX_REFERENCES}.")
        played = {(family.name, family.revision): Character(name, references)}
        return Voice(CLIPS, about=f"{len(references)} clips", played=played)
    if voice is not None:
        return Voice(READY, ready(voice).id)
    words = [entry.get(key, "") for key in ("description", "scene")]
    if not all(isinstance(each, str) and len(each) <= FIELD_CHARACTERS for each in words) or not words[0]:
        raise RequestError(
            f"The description of {name:.80} is no text of up to {FIELD_CHARACTERS:,} characters."
        )
    return Voice(DESCRIBED, description=words[0], scene=words[1])


def level(loudness: float) -> float | None:
    """A loudness for JSON, which knows no infinity."""
    return round(loudness, 1) if math.isfinite(loudness) else None


def _reference(name: str, entry: Any) -> Reference:
    try:
        codes, words = entry["codes"], entry["words"]
        if not isinstance(words, str):
            raise TypeError
        codes = from_json(codes) if isinstance(codes, dict) else codes
        return Reference(np.asarray(codes), words)
    except RequestError:  # says more than the sentence below
        raise
    except (TypeError, KeyError, ValueError):
        raise RequestError(
            f'A clip of {name:.80} has another shape; give {{"codes": ..., "words": ...}}.'
        ) from None
