"""The ready voices of `assets/voices`: a voice for whoever has no clip, whatever model performs.

A model that clones follows the voice's clip; one that only describes knows the voice by its id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from engine.family import Capabilities

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "voices"


@dataclass(frozen=True)
class ReadyVoice:
    """`about` is a sentence for a person; `clip` and its `words` are there where the voice can be cloned."""

    id: str
    about: str
    clip: Path | None
    words: str


def ready_voices(able: Capabilities) -> dict[str, ReadyVoice]:
    """The voices that a family with these capabilities can use, by id."""
    listed = json.loads((FOLDER / "voices.json").read_text(encoding="utf-8"))["voices"]
    voices = {}
    for facts in listed:
        clip = FOLDER / f"{facts['id']}.ogg" if "words" in facts else None
        if clip or not able.clone:
            voices[facts["id"]] = ReadyVoice(facts["id"], facts["about"], clip, facts.get("words", ""))
    return voices
