"""Who plays whom: a JSON file gives every name of a script a voice.

    {
      "MARA": {"description": "a weary lighthouse keeper", "scene": "a storm at night"},
      "Finn": {"voice": [{"clip": "finn.wav", "words": "What the clip says."}]},
      "THE VOICE": {"voice": "am_onyx"},
      "Old Tom": {"voice": "tom.voice.json"}
    }

A voice is 1 to 4 clips, a ready voice of `assets/voices` by its id, or a voice file; paths are relative to
the JSON file. Names are compared as the script compares them. Reading needs no model: what a family can't do
shows when the voice is engaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.audio_files import read_clip, shown_name
from engine.family import Family
from engine.json_values import parse, read_file
from engine.take import MAX_REFERENCES, Character, Reference, RequestError
from engine.voice_file import SUFFIX, SavedVoice, character_of, read_voice
from engine.voices import ReadyVoice, all_voices, ready_character
from prompts.cues import folded

MAX_BYTES = 1 << 20
DESCRIBED, CLONED = {"description", "scene"}, {"voice"}

Casting = Character | ReadyVoice | SavedVoice


def read_cast(path: Path, characters: Sequence[str], tell: Callable[[str], object]) -> dict[str, Casting]:
    """The voice of each of a script's `characters`, by its name as given. Others in the file don't matter.

    `tell` gets a sentence for each thing done to a clip. Raises RequestError, one sentence, for the first
    mistake in the file, and for characters that are missing from it.
    """
    file = shown_name(path)
    data = parse(read_file(path, file, MAX_BYTES), file)
    if not isinstance(data, dict):
        raise RequestError(f'{file} is no cast; write {{"NAME": {{"description": "..."}}}}.')
    entries: dict[str, Any] = {}
    for name, entry in data.items():
        if folded(name) in entries:
            raise RequestError(f"{file} has {name:.80} twice, in two spellings; keep one of them.")
        entries[folded(name)] = entry
    if missing := [name for name in characters if folded(name) not in entries]:
        raise RequestError(
            f"{file} has no voice for {', '.join(missing)}; it has {', '.join(data) or 'nobody'}."
        )
    return {name: _casting(name, entries[folded(name)], path.parent, tell) for name in characters}


def engaged(name: str, casting: Casting, family: Family) -> Character:
    """The character `name` as a family plays it, clips not yet encoded. Raises RequestError if it can't."""
    if isinstance(casting, ReadyVoice):
        return ready_character(casting, family.capabilities, name)
    return character_of(casting, family, name) if isinstance(casting, SavedVoice) else casting


def _casting(name: str, entry: Any, folder: Path, tell: Callable[[str], object]) -> Casting:
    if not isinstance(entry, dict):
        raise RequestError(
            f'The voice of {name} is no object; write {{"description": "..."}} or {{"voice": ...}}.'
        )
    if unknown := sorted(entry.keys() - DESCRIBED - CLONED):
        raise RequestError(f"{name} has {unknown[0]!r:.80}; use description and scene, or voice.")
    if entry.keys() & DESCRIBED and entry.keys() & CLONED:
        raise RequestError(f"{name} has a voice and a description; leave one of them out.")
    if "voice" in entry:
        return _voice(name, entry["voice"], folder, tell)
    if not isinstance(entry.get("description"), str):
        raise RequestError(f"{name} has no description in words and no voice; give one of them.")
    if not isinstance(entry.get("scene", ""), str):
        raise RequestError(f"The scene of {name} is no text; describe it in words.")
    return Character(name, None, entry["description"], entry.get("scene"))


def _voice(name: str, voice: Any, folder: Path, tell: Callable[[str], object]) -> Casting:
    if isinstance(voice, list):
        return Character(name, _clips(name, voice, folder, tell))
    if not isinstance(voice, str):
        raise RequestError(f"The voice of {name} is no list of clips and no name; give one of them.")
    if voice.endswith(SUFFIX):
        return read_voice(folder / voice)
    ready = all_voices()
    if voice not in ready:
        raise RequestError(f"There is no voice {voice:.80} for {name}; use one of {', '.join(ready)}.")
    return ready[voice]


def _clips(name: str, clips: list, folder: Path, tell: Callable[[str], object]) -> tuple[Reference, ...]:
    if not 1 <= len(clips) <= MAX_REFERENCES:
        raise RequestError(f"The voice of {name} has {len(clips)} clips; use 1 to {MAX_REFERENCES}.")
    for clip in clips:
        texts = isinstance(clip, dict) and all(isinstance(text, str) for text in clip.values())
        if not texts or clip.keys() != {"clip", "words"}:
            raise RequestError(f'A clip of {name} is odd; write {{"clip": "file.wav", "words": "..."}}.')
    return tuple(Reference(read_clip(folder / clip["clip"], tell=tell), clip["words"]) for clip in clips)
