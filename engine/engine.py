"""The one loop: a request goes in, events come out.

    perform -> check -> codes of the clips -> pieces of the line -> family.speak -> Audio ... Done

Streaming, whole, CPU, GPU, frames or samples: there is no other way to speak. Everything a take changes
lives in the generator, so takes side by side don't touch each other, and closing a generator ends its take.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from engine.family import Clock, Family, Piece, PieceEnd, PromptSize, Sound
from engine.limits import check_request
from engine.reading import as_read, told_unread, unread, wording
from engine.references import Prepared, ReferenceCache, check_codes, prepare
from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    Encoded,
    Event,
    RequestError,
    Spoken,
    Status,
    TakeFailed,
    TakeRequest,
    Timings,
    fresh_seed,
)
from prompts import text as words
from prompts.duration import frame_cap
from prompts.split import split, split_line
from prompts.text import PromptError

SENTENCE_GAP_S = 0.15  # silence between two pieces, none where a sentence goes on
CACHE_BYTES = 64 << 20  # codes of 60 s of Drama 3 are 103 kB

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Receipt:
    """What a forgotten voice took with it: the codes of so many `clips`, and so many `states` of prompts."""

    clips: int
    states: int


class Engine:
    """Performs takes with one family. Lives as long as its weights; keeps nothing of a take but codes of
    clips.
    """

    def __init__(self, family: Family, cache_bytes: int = CACHE_BYTES) -> None:
        self.family = family
        self.cache = ReferenceCache(cache_bytes)

    def encode(self, clip: Clip, name: str = "The reference clip") -> Encoded:
        """The codes of a clip, from the cache where the same sound was encoded before.

        Raises RequestError for a clip that gives no voice, or a family that can't follow one.
        """
        if not self.family.capabilities.clone:
            raise RequestError(f"{self.family.name} can't follow a reference clip; choose another model.")
        return self._encode(prepare(clip, self.family.sample_rate, name))

    def _encode(self, ready: Prepared) -> Encoded:
        codes = self.cache.get(ready.key)
        if codes is None:
            codes = self.family.encode(ready.samples)
            self.cache.put(ready.key, codes)
        return Encoded(ready.key, codes, " ".join(ready.notes))

    def forget(self) -> None:
        """Drop the codes of clips and the states of prompts: what a voice left here, and its memory."""
        self.cache.clear()
        wording.cache_clear()
        self.family.forget()

    def forget_voice(self, keys: Iterable[str]) -> Receipt:
        """Drop the codes of the clips that `Encoded` named by `keys`, and all states of prompts.

        A state can't be told by the voice that went into it, so those of other voices go as well; that costs
        them one prefill. It speaks for this process: a hosted GPU's worker forgets when it ends.
        """
        wording.cache_clear()
        return Receipt(sum(self.cache.forget(key) for key in set(keys)), self.family.forget())

    def measure(self, request: TakeRequest) -> PromptSize:
        """The rows of a request whose clips are codes, as its first piece reads them. Needs no device."""
        request = as_read(request, self.family)
        first = split_line(request.text, self.family.longest_piece_s)[0].text
        piece = _Take(self.family, request, Clock()).piece(0, first)
        return self.family.measure(dataclasses.replace(piece, history=request.history))

    def perform(self, request: TakeRequest) -> Iterator[Event]:
        """Speak one take, yielding sound as soon as it exists.

        The `Audio` events, joined, are the take. Closing the generator ends the take: nothing more is queued
        and its memory is free when close() returns. Raises RequestError before any model work if the request
        can't be performed, TakeFailed if the model makes no sound or no numbers.
        """
        clock = Clock()
        read = self.check(request)
        with closing(self._events(read, unread(request, self.family), clock)) as events:
            for event in events:
                handed = clock.now()
                yield event
                clock.add("held", clock.now() - handed)  # the listener's time, not ours

    def _events(
        self, request: TakeRequest, left_out: tuple[str, ...], clock: Clock
    ) -> Generator[Event, None, None]:
        """The events of a request in the words that the model gets to see, without those `left_out`."""
        seed = fresh_seed() if request.seed is None else request.seed
        log.debug("performing seed=%d characters=%d", seed, len(request.text))
        yield Status("preparing", f"{self.family.name} reads the line.")
        if left_out:
            yield Status("reading", told_unread(self.family.name, left_out))
        character = yield from self._voice(request.character, clock)
        wanted = dataclasses.replace(request, character=character, seed=seed)
        take = _Take(self.family, wanted, clock)
        if left_out:
            take.flag(f"unread({sum(map(len, left_out))})")
        yield from take.speak()
        done = take.done()
        log.info(
            "take seed=%d %s frames=%d flags=%s %s",
            seed,
            done.finish_reason,
            done.frames,
            done.flags,
            done.timings,
        )
        yield done

    def check(self, request: TakeRequest) -> TakeRequest:
        """The request in the words that the model gets to see. Needs no device.

        Raises RequestError, one sentence, for a request that can't be performed.
        """
        family = self.family
        try:
            check_request(request, family.capabilities, family.name)
            family.check(request.text, request.character, request.history)
            if request.performed is not None:
                family.check(request.performed, request.character, request.history)
            read = self._read(request)
        except PromptError as problem:
            raise RequestError(str(problem)) from None
        for number, reference in enumerate(request.character.voice or (), 1):
            if isinstance(reference.audio, np.ndarray):
                check_codes(
                    reference.audio, family.num_codebooks, family.codebook_size, f"reference {number}"
                )
        for number, turn in enumerate(request.history, 1):
            check_codes(turn.codes, family.num_codebooks, family.codebook_size, f"history turn {number}")
        return read

    def _read(self, request: TakeRequest) -> TakeRequest:
        """What the model gets to see. Raises RequestError where that can't be performed."""
        read = as_read(request, self.family)
        problems = [words.request_text_problem(read.text), *map(_turn_problem, read.history)]
        fields = ["The line", *(f"History turn {number}" for number in range(1, len(problems)))]
        for field, problem in zip(fields, problems, strict=True):
            if problem:
                raise RequestError(f"{field} {problem}.")
        return read

    def _voice(self, character: Character, clock: Clock) -> Generator[Event, None, Character]:
        """The character with every clip turned into codes; new codes travel back as `Encoded`."""
        if not character.voice:
            return character
        began, voice = clock.now(), list(character.voice)
        # A clip that can't be used is refused before another one is encoded.
        clips = {
            index: prepare(reference.audio, self.family.sample_rate, f"Reference {index + 1}")
            for index, reference in enumerate(voice)
            if isinstance(reference.audio, Clip)
        }
        clock.add("reference", clock.now() - began)
        for index, ready in clips.items():
            yield Status("reference", f"Listening to reference {index + 1}.")
            began = clock.now()
            encoded = self._encode(ready)
            clock.add("reference", clock.now() - began)
            voice[index] = dataclasses.replace(voice[index], audio=encoded.codes)
            yield encoded
        return dataclasses.replace(character, voice=tuple(voice))


