"""Voice files: a voice that somebody made, kept as codes, for another day and the same model.

One JSON file, `name.voice.json`: the codes of each reference with its words, a name, a note, and the model
that made the codes. No pickle, no sound, no path. The codes are the voice all the same: whoever has the file
can speak with it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.audio_files import shown_name, write_file
from engine.family import Family
from engine.json_values import parse, read_file, read_value, write_value
from engine.references import APPENDED_SILENCE_S, MAX_CLIP_S, check_codes
from engine.take import MAX_REFERENCES, Character, Reference, RequestError
from prompts.text import FIELD_CHARACTERS

SUFFIX = ".voice.json"
SCHEMA = 1
MARK = "tableread_voice"
MAX_BYTES = 5 << 20  # four clips of 60 s are 0.7 MB of Drama 3's codes


@dataclass(frozen=True, eq=False)
class SavedReference:
    """The `codes` int64 [codebooks, frames] of a clip and its words."""

    codes: np.ndarray
    words: str


@dataclass(frozen=True, eq=False)
class SavedVoice:
    """What a voice file holds: 1 to 4 references as `model` at `revision` encoded them; `note` is free."""

    name: str
    note: str
    model: str
    revision: str
    references: tuple[SavedReference, ...]


def saved_voice(name: str, character: Character, family: Family, note: str = "") -> SavedVoice:
    """The voice of a cloned character, ready to be written. Raises RequestError if there are no codes."""
    voice = character.voice or ()
    if not voice or not all(isinstance(each.audio, np.ndarray) for each in voice):
        raise RequestError("Only a voice that was made from clips can be saved; clone one first.")
    references = tuple(SavedReference(each.audio, each.transcript) for each in voice)
    return SavedVoice(name, note, family.name, family.revision, references)


def write_voice(path: str | os.PathLike[str], voice: SavedVoice) -> None:
    """Write a voice file; its name must end in .voice.json. Raises RequestError if it can't be written."""
    if not Path(path).name.endswith(SUFFIX):
        raise RequestError(f"A voice file's name ends in {SUFFIX}; add it.")
    text = json.dumps({MARK: SCHEMA, **write_value(voice)}, ensure_ascii=False, sort_keys=True)
    write_file(path, text.encode())


def read_voice(path: str | os.PathLike[str]) -> SavedVoice:
    """The voice in a file. Raises RequestError, one sentence, for anything but a voice file of ours."""
    name = shown_name(path)
    data = parse(read_file(Path(path), name, MAX_BYTES), name)
    if not isinstance(data, dict) or MARK not in data:
        raise RequestError(f"{name} is no voice file of Tableread; give one that was saved here.")
    if (schema := data.pop(MARK)) != SCHEMA:
        raise RequestError(f"{name} has the schema {schema!r:.20}, this Tableread reads {SCHEMA}; update it.")
    voice = read_value(SavedVoice, data, name)
    if not 1 <= len(voice.references) <= MAX_REFERENCES:
        raise RequestError(f"{name} holds {len(voice.references)} clips; use 1 to {MAX_REFERENCES}.")
    texts = (voice.name, voice.note, voice.model, voice.revision, *(each.words for each in voice.references))
    if max(map(len, texts)) > FIELD_CHARACTERS:
        raise RequestError(f"{name} has a text of over {FIELD_CHARACTERS:,} characters; shorten it.")
    return voice


def character_of(voice: SavedVoice, family: Family, name: str) -> Character:
    """The character `name` with a saved voice. Raises RequestError for a family that didn't make it."""
    if (voice.model, voice.revision) != (family.name, family.revision):
        raise RequestError(
            f"The voice {voice.name:.80} was made by {voice.model:.80} ({voice.revision:.40}), and "
            f"{family.name} ({family.revision}) performs; clone it again from its clips."
        )
    most = round((MAX_CLIP_S + APPENDED_SILENCE_S + 1.0) * family.sample_rate / family.hop)
    references = []
    for number, each in enumerate(voice.references, 1):
        which = f"clip {number} of the voice {voice.name:.80}"
        codes = check_codes(each.codes, family.num_codebooks, family.codebook_size, which)
        if codes.shape[1] > most:
            raise RequestError(f"The codes of {which} last longer than {MAX_CLIP_S:g} s; use a shorter clip.")
        references.append(Reference(codes, each.words))
    return Character(name, tuple(references))
