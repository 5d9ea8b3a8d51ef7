"""The ready voices of `assets/voices`: a voice for whoever has no clip, whatever model performs.

A model that clones follows the voice's clip; one that only describes knows the voice by its id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from engine.audio_files import read_clip
from engine.family import Capabilities
from engine.take import Character, Reference, RequestError

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "voices"


@dataclass(frozen=True)
class ReadyVoice:
    """`about` is a sentence for a person; `clip` and its `words` are there where the voice can be cloned."""

    id: str
    about: str
    clip: Path | None
    words: str


def all_voices() -> dict[str, ReadyVoice]:
    """Every voice by its id."""
    listed = json.loads((FOLDER / "voices.json").read_text(encoding="utf-8"))["voices"]
    return {facts["id"]: _voice(facts) for facts in listed}


def ready_voices(able: Capabilities) -> dict[str, ReadyVoice]:
    """The voices that a family with these capabilities can use, by id."""
    return {each: voice for each, voice in all_voices().items() if voice.clip or not able.clone}


def ready_character(voice: ReadyVoice, able: Capabilities, name: str = "") -> Character:
    """The character `name` with a ready voice, its clip not yet encoded. Raises RequestError for a voice that
    a family which clones has no clip of."""
    if not able.clone:
        return Character(name, description=voice.id)
    if voice.clip is None:
        usable = ", ".join(ready_voices(able))
        raise RequestError(f"The voice {voice.id} can't be cloned, it has no clip; use one of {usable}.")
    return Character(name, (Reference(read_clip(voice.clip), voice.words),))


def _voice(facts: dict) -> ReadyVoice:
    clip = FOLDER / f"{facts['id']}.ogg" if "words" in facts else None
    return ReadyVoice(facts["id"], facts["about"], clip, facts.get("words", ""))
