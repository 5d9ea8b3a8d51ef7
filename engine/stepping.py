"""How every family with frames speaks a piece: prompt rows, prefill, one frame a step, sound as it falls due.

This is the one stepping loop. Steps are queued `lookahead` frames before their status is read, so that a
device never waits for the host; on a CPU, where a step is done when it returns, there is nothing to look
ahead to.
"""

from __future__ import annotations

import dataclasses
import itertools
import reprlib
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from engine.family import Piece, PieceEnd, PromptSize, Sound
from engine.memory import turns_that_go
from engine.prefix import PrefixCache, Snapshot
from engine.take import RequestError, Spoken, Status, TakeFailed
from engine.vocoder import Schedule, Vocoder

PREFILL_ROWS = 512  # rows a prefill call reads; between two calls a stop is noticed
HEARTBEAT_S = 0.2  # longest silence between two events where work can be cut
LINE_SHARE = 8  # an eighth of a prompt is kept free of history, for the words of any line


@dataclass(frozen=True, eq=False)
class Prompt:
    """`rows` int64 [rows, 1 + codebooks]; `borders` are row counts after which a prefix could be kept."""

    rows: np.ndarray
    borders: tuple[int, ...]


class FrameState(Protocol):
    """One piece's state on the device."""

    def prefill(self, rows: torch.Tensor) -> None: ...

    def snapshot(self) -> Snapshot: ...

    def restore(self, prefix: Snapshot) -> None: ...

    def step(self) -> None: ...

    def status(self, frame: int) -> tuple[bool, bool]: ...

    def codes(self, first: int, last: int) -> torch.Tensor: ...

    def close(self) -> None: ...


class FrameFamily(Protocol):
    """What stepping asks of a family. `max_prompt_rows` + `max_frames` of a piece never pass `max_rows`.
    `history_rows`: so many rows of earlier lines it was taught to read."""

    max_rows: int
    max_prompt_rows: int
    max_piece_frames: int
    history_rows: int
    lookahead: int
    prefixes: PrefixCache

    def measure(self, piece: Piece) -> PromptSize: ...

    def prompt(self, piece: Piece) -> Prompt: ...

    def open(self, piece: Piece, num_rows: int) -> FrameState: ...

    def vocoder(self) -> Vocoder: ...


Speech = Generator[Status | Sound, None, PieceEnd]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A piece's `prompt`, and the indices of the history turns that are `gone` from it."""

    prompt: Prompt
    gone: tuple[int, ...]


def speak_frames(family: FrameFamily, piece: Piece) -> Speech:
    """Perform one piece. Raises RequestError for a prompt, its own or a later piece's, that can't fit;
    TakeFailed for logits that are no numbers and for a piece without a frame. Closing the generator ends it
    between two steps; the state goes with it."""
    started = time.perf_counter()
    fitted = fit_history(family, piece)
    for later in piece.later:
        fit_history(family, later)
    piece.clock.add("prompt", time.perf_counter() - started)
    try:
        with (
            closing(family.open(piece, len(fitted.prompt.rows) + piece.max_frames)) as state,
            closing(family.vocoder()) as vocoder,
        ):
            yield from _prefill(family.prefixes, state, fitted.prompt, piece)
            end = yield from _decode(state, vocoder, piece, family.lookahead)
        if piece.history and end.reason != "deadline":
            _drop_the_line_before(family.prefixes, fitted.prompt, piece)
            yield from _read_on(family, piece, end.codes)
    finally:
        family.prefixes.settle()
    # Later pieces let go of more, for the sake of the line's own words.
    told = fitted.gone and piece.index == 0
    return dataclasses.replace(end, flags=(f"history_dropped({len(fitted.gone)})",) if told else ())


def prompt_limit(family: FrameFamily, piece: Piece) -> int:
    """Rows that a piece's prompt may have, so that its frames fit behind them."""
    return min(family.max_prompt_rows, family.max_rows - piece.max_frames)


