"""What programs call of a scene: /perform_scene, /retake, /casting_call. JSON in and out; no path comes in.

A caller's scene belongs to their session: a retake speaks of the scene that this session performed last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from engine.audio_files import write_take
from engine.card import NOTICE
from engine.limits import check_sampling, check_seed
from engine.mix import equal_gains
from engine.reading import performed
from engine.scene import Reading, Scene, SceneLine
from engine.take import RequestError, TakeRequest
from prompts.script import parse
from prompts.text import PromptError
from web.cast_stage import LETTERS, CastStage
from web.casting import Voice, level, voice_of, voices_of
from web.handlers import refusal, sampling_of, seed_of, session_of
from web.page_file import written
from web.player import player_messages
from web.rooms import Room, check_part
from web.scene_stage import SOURCE_CHARACTERS, SceneStage, pairs_of, wish_of

OPTIONS = {"clean", "numbers", "glossary", "temperature", "top_p", "top_k", "from", "part"}
OVERTAKEN = "Another call of this session took the place of this one; make one call at a time."
SEEDS = 3  # candidates of a casting call that names none

Yield = tuple[Any, ...]


class SceneCalls:
    """The endpoints of a scene. They share rooms and troupes with the page."""

    def __init__(self, scenes: SceneStage) -> None:
        self.scenes, self.casts = scenes, CastStage(scenes)

    def perform_scene(
        self,
        script: str,
        cast: dict[str, Any],
        seed: str,
        options: dict[str, Any],
        request: gr.Request,
    ) -> Iterator[Yield]:
        """Perform a script. Streams player messages; the last comes with the mix (WAV) and the scene (JSON).

        `script` is NAME: words, a stage play or Fountain; "" goes on with this session's scene. `cast` is
        {NAME: {"voice": id of a ready voice}}, or {"voice": [{"codes", "words"}]} with codes of /encode, or
        {"description", "scene"}; whoever is missing gets a ready voice. `options` may have clean, numbers,
        glossary ([[written, said]]), temperature, top_p, top_k, from (the number of the first line), and part
        (the name of an act or a scene, of which only the beginning is needed).
        """
        room, session = self._room(request), session_of(request)
        try:
            first = self._prepare(room, script, cast, seed, options)
        except (RequestError, PromptError) as problem:
            raise refusal(str(problem)) from None
        ids = [line.id for line in room.scene.lines][first - 1 :]
        steps = self.scenes.director.performance(room, session, self.scenes.main, ids, paced=False)
        last = None
        for last in self._messages(steps):
            if last["kind"] != "end":  # that one comes with the files
                yield last, gr.skip(), gr.skip()
        path, _ = self.scenes.mix_of(room)
        yield last, str(path), written(room)["scene"]

    def retake(
        self, line: float, note: str, direction: str, seed: str, request: gr.Request
    ) -> Iterator[Yield]:
        """Perform a line of this session's scene again. Streams player messages; the last one comes with the
        take (WAV) and its facts, among them the lines that heard the older take.

        `line` is its number; `note` is added to the direction, `direction` replaces the script's, `seed`
        chooses another draw; all may be empty.
        """
        room, session = self._room(request), session_of(request)
        try:
            wanted, wish = self._line(room, line), wish_of(note, direction, seed)
        except RequestError as problem:
            raise refusal(str(problem)) from None
        last = None
        steps = self.scenes.director.retaken(room, session, self.scenes.main, wanted.id, wish)
        for last in self._messages(steps):
            if last["kind"] != "end":
                yield last, gr.skip(), gr.skip()
        take = room.scene.accepted_take(wanted.id)
        facts = {"notice": NOTICE, "model": take.model, "revision": take.revision, "seed": take.seed}
        path = room.file(f"line-{wanted.number}.wav")
        write_take(path, room.sound(take.id), take.sample_rate, facts | {"text": take.text})
        family, again = self.scenes.main.family, TakeRequest(take.text, numbers=room.scene.reading.numbers)
        stale = {room.scene.line(each).number: mark.sentence for each, mark in room.scene.stale().items()}
        told = {
            "line": wanted.number,
            "take": take.id,
            "takes": len(room.scene.takes_of(wanted.id)),
            "seed": str(take.seed),
            "text": take.text,
            "performed": performed(again, family),
            "finish_reason": take.finish_reason,
            "flags": list(take.flags),
            "stale": {str(number): sentence for number, sentence in sorted(stale.items())},
        }
        yield last, str(path), told

    def casting_call(
        self, line: float, candidates: list[dict[str, Any]], request: gr.Request
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Let up to five candidates read a line of this session's scene; facts and WAVs, equally loud.

        A candidate is an entry as of a cast with an optional "seed"; without any, three seeds of the present
        voice read. The scene stays as it is: perform it with the voice and the seed you like.
        """
        room, session = self._room(request), session_of(request)
        try:
            wanted = self._line(room, line)
            voices = self._candidates(room, wanted, candidates)
        except RequestError as problem:
            raise refusal(str(problem)) from None
        for _ in self._messages(self.casts.auditions(room, session, wanted, voices)):
            pass
        call = room.call
        if call is None or call.line_id != wanted.id or len(call.candidates) != len(voices):
            raise refusal(OVERTAKEN)
        found = call.candidates
        gains = equal_gains([each.loudness for each in found])
        paths, facts = [], []
        for each, gain in zip(found, gains, strict=True):
            take = each.take
            path = room.file(f"candidate-{each.letter}.wav")
            pcm = (room.sound(take.id) * gain).astype("int16")
            card = {"notice": NOTICE, "model": take.model, "revision": take.revision, "seed": take.seed}
            write_take(path, pcm, take.sample_rate, card | {"text": take.text})
            paths.append(str(path))
            facts.append(
                {
                    "candidate": each.letter,
                    "voice": each.about,
                    "seed": str(take.seed),
                    "seconds": round(take.num_samples / take.sample_rate, 2),
                    "loudness_lufs": level(each.loudness),
                }
            )
        return facts, paths

    def _prepare(self, room: Room, script: str, cast: Any, seed: str, options: Any) -> int:
        """Put script, cast and options into the room; the number of the first line. Raises RequestError."""
        options = options or {}
        if not isinstance(options, dict) or options.keys() - OPTIONS:
            raise RequestError(f"The options are an object with some of {', '.join(sorted(OPTIONS))}.")
        reading = Reading(
            bool(options.get("clean", True)),
            None if options.get("numbers") is None else bool(options["numbers"]),
            _glossary(options.get("glossary")),
        )
        reading.words("")
        sampling = sampling_of(
            options.get("temperature", 1.0), options.get("top_p", 0.9), options.get("top_k")
        )
        check_sampling(sampling)
        voices = voices_of(cast or {}, self.scenes.main.family)
        part = options.get("part", "")
        if not isinstance(part, str):
            raise RequestError("The option part is the name of an act or a scene; give it as text.")
        source = script if script.strip() else room.source
        if len(source) <= SOURCE_CHARACTERS and (script.strip() or part):
            check_part(parse(source), part)
        with room.lock:
            scene = Scene(seed_of(seed)) if script.strip() else room.scene
            check_seed(scene.seed)
            if script.strip():
                self.scenes.begin(room, scene, voices, script, part)
            else:
                if part:
                    self.scenes.turn_to(room, part)
                room.voices.update(voices)
            room.change(lambda now: replace(now, reading=reading, sampling=sampling))
        if not room.scene.lines:
            problem = next((each.sentence for each in room.script.problems), "")
            raise RequestError(problem or "The script has no line to perform; write lines as NAME: words.")
        return self._line(room, options.get("from", 1)).number

    def _candidates(self, room: Room, line: SceneLine, given: Any) -> list[tuple[Voice, int, str]]:
        if not isinstance(given, list) or len(given) > len(LETTERS):
            raise RequestError(f"The candidates are a list of up to {len(LETTERS)} voices.")
        if not given:
            return self.casts.seeds(room, line, SEEDS)
        found = []
        for number, entry in enumerate(given, 1):
            if not isinstance(entry, dict):
                raise RequestError(
                    f'Candidate {number} is no object; give {{"voice": ...}} or {{"seed": "5"}}.'
                )
            entry = dict(entry)
            seed = seed_of(str(entry.pop("seed", "")))
            check_seed(seed)
            name = f"candidate {number}"
            voice = voice_of(name, entry, self.scenes.main.family) if entry else room.voices[line.actor]
            found.append((voice, seed, self.casts.about(voice)))
        return found

    @staticmethod
    def _line(room: Room, number: Any) -> SceneLine:
        whole = isinstance(number, int) or (isinstance(number, float) and math.isfinite(number))
        line = room.line_of(int(number)) if whole else None
        if line is None:
            count = len(room.scene.lines)
            raise RequestError(f"There is no line {number!r:.20}; this session's scene has {count} lines.")
        return line

    @staticmethod
    def _messages(steps: Any) -> Iterator[dict[str, Any]]:
        """The player messages of a performance; trouble is a refusal, and so is an end that never came,
        because another call of this session performs in its place."""
        last = None
        with closing(steps):
            for message, _ in steps:
                if message and message["kind"] == "trouble":
                    raise refusal(message["sentence"])
                if message:
                    last = message
                    yield message
        if last is None or last["kind"] != "end":
            raise refusal(OVERTAKEN)

    def _room(self, request: gr.Request) -> Room:
        return self.scenes.room(None, request)


