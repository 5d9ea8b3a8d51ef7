"""Rooms: what a visitor's scene needs between two clicks, and over a reload.

A room belongs to whoever has its key, which is random and lies in the visitor's browser. It holds the script
as it was typed, the scene (a value: an edit replaces it), the voices on the cards, and the sound of takes as
files. Rooms are few, small and short-lived: the one that was left alone longest makes room.
"""

from __future__ import annotations

import dataclasses
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.family import Family
from engine.scene import Scene, SceneLine, SceneTake
from engine.take import Character, RequestError, fresh_seed
from prompts.copyist import LINES
from prompts.parts import find_part, named, only
from prompts.script import Part, Script, parse
from web.casting import Call, Voice
from web.folders import TemporaryFolder

ROOMS = 100
KEPT_S = 6 * 3600.0  # after the last visit
ROOM_BYTES = 256 << 20  # an hour and a half of sound at 24 kHz
HOUSE_BYTES = 2 << 30
TAKES_PER_LINE = 12


class Run:
    """One performance in a room; `ended` is set when nothing of it will follow."""

    def __init__(self) -> None:
        self.ended = threading.Event()


class Room:
    """One visitor's scene and all that belongs to it. Safe to use from several threads; `run` is whoever
    performs in it now."""

    def __init__(self, folder: Path) -> None:
        self.lock = threading.RLock()
        self.source = ""
        self.script: Script = parse("")  # of a long one the lines of `part`; `script.parts` are all of them
        self.part = ""
        self._others: dict[str, Scene] = {}  # what was made of other parts, by name
        self.scene = Scene(fresh_seed())
        self.voices: dict[str, Voice] = {}  # by folded name
        self.retired: list[Voice] = []  # cloned voices that gave way to others, still to be forgotten
        self.troubles: dict[str, str] = {}  # a sentence by line id
        self.opened: str | None = None  # the line whose takes and memory are shown
        self.call: Call | None = None
        self.casts: dict[tuple[str, str, str], tuple[Voice, Character]] = {}  # by model, revision, actor
        self.making: str | None = None  # the line under way
        self.run = Run()
        self.touched = time.monotonic()
        self._folder = folder
        self._closed = False
        self._bytes: dict[str, int] = {}  # of the sound files, by take id, oldest first

    @property
    def num_bytes(self) -> int:
        with self.lock:
            return sum(self._bytes.values()) + sum(
                each.codes.nbytes
                for scene in (self.scene, *self._others.values())
                for each in scene.takes
                if each.codes is not None
            )

    def begin(self) -> Run:
        """A new run: whoever performed here before ends at its next event."""
        self.run = Run()
        return self.run

    def scene_for(self, family: Family) -> Scene:
        """The scene with the cast as a family plays it, as far as it is engaged."""
        with self.lock:
            own = family.name, family.revision
            cast = {key[2]: played for key, (_, played) in self.casts.items() if key[:2] == own}
            return dataclasses.replace(self.scene, cast=cast)

    def write(self, source: str, part: str | None = None) -> None:
        """Take another script, all of it or one part; without one, the part that was chosen before, or the
        first that fits where all is too long. Raises RequestError where there is none; then all stays."""
        whole = parse(source)
        with self.lock:
            chosen = _chosen_part(whole, self.part if part is None else part)
            script = only(whole, chosen) if chosen else whole
            name = chosen.name if chosen else ""
            scene = self.scene
            if name != self.part and part is not None:
                scene = self._turned_to(name)
            scene = scene.edited(script)
            self.source, self.script, self.part = source, script, name
            self.change(lambda _: scene)
            if self.call and self.call.line_id not in self._line_ids():
                self.call = None
            self.troubles = {line: told for line, told in self.troubles.items() if line in self._line_ids()}

    def forget_parts(self) -> None:
        """Another script comes: nothing of the parts of this one is kept."""
        with self.lock:
            self.part, self._others = "", {}

    def _turned_to(self, part: str) -> Scene:
        """The scene of another part as it was left; that of this one is kept."""
        now = self.scene
        self._others[self.part] = now
        left = self._others.pop(part, None) or Scene(now.seed)
        return dataclasses.replace(
            left, seed=now.seed, sampling=now.sampling, reading=now.reading, cast=now.cast
        )

    def change(self, change: Callable[[Scene], Scene]) -> None:
        """Put another scene in the place of this one."""
        with self.lock:
            self.scene = change(self.scene)
            self._sweep()

    def keep(self, take: SceneTake, pcm: np.ndarray) -> None:
        """Keep a take and its sound. A take that was cut takes nobody's place."""
        with self.lock:
            if take.line_id not in self._line_ids():
                return  # the line was deleted while it was performed
            chosen = self.scene.accepted.get(take.line_id)
            self.put(take.id, pcm)
            self.change(lambda scene: scene.with_take(take))
            if chosen and take.finish_reason == "cancelled":
                self.change(lambda scene: scene.accept(take.line_id, chosen))
            self.troubles.pop(take.line_id, None)

    def put(self, name: str, pcm: np.ndarray) -> None:
        """Keep the sound of a take, int16 [n]."""
        with self.lock:
            if self._closed:
                return  # the room was cleared while somebody still performed in it
            self._folder.mkdir(exist_ok=True)
            pcm.astype("<i2", copy=False).tofile(self._path(name))
            self._bytes[name] = pcm.nbytes

    def sound(self, name: str) -> np.ndarray | None:
        """The sound of a take, int16 [n], or None where it is gone."""
        with self.lock:
            return np.fromfile(self._path(name), "<i2") if name in self._bytes else None

    def has_sound(self, name: str) -> bool:
        """Whether the sound of a take is here; of a scene that was opened from a file it isn't yet."""
        return name in self._bytes

    def file(self, name: str) -> Path:
        """Where a file for the visitor may be written, in a folder of its own."""
        with self.lock:
            folder = self._folder / "files"
            folder.mkdir(parents=True, exist_ok=True)
            return folder / name

    def line_of(self, number: int) -> SceneLine | None:
        """The line with that number, if there is one."""
        lines = self.scene.lines
        return lines[number - 1] if 1 <= number <= len(lines) else None

    def clear(self) -> None:
        """Remove every file."""
        with self.lock:
            self.begin().ended.set()
            self._closed = True
            self._bytes.clear()
            shutil.rmtree(self._folder, ignore_errors=True)

    def give(self, who: str, voice: Voice) -> None:
        """Give a character another voice."""
        with self.lock:
            old = self.voices.get(who)
            if old and old.played and old is not voice:
                self.retired.append(old)
            self.voices[who] = voice

    def forget_voice(self, who: str) -> None:
        """Remove a character's voice, wherever it is known here."""
        with self.lock:
            self.voices[who] = Voice()
            self.casts = {key: value for key, value in self.casts.items() if key[2] != who}
            cast = {name: played for name, played in self.scene.cast.items() if name != who}
            self.scene = dataclasses.replace(self.scene, cast=cast)

    def _line_ids(self) -> set[str]:
        return {line.id for line in self.scene.lines}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.pcm"

    def _sweep(self) -> None:
        """Drop takes that nobody chose where a line has too many, the oldest where the room is full, and
        sound whose take is gone."""
        chosen = {*self.scene.accepted.values(), *self.scene.starred}
        free = [take for take in self.scene.takes if take.id not in chosen]
        dropped = set()
        for line in {take.line_id for take in free}:
            own = [take.id for take in self.scene.takes_of(line)]
            spare = [take for take in own if take not in chosen]
            dropped |= set(spare[: max(0, len(own) - TAKES_PER_LINE)])
        over = sum(self._bytes.values()) - ROOM_BYTES
        for take in free:
            if over > 0 and take.id not in dropped:
                dropped.add(take.id)
                over -= self._bytes.get(take.id, 0)
        if dropped:
            takes = tuple(take for take in self.scene.takes if take.id not in dropped)
            self.scene = dataclasses.replace(self.scene, takes=takes)
        scenes = (self.scene, *self._others.values())
        known = {take.id for scene in scenes for take in scene.takes}
        known |= self.call.take_ids if self.call else set()
        for name in self._bytes.keys() - known:
            del self._bytes[name]
            self._path(name).unlink(missing_ok=True)


