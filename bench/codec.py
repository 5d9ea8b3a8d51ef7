"""What does sound cost on a GPU: a chunk of each size, a step beside it, the first sound, a take cut short?

    python bench/codec.py [--layers 40] [--steps 120] [--rounds 30] [--takes 8]

S2-Pro's codec at full size, random weights, beside a decode step of full size; each part says what it
compares:

1. Chunks of every size as graphs on the codec's desk, sizes taking turns; and a whole take of 256 frames at
   once, in blocks, without graphs.
2. A decode step alone, while the chunks of a take come as its frames do (`beside`: the steps that ran while
   a chunk did), and while a chunk runs always.
3. Whole takes that begin with a chunk of 1 to 4 frames, taking turns: call to first sound.
4. Whole takes with the schedule as it is: frames that went into the codec, that its graphs computed (the last
   chunk of a take is padded to a graph's size), and that were heard.
5. Closing a take with a step and the largest chunk just queued, until the GPU is idle.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest import mock

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import full_size
from bench.check import Samples, medians, ratios
from bench.floor import device_ms
from bench.report import last_line, show
from bench.step import CUDA, WARM_UP, pretend
from bench.takes import performed, request
from engine.drama3.codec import Codec
from engine.drama3.graphs import CodecDesk, FrameDesk
from engine.engine import Engine
from engine.family import Piece
from engine.take import Character, Sampling
from engine.vocoder import EARLY_SCHEDULE

SIZES = (1, 2, 4, 8, 16, 32)
BESIDE = (8, 16, 32)
FIRST = (1, 2, 3, 4)  # sizes of a take's first chunk
ROWS = 1024
WAITING = 4  # chunks in the queue where one runs always: more than a step takes
WHOLE_FRAMES = 256
LENGTHS = (20, 37, 61, 100, 150)  # frames of the takes that are counted


@functools.cache
def codes(codec: Codec, frames: int) -> torch.Tensor:
    """[frames, codebooks] int64, pinned, as a desk takes them."""
    return torch.randint(0, 1024, (frames, codec.num_codebooks)).pin_memory()


@functools.cache
def pcm(codec: Codec, frames: int) -> torch.Tensor:
    return torch.empty(frames * codec.hop, dtype=torch.int16, pin_memory=True)


def timed_chunk(desk: CodecDesk, size: int) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Queue a chunk between two events on the codec's stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(desk.stream)
    desk.decode(codes(desk.codec, size), pcm(desk.codec, size))
    end.record(desk.stream)
    return begin, end


def chunks(desk: CodecDesk, rounds: int) -> Samples:
    """Milliseconds of a chunk of each size that the desk has, and of one of its frames."""
    samples: Samples = defaultdict(lambda: {"chunk_ms": [], "frame_ms": []})
    for turn in range(rounds + 2):
        for size in desk.schedule:
            begin, end = timed_chunk(desk, size)
            end.synchronize()
            if turn > 1:
                took = begin.elapsed_time(end)
                samples[f"chunk {size}"]["chunk_ms"].append(took)
                samples[f"chunk {size}"]["frame_ms"].append(took / size)
    return dict(samples)


def whole(codec: Codec, rounds: int) -> Samples:
    """A take decoded at once by the plain layers, as a CPU does."""
    frames = codes(codec, WHOLE_FRAMES).T.to(CUDA)
    took = [device_ms(lambda: codec.decode(frames)) for _ in range(rounds + 1)][1:]
    return {"whole": {"chunk_ms": took, "frame_ms": [each / WHOLE_FRAMES for each in took]}}


class Beside:
    """Steps of one take as a take's loop makes them (one queued ahead), with chunks put beside them."""

    def __init__(self, frames: FrameDesk, codec: CodecDesk, steps: int) -> None:
        self.frames, self.codec, self.steps = frames, codec, steps

    def run(self, size: int | None = None, always: bool = False) -> tuple[list[float], list[float]]:
        """Milliseconds of every step, and of those that ran while a chunk did.

        A chunk of `size` frames is queued whenever so many are there; `always`: some wait at every moment.
        """
        piece = Piece("", 0, Character(), (), Sampling(), 7, self.steps + WARM_UP)
        marks, queued = [], []
        with closing(self.frames.sit(piece)) as take:
            pretend(take.state, ROWS)
            take.step()
            for frame in range(self.steps + WARM_UP - 1):
                take.step()
                take.status(frame)
                if frame >= WARM_UP and size:
                    known, waiting = frame - WARM_UP + 1, sum(not end.query() for _, end in queued[-WAITING:])
                    due = WAITING - waiting if always else known // size - len(queued)
                    queued += [timed_chunk(self.codec, size) for _ in range(due)]
                marks.append(torch.cuda.Event(enable_timing=True))
                marks[-1].record()
            torch.cuda.synchronize()
        took = [a.elapsed_time(b) for a, b in itertools.pairwise(marks[WARM_UP:])]
        return took, self._overlapped(took, marks[WARM_UP], queued)

    def _overlapped(self, took: list[float], first: torch.cuda.Event, queued: list) -> list[float]:
        spans = [(first.elapsed_time(begin), first.elapsed_time(end)) for begin, end in queued]
        ends = np.cumsum(took)
        return [
            step
            for step, end in zip(took, ends, strict=True)
            if any(begin < end and end - step < done for begin, done in spans)
        ]


