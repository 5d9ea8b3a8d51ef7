"""Components to request values, events to components: what a visitor wants, in their words.

A handler is a generator. It builds a frozen TakeRequest, lets it through the gate and the door, and turns
each event into a player message. It holds no tensor. Takes belong to their session.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
import numpy as np

from engine.audio_files import read_clip
from engine.card import card as take_card
from engine.engine import Engine
from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    Encoded,
    Event,
    Reference,
    RequestError,
    Sampling,
    Spoken,
    Status,
    TakeRequest,
    Timings,
    Trouble,
    fresh_seed,
    from_json,
)
from engine.voices import ready_voices
from prompts.duration import expected_seconds
from prompts.text import PromptError, check_length
from web import gpu, player
from web.clips import clips_with_words
from web.queue import Gate
from web.recogniser import hear, why_deaf
from web.shelf import Shelf, Take
from web.takes import entry
from web.troupe import Troupe

READY, DESCRIBED, CLIPS, OWN = "A ready voice", "In words", "From clips", "The model's own"
SLOW_START_S = 0.6  # sound held back before a take starts where the model is hardly faster than real time
FAST_RTF = 0.75
STOP_S = 5.0  # a stopped take has landed long before; longer than that nobody waits for a list

Yield = tuple[Any, ...]


@dataclass
class Hearing:
    """What has come of one take so far. Lives as long as its handler."""

    take_id: str
    request: TakeRequest
    chunks: list[np.ndarray] = field(default_factory=list)
    encoded: list[Encoded] = field(default_factory=list)
    frames: int = 0
    sample_rate: int = 0

    @property
    def pcm(self) -> np.ndarray:
        return np.concatenate(self.chunks) if self.chunks else np.zeros(0, np.int16)


class Stage:
    """The page's handlers and what they share: who performs, the shelf, the ready voices."""

    def __init__(self, engine: Engine, gate: Gate, shelf: Shelf) -> None:
        self.troupe, self.shelf = Troupe(engine, gate, gpu.perform, gpu.encode), shelf
        self.family = engine.family
        self.voices = ready_voices(self.family.capabilities)
        self._under_way: dict[str, threading.Event] = {}  # the take of a session, set when it has ended

    def perform_line(
        self,
        text: str,
        direction: str,
        voice: str,
        ready: str,
        describe: str,
        name: str,
        scene: str,
        seed: str,
        temperature: float,
        top_p: float,
        top_k: float | None,
        numbers: bool,
        key: Any,
        request: gr.Request,
        *clips: str | None,
    ) -> Iterator[Yield]:
        """Perform a line. Streams player messages; the last one comes with the take's files and its card.

        `clips` are the values of `web/clips.py`'s fields.
        """
        take_id, session = secrets.token_hex(6), owner(key, request)
        try:
            character = self._character(voice, ready, describe, name, scene, clips)
            sampling = sampling_of(temperature, top_p, top_k)
            said = self._directed(text, direction)
            wanted = TakeRequest(said, character, (), sampling, seed_of(seed), numbers=bool(numbers))
        except RequestError as problem:
            yield player.trouble(take_id, str(problem)), *[gr.skip()] * 4
            return
        for message, take in self._perform(session, take_id, wanted):
            if take:
                yield gr.skip(), *shown(take), self._listed(session)
            else:
                yield message, *[gr.skip()] * 4

    def perform(
        self,
        text: str,
        direction: str,
        describe: str,
        name: str,
        scene: str,
        ready: str,
        voice: list[dict[str, Any]],
        history: list[dict[str, Any]],
        seed: str,
        temperature: float,
        top_p: float,
        top_k: float,
        request: gr.Request,
    ) -> Iterator[Yield]:
        """Perform a line for a program. Streams player messages; the last comes with the WAV and its card.

        `ready` is the id of a ready voice; `voice` a list of {"codes", "words"}, codes as /encode gives them;
        `history` a list of {"text", "codes"}.
        """
        take_id, session = secrets.token_hex(6), session_of(request)
        try:
            described = describe.strip() or None, scene.strip() or None
            who = self._ready(ready) if ready else Character(name.strip(), references_of(voice), *described)
            wanted = TakeRequest(
                self._directed(text, direction),
                who,
                history_of(history),
                sampling_of(temperature, top_p, top_k),
                seed_of(seed),
            )
        except RequestError as problem:
            raise refusal(str(problem)) from None
        for message, take in self._perform(session, take_id, wanted):
            if message["kind"] == "trouble":
                raise refusal(message["sentence"])
            if take:
                yield message, str(take.wav), told(take)
            elif message["kind"] != "end":  # that one comes with the files
                yield message, gr.skip(), gr.skip()

    def say(self, text: str, describe: str, seed: str, request: gr.Request) -> tuple[str, dict[str, Any]]:
        """Perform a line and return its WAV file and its card. For scripts and agents."""
        session = session_of(request)
        try:
            character = Character(description=describe) if describe.strip() else Character()
            wanted = TakeRequest(self._directed(text, ""), character, seed=seed_of(seed))
        except RequestError as problem:
            raise refusal(str(problem)) from None
        take = None
        for message, finished in self._perform(session, secrets.token_hex(6), wanted):
            if message["kind"] == "trouble":
                raise refusal(message["sentence"])
            take = finished
        return str(take.wav), told(take)

    def encode(self, clip: str | None, request: gr.Request) -> dict[str, Any]:
        """The codes of a reference clip, [codebooks, frames], its key and what was done to the clip."""
        if not clip:
            raise refusal("There is no clip; give an audio file of 1 to 60 seconds.")
        try:
            *_, heard = self.troupe.encoded(session_of(request), read_clip(clip))
        except RequestError as problem:
            raise refusal(str(problem)) from None
        return {"key": heard.key, "codes": heard.codes.tolist(), "note": heard.note}

    def words_of(self, clip: str | None) -> str:
        """What a new or a newly cut clip says, as far as somebody can hear it; words of the old clip never
        stay.
        """
        if not clip or why_deaf():
            return ""
        try:
            heard = read_clip(clip)
        except RequestError as problem:
            raise refusal(str(problem)) from None
        return hear(np.atleast_2d(heard.samples).mean(0), heard.sample_rate)

    def list_takes(self, key: Any, request: gr.Request) -> Yield:
        """The files and the card of this visitor's newest take, and all takes as the page lists them."""
        takes = self.shelf.takes(owner(key, request))
        return *(shown(takes[0]) if takes else nothing_shown()), self._listed(owner(key, request))

    def keep_cut_take(self, key: Any, request: gr.Request) -> Yield:
        """After Stop: the same, once the take that was stopped is among them."""
        if ended := self._under_way.get(owner(key, request)):
            ended.wait(STOP_S)
        return self.list_takes(key, request)

    def fetch_take(self, key: Any, request: gr.Request, chosen: gr.EventData) -> Yield:
        """The files and the card of the take that was chosen in the list."""
        takes, index = self.shelf.takes(owner(key, request)), chosen.index
        if not isinstance(index, int) or not 0 <= index < len(takes):
            return gr.skip(), gr.skip(), gr.skip()
        return shown(takes[index])

    def _listed(self, session: Hashable) -> list[dict[str, str]]:
        return [entry(take) for take in self.shelf.takes(session)]

    def _ready(self, voice_id: str) -> Character:
        """The character of a ready voice: its clip for a model that clones, its id for one that doesn't."""
        voice = self.voices.get(voice_id)
        if voice is None:
            raise RequestError(f"There is no voice {voice_id!r}; use one of {', '.join(self.voices)}.")
        if self.family.capabilities.clone:
            return Character(voice=(Reference(self.troupe.known(read_clip(voice.clip)), voice.words),))
        return Character(description=voice.id)

    def _character(
        self, voice: str, ready: str, describe: str, name: str, scene: str, clips: Sequence[str | None]
    ) -> Character:
        if voice == READY:
            return self._ready(ready)
        if voice == DESCRIBED:
            if not describe.strip():
                raise RequestError("There is no description; say in a few words who speaks.")
            return Character(name.strip(), None, describe.strip(), scene.strip() or None)
        if voice != CLIPS:
            return Character()
        given = clips_with_words(clips)
        known = [self.troupe.known(read_clip(clip)) for clip, _ in given]
        return Character(
            voice=tuple(Reference(codes, words) for codes, (_, words) in zip(known, given, strict=True))
        )

    def _directed(self, text: str, direction: str) -> str:
        try:
            check_length(text)
            check_length(direction, "The direction")
            if not direction.strip():
                return text
            return self.family.directed(text, direction)
        except PromptError as problem:
            raise RequestError(str(problem)) from None

    def _perform(
        self, session: Hashable, take_id: str, wanted: TakeRequest
    ) -> Iterator[tuple[dict[str, Any], Take | None]]:
        """Player messages; the last one comes once more, with the finished take."""
        hearing, ended = Hearing(take_id, wanted), False
        over = self._under_way[session] = threading.Event()
        seconds = self.troupe.rtf * expected_seconds(wanted.text)
        try:
            for event in self.troupe.gate.through(session, seconds, lambda: self.troupe.perform(wanted)):
                ended = isinstance(event, (Done, Trouble))
                for message in self._messages(hearing, event):
                    yield message, None
                if isinstance(event, Done):
                    self.troupe.rtf = event.timings.rtf
                    message = player.end(take_id, len(hearing.chunks), event.finish_reason, len(hearing.pcm))
                    yield message, None  # before any file is written: the player waits for it
                    yield message, self._keep(session, hearing, event)
        finally:
            if not ended and hearing.chunks:  # stopped: what was heard is kept, and says that it was cut
                self._keep(session, hearing, _cut(hearing))
            over.set()
            if self._under_way.get(session) is over:
                del self._under_way[session]

    def _messages(self, hearing: Hearing, event: Event) -> Generator[dict[str, Any], None, None]:
        if isinstance(event, Status) and event.detail:
            yield player.status(hearing.take_id, event.phase, event.detail)
        elif isinstance(event, Trouble):
            yield player.trouble(hearing.take_id, event.sentence)
        elif isinstance(event, Encoded):
            self._remember(hearing, event)
            if event.note:
                yield player.status(hearing.take_id, "reference", event.note)
        elif isinstance(event, Audio):
            if not hearing.chunks:
                hearing.sample_rate = event.sample_rate
                held = player.START_BUFFER_S if self.troupe.rtf <= FAST_RTF else SLOW_START_S
                yield player.config(hearing.take_id, event.sample_rate, held)
            # Noted before it is sent: a stop may come with the message, and what was sent is the take.
            hearing.chunks.append(event.pcm)
            hearing.frames = event.first_frame + len(event.pcm) // self.family.hop
            yield player.audio(hearing.take_id, len(hearing.chunks) - 1, event.pcm)

    def _remember(self, hearing: Hearing, event: Encoded) -> None:
        clips = [each.audio for each in hearing.request.character.voice if isinstance(each.audio, Clip)]
        self.troupe.keep(clips[len(hearing.encoded)], event)
        hearing.encoded.append(event)

    def _keep(self, session: Hashable, hearing: Hearing, done: Done) -> Take:
        card = take_card(self.family, hearing.request, done, hearing.encoded)
        return self.shelf.keep(session, hearing.take_id, hearing.pcm, hearing.sample_rate, card)