def _glossary(rows: Any) -> tuple[tuple[str, str], ...]:
    """A glossary from JSON, [[written, said]]. Raises RequestError for another shape."""
    rows = [] if rows is None else rows
    fits = isinstance(rows, list) and all(isinstance(row, list) and len(row) == 2 for row in rows)
    if not fits or not all(isinstance(cell, str) for row in rows for cell in row):
        raise RequestError('The glossary has another shape; give [["written", "said"]].')
    return pairs_of(rows)


def scene_endpoints(scenes: SceneStage) -> None:
    """Lay out what an endpoint needs, out of sight, and name it. No component is without a default."""
    calls = SceneCalls(scenes)
    with gr.Row(visible=False):
        script, seed = gr.Textbox("", label="script"), gr.Textbox("", label="seed")
        cast, options = gr.JSON({}, label="cast"), gr.JSON({}, label="options")
        note, direction = gr.Textbox("", label="note"), gr.Textbox("", label="direction")
        line, candidates = gr.Number(1, label="line", precision=0), gr.JSON([], label="candidates")
        messages, wav, facts = player_messages(), gr.File(label="wav"), gr.JSON(label="facts")
        wavs = gr.File(label="wavs", file_count="multiple")
        perform, again, call = gr.Button("perform_scene"), gr.Button("retake"), gr.Button("casting_call")
    heard, limit = [messages, wav, facts], {"concurrency_limit": 16}
    perform.click(
        calls.perform_scene, [script, cast, seed, options], heard, api_name="perform_scene", **limit
    )
    again.click(calls.retake, [line, note, direction, seed], heard, api_name="retake", **limit)
    call.click(calls.casting_call, [line, candidates], [facts, wavs], api_name="casting_call", **limit)
