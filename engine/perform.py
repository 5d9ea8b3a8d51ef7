"""`perform`: from a script and a cast to a folder with the mix, every take, and the scene.

    DIR/mix.wav  DIR/takes/001-MARA.wav ...  DIR/scene.json

One pass: a line is performed, its take is written, its sound goes on into the mix, and only its codes are
kept. Nothing in the files tells when, where or how fast they were made: same script, cast, seed and model,
same bytes. Until all is done the files stand in a folder inside DIR whose name starts with a dot; on a
mistake or an interrupt it goes, and so does a DIR that was made for it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from engine.attempt import attempt_for, perform_lines
from engine.audio_files import safe_name, shown_name, write_file, write_take, write_wav
from engine.card import NOTICE, card
from engine.cast import Casting, engaged, read_cast
from engine.engine import Engine
from engine.json_values import read_all, read_file
from engine.limits import check_seed
from engine.mix import Part, mixed
from engine.models import load_family
from engine.reading import performed, unread
from engine.scene import Reading, Scene, SceneLine, SceneTake
from engine.scene_file import to_json
from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    RequestError,
    Status,
    TakeFailed,
    TakeRequest,
    Trouble,
    fresh_seed,
)
from engine.text_files import decoded
from prompts.copyist import LINES
from prompts.parts import find_part, named, only
from prompts.script import Script, parse
from prompts.text import PromptError, check_line

MAX_SCRIPT_BYTES = 4 << 20  # 500 lines of 5,000 characters, and room for what isn't spoken


def perform(args: argparse.Namespace) -> None:
    """Perform the script and write its folder. RequestError, before any model work, if it can't be done."""
    began = time.perf_counter()
    check_seed(args.seed)
    script = _read_script(args.script, args.part)
    scene = Scene.of(script, fresh_seed() if args.seed is None else args.seed)
    scene = dataclasses.replace(scene, reading=Reading(numbers=args.numbers))
    _check_words(scene)
    cast = read_cast(args.cast, script.characters, _tell)
    with _whole_folder(args.out) as folder:
        engine = Engine(load_family(args.model))
        _tell(f"{engine.family.name} performs {len(scene.lines)} lines with the seed {scene.seed}.")
        scene = _cast(scene, cast, engine)
        _check_lines(scene, engine)
        ready = time.perf_counter()
        show = _Performance(engine, scene, folder)
        num_samples = write_wav(
            folder / "mix.wav", mixed(show.parts()), engine.family.sample_rate, show.card()
        )
        write_file(folder / "scene.json", to_json(show.scene, voices=False).encode())
    ended = time.perf_counter()
    audio_s = num_samples / engine.family.sample_rate
    timings = {"ready_s": ready - began, "perform_s": ended - ready, "total_s": ended - began}
    if args.json:
        print(json.dumps(show.report(args.out) | {"audio_s": audio_s, "timings": timings}))
    else:
        print(
            f"{args.out}: {len(scene.lines)} lines, {audio_s:.1f} s, seed {scene.seed}, {engine.family.name}"
        )


class _Performance:
    """One scene being performed into a folder. Of each line it keeps the take, not the sound."""

    def __init__(self, engine: Engine, scene: Scene, folder: Path) -> None:
        self.engine, self.scene, self.folder = engine, scene, folder
        self.files: list[str] = []
        self._read: dict[str, dict[str, Any]] = {}  # by line, where it isn't what is written
        self._told: set[str] = set()

    def parts(self) -> Iterator[Part]:
        """Perform every line and hand over its sound. Raises RequestError or TakeFailed where one fails."""
        chunks: list[np.ndarray] = []
        done = None
        for line, event in perform_lines(self.scene, self.engine.family, self.engine.perform):
            if isinstance(event, Audio):
                chunks.append(event.pcm)
            elif isinstance(event, Done):
                done = event
            elif isinstance(event, Status) and event.phase == "direction":
                self._tell_once(event.detail)
            elif isinstance(event, Status) and event.phase == "reading":
                _tell(f"{_place(line)}: {event.detail}")
            elif isinstance(event, Trouble):
                refused = RequestError if event.kind == "request" else TakeFailed
                raise refused(f"{_place(line)}: {event.sentence}")
            elif isinstance(event, SceneTake):
                pcm, chunks = np.concatenate(chunks), []
                self._keep(line, event, pcm, done)
                yield Part(_place(line), pcm, event.sample_rate, line.gap_s, line.dual)

    def card(self) -> dict[str, Any]:
        """The card of the mix."""
        family, scene = self.engine.family, self.scene
        facts = {"notice": NOTICE, "model": family.name, "revision": family.revision}
        return facts | {"seed": scene.seed, "lines": len(scene.lines)}

    def report(self, target: Path) -> dict[str, Any]:
        """What was made, for a program."""
        takes = [
            {
                "line": line.number,
                "seed": take.seed,
                "frames": take.frames,
                "finish_reason": take.finish_reason,
                "flags": list(take.flags),
                **self._read[line.id],
            }
            for line in self.scene.lines
            if (take := self.scene.accepted_take(line.id))
        ]
        names = ["mix.wav", *self.files, "scene.json"]
        return {"lines": len(takes), "takes": takes, "files": [str(target / name) for name in names]}

    def _keep(self, line: SceneLine, take: SceneTake, pcm: np.ndarray, done: Done) -> None:
        attempt = attempt_for(self.scene, line.id, self.engine.family)
        name = f"takes/{line.number:03}-{safe_name(line.speaker)}.wav"
        write_take(self.folder / name, pcm, take.sample_rate, card(self.engine.family, attempt.request, done))
        self.files.append(name)
        self.scene = self.scene.with_take(take)
        facts = [f"{len(pcm) / take.sample_rate:.1f} s", take.finish_reason, *take.flags]
        self._read[line.id] = read = self._reading(line, attempt.request)
        facts += [f"spoken: {read['performed']}"] if read else []
        _tell(f"{_place(line)}: {', '.join(facts)}")

    def _reading(self, line: SceneLine, request: TakeRequest) -> dict[str, Any]:
        """What was performed, where it isn't what the script says, and what of it can't be read."""
        said, left_out = performed(request, self.engine.family), unread(request, self.engine.family)
        if line.text in said:
            return {}
        return {"performed": said} | ({"unread": list(left_out)} if left_out else {})

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            _tell(sentence)
        self._told.add(sentence)


