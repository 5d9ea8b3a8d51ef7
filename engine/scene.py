"""A scene as a value: lines, cast, takes, and what was chosen among them. It holds no sound and does no work.

Every method returns another scene, so an older one is an undo. Three rules hold it together:

    ids     L1, L2 ... in the order of a fresh script. An edit keeps the id, and with it the takes, of every
            line whose speaker, words and direction stayed; a new line gets an id that the scene never had.
    takes   are named by the hash of all they are. A take made again to the same codes is the same take.
    memory  A line is performed after the accepted takes of the same character before it, as codes of the
            same model and the same voice. A take tells which takes it heard, so a later retake shows.

Sound is kept by whoever plays it, under the take's id.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

import numpy as np

from engine.family import Capabilities
from engine.json_values import write_value
from engine.reading import writes_numbers
from engine.take import Character, Clip, RequestError, Sampling
from prompts.changes import Wording
from prompts.copyist import LINES, Beat, Line, Script
from prompts.cues import folded
from prompts.letters import plain_spaces
from prompts.spoken import spoken

MAX_TAKES = 5_000
LINE_GAP_S = 0.25  # between two lines; a beat adds its own seconds
PINNED, FORGOTTEN = "pinned", "forgotten"


@dataclass(frozen=True)
class Reading:
    """How words as written become the words performed: the visible changes of `prompts.spoken`."""

    clean: bool = True
    numbers: bool | None = None  # None: as the model that performs needs it
    glossary: tuple[tuple[str, str], ...] = ()
    language: str = "en"

    def words(self, text: str, able: Capabilities | None = None) -> str:
        """`text` as a model with these capabilities is given it. Raises PromptError for a faulty glossary."""
        numbers = writes_numbers(able, self.numbers) if able else bool(self.numbers)
        said = spoken(text, clean=self.clean, numbers=numbers, glossary=self.glossary, language=self.language)
        return said.text

    def wording(self, text: str, able: Capabilities) -> Wording:
        """All that is done to `text` before a model with these capabilities sees it. Raises PromptError."""
        return spoken(
            text,
            clean=self.clean,
            numbers=writes_numbers(able, self.numbers),
            glossary=self.glossary,
            language=self.language,
            cues=able.direct,
            sounds=able.sounds,
            characters=able.characters,
        )


@dataclass(frozen=True)
class SceneLine:
    """One spoken line. `number` counts from 1 in the script as it is now, `row` is where it stands there.

    `gap_s` is the silence in front of it; a `dual` line starts together with the line before and has none.
    """

    id: str
    number: int
    row: int
    speaker: str
    text: str
    direction: str
    gap_s: float
    dual: bool

    @property
    def actor(self) -> str:
        """Who plays it: the speaker's name as `Scene.cast` has it, however it is spelled in the script."""
        return folded(self.speaker)


@dataclass(frozen=True, eq=False)
class SceneTake:
    """One performance of a line, with everything that makes it again but the voice itself.

    `text` is what was performed, cue and all; `direction` and `note` are what was asked for. `voice` is the
    hash of the character (`voice_key`); `heard` are the (line, take) ids of the history, oldest first.
    `codes` int64 [codebooks, frames], or None for a family without frames and for a take that was cut.
    """

    line_id: str
    retake: int
    seed: int
    text: str
    direction: str
    note: str
    voice: str
    sampling: Sampling
    heard: tuple[tuple[str, str], ...]
    model: str
    revision: str
    codes: np.ndarray | None
    frames: int
    sample_rate: int
    num_samples: int
    finish_reason: str
    flags: tuple[str, ...]

    @cached_property
    def id(self) -> str:
        """The hash of all fields: 16 hex digits, good as a file's name."""
        return _digest(self)[:16]


@dataclass(frozen=True)
class Mark:
    """Why a take is no longer up to date: numbers of lines that it heard in an `older` version, and how many
    lines it heard that are `gone`, or reworded."""

    older: tuple[int, ...]
    gone: int = 0

    @property
    def sentence(self) -> str:
        parts = [f"an older line {number}" for number in self.older]
        if self.gone:
            parts.append("a line that is gone" if self.gone == 1 else f"{self.gone} lines that are gone")
        return f"heard {', '.join(parts)}"