class Rooms:
    """Every visitor's room by its key. Lives as long as the page is served."""

    def __init__(self) -> None:
        self._folder = TemporaryFolder("rooms")
        self._root = self._folder.path
        self._rooms: OrderedDict[str, Room] = OrderedDict()
        self._lock = threading.Lock()
        self._made = 0

    def get(self, key: str) -> Room | None:
        """The room with that key, if it is still there."""
        with self._lock:
            self._tidy()
            return self._touch(key) if key in self._rooms else None

    def room(self, key: str) -> Room:
        """The room with that key, a new one where there is none."""
        with self._lock:
            if key not in self._rooms:
                self._made += 1
                self._rooms[key] = Room(self._root / str(self._made))
            room = self._touch(key)
            self._tidy()
            return room

    def remove(self, key: str) -> None:
        """Remove a room and everything in it."""
        with self._lock:
            room = self._rooms.pop(key, None)
        if room:
            room.clear()

    def close(self) -> None:
        """Remove every file."""
        self._folder.close()

    def _touch(self, key: str) -> Room:
        self._rooms.move_to_end(key)
        self._rooms[key].touched = time.monotonic()
        return self._rooms[key]

    def _tidy(self) -> None:
        """Clear rooms, the longest unused first, until those that are left are young, few and small enough.
        The newest stays."""
        sizes = {key: room.num_bytes for key, room in self._rooms.items()}
        for key, room in list(self._rooms.items())[:-1]:
            old = time.monotonic() - room.touched > KEPT_S
            if not old and len(sizes) <= ROOMS and sum(sizes.values()) <= HOUSE_BYTES:
                return
            del sizes[key]
            self._rooms.pop(key).clear()


def _chosen_part(script: Script, wanted: str) -> Part | None:
    """The part of that name; without one, none where the whole fits, else the first that does. Raises
    RequestError if no part fits."""
    found = find_part(script, wanted) if wanted else None
    if found and found.num_lines <= LINES:
        return found
    if len(script.lines) <= LINES:
        return None
    fitting = next((each for each in script.parts if each.num_lines <= LINES), None)
    if fitting is None:
        many = f"The script has {len(script.lines):,} lines, the limit is {LINES}"
        raise RequestError(f"{many}; give it headings such as ACT ONE, or split it.")
    return fitting


def check_part(script: Script, wanted: str) -> None:
    """Raise RequestError, which names the parts, unless `script` has a part `wanted` that fits, or is wanted
    whole ("") and fits."""
    parts = f"its parts are {named(script)}" if script.parts else "it has no acts or scenes"
    found = find_part(script, wanted) if wanted else None
    if wanted and (found is None or found.num_lines > LINES):
        raise RequestError(f"The script has no part “{wanted[:80]}” of up to {LINES} lines; {parts}.")
    if not wanted and len(script.lines) > LINES:
        many = f"The script has {len(script.lines):,} lines, the limit is {LINES}"
        raise RequestError(f"{many}; choose one of its parts by the option part: {parts}.")
