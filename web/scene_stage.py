"""The scene's handlers: what a visitor wants of a scene, in their words.

They find the visitor's room, let the director perform in it or change its scene, and answer with player
messages and facts for the list of lines. What can't be done is a sentence in the list.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from engine.audio_files import write_file, write_wav
from engine.card import NOTICE
from engine.engine import Engine
from engine.json_values import read_file
from engine.limits import check_seed
from engine.mix import Part, mixed
from engine.reading import writes_numbers
from engine.scene import FORGOTTEN, PINNED, Reading, Scene
from engine.scene_file import MAX_BYTES
from engine.take import RequestError
from prompts.cues import folded
from prompts.text import PromptError
from web.casting import READY, Voice, voices_of
from web.director import Director, Step, Wish, label_of
from web.handlers import STOP_S, Stage, is_key, owner, seed_of, session_of
from web.page_file import read, written
from web.rooms import Room, Rooms
from web.scene_list import cast_facts, scene_facts
from web.troupe import Troupe

SCENES = Path(__file__).resolve().parent.parent / "assets" / "scenes"
SOURCE_CHARACTERS = 1_000_000
WISH_CHARACTERS = 200  # of a note or a direction

Yield = tuple[Any, ...]


class SceneStage:
    """The handlers and what they share: who performs, who rehearses, the rooms."""

    def __init__(self, stage: Stage, rooms: Rooms, understudy: Engine | None = None) -> None:
        self.stage, self.rooms = stage, rooms
        self.director = Director(stage, understudy)
        self.main, self.rehearsal = self.director.main, self.director.rehearsal
        self.examples = json.loads((SCENES / "scenes.json").read_text(encoding="utf-8"))

    def writes_numbers(self, numbers: bool | None) -> bool:
        """Whether the model that performs gets numbers as words: as asked for, or because it needs it."""
        return writes_numbers(self.main.family.capabilities, numbers)

    # The script.

    def enter(self, key: Any) -> Yield:
        """Come back to the scene that was here, or begin with an example."""
        if not is_key(key) or self.rooms.get(key) is None:
            key = secrets.token_urlsafe(24)
            self._begin(self.rooms.room(key), 0)
        return key, *self._all(self.rooms.room(key))

    def try_example(self, key: Any, title: str, request: gr.Request) -> Yield:
        """Put one of the example scenes, with its cast and seed, in the place of this one."""
        room = self.room(key, request)
        titles = [each["title"] for each in self.examples]
        if title in titles:
            self._begin(room, titles.index(title))
        return self._all(room)

    def write_script(self, key: Any, source: str, request: gr.Request) -> Yield:
        """The script has changed."""
        room, note = self.room(key, request), ""
        if source == room.source:  # the page tells of its own changes, too
            return gr.skip(), gr.skip(), gr.skip()
        before = room.part
        try:
            self._write(room, source)
            if room.part and room.part != before:
                note = (
                    f"The script is too long for one scene; this is “{room.part}”. Choose another part below."
                )
        except RequestError as problem:
            note = str(problem)
        return self._drawn(room, note)

    def choose_part(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Yield:
        """Turn to another part of the script, or to all of it; takes of this one are kept for a return."""
        room, note = self.room(key, request), ""
        try:
            self.turn_to(room, said(chosen, "part"))
        except RequestError as problem:
            note = str(problem)
        return self._drawn(room, note)

    def change_reading(
        self, key: Any, seed: str, clean: bool, numbers: bool, glossary: list, request: gr.Request
    ) -> dict[str, Any]:
        """The visible switches: seed, stage marks, numbers, respellings."""
        room = self.room(key, request)
        try:
            # What this model needs anyhow is no choice: another one may need something else.
            chosen = None if bool(numbers) == self.writes_numbers(None) else bool(numbers)
            reading = Reading(bool(clean), chosen, pairs_of(glossary))
            reading.words("")
            wanted = seed_of(seed) if str(seed or "").strip() else room.scene.seed
            check_seed(wanted)
        except (RequestError, PromptError) as problem:
            return self.rows(room, str(problem))
        room.change(lambda scene: replace(scene, seed=wanted, reading=reading))
        return self.rows(room)

    # Hearing it.

    def perform_all(self, key: Any, anew: bool, request: gr.Request) -> Iterator[Yield]:
        """Perform the whole scene. Lines with an up-to-date take sound as they are, unless all `anew`."""
        yield from self._perform(key, request, self.main, 1, bool(anew))

    def perform_from(
        self, key: Any, anew: bool, request: gr.Request, chosen: gr.EventData
    ) -> Iterator[Yield]:
        """Perform the scene from the chosen line on."""
        yield from self._perform(key, request, self.main, said(chosen, "line"), bool(anew))

    def rehearse(self, key: Any, anew: bool, request: gr.Request) -> Iterator[Yield]:
        """Let the understudy read the whole scene."""
        yield from self._perform(key, request, self.rehearsal or self.main, 1, bool(anew))

    def retake_line(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Iterator[Yield]:
        """Perform one line again, with a note, another direction or another seed."""
        room = self.room(key, request)
        try:
            line = room.scene.line(said(chosen, "line"))
            wish = wish_of(*(said(chosen, name) for name in ("note", "direction", "seed")))
        except RequestError as problem:
            yield gr.skip(), self.rows(room, str(problem))
            return
        yield from self._shown(
            room, self.director.retaken(room, session_of(request), self.main, line.id, wish)
        )

    def play(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Iterator[Yield]:
        """Hear one take of a line: the accepted one, or another at the loudness of all takes of the line."""
        room = self.room(key, request)
        try:
            line, take_id = room.scene.line(said(chosen, "line")), said(chosen, "take")
            take = room.scene.take(take_id) if take_id else room.scene.accepted_take(line.id)
            pcm = room.sound(take.id) if take else None
            if pcm is None:
                raise RequestError(f"Line {line.number} has no sound here yet; perform it first.")
        except RequestError as problem:
            yield gr.skip(), self.rows(room, str(problem))
            return
        if take_id:
            pcm = self.director.level(room, line, take, pcm)
        yield from self._shown(
            room, self.director.played(room, pcm, take.sample_rate, line.id, label_of(room, line))
        )

    def stopped(self, key: Any, request: gr.Request) -> dict[str, Any]:
        """After Stop or a reload: the scene, once the line that was stopped is among the takes."""
        room = self.room(key, request)
        room.run.ended.wait(STOP_S)
        return self.rows(room)

    # Takes.

    def open_line(self, key: Any, request: gr.Request, chosen: gr.EventData) -> dict[str, Any]:
        """Show a line's takes and what its actor remembers; choosing it again closes it."""
        room, line = self.room(key, request), said(chosen, "line")
        room.opened = line if line in {each.id for each in room.scene.lines} else None
        return self.rows(room)

    def accept(self, key: Any, request: gr.Request, chosen: gr.EventData) -> dict[str, Any]:
        """Use another take of a line, or an older one again."""
        line, take = said(chosen, "line"), said(chosen, "take")
        return self._changed(key, request, lambda scene: scene.accept(line, take))

    def star(self, key: Any, request: gr.Request, chosen: gr.EventData) -> dict[str, Any]:
        """Put a star on a take, or take it away."""
        return self._changed(key, request, lambda scene: scene.star(said(chosen, "take")))

    def remember(self, key: Any, request: gr.Request, chosen: gr.EventData) -> dict[str, Any]:
        """Pin a line in its actor's memory, let them forget it, or neither."""
        line, how = said(chosen, "line"), said(chosen, "how")
        return self._changed(
            key,
            request,
            lambda scene: {PINNED: scene.pin, FORGOTTEN: scene.forget}.get(how, scene.remember)(line),
        )

    # Files.

    def export_mix(self, key: Any, request: gr.Request) -> Yield:
        """The accepted takes as one WAV, and a sentence about what is missing in it."""
        room = self.room(key, request)
        try:
            path, missing = self.mix_of(room)
        except RequestError as problem:
            return None, self.rows(room, str(problem))
        numbers = ", ".join(map(str, missing[:20]))
        note = f"Without a take, and not in the mix: line {numbers}." if missing else ""
        return str(path), self.rows(room, note)

    def export_scene(self, key: Any, request: gr.Request) -> Yield:
        """The scene as JSON: script, cast as far as it isn't somebody's voice, takes as codes."""
        room = self.room(key, request)
        path = room.file("scene.json")
        write_file(path, json.dumps(written(room), ensure_ascii=False).encode())
        return str(path), self.rows(room)

    def open_scene(self, key: Any, path: str | None, request: gr.Request) -> Yield:
        """Put a saved scene in the place of this one; anything else leaves it as it is."""
        room, note = self.room(key, request), ""
        try:
            self._open(room, path)
        except RequestError as problem:
            note = str(problem)
        return self._all(room, note)

    def delete_everything(self, key: Any) -> Yield:
        """Remove the room with all that is in it, and begin anew under another key."""
        if not is_key(key):
            return (gr.skip(),) * 9
        if room := self.rooms.get(key):
            for voice in (*room.voices.values(), *room.retired):
                self._forgotten(voice)
            self.rooms.remove(key)
        old, key = key, secrets.token_urlsafe(24)
        self._begin(self.rooms.room(key), 0)
        self.stage.shelf.forget(old)
        note = "Everything was deleted: script, voices, takes and files."
        return key, *self._all(self.rooms.room(key), note)

    def forget(self, room: Room, who: str) -> str:
        """Remove a voice with its clips, codes, words and what was derived from them; the receipt."""
        files, words, codes, states = self._forgotten(room.voices.get(who, Voice()))
        room.forget_voice(who)
        return (
            f"Forgotten: {counted(files, 'clip')}, the codes and words of {words}, {counted(codes, 'copy')} "
            f"of codes in caches, {counted(states, 'prepared prompt')}. Takes in that voice stay until you "
            "delete them."
        )

    def _forgotten(self, voice: Voice) -> tuple[int, int, int, int]:
        """Remove a voice from disk and caches: how many files, references, cached codes, prompts."""
        if not voice.played:
            return 0, 0, 0, 0
        files = codes = states = 0
        for path in map(Path, voice.files):
            files += path.is_file()
            path.unlink(missing_ok=True)
        for troupe in self.director.troupes:
            own = "@".join(troupe.model)
            receipt = troupe.engine.forget_voice([each for model, each in voice.keys if model == own])
            states += receipt.states
            codes += receipt.clips + sum(troupe.clips.forget(each) for model, each in voice.keys if not model)
        words = max((len(each.voice or ()) for each in voice.played.values()), default=0)
        return files, words, codes, states

    def mix_of(self, room: Room) -> tuple[Path, list[int]]:
        """The mix of a room as a file, and the numbers of lines that are missing in it. Raises RequestError
        where there is nothing to mix, or takes of two models."""
        with room.lock:
            takes = [(line, room.scene.accepted_take(line.id)) for line in room.scene.lines]
        parts, missing = [], []
        for line, take in takes:
            pcm = room.sound(take.id) if take else None
            if pcm is None:
                missing.append(line.number)
                continue
            dual = line.dual and parts != [] and line.number - 1 not in missing
            parts.append(Part(f"Line {line.number}", pcm, take.sample_rate, line.gap_s, dual))
        if not parts:
            raise RequestError("There is no take to mix yet; perform the scene first.")
        models = {(take.model, take.revision) for _, take in takes if take}
        if len(models) > 1:
            names = " and ".join(sorted(name for name, _ in models))
            raise RequestError(f"The takes are by {names}; perform the scene with one model to mix it.")
        ((model, revision),) = models
        facts = {"notice": NOTICE, "model": model, "revision": revision}
        card = facts | {"seed": room.scene.seed, "lines": len(parts)}
        write_wav(path := room.file("mix.wav"), mixed(parts), parts[0].sample_rate, card)
        return path, missing

    def _open(self, room: Room, path: str | None) -> None:
        """Read a scene of `export_scene` or of the command line. Raises RequestError for anything else."""
        if not path:
            raise RequestError("There is no file; choose a scene that was saved here.")
        name = Path(path).name[:80]
        data = read_file(Path(path), name, MAX_BYTES)
        source, part, voices, scene = read(data, name, self.main.family)
        self.begin(room, scene, voices, source, part)

    # One performance.

    def _perform(
        self, key: Any, request: gr.Request, troupe: Troupe, first: Any, anew: bool
    ) -> Iterator[Yield]:
        room = self.room(key, request)
        ids = [line.id for line in room.scene.lines]
        start = ids.index(first) if first in ids else 0
        if not ids:
            yield gr.skip(), self.rows(room, "There is no line to perform; write lines as NAME: words.")
            return
        steps = self.director.performance(room, session_of(request), troupe, ids[start:], anew)
        yield from self._shown(room, steps)

    # What the page is told.

    def _shown(self, room: Room, steps: Generator[Step, None, None]) -> Iterator[Yield]:
        with closing(steps):
            for message, changed in steps:
                yield message or gr.skip(), self.rows(room) if changed else gr.skip()

    def _changed(self, key: Any, request: gr.Request, change: Callable) -> dict[str, Any]:
        room = self.room(key, request)
        try:
            room.change(change)
        except RequestError as problem:
            return self.rows(room, str(problem))
        return self.rows(room)

    def rows(self, room: Room, note: str = "") -> dict[str, Any]:
        return scene_facts(room, self.main.engine, note)

    def _all(self, room: Room, note: str = "") -> Yield:
        reading = room.scene.reading
        glossary = [list(pair) for pair in reading.glossary] or [["", ""]]
        numbers = self.writes_numbers(reading.numbers)
        settings = str(room.scene.seed), reading.clean, numbers, glossary
        return room.source, *settings, *self._drawn(room, note)

    def _drawn(self, room: Room, note: str) -> Yield:
        """What shows when the script has changed: lines, cards, casting call."""
        return self.rows(room, note), self._cast(room), room.call.facts() if room.call else {}

    def _cast(self, room: Room) -> dict[str, Any]:
        return cast_facts(room, self.main.family, self.stage.voices)

    # Rooms.

    def room(self, key: Any, request: gr.Request) -> Room:
        return self.rooms.room(owner(key, request))

    def _write(self, room: Room, source: str, part: str | None = None) -> None:
        if len(source or "") > SOURCE_CHARACTERS:
            raise RequestError(f"The script has over {SOURCE_CHARACTERS:,} characters; split it into scenes.")
        room.write(source or "", part)
        self._cast_newcomers(room)

    def turn_to(self, room: Room, part: str) -> None:
        """Put another part of the same script, or all of it, in the room. Raises RequestError if none
        fits."""
        with room.lock:
            room.begin().ended.set()
            room.opened = None
            self._write(room, room.source, part)

    def _cast_newcomers(self, room: Room) -> None:
        """A ready voice for everybody who has none yet, each another one as long as there are some."""
        ids = list(self.stage.voices)
        for name in room.script.characters:
            if folded(name) in room.voices:
                continue
            used = [each.ready for each in room.voices.values()]
            room.voices[folded(name)] = Voice(READY, min(ids, key=used.count)) if ids else Voice()

    def _begin(self, room: Room, number: int) -> None:
        """Put an example in the room."""
        example = self.examples[number]
        cast = json.loads((SCENES / example["cast"]).read_text(encoding="utf-8"))
        source = (SCENES / example["script"]).read_text(encoding="utf-8")
        self.begin(room, Scene(example["seed"]), voices_of(cast, self.main.family), source)

    def begin(self, room: Room, scene: Scene, voices: dict[str, Voice], source: str, part: str = "") -> None:
        """Put another scene in the room, of all of a script or of one part; nothing of the old one stays.
        Raises RequestError if it is too long."""
        with room.lock:
            room.begin().ended.set()
            room.opened, room.call, room.troubles, room.casts = None, None, {}, {}
            room.forget_parts()
            room.voices, room.scene, room.part = voices, scene, part
            self._write(room, source)


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 clip, 2 copies."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def said(event: gr.EventData, name: str) -> str:
    """A text that the page sent along, "" where it sent something else."""
    value = event._data.get(name) if isinstance(event._data, dict) else None
    return value if isinstance(value, str) else ""


def wish_of(note: str, direction: str, seed: str) -> Wish:
    """What a retake is asked for. Raises RequestError for a seed that is none and for words without end."""
    if max(len(note), len(direction)) > WISH_CHARACTERS:
        raise RequestError(f"A note or direction has over {WISH_CHARACTERS} characters; shorten it.")
    wanted = seed_of(seed) if seed.strip() else None
    check_seed(wanted)
    return Wish(note.strip(), direction.strip() or None, wanted)


def pairs_of(glossary: Any) -> tuple[tuple[str, str], ...]:
    """The glossary's rows that have both words."""
    rows = glossary if isinstance(glossary, list) else []
    pairs = [[str(cell or "").strip() for cell in row[:2]] for row in rows if isinstance(row, list)]
    return tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2 and all(pair))