@dataclass(frozen=True, eq=False)
class Scene:
    """The whole scene; see the top of the file. Mappings are never written after a scene was made.

    `cast` goes by folded names; its voices are codes or descriptions, never clips. `accepted` is the chosen
    take of a line; `memory` tells which lines are pinned in their actor's memory or forgotten by them.
    Another seed, sampling or reading is a matter of `dataclasses.replace`.
    """

    seed: int
    lines: tuple[SceneLine, ...] = ()
    cast: Mapping[str, Character] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    reading: Reading = field(default_factory=Reading)
    takes: tuple[SceneTake, ...] = ()
    accepted: Mapping[str, str] = field(default_factory=dict)
    starred: frozenset[str] = frozenset()
    memory: Mapping[str, str] = field(default_factory=dict)
    lines_made: int = 0

    @classmethod
    def of(cls, script: Script, seed: int, cast: Mapping[str, Character] | None = None) -> Scene:
        """The scene of a fresh script; same script, same ids. Raises RequestError as `edited`."""
        scene = cls(seed)
        for name, character in (cast or {}).items():
            scene = scene.recast(name, character)
        return scene.edited(script)

    # Asking.

    def line(self, line_id: str) -> SceneLine:
        """The line with that id. Raises RequestError where the script has none any more."""
        if line_id not in self._lines:
            raise RequestError("That line is no longer in the script; choose another one.")
        return self._lines[line_id]

    def takes_of(self, line_id: str) -> tuple[SceneTake, ...]:
        """The takes of a line, the first one first."""
        return tuple(take for take in self.takes if take.line_id == line_id)

    def take(self, take_id: str) -> SceneTake:
        """The take with that id. Raises RequestError where there is none."""
        if take_id not in self._takes:
            raise RequestError("That take is no longer in the scene; choose another one.")
        return self._takes[take_id]

    def accepted_take(self, line_id: str) -> SceneTake | None:
        """The chosen take of a line."""
        chosen = self.accepted.get(line_id)
        return None if chosen is None else self.take(chosen)

    def next_retake(self, line_id: str) -> int:
        """The number of the next take of a line: 0 for its first one."""
        return max((take.retake for take in self.takes_of(line_id)), default=-1) + 1

    def history_of(self, line_id: str, model: str, revision: str) -> tuple[SceneTake, ...]:
        """What the actor of a line remembers at it, oldest first.

        The accepted takes of the same character before it, without forgotten ones. Takes of another model
        and those in an earlier voice of the character are left out: their codes would mean other sounds.
        """
        here = self.line(line_id)
        if here.actor not in self.cast:
            return ()
        source = voice_key(self.cast[here.actor]), model, revision
        before = (line.id for line in self.lines[: here.number - 1] if line.actor == here.actor)
        takes = [self.accepted_take(each) for each in before if self.memory.get(each) != FORGOTTEN]
        return tuple(
            take
            for take in takes
            if take and take.codes is not None and (take.voice, take.model, take.revision) == source
        )

    def stale(self) -> dict[str, Mark]:
        """By line: why its accepted take is out of date, for those whose take is."""
        marks = {}
        for line_id in self.accepted:
            changed = [
                heard for heard, take in self.accepted_take(line_id).heard if self.accepted.get(heard) != take
            ]
            if changed:
                older = sorted(self._lines[heard].number for heard in changed if heard in self._lines)
                marks[line_id] = Mark(tuple(older), len(changed) - len(older))
        return marks

    @cached_property
    def _lines(self) -> dict[str, SceneLine]:
        return {line.id: line for line in self.lines}

    @cached_property
    def _takes(self) -> dict[str, SceneTake]:
        return {take.id: take for take in self.takes}

    # Changing.

    def edited(self, script: Script) -> Scene:
        """The scene after an edit of its script. Lines that are gone take their takes with them.

        Raises RequestError for a script of more than 500 lines.
        """
        found = _with_gaps(script.entries)
        if len(found) > LINES:
            raise RequestError(f"The script has {len(found)} lines, the limit is {LINES}; split the scene.")
        kept = _matched(self.lines, [line for line, _ in found])
        fresh = itertools.count(self.lines_made + 1)
        lines = tuple(
            _scene_line(kept.get(index) or f"L{next(fresh)}", index + 1, line, gap_s)
            for index, (line, gap_s) in enumerate(found)
        )
        return dataclasses.replace(self, lines=lines, lines_made=next(fresh) - 1)._pruned()

    def recast(self, name: str, character: Character) -> Scene:
        """Give a character another voice: a description or codes. Their takes stay; later ones don't
        remember them. Raises TypeError for a clip, which has to be encoded before."""
        if any(isinstance(reference.audio, Clip) for reference in character.voice or ()):
            raise TypeError(f"The cast of a scene holds no sound; encode the clips of {name} first.")
        return dataclasses.replace(self, cast={**self.cast, folded(name): character})

    def with_take(self, take: SceneTake) -> Scene:
        """Keep a take of one of the lines, as the accepted one. Raises RequestError if the line is gone, or
        the scene full."""
        line = self.line(take.line_id)
        if len(self.takes) == MAX_TAKES:
            raise RequestError(
                f"The scene has {MAX_TAKES:,} takes, which is all it can hold; start a new one."
            )
        takes = self.takes if take.id in self._takes else (*self.takes, take)
        return dataclasses.replace(self, takes=takes).accept(line.id, take.id)

    def accept(self, line_id: str, take_id: str) -> Scene:
        """Choose a take of a line: it sounds in the mix, and later lines remember it."""
        if self.take(take_id).line_id != line_id:
            raise RequestError("That take belongs to another line; choose one of this line.")
        return dataclasses.replace(self, accepted={**self.accepted, line_id: take_id})

    def star(self, take_id: str) -> Scene:
        """Put a star on a take, or take it away again."""
        return dataclasses.replace(self, starred=self.starred ^ {self.take(take_id).id})

    def pin(self, line_id: str) -> Scene:
        """Keep a line in its actor's memory, even where others have to make room."""
        return dataclasses.replace(self, memory={**self.memory, self.line(line_id).id: PINNED})

    def forget(self, line_id: str) -> Scene:
        """Keep a line out of its actor's memory."""
        return dataclasses.replace(self, memory={**self.memory, self.line(line_id).id: FORGOTTEN})

    def remember(self, line_id: str) -> Scene:
        """Neither pin nor forget a line any more."""
        line = self.line(line_id)
        kept = {each: how for each, how in self.memory.items() if each != line.id}
        return dataclasses.replace(self, memory=kept)

    def _pruned(self) -> Scene:
        """Without what belongs to lines that are gone."""
        ids = {line.id for line in self.lines}
        takes = tuple(take for take in self.takes if take.line_id in ids)
        return dataclasses.replace(
            self,
            takes=takes,
            accepted={line: take for line, take in self.accepted.items() if line in ids},
            starred=self.starred & {take.id for take in takes},
            memory={line: how for line, how in self.memory.items() if line in ids},
        )


