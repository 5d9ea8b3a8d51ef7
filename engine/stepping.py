"""How every family with frames speaks a piece: prompt rows, prefill, one frame a step, sound as it falls due.

This is the one stepping loop. Steps are queued `lookahead` frames before their status is read, so that a
device never waits for the host; on a CPU, where a step is done when it returns, there is nothing to look
ahead to.
"""

from __future__ import annotations

import dataclasses
import reprlib
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from engine.family import Piece, PieceEnd, Sound
from engine.prefix import PrefixCache, Snapshot
from engine.take import RequestError, Status, TakeFailed
from engine.vocoder import Schedule

PREFILL_ROWS = 256  # rows a prefill call reads; between two calls a stop is noticed
HISTORY_KEEPS = 0.6  # when history must go, whole turns go until this share of the row limit is used
HEARTBEAT_S = 0.2  # longest silence between two events where work can be cut


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


class CodecStream(Protocol):
    """One piece's decoding state; exact whatever the chunk sizes."""

    def decode(self, codes: torch.Tensor) -> torch.Tensor: ...


class FrameFamily(Protocol):
    """What stepping asks of a family. `max_prompt_rows` + `max_frames` of a piece never pass `max_rows`."""

    max_rows: int
    max_prompt_rows: int
    lookahead: int
    prefixes: PrefixCache

    def prompt(self, piece: Piece) -> Prompt: ...

    def open(self, piece: Piece, num_rows: int) -> FrameState: ...

    def stream(self) -> CodecStream: ...


Speech = Generator[Status | Sound, None, PieceEnd]


def speak_frames(family: FrameFamily, piece: Piece) -> Speech:
    """Perform one piece. Raises RequestError for a prompt, its own or a later piece's, that can't fit;
    TakeFailed for logits that are no numbers and for a piece without a frame. Closing the generator ends it
    between two steps; the state goes with it."""
    started = time.perf_counter()
    prompt, dropped = fit_history(family, piece)
    for later in piece.later:
        fit_history(family, later)
    piece.clock.add("prompt", time.perf_counter() - started)
    state = family.open(piece, len(prompt.rows) + piece.max_frames)
    yield from _prefill(family.prefixes, state, prompt, piece)
    end = yield from _decode(family, state, piece)
    return dataclasses.replace(end, flags=(f"history_dropped({dropped})",) if dropped else ())


def fit_history(family: FrameFamily, piece: Piece) -> tuple[Prompt, int]:
    """The prompt and how many of the oldest history turns had to go for it.

    A recurrent state can't be shortened, so whole turns go, and enough of them that the next lines needn't
    drop again. Raises RequestError where even no history fits.
    """
    limit = min(family.max_prompt_rows, family.max_rows - piece.max_frames)
    prompt = family.prompt(piece)
    if len(prompt.rows) <= limit:
        return prompt, 0
    # The borders are the rows after the system part and after each turn: turn i costs the step between two.
    costs, kept = np.diff(prompt.borders).tolist(), len(prompt.rows)
    dropped = 0
    while dropped < len(costs) and kept > HISTORY_KEEPS * limit:
        kept -= costs[dropped]
        dropped += 1
    if kept > limit:
        raise RequestError(
            f"Voice and line need {kept:,} rows, the limit is {limit:,}; use shorter or fewer clips."
        )
    return family.prompt(dataclasses.replace(piece, history=piece.history[dropped:])), dropped


def _prefill(
    prefixes: PrefixCache, state: FrameState, prompt: Prompt, piece: Piece
) -> Generator[Status, None, None]:
    """Read the prompt from its longest known prefix on, and remember the state at each of its borders.

    Always split at the borders, so that a remembered prefix changes nothing but time.
    """
    cuts = sorted(
        {*prompt.borders, *range(PREFILL_ROWS, len(prompt.rows), PREFILL_ROWS), len(prompt.rows)} - {0}
    )
    rows, start = torch.from_numpy(prompt.rows), 0
    if known := prefixes.longest(prompt.rows, prompt.borders):
        state.restore(known)
        start = known.num_rows
    for cut in (each for each in cuts if each > start):
        yield Status("prefill", "")
        began = time.perf_counter()
        state.prefill(rows[start:cut])
        if cut in prompt.borders:
            prefixes.keep(prompt.rows[:cut], state.snapshot())
        piece.clock.add("prefill", time.perf_counter() - began)
        start = cut


def _decode(family: FrameFamily, state: FrameState, piece: Piece) -> Speech:
    schedule, stream = Schedule(), family.stream()
    frames, queued, reason, spoke = 0, 0, "length", time.perf_counter()
    while frames < piece.max_frames:
        while queued < min(frames + 1 + family.lookahead, piece.max_frames):
            state.step()
            queued += 1
        ended, finite = state.status(frames)
        if not finite:
            raise TakeFailed(
                f"The model gave numbers that are not finite at frame {frames}; try another seed."
            )
        if ended:
            reason = "stop"
            break
        frames += 1
        piece.clock.stamp("first_codes")
        if chunk := schedule.due(frames):
            yield _sound(stream, state, chunk)
            spoke = time.perf_counter()
        elif time.perf_counter() - spoke > HEARTBEAT_S:
            yield Status("speaking", "")
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
        yield _sound(stream, state, chunk)
    return PieceEnd(reason, frames, state.codes(0, frames).cpu().numpy().copy())


def _sound(stream: CodecStream, state: FrameState, chunk: tuple[int, int]) -> Sound:
    samples = stream.decode(state.codes(*chunk))
    return Sound(samples.float().cpu().numpy(), chunk[1] - chunk[0])