def beside(frames: FrameDesk, codec: CodecDesk, steps: int) -> Samples:
    """Step times alone, beside the chunks of a take, and beside a chunk that runs always."""
    desks, samples = Beside(frames, codec, steps), {}
    samples["alone"] = {"step_ms": desks.run()[0]}
    for size in BESIDE:
        every, overlapped = desks.run(size)
        samples[f"take {size}"] = {"step_ms": every}
        samples[f"beside {size}"] = {"step_ms": overlapped}
        samples[f"always {size}"] = {"step_ms": desks.run(size, always=True)[0]}
    return samples


def first_sound(engine: Engine, rounds: int) -> Samples:
    """Takes whose first chunk has so many frames, prefix cached: milliseconds to first codes and sound."""
    samples: Samples = defaultdict(lambda: {"first_pcm_ms": [], "first_codes_ms": []})
    for turn in range(rounds + 2):
        for first in FIRST:
            sizes = (first, *(size for size in EARLY_SCHEDULE if size > first))
            with mock.patch.object(engine.family.desks().codec, "schedule", sizes):
                done, _ = performed(engine, request(engine.family, seed=100 * turn + first))
            if turn > 1:
                samples[f"first {first}"]["first_pcm_ms"].append(1e3 * done.timings.first_pcm_s)
                samples[f"first {first}"]["first_codes_ms"].append(1e3 * done.timings.first_codes_s)
    return dict(samples)


def counted(engine: Engine) -> Samples:
    """Takes of several lengths with the schedule as it is: frames that went in, that graphs computed, that
    were heard, of each."""
    desk = engine.family.desks().codec
    entered, computed, real, play = [], [], desk.decode, desk._graphs.play

    def decode(rows: torch.Tensor, out: torch.Tensor) -> torch.cuda.Event:
        entered.append(len(rows))
        return real(rows, out)

    def played(key: int | str, work: Callable[[], None]) -> None:
        computed.append(key if isinstance(key, int) else 0)
        play(key, work)

    told: Samples = {name: {"frames": []} for name in ("decoded", "computed", "heard")}
    for seed, length in enumerate(LENGTHS):
        entered.clear()
        computed.clear()
        with (
            mock.patch.object(desk, "decode", decode),
            mock.patch.object(desk._graphs, "play", played),
        ):
            _, heard = performed(engine, request(engine.family, frames=length, seed=seed))
        for name, count in (("decoded", entered), ("computed", computed)):
            told[name]["frames"].append(sum(count))
        told["heard"]["frames"].append(heard / engine.family.hop)
    return told


def cancelled(frames: FrameDesk, codec: CodecDesk, rounds: int) -> Samples:
    """From closing both desks, with a step and the largest chunk just queued, to an idle GPU."""
    took = []
    for turn in range(rounds):
        piece = Piece("", 0, Character(), (), Sampling(), turn, 64)
        take, vocoder = frames.sit(piece), codec.sit()
        pretend(take.state, ROWS)
        take.step()
        take.step()
        take.status(0)
        vocoder.queue(codes(codec.codec, max(SIZES)).T)
        take.step()
        began = time.perf_counter()
        vocoder.close()
        take.close()
        torch.cuda.synchronize()
        took.append(1e3 * (time.perf_counter() - began))
    return {"cancel": {"idle_ms": took[1:]}}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--layers", type=int, default=40)
    options.add_argument("--steps", type=int, default=120)
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--takes", type=int, default=8)
    args = options.parse_args()
    began = time.perf_counter()
    family = full_size.family(CUDA, args.layers)
    engine, (frames, codec, _) = Engine(family), family.desks()
    compared = CodecDesk(family.codec, SIZES)  # also sizes that no take uses
    family.warm()
    compared.warm()
    print(f"weights and desks {time.perf_counter() - began:.1f} s", flush=True)
    samples: Samples = {}
    for part in (
        lambda: chunks(compared, args.rounds),
        lambda: whole(family.codec, 3),
        lambda: beside(frames, compared, args.steps),
        lambda: first_sound(engine, args.takes),
        lambda: counted(engine),
        lambda: cancelled(frames, compared, args.rounds),
    ):
        found = part()
        show(found)
        print(f"  {time.perf_counter() - began:.1f} s so far", flush=True)
        samples |= found
    last_line(
        {
            "layers": args.layers,
            "rows": ROWS,
            "schedule": codec.schedule,
            "ratios": ratios(names_of_ratios(), samples),
            "medians": medians(samples),
            "samples": samples,
        }
    )


def names_of_ratios() -> list[str]:
    names = [f"step_ms {way} {size} / alone" for size in BESIDE for way in ("beside", "take", "always")]
    names += ["frames decoded / heard", "frames computed / heard", "frame_ms whole / chunk 32"]
    return names + [f"first_pcm_ms first {first} / first {FIRST[0]}" for first in FIRST[1:]]


if __name__ == "__main__":
    main()