def refusal(sentence: str) -> gr.Error:
    """What a program hears that can't have its take: one sentence, no traceback in the log."""
    return gr.Error(sentence, print_exception=False)


def session_of(request: gr.Request) -> str:
    """Whose takes these are; a caller without a session is one of its own."""
    return request.session_hash or secrets.token_hex(8)


def is_key(key: Any) -> bool:
    """Whether this can be a key that we gave to a browser."""
    return isinstance(key, str) and bool(re.fullmatch(r"[\w-]{32}", key))


def owner(key: Any, request: gr.Request) -> str:
    """Who somebody is over a reload: their browser's key, or this session where there is none."""
    return key if is_key(key) else f"session {session_of(request)}"


def seed_of(text: str) -> int:
    """The seed in a text field; an empty one draws a new seed. Raises RequestError for anything else."""
    if not str(text or "").strip():
        return fresh_seed()
    try:
        return int(str(text).strip())
    except ValueError:
        raise RequestError(f"The seed is {text!r}; use a whole number, or leave it empty.") from None


def sampling_of(temperature: float, top_p: float, top_k: float | None) -> Sampling:
    """Sampling from number fields; a top_k of 0 or none leaves the rule to the model."""
    whole = isinstance(top_k, float) and top_k.is_integer()
    return Sampling(temperature, top_p, (int(top_k) if whole else top_k) or None)