def history_room(family: FrameFamily, voice_rows: int) -> int:
    """Rows of history behind a voice, whatever the line: no more than the family was taught to read, and so
    many that the longest piece of words and frames fits behind them."""
    limit = min(family.max_prompt_rows, family.max_rows - family.max_piece_frames)
    return max(0, min(family.history_rows, limit - voice_rows - limit // LINE_SHARE))


def fit_history(family: FrameFamily, piece: Piece) -> Fitted:
    """The prompt with as much history as is kept; which turns go, `engine.memory` says.

    Raises RequestError where even no history fits.
    """
    size, pinned = family.measure(piece), [turn.pinned for turn in piece.history]
    if size.own > size.limit:
        raise RequestError(
            f"Voice and line need {size.own:,} rows, the limit is {size.limit:,}; use shorter or fewer clips."
        )
    gone = turns_that_go(size.turns, pinned, size.room)
    if size.own + sum(size.turns) - sum(size.turns[turn] for turn in gone) > size.limit:
        gone = turns_that_go(size.turns, pinned, size.limit - size.own)
    return Fitted(_without(family, piece, gone), tuple(gone))


def _without(family: FrameFamily, piece: Piece, gone: Sequence[int]) -> Prompt:
    left_out = set(gone)
    kept = tuple(turn for index, turn in enumerate(piece.history) if index not in left_out)
    return family.prompt(dataclasses.replace(piece, history=kept))


def _read_on(family: FrameFamily, piece: Piece, codes: np.ndarray) -> Generator[Status, None, None]:
    """Now that no sound waits for it, read what was just spoken, as a turn behind the others: the next line
    begins with it. And read how the prompts behind the next step of forgetting will begin, a turn with every
    line, so that no line has to read half of its history at once.
    """
    history = (*piece.history, Spoken(piece.text, codes))
    after = dataclasses.replace(piece, history=history, index=piece.index + 1)
    size, pinned = family.measure(after), [turn.pinned for turn in history]
    gone = turns_that_go(size.turns, pinned, size.room)
    if len(gone) == len(history):
        return
    yield from _read_turns(family, after, gone)
    ahead = turns_that_go(size.turns, pinned, size.room, ahead=True)
    if gone != ahead and len(ahead) < len(history):
        yield from _read_turns(family, dataclasses.replace(after, index=0), ahead)


def _drop_the_line_before(prefixes: PrefixCache, prompt: Prompt, piece: Piece) -> None:
    """A retake of this line begins where it did; where the line before it began, nothing begins any more."""
    before = len(prompt.borders) - 2
    if piece.index == 0 and before > 0:  # 0 is the voice
        prefixes.drop(prompt.rows[: prompt.borders[before]])


def _read_turns(family: FrameFamily, piece: Piece, gone: Sequence[int]) -> Generator[Status, None, None]:
    """Read voice and history of a piece, without the turns that are gone."""
    whole = _without(family, piece, gone)
    last = whole.borders[-1]
    prompt = Prompt(whole.rows[:last], whole.borders)
    if not family.prefixes.longest(prompt.rows, (last,)):
        with closing(family.open(piece, last)) as state:
            yield from _prefill(family.prefixes, state, prompt, piece, "speaking")


def _prefill(
    prefixes: PrefixCache, state: FrameState, prompt: Prompt, piece: Piece, phase: str = "prefill"
) -> Generator[Status, None, None]:
    """Read the prompt from its longest known prefix on, and remember the state after the voice and after all
    of the history; the one it began from is dropped, as whatever comes next begins with the newer.

    Always split at the borders, so that a remembered prefix changes nothing but time; and what lies between
    two of them from its own start on, so that a short line is read at once wherever it stands.
    """
    edges = sorted({0, *prompt.borders, len(prompt.rows)})
    cuts = [
        cut for first, end in itertools.pairwise(edges) for cut in (*range(first, end, PREFILL_ROWS)[1:], end)
    ]
    rows, start = torch.from_numpy(prompt.rows), 0
    known = prefixes.longest(prompt.rows, prompt.borders)
    if known:
        state.restore(known)
        start = known.num_rows
    voice, newest, kept = prompt.borders[0], prompt.borders[-1], False
    for cut in (each for each in cuts if each > start):
        yield Status(phase, "")
        began = time.perf_counter()
        state.prefill(rows[start:cut])
        if cut in (voice, newest):
            kept = prefixes.keep(prompt.rows[:cut], state.snapshot())
        piece.clock.add("prefill", time.perf_counter() - began)
        start = cut
    # The turns of a line's own earlier pieces are another one to the next line, which begins where this did.
    line = prompt.borders[max(0, len(prompt.borders) - 1 - piece.index)]
    if known and kept and known.num_rows not in (voice, line):
        prefixes.drop(prompt.rows[: known.num_rows])


def _decode(state: FrameState, vocoder: Vocoder, piece: Piece, lookahead: int) -> Speech:
    schedule, spoke = Schedule(vocoder.schedule), time.perf_counter()
    frames, queued, reason = 0, 0, "length"
    while frames < piece.max_frames:
        while queued < min(frames + 1 + lookahead, piece.max_frames):
            state.step()
            queued += 1
        ended, finite = state.status(frames)
        if not finite:
            yield from vocoder.heard(wait=True)
            raise TakeFailed(
                f"The model gave numbers that are not finite at frame {frames}; try another seed."
            )
        if ended:
            reason = "stop"
            break
        frames += 1
        piece.clock.stamp("first_codes")
        if chunk := schedule.due(frames):
            vocoder.queue(state.codes(*chunk))
        units = list(vocoder.heard(wait=False))
        if not units and time.perf_counter() - spoke > HEARTBEAT_S:
            units = [Status("speaking", "")]
        for unit in units:
            yield unit
            spoke = time.perf_counter()
        if piece.due():
            reason = "deadline"
            break
    if not frames:
        raise TakeFailed(
            f"The model ended {reprlib.repr(piece.text)} before it made a sound; "
            "try another seed or other words."
        )
    if chunk := schedule.due(frames, last=True):
        vocoder.queue(state.codes(*chunk))
    yield from vocoder.heard(wait=True)
    return PieceEnd(reason, frames, state.codes(0, frames).numpy().copy())
