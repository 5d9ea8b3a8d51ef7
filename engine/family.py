"""What the engine needs from a model family, whatever its shape.

A family turns one piece of a line into sound. Families with frames (codes, one row of them a step) share
`engine/stepping.py`; a family that makes samples directly yields them itself. From `Sound` upwards they are
alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from engine.take import Character, Sampling, Spoken, Status


@dataclass(frozen=True)
class Capabilities:
    """What a family can do. Asking for anything else is a RequestError that says so.

    `characters` are all that it reads, "" where it reads everything: others are folded to them before they
    reach it (`engine/reading.py`). `reads_descriptions`: a description goes into the prompt, and doesn't only
    choose a voice. `sounds`: the only cues that it performs behind a line's first word, None for any.
    """

    clone: bool
    describe: bool
    direct: bool
    history: bool
    seeds: bool
    languages: tuple[str, ...]
    characters: str = ""
    reads_descriptions: bool = True
    sounds: tuple[str, ...] | None = None

    @property
    def reads_digits(self) -> bool:
        return not self.characters or set("0123456789").issubset(self.characters)


@dataclass(frozen=True)
class Sound:
    """What `frames` new frames became: `pcm` int16 [n] mono, as `vocoder.pcm16` makes it of samples."""

    pcm: np.ndarray
    frames: int


class Clock:
    """Stamps of one take, in seconds since it was made; the first stamp of a name stays."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.stamps: dict[str, float] = {}
        self.spans: dict[str, float] = {}

    def now(self) -> float:
        return time.perf_counter() - self._start

    def stamp(self, name: str) -> None:
        self.stamps.setdefault(name, self.now())

    def add(self, name: str, seconds: float) -> None:
        self.spans[name] = self.spans.get(name, 0.0) + seconds


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece of a line, ready for a family: every reference is codes, every limit is a number.

    `index` counts the pieces of a line from 0 and is part of what a seed means. `due` tells whether the
    take's deadline has passed. The first piece knows the `later` ones, still without history: a line that
    can't be finished is refused before it begins.
    """

    text: str
    index: int
    character: Character
    history: tuple[Spoken, ...]
    sampling: Sampling
    seed: int
    max_frames: int
    due: Callable[[], bool] = lambda: False
    clock: Clock = field(default_factory=Clock)
    later: tuple[Piece, ...] = ()


@dataclass(frozen=True, eq=False)
class PieceEnd:
    """How a piece ended: `reason` stop, length or deadline; codes int64 [codebooks, frames] or None."""

    reason: str
    frames: int
    codes: np.ndarray | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptSize:
    """Rows that a piece's prompt takes: `own` for its voice and words, and each turn of history its share.

    Together they must stay within `limit`, and the turns within `room`; where they don't, `engine.memory`
    says which go.
    """

    own: int
    turns: tuple[int, ...]
    limit: int
    room: int


class Family(Protocol):
    """One loaded model. Immutable once loaded: everything a take changes lives in the take.

    `hop` is samples per frame at `sample_rate` Hz; a family without frames names the grain
    of its own timing, and 0 codebooks. `longest_piece_s`: seconds of speech that it surely
    says whole at once.
    """

    name: str
    revision: str
    capabilities: Capabilities
    sample_rate: int
    hop: int
    num_codebooks: int
    codebook_size: int
    max_piece_frames: int
    longest_piece_s: float

    def prepare(self, major: int, minor: int) -> None:
        """Begin, beside everything else, what a GPU of this compute capability needs before its first take
        and can be done without it."""

    def warm(self) -> None:
        """Make ready, where the takes will be performed, what the first of them would wait for."""

    def check(self, text: str, character: Character, history: tuple[Spoken, ...]) -> None:
        """Raise RequestError where words, codes or names of a request break this family's rules."""

    def performed(self, text: str) -> str:
        """What of a line's `text` the model gets to see: all, or less the cues that it would read out."""

    def directed(self, text: str, direction: str) -> str:
        """`text` as it is to be performed with a `direction`; only asked where `capabilities.direct` is."""

    def encode(self, samples: np.ndarray) -> np.ndarray:
        """Codes int64 [codebooks, frames] of samples float32 [n] at `sample_rate`."""

    def forget(self) -> int:
        """Drop what is remembered of earlier prompts, and its memory with it; how many prompts it was."""

    def measure(self, piece: Piece) -> PromptSize:
        """The rows of the piece with its whole history; nothing is performed."""

    def speak(self, piece: Piece) -> Iterator[Status | Sound]:
        """Perform one piece; the generator returns a PieceEnd. Closing it stops the work at once."""