def references_of(voice: Any) -> tuple[Reference, ...] | None:
    """References from JSON, [{"codes", "words"}]. Raises RequestError for another shape."""
    pairs = _pairs(voice, "voice", "words")
    return tuple(Reference(codes, words) for words, codes in pairs) or None


def history_of(history: Any) -> tuple[Spoken, ...]:
    """Earlier lines from JSON, [{"text", "codes"}]. Raises RequestError for another shape."""
    return tuple(Spoken(text, codes) for text, codes in _pairs(history, "history", "text"))


def _pairs(listed: Any, name: str, words: str) -> list[tuple[str, np.ndarray]]:
    try:
        return [(each[words], _codes(each["codes"])) for each in listed or []]
    except RequestError:  # says more than the sentence below
        raise
    except (TypeError, KeyError, ValueError):
        need = f'a list of {{"{words}": text, "codes": [[...], ...]}}'
        raise RequestError(f"{name} has another shape; give {need}.") from None


def _codes(listed: Any) -> np.ndarray:
    """Codes from nested lists, or from the array that a card holds."""
    if isinstance(listed, dict):
        listed = from_json(listed)
    return np.asarray(listed)


def shown(take: Take) -> Yield:
    """A take's files and its card, less the codes, which nobody reads."""
    card = {key: value for key, value in told(take).items() if key != "codes"}
    return *(gr.update(value=str(path), interactive=True) for path in (take.wav, take.flac)), card


def nothing_shown() -> Yield:
    """No files and no card."""
    return *[gr.update(value=None, interactive=False)] * 2, {}


def told(take: Take) -> dict[str, Any]:
    """The card for a reader of JSON: the seed as text, because JavaScript rounds whole numbers above 2^53."""
    return {**take.card, "seed": str(take.card["seed"])}


def _cut(hearing: Hearing) -> Done:
    return Done("cancelled", hearing.frames, hearing.request.seed, Timings(), None)