def _read_script(path: str, part: str | None) -> Script:
    """The script in a file, or - from standard input; of a long one the part that is asked for. Tells what is
    odd in it."""
    name = "The script" if path == "-" else shown_name(path)
    if path == "-":
        data = read_all(sys.stdin.buffer, name, MAX_SCRIPT_BYTES)
    else:
        data = read_file(Path(path), name, MAX_SCRIPT_BYTES)
    text, guess = decoded(data, name)
    if guess:
        _tell(guess)
    script = _chosen(parse(text), part, name)
    for problem in script.problems:
        _tell(f"{name}, row {problem.row}, column {problem.column}: {problem.sentence}")
    if not script.lines:
        raise RequestError(f"{name} has no line to perform; write lines as NAME: words.")
    return script


def _chosen(script: Script, part: str | None, name: str) -> Script:
    """The part of a script, or all of it. Raises RequestError if there is no such part, or what there is is
    too long for one scene."""
    if part is None and len(script.lines) <= LINES:
        return script
    if part is None:
        many = f"{name} has {len(script.lines):,} lines, the limit of a scene is {LINES}"
        raise RequestError(f"{many}; choose one of its parts with --part: {named(script)}.")
    found = find_part(script, part)
    if found is None:
        parts = (
            f"its parts are {named(script)}"
            if script.parts
            else "it has no acts or scenes, so leave --part out"
        )
        raise RequestError(f"{name} has no part “{part}”; {parts}.")
    if found.num_lines > LINES:
        many = f"“{found.name}” has {found.num_lines:,} lines, the limit of a scene is {LINES}"
        raise RequestError(f"{many}; choose one within it with --part: {named(script)}.")
    return only(script, found)


def _cast(scene: Scene, cast: dict[str, Casting], engine: Engine) -> Scene:
    for name, casting in cast.items():
        scene = scene.recast(name, _encoded(engine, engaged(name, casting, engine.family)))
    return scene


def _encoded(engine: Engine, character: Character) -> Character:
    """The character with codes in place of its clips."""
    voice = []
    for number, reference in enumerate(character.voice or (), 1):
        if isinstance(reference.audio, Clip):
            heard = engine.encode(reference.audio, f"Clip {number} of {character.name}")
            if heard.note:
                _tell(heard.note)
            reference = dataclasses.replace(reference, audio=heard.codes)
        voice.append(reference)
    return dataclasses.replace(character, voice=tuple(voice) or None)


def _check_words(scene: Scene) -> None:
    """Raise RequestError for the first line that no model can perform."""
    for line in scene.lines:
        try:
            check_line(scene.reading.words(line.text))
        except PromptError as problem:
            raise RequestError(f"{_place(line)}: {problem}") from None


def _check_lines(scene: Scene, engine: Engine) -> None:
    """Raise RequestError for the first line that this model can't perform as it is cast, before any is."""
    for line in scene.lines:
        try:
            engine.check(attempt_for(scene, line.id, engine.family).request)
        except RequestError as problem:
            raise RequestError(f"{_place(line)}: {problem}") from None


@contextmanager
def _whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into; at the end what is in it moves to `target`, which must be new or empty.

    Whatever goes wrong leaves `target` as it was. Raises RequestError if it holds something or can't be
    written.
    """
    name, part = shown_name(target.resolve()), target / f".perform-{secrets.token_hex(6)}.part"
    with _writable(name):
        is_new = not target.exists()
        target.mkdir(exist_ok=True)
        if any(target.iterdir()):
            raise RequestError(f"{name} is not empty; give a new or an empty folder.")
        part.mkdir()
        (part / "takes").mkdir()
    try:
        yield part
        with _writable(name):
            # The mix comes last: where it is, all is there.
            for each in sorted(part.iterdir(), key=lambda path: path.name == "mix.wav"):
                each.rename(target / each.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if is_new and not any(target.iterdir()):
            target.rmdir()


@contextmanager
def _writable(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise RequestError(f"The folder for {name} does not exist; make it first.") from None
    except OSError as problem:
        raise RequestError(f"{name} cannot be written ({problem.strerror}); choose another folder.") from None


def _place(line: SceneLine) -> str:
    return f"Line {line.number} (row {line.row}, {line.speaker})"


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)
