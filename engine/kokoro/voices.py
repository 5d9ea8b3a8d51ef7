"""The stand-in's voices, and which of them a description means.

A description is read for a small vocabulary (`VOCABULARY`), the first word of each kind counting: gender,
accent, pitch or age, pace, and a breathy manner. "An old British man, slow and tired" is the lowest British
man at 0.85 of the usual pace. Words that aren't in it still choose: among the voices that fit, by the hash
of the description, so that one description is always one voice and two characters often sound different.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "voices"
STYLE_SHAPE = (510, 256)  # a style vector for each number of phonemes

SPEEDS = {"slow": 0.85, "fast": 1.2}  # Kokoro stays clear from about 0.7 to 1.4

VOCABULARY = {
    "gender": {
        "female": "woman women female feminine girl lady she her hers mother mum mom aunt sister daughter "
        "wife widow grandmother grandma granny queen princess actress waitress nun heroine soprano alto",
        "male": "man men male masculine boy guy gentleman he him his father dad uncle brother son "
        "husband widower grandfather grandpa king prince actor waiter priest wizard hero lad tenor baritone",
    },
    "accent": {
        "british": "british english england london londoner uk scottish welsh irish victorian posh cockney",
        "american": "american america us usa texan texas california york southern midwestern canadian",
    },
    "pitch": {
        "low": "deep low bass baritone gruff gravelly husky rough old older elderly aged ancient grandfather "
        "grandpa grandmother grandma granny dark heavy alto",
        "high": "high bright light young youthful teenage teenager child kid girl boy shrill soprano squeaky",
    },
    "pace": {
        "slow": "slow slowly calm measured weary tired sleepy solemn hesitant drawling grave patient gentle",
        "fast": "fast quick quickly rapid rapidly hurried hasty urgent excited breathless nervous frantic",
    },
    "manner": {"breathy": "breathy whisper whispers whispering whispered hushed soft softly intimate asmr"},
}
_TRAITS = {
    kind: {word: trait for trait, words in traits.items() for word in words.split()}
    for kind, traits in VOCABULARY.items()
}


@dataclass(frozen=True, eq=False)
class Voice:
    """One speaker: `styles` float32 [510, 256], row n - 1 for n phonemes; `pitch_hz` is a measured median."""

    id: str
    gender: str
    accent: str
    manner: str
    pitch_hz: int
    about: str
    styles: np.ndarray


def read_voices(folder: Path = FOLDER) -> tuple[Voice, ...]:
    """The voices that `voices.json` of `folder` lists; the first is the one nobody described."""
    listed = json.loads((folder / "voices.json").read_text(encoding="utf-8"))["voices"]
    known = [field.name for field in fields(Voice) if field.name != "styles"]
    return tuple(
        Voice(**{name: facts[name] for name in known}, styles=_styles(folder / f"{facts['id']}.bin"))
        for facts in listed
    )


def choose(voices: tuple[Voice, ...], description: str | None) -> tuple[Voice, float]:
    """The voice that `description` means and its speed (1 is the usual pace). Any description has one, and
    the id of a voice is that voice."""
    if description is None:
        return voices[0], 1.0
    for voice in voices:
        if description == voice.id:
            return voice, 1.0
    wanted = traits(description)
    fitting = list(voices)
    for kind, trait in (
        ("gender", wanted.get("gender")),
        ("accent", wanted.get("accent")),
        ("manner", wanted.get("manner", "plain")),
    ):
        fitting = [voice for voice in fitting if trait in (None, getattr(voice, kind))] or fitting
    return _pick(fitting, wanted.get("pitch"), description), SPEEDS.get(wanted.get("pace", ""), 1.0)


def traits(description: str) -> dict[str, str]:
    """What `description` asks for, by kind ("gender": "female"); kinds it doesn't mention are absent."""
    found: dict[str, str] = {}
    for word in _words(description):
        for kind, known in _TRAITS.items():
            if word in known:
                found.setdefault(kind, known[word])
    return found


def _pick(voices: list[Voice], pitch: str | None, description: str) -> Voice:
    if pitch == "low":
        return min(voices, key=lambda voice: voice.pitch_hz)
    if pitch == "high":
        return max(voices, key=lambda voice: voice.pitch_hz)
    digest = hashlib.sha256(" ".join(_words(description)).encode()).digest()
    return voices[int.from_bytes(digest[:8], "big") % len(voices)]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _styles(path: Path) -> np.ndarray:
    return np.fromfile(path, "<f2").astype(np.float32).reshape(STYLE_SHAPE)