def seed_for(scene_seed: int, line_id: str, retake: int) -> int:
    """The seed of a take, 0..2^64-1: the first 8 bytes, big-endian, of SHA-256 over "seed/line/retake".

    So no two takes of a scene share their noise, and a line that stays keeps its seed however the script
    around it changes.
    """
    digest = hashlib.sha256(f"{scene_seed}/{line_id}/{retake}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def voice_key(character: Character) -> str:
    """A hash of what makes a character's voice: a clone's codes and words, or all that is said of a described
    one. A clone's name is in no prompt."""
    return _digest(character.voice or character)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(write_value(value), sort_keys=True).encode()).hexdigest()


def _with_gaps(entries: Iterable[Line | Beat]) -> list[tuple[Line, float]]:
    """The spoken lines, each with the silence in front of it. Beats at either end of the script are none."""
    found, beats_s = [], 0.0
    for entry in entries:
        if isinstance(entry, Beat):
            beats_s += entry.seconds
            continue
        found.append((entry, LINE_GAP_S + beats_s if found and not entry.dual else 0.0))
        beats_s = 0.0
    return found


def _scene_line(line_id: str, number: int, line: Line, gap_s: float) -> SceneLine:
    text = plain_spaces(line.text).text
    return SceneLine(line_id, number, line.row, line.speaker, text, line.direction, gap_s, line.dual)


def _matched(old: tuple[SceneLine, ...], new: list[Line]) -> dict[int, str]:
    """Index of a new line -> id of the old line that it is; what moved is told after what stayed in order."""
    old_keys, new_keys = [_content(line) for line in old], [_content(line) for line in new]
    kept = {}
    for a, b, size in SequenceMatcher(None, old_keys, new_keys, autojunk=False).get_matching_blocks():
        kept |= {b + offset: old[a + offset].id for offset in range(size)}
    taken, free = set(kept.values()), defaultdict(list)
    for line, key in zip(old, old_keys, strict=True):
        if line.id not in taken:
            free[key].append(line.id)
    for index, key in enumerate(new_keys):
        if index not in kept and free[key]:
            kept[index] = free[key].pop(0)
    return kept


def _content(line: SceneLine | Line) -> tuple[str, str, str]:
    return folded(line.speaker), plain_spaces(line.text).text, line.direction