def _turn_problem(turn: Spoken) -> str | None:
    return words.request_text_problem(turn.text)


class _Take:
    """One take under way: its pieces, the sound handed over so far, how it ended. Lives as long as
    `perform`.
    """

    def __init__(self, family: Family, request: TakeRequest, clock: Clock) -> None:
        self.family, self.request, self.clock = family, request, clock
        self.frames = self.samples = self.chunks = 0
        self.spoken: list[Spoken] = []
        self.flags: dict[str, str] = {}  # the word before a count -> the flag: the last count is the whole
        self.reason = "stop"

    def speak(self) -> Iterator[Event]:
        # The cards of older takes are performed as they were: a direction stood in front of the first piece.
        cut = split_line if self.request.letters else split
        parts = cut(self.request.text, self.family.longest_piece_s)
        pieces = tuple(self.piece(index, part.text) for index, part in enumerate(parts))
        if len(pieces) > 1:
            self.flag(f"split({len(pieces)})")
        for part, piece in zip(parts, pieces, strict=True):
            if self._room() == 0:
                self.reason = "length"
                break
            if piece.index and part.begins_sentence:
                yield self._audio(np.zeros(round(SENTENCE_GAP_S * self.family.sample_rate), np.int16), 0)
            end = yield from self._speak_piece(piece, pieces[1:] if piece.index == 0 else ())
            self.reason = end.reason
            if self.reason == "deadline":
                break
        if not self.frames and self.reason == "deadline":
            raise TakeFailed("The deadline passed before there was a sound; allow more time.")
        if not self.frames:
            raise TakeFailed(
                "The model ended the line before it made a sound; try another seed or other words."
            )

    def piece(self, index: int, text: str) -> Piece:
        """A piece with the frames that its text may take, and without history yet."""
        return Piece(
            text=text,
            index=index,
            character=self.request.character,
            history=(),
            sampling=self.request.sampling,
            seed=self.request.seed,
            max_frames=frame_cap(
                text, self.family.sample_rate / self.family.hop, self.family.max_piece_frames
            ),
            due=self._due,
            clock=self.clock,
        )

    def _speak_piece(self, piece: Piece, later: tuple[Piece, ...]) -> Generator[Event, None, PieceEnd]:
        room, cap = self._room(), piece.max_frames
        piece = dataclasses.replace(
            piece,
            history=(*self.request.history, *self.spoken),
            max_frames=cap if room is None else min(cap, room),
            later=later,
        )
        end = yield from self._sounds(piece)
        if end.codes is not None and end.frames:
            self.spoken.append(Spoken(piece.text, end.codes))
        for flag in end.flags:
            self.flag(flag)
        if end.reason == "length" and piece.max_frames == cap:
            self.flag("ran_long")
        return end

    def _sounds(self, piece: Piece) -> Generator[Event, None, PieceEnd]:
        with closing(self.family.speak(piece)) as speech:
            while True:
                try:
                    unit = next(speech)
                except StopIteration as stop:
                    return stop.value
                yield self._audio(unit.pcm, unit.frames) if isinstance(unit, Sound) else unit

    def _audio(self, pcm: np.ndarray, frames: int) -> Audio:
        self.clock.stamp("first_pcm")
        audio = Audio(pcm, self.family.sample_rate, self.frames, self.chunks)
        self.frames, self.samples, self.chunks = (
            self.frames + frames,
            self.samples + len(pcm),
            self.chunks + 1,
        )
        return audio

    def flag(self, flag: str) -> None:
        self.flags[flag.partition("(")[0]] = flag

    def _room(self) -> int | None:
        """Frames that the caller's own cap still allows."""
        return None if self.request.max_frames is None else max(0, self.request.max_frames - self.frames)

    def _due(self) -> bool:
        return self.request.deadline is not None and self.clock.now() >= self.request.deadline

    def done(self) -> Done:
        codes = np.concatenate([turn.codes for turn in self.spoken], 1) if self.spoken else None
        return Done(
            self.reason, self.frames, self.request.seed, self._timings(), codes, tuple(self.flags.values())
        )

    def _timings(self) -> Timings:
        stamps, spans, total = self.clock.stamps, self.clock.spans, self.clock.now()
        audio_s = self.samples / self.family.sample_rate
        first = stamps.get("first_codes", stamps["first_pcm"])
        return Timings(
            reference_s=spans.get("reference", 0.0),
            prompt_s=spans.get("prompt", 0.0),
            prefill_s=spans.get("prefill", 0.0),
            first_codes_s=first,
            first_pcm_s=stamps["first_pcm"],
            total_s=total,
            audio_s=audio_s,
            frames_per_s=self.frames / (total - sum(spans.values())),
            rtf=(total - spans.get("held", 0.0)) / audio_s,
        )
