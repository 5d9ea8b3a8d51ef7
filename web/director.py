"""The director: lets a scene be performed, line after line, and keeps what was heard.

A performance is a generator of steps, (player message or None, whether the list of lines has changed). Line
after line goes through the gate and the door by itself, so that two visitors take turns; between two lines it
waits while the listener has enough to hear. Whatever ends it, what was heard of a line is kept.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.attempt import Attempt, attempt_for, perform_attempt
from engine.engine import Engine
from engine.mix import Part, equal_gains, loudness, mixed
from engine.scene import SceneLine, SceneTake, seed_for, voice_key
from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    Encoded,
    Event,
    Reference,
    RequestError,
    Status,
    TakeRequest,
    Timings,
    Trouble,
)
from prompts.duration import expected_seconds
from prompts.text import PromptError
from web import gpu
from web.casting import Voice
from web.handlers import FAST_RTF, Stage
from web.queue import Gate
from web.reel import Reel
from web.rooms import Room, Run
from web.troupe import Troupe

AHEAD_S = 10.0  # the next line is asked for when the listener has less than this left
TICK_S = 0.25  # between two looks at a listener who has enough
START_S, SLOW_START_S = 0.25, 1.0  # sound held back before a scene starts, and where the model is slow

Step = tuple[dict[str, Any] | None, bool]


@dataclass(frozen=True)
class Wish:
    """What is asked of a take besides the script; None leaves it to the script and the scene."""

    note: str = ""
    direction: str | None = None
    seed: int | None = None


class Broken(Exception):
    """A line could not be performed; the sentence is kept with the line."""


class Director:
    """Who performs, who rehearses, and how a scene of a room becomes sound. Lives as long as the page."""

    def __init__(self, stage: Stage, understudy: Engine | None = None) -> None:
        self.main = stage.troupe
        self.rehearsal = None
        if understudy:
            self.rehearsal = Troupe(understudy, Gate(), gpu.rehearse, gpu.encode_for_rehearsal)
        self.troupes = [self.main, *([self.rehearsal] if self.rehearsal else [])]

    def performance(
        self,
        room: Room,
        session: str,
        troupe: Troupe,
        line_ids: Sequence[str],
        anew: bool = False,
        paced: bool = True,
    ) -> Generator[Step, None, None]:
        """Perform lines one after another into one reel; `paced` waits for the listener between two."""
        with self.run(room) as run:
            reel = self.reel(troupe, "Scene")
            try:
                for group in groups_of(room, line_ids):
                    while paced and room.run is run and reel.left_s > AHEAD_S:
                        yield None, False
                        time.sleep(TICK_S)
                    if room.run is run:
                        yield from self._group(room, run, session, troupe, reel, group, anew)
                    if room.run is not run:
                        return
                yield reel.end(), True
            except Broken as problem:
                yield reel.trouble(str(problem)), True

    def _group(
        self,
        room: Room,
        run: Run,
        session: str,
        troupe: Troupe,
        reel: Reel,
        group: list[str],
        anew: bool,
    ) -> Generator[Step, None, None]:
        """One line, or lines that are spoken together: those are mixed before anything of them sounds."""
        try:
            lines = [room.scene.line(each) for each in group]
        except RequestError:
            return  # deleted this very moment
        label = " and ".join(label_of(room, line) for line in lines)
        alone = len(lines) == 1
        if reel.samples and lines[0].gap_s:
            yield from sending(reel.silence(lines[0].gap_s))
        parts: list[Part] = []
        for line in lines:
            pcm = None if anew else self._up_to_date(room, troupe, line)
            if pcm is None and alone:
                yield from self._line(room, run, session, troupe, line, reel, label)
                return
            if pcm is None:
                take = yield from self._line(room, run, session, troupe, line, reel, None)
                pcm = room.sound(take.id) if take else None
            if pcm is None:
                return
            parts.append(Part(label, pcm, troupe.family.sample_rate, 0.0, line is not lines[0]))
        yield from sending(reel.mark([line.id for line in lines], label))
        for block in mixed(parts):
            yield from sending(reel.sound(block))

    def _line(
        self,
        room: Room,
        run: Run,
        session: str,
        troupe: Troupe,
        line: SceneLine,
        reel: Reel,
        label: str | None,
        wish: Wish | None = None,
    ) -> Generator[Step, None, SceneTake | None]:
        """Perform one line and keep its take; with a `label` it sounds at once. Raises Broken where it fails,
        None where somebody else performs here by now."""
        room.making = line.id
        yield None, True
        try:
            yield from self._engage(room, session, troupe, line, reel)
            attempt = self._attempt(room, troupe, line, wish)
        except RequestError as problem:
            raise self._broken(room, line, str(problem)) from None
        heard = yield from self.heard(room, run, session, troupe, attempt, reel, [line.id], label)
        if heard is None:
            return None
        room.keep(*heard)
        room.making = None
        yield None, True
        return heard[0]

    def heard(
        self,
        room: Room,
        run: Run,
        session: str,
        troupe: Troupe,
        attempt: Attempt,
        reel: Reel,
        marks: Sequence[str],
        label: str | None,
        keep_cut: bool = True,
    ) -> Generator[Step, None, tuple[SceneTake, np.ndarray] | None]:
        """Make one take; with a `label` it sounds at once. The take and its sound int16 [n], or None where
        somebody else performs here by now; a take that is cut is kept. Raises Broken where it fails."""
        take, chunks, frames, ended = None, [], 0, False
        seconds = troupe.rtf * expected_seconds(attempt.request.text)

        def perform(wanted: TakeRequest) -> Iterator[Event]:
            return troupe.gate.through(session, seconds, lambda: troupe.perform(wanted))

        try:
            with closing(perform_attempt(attempt, perform)) as events:
                for event in events:
                    if room.run is not run:
                        return None
                    if isinstance(event, Audio):
                        if label and event.seq == 0:
                            yield from sending(reel.mark(marks, label))
                        for start, block in reel.blocks(event.pcm):
                            # Noted before it is sent: a stop may come with it, and what was sent is kept.
                            chunks.append(block)
                            frames = event.first_frame + (start + len(block)) // troupe.family.hop
                            yield from sending(reel.sound(block)) if label else ((None, False),)
                    elif isinstance(event, Status) and event.detail:
                        yield reel.status(event.phase, event.detail), False
                    elif isinstance(event, Done):
                        ended, troupe.rtf = True, event.timings.rtf
                    elif isinstance(event, Trouble):
                        ended = True
                        raise self._broken(room, attempt.line, event.sentence)
                    elif isinstance(event, SceneTake):
                        take = event
            return take, np.concatenate(chunks)
        finally:
            if chunks and keep_cut and not ended:
                pcm = np.concatenate(chunks)
                done = Done("cancelled", frames, attempt.request.seed, Timings(), None)
                room.keep(attempt.take(done, troupe.family.sample_rate, len(pcm)), pcm)

    def _attempt(self, room: Room, troupe: Troupe, line: SceneLine, wish: Wish | None) -> Attempt:
        """The next take of a line. Its seed counts whole takes of this model only, so that neither a stop nor
        a rehearsal changes what the scene's seed means."""
        scene = room.scene_for(troupe.family)
        old = scene.accepted_take(line.id)
        if wish is None and old and self._is_ours(old, troupe) and room.sound(old.id) is None:
            wish = Wish(old.note, old.direction, old.seed)  # from a file: made again, it is the same
        wish = wish or Wish()
        whole = sum(self._is_ours(take, troupe) for take in scene.takes_of(line.id))
        seed = seed_for(scene.seed, line.id, whole) if wish.seed is None else wish.seed
        return attempt_for(scene, line.id, troupe.family, wish.note, wish.direction, seed)

    def _engage(
        self, room: Room, session: str, troupe: Troupe, line: SceneLine, reel: Reel
    ) -> Generator[Step, None, None]:
        """Give a line's actor the voice of its card, clips encoded, unless it has it. Raises RequestError."""
        voice, key = room.voices.get(line.actor, Voice()), (*troupe.model, line.actor)
        if key in room.casts and room.casts[key][0] is voice:
            return
        try:
            character = voice.character(line.speaker, troupe.family)
        except RequestError:
            if troupe is self.main:
                raise
            character = Character(line.speaker)  # who rehearses does what it can: here in its own voice
        with closing(self.encoded(troupe, session, character)) as events:
            for event in events:
                if isinstance(event, Status):
                    yield reel.status(event.phase, event.detail), False
                elif isinstance(event, Character):
                    character = event
        room.casts[key] = voice, character
        if troupe is self.main:
            room.change(lambda scene: scene.recast(line.speaker, character))

    def encoded(
        self, troupe: Troupe, session: str, character: Character
    ) -> Generator[Event | Character, None, None]:
        """The events of encoding a character's clips, at last the character with codes in their place. Raises
        RequestError where one can't be used."""
        voice = []
        for reference in character.voice or ():
            if isinstance(reference.audio, Clip):
                codes = None
                for event in troupe.encoded(session, reference.audio):
                    codes = event.codes if isinstance(event, Encoded) else codes
                    yield event
                reference = Reference(codes, reference.transcript)
            voice.append(reference)
        yield replace(character, voice=tuple(voice) or None)

    def retaken(
        self, room: Room, session: str, troupe: Troupe, line_id: str, wish: Wish
    ) -> Generator[Step, None, None]:
        with self.run(room) as run:
            reel = self.reel(troupe)
            line = room.scene.line(line_id)
            try:
                yield from self._line(room, run, session, troupe, line, reel, label_of(room, line), wish)
                if room.run is run:
                    yield reel.end(), True
            except Broken as problem:
                yield reel.trouble(str(problem)), True

    def played(
        self, room: Room, pcm: np.ndarray, sample_rate: int, mark: str, label: str
    ) -> Generator[Step, None, None]:
        """Sound that lies ready."""
        with self.run(room):
            reel = Reel(sample_rate, 0.0)
            yield from sending(reel.mark([mark], label))
            yield from sending(reel.sound(pcm))
            yield reel.end(), False

    def level(self, room: Room, line: SceneLine, take: SceneTake, pcm: np.ndarray) -> np.ndarray:
        """A take at the loudness that all takes of its line are heard at."""
        takes = {each.id: room.sound(each.id) for each in room.scene.takes_of(line.id)}
        levels = [
            loudness(sound, each.sample_rate) if (sound := takes[each.id]) is not None else -np.inf
            for each in room.scene.takes_of(line.id)
        ]
        gain = equal_gains(levels)[list(takes).index(take.id)]
        return np.trunc(pcm * gain).astype(np.int16)

    def reel(self, troupe: Troupe, name: str = "Take") -> Reel:
        held = START_S if troupe.rtf <= FAST_RTF else SLOW_START_S
        return Reel(troupe.family.sample_rate, held, name)

    @contextmanager
    def run(self, room: Room) -> Iterator[Run]:
        run = room.begin()
        try:
            yield run
        finally:
            if room.run is run:
                room.making = None
            run.ended.set()

    def _broken(self, room: Room, line: SceneLine, sentence: str) -> Broken:
        room.making = None
        room.troubles[line.id] = sentence
        return Broken(f"Line {line.number} ({line.speaker:.40}): {sentence}")

    def _up_to_date(self, room: Room, troupe: Troupe, line: SceneLine) -> np.ndarray | None:
        """The sound of a line's accepted take, if a new take would have the same words and voice."""
        take = room.scene.accepted_take(line.id)
        if take is None or not self._is_ours(take, troupe):
            return None
        voice, played = room.casts.get((*troupe.model, line.actor), (None, None))
        if voice is None or voice is not room.voices.get(line.actor) or take.voice != voice_key(played):
            return None
        try:
            same_words = room.scene.reading.words(line.text, troupe.family.capabilities) in take.text
        except PromptError:
            return None
        return room.sound(take.id) if same_words else None

    @staticmethod
    def _is_ours(take: SceneTake, troupe: Troupe) -> bool:
        return (take.model, take.revision) == troupe.model and take.finish_reason != "cancelled"


def sending(messages: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """Messages as steps that change nothing in the list."""
    for message in messages:
        yield message, False


def groups_of(room: Room, line_ids: Sequence[str]) -> Iterator[list[str]]:
    """The lines as they are performed, each by itself or with those that are spoken together; lines that were
    deleted meanwhile are left out."""
    waiting = list(line_ids)
    while waiting:
        lines = {line.id: line for line in room.scene.lines}
        group = [waiting.pop(0)]
        while waiting and waiting[0] in lines and lines[waiting[0]].dual:
            group.append(waiting.pop(0))
        if group := [each for each in group if each in lines]:
            yield group


def label_of(room: Room, line: SceneLine) -> str:
    return f"Line {line.number} of {len(room.scene.lines)} · {line.speaker}"
