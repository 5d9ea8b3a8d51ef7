"""The cast's handlers: voices on cards, clips and voice files, the casting call, forgetting.

A clip is encoded when it is given, for whoever performs and for whoever rehearses; after that only codes are
kept, and `forget_voice` removes those too and says what it removed.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr
import numpy as np

from engine.attempt import attempt_for
from engine.audio_files import read_clip, safe_name
from engine.mix import equal_gains, loudness
from engine.references import prepare
from engine.scene import SceneLine, seed_for
from engine.take import Character, Clip, Reference, RequestError, Status, fresh_seed
from engine.voice_file import SUFFIX, character_of, read_voice, saved_voice, write_voice
from prompts.cues import folded
from prompts.text import FIELD_CHARACTERS
from web.casting import CLIPS, DESCRIBED, FILE, OWN, READY, Call, Candidate, Voice, ready
from web.clips import clips_with_words, no_clips
from web.director import Broken, Step, sending
from web.handlers import session_of
from web.reel import Reel
from web.rooms import Room, Run
from web.scene_list import about, cast_facts
from web.scene_stage import SceneStage, said
from web.troupe import fingerprint

LETTERS = "ABCDE"
CANDIDATES = 4
BETWEEN_S = 0.8

Yield = tuple[Any, ...]


class CastStage:
    """The cast's handlers; rooms and troupes are the scene's."""

    def __init__(self, scenes: SceneStage) -> None:
        self.scenes = scenes

    # Voices.

    def cast(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Yield:
        """Give a character a ready voice, a description, clips to come or the model's own voice."""
        room, who = self._room(key, request), said(chosen, "who")
        note = ""
        try:
            old, kind = self._voice(room, who), said(chosen, "kind")
            if kind == READY:
                voice = Voice(READY, said(chosen, "ready") or next(iter(self.scenes.stage.voices)))
                ready(voice.ready)
            elif kind == DESCRIBED:
                words = (
                    said(chosen, "description")[:FIELD_CHARACTERS],
                    said(chosen, "scene")[:FIELD_CHARACTERS],
                )
                voice = Voice(DESCRIBED, description=words[0], scene=words[1])
            elif kind == CLIPS:
                voice = old if old.kind in (CLIPS, FILE) else Voice(CLIPS, about="no clip yet")
            else:
                voice = Voice(OWN)
            room.give(who, voice)
        except RequestError as problem:
            note = str(problem)
        return self._cast(room, note), self.scenes.rows(room)

    def open_clips(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Yield:
        """Show the place where a character gets clips or a voice file."""
        room, who = self._room(key, request), said(chosen, "who")
        name = next((line.speaker for line in room.scene.lines if line.actor == who), "")
        return gr.update(visible=bool(name)), name, *no_clips()

    def give_clips(
        self,
        key: Any,
        name: str,
        request: gr.Request,
        *clips: str | None,
    ) -> Yield:
        """Give a character the voice of clips, the values of `web/clips.py`'s fields."""
        room, note = self._room(key, request), ""
        try:
            self._voice(room, folded(name or ""))
            given = clips_with_words(clips)
            notes: list[str] = []
            read = [(read_clip(path, tell=notes.append), said_in) for path, said_in in given]
            voice, heard = self._encoded(session_of(request), name, read)
            files = tuple(path for path, _ in given)
            room.give(folded(name), replace(voice, files=files))
            note = " ".join([f"{name} has the voice of {voice.about} now.", *notes, *heard])
        except RequestError as problem:
            note = str(problem)
        return self._cast(room, note), self.scenes.rows(room)

    def load_voice(self, key: Any, name: str, path: str | None, request: gr.Request) -> Yield:
        """Give a character the voice in a voice file."""
        room, family = self._room(key, request), self.scenes.main.family
        try:
            self._voice(room, folded(name or ""))
            if not path:
                raise RequestError("There is no voice file; choose one that was saved here.")
            saved = read_voice(path)
            played = {self.scenes.main.model: character_of(saved, family, name)}
            about_ = f"the voice file of {saved.name:.80}"
            room.give(folded(name), Voice(FILE, about=about_, played=played))
            note = f"{name} has the voice of the file now."
        except RequestError as problem:
            note = str(problem)
        return self._cast(room, note), self.scenes.rows(room)

    def save_voice(self, key: Any, name: str, request: gr.Request) -> Yield:
        """A character's voice as a file to keep, and a sentence."""
        room = self._room(key, request)
        try:
            voice = self._voice(room, folded(name or ""))
            played = voice.played.get(self.scenes.main.model, Character())
            path = room.file(safe_name(name) + SUFFIX)
            write_voice(path, saved_voice(name, played, self.scenes.main.family))
        except RequestError as problem:
            return gr.skip(), self._cast(room, str(problem))
        return str(path), self._cast(
            room, f"The voice of {name} is saved; the file holds it, so keep it safe."
        )

    def forget_voice(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Yield:
        """Remove a voice that a visitor brought, and say what was removed."""
        room, who = self._room(key, request), said(chosen, "who")
        try:
            self._voice(room, who)
            note = self.scenes.forget(room, who)
        except RequestError as problem:
            note = str(problem)
        return self._cast(room, note), self.scenes.rows(room)

    # The casting call.

    def hold_casting_call(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Iterator[Yield]:
        """Let several voices, or several seeds of one, read a line of a character; nobody is named."""
        room, who = self._room(key, request), said(chosen, "who")
        line = self._line_for(room, who)
        if line is None:
            yield gr.skip(), gr.skip()
            return
        wanted = self.seeds(room, line) if said(chosen, "by") == "seeds" else self._voices(room, who)
        random.SystemRandom().shuffle(wanted)
        yield from self._shown(room, self.auditions(room, session_of(request), line, wanted))

    def hear_candidate(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Iterator[Yield]:
        """Hear a candidate again, as loud as the others."""
        room = self._room(key, request)
        try:
            call = self._call(room)
            each = call.candidate(said(chosen, "letter"))
        except RequestError:
            yield gr.skip(), gr.skip()
            return
        gains = equal_gains([other.loudness for other in call.candidates])
        pcm = room.sound(each.take.id)
        level = np.trunc(pcm * gains[call.candidates.index(each)]).astype(np.int16)
        mark, label = f"candidate {each.letter}", f"Candidate {each.letter}"
        yield from self._shown(
            room, self.scenes.director.played(room, level, each.take.sample_rate, mark, label)
        )

    def choose_candidate(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Yield:
        """Cast the one who was chosen by ear; the take that was heard becomes the line's."""
        room, note = self._room(key, request), ""
        try:
            call = self._call(room)
            each = call.candidate(said(chosen, "letter"))
            self.choose(room, call, each)
            note = f"{call.speaker} is cast: {each.about.rstrip('.')}."
        except RequestError as problem:
            note = str(problem)
        facts = room.call.facts() if room.call else {}
        return facts, self._cast(room, note), self.scenes.rows(room)

    def choose(self, room: Room, call: Call, each: Candidate) -> None:
        """Make a candidate the cast, and its take the line's."""
        main = self.scenes.main
        with room.lock:
            call.chosen = each.letter
            room.give(call.actor, each.voice)
            room.casts[(*main.model, call.actor)] = each.voice, each.character
            room.change(lambda scene: scene.recast(call.speaker, each.character))
            room.keep(each.take, room.sound(each.take.id))

    def about(self, voice: Voice) -> str:
        """A voice in a few words."""
        return about(voice, self.scenes.stage.voices)

    def auditions(
        self, room: Room, session: str, line: SceneLine, wanted: list[tuple[Voice, int, str]]
    ) -> Generator[Step, None, None]:
        """One after another reads the line into one reel; each is kept with the room's call."""
        scenes, troupe = self.scenes, self.scenes.main
        call = room.call = Call(line.id, line.actor, line.speaker, line.text, asked=len(wanted))
        with scenes.director.run(room) as run:
            reel = scenes.director.reel(troupe)
            yield None, True
            for letter, (voice, seed, told) in zip(LETTERS, wanted, strict=False):
                if reel.samples:
                    yield from sending(reel.silence(BETWEEN_S))
                try:
                    candidate = yield from self._audition(
                        room, run, session, line, reel, letter, voice, seed, told
                    )
                except (RequestError, Broken) as problem:
                    yield reel.trouble(str(problem)), True
                    return
                if candidate is None or room.call is not call:
                    return
                call.candidates.append(candidate)
                yield None, True
            yield reel.end(), True

    def _audition(
        self,
        room: Room,
        run: Run,
        session: str,
        line: SceneLine,
        reel: Reel,
        letter: str,
        voice: Voice,
        seed: int,
        told: str,
    ) -> Generator[Step, None, Candidate | None]:
        scenes, troupe = self.scenes, self.scenes.main
        character = voice.character(line.speaker, troupe.family)
        with closing(scenes.director.encoded(troupe, session, character)) as events:
            for event in events:
                if isinstance(event, Status):
                    yield reel.status(event.phase, event.detail), False
                elif isinstance(event, Character):
                    character = event
        scene = room.scene_for(troupe.family).recast(line.speaker, character)
        attempt = attempt_for(scene, line.id, troupe.family, seed=seed)
        label = f"Candidate {letter}"
        marks = [f"candidate {letter}"]
        heard = yield from scenes.director.heard(
            room, run, session, troupe, attempt, reel, marks, label, keep_cut=False
        )
        if heard is None:
            return None
        take, pcm = heard
        room.put(take.id, pcm)
        return Candidate(letter, voice, character, told, take, loudness(pcm, take.sample_rate))

    def _voices(self, room: Room, who: str) -> list[tuple[Voice, int, str]]:
        """The present voice and some ready ones, all with one seed."""
        stage, seed = self.scenes.stage, fresh_seed()
        now = self._voice(room, who)
        others = [each for each in stage.voices if not (now.kind == READY and each == now.ready)]
        random.SystemRandom().shuffle(others)
        voices = [now, *(Voice(READY, each) for each in others)][:CANDIDATES]
        return [(voice, seed, self.about(voice)) for voice in voices]

    def seeds(self, room: Room, line: SceneLine, count: int = CANDIDATES) -> list[tuple[Voice, int, str]]:
        """The present voice with several seeds."""
        first, voice = room.scene.next_retake(line.id), self._voice(room, line.actor)
        seeds = [seed_for(room.scene.seed, line.id, first + number) for number in range(count)]
        return [(voice, seed, f"seed {seed}") for seed in seeds]

    def _encoded(self, session: str, name: str, clips: list[tuple[Clip, str]]) -> tuple[Voice, list[str]]:
        """A voice made of clips, in the codes of everybody who plays here, and what was noticed."""
        played, keys, notes = {}, [], []
        for troupe in self.scenes.director.troupes:
            if not troupe.family.capabilities.clone:
                continue
            references = []
            for number, (clip, words) in enumerate(clips, 1):
                ready_clip = prepare(clip, troupe.family.sample_rate, f"Clip {number}")
                *_, heard = troupe.encoded(session, clip)
                notes += [heard.note] if heard.note and troupe is self.scenes.main else []
                references.append(Reference(heard.codes, words))
                keys += [(f"{troupe.model[0]}@{troupe.model[1]}", ready_clip.key), ("", fingerprint(clip))]
            played[troupe.model] = Character(name, tuple(references))
        if self.scenes.main.model not in played:
            raise RequestError(f"{self.scenes.main.family.name} can't follow a clip; choose a ready voice.")
        about_ = "one clip" if len(clips) == 1 else f"{len(clips)} clips"
        return Voice(CLIPS, about=about_, played=played, keys=tuple(keys)), notes

    def _line_for(self, room: Room, who: str) -> SceneLine | None:
        """The opened line, if it is the character's; else their first one."""
        own = [line for line in room.scene.lines if line.actor == who]
        return next((line for line in own if line.id == room.opened), own[0] if own else None)

    @staticmethod
    def _call(room: Room) -> Call:
        if room.call is None:
            raise RequestError("There is no casting call; start one on a card.")
        return room.call

    @staticmethod
    def _voice(room: Room, who: str) -> Voice:
        if who not in {line.actor for line in room.scene.lines}:
            raise RequestError("That character is no longer in the script; choose another one.")
        return room.voices.get(who, Voice())

    def _room(self, key: Any, request: gr.Request) -> Room:
        return self.scenes.room(key, request)

    def _cast(self, room: Room, note: str = "") -> dict[str, Any]:
        return cast_facts(room, self.scenes.main.family, self.scenes.stage.voices, note)

    def _shown(self, room: Room, steps: Generator[Step, None, None]) -> Iterator[Yield]:
        with closing(steps):
            for message, changed in steps:
                yield message or gr.skip(), room.call.facts() if changed and room.call else gr.skip()
