"""Where does a decode step spend its time? Each kind of kernel alone, at the speed it reaches inside a graph.

    python bench/census.py [--layers 40] [--rows 1024]

One step of the chain is recorded call by call; the calls of one kind (same function, same matrix shape)
become a graph of their own, over the matrices of all layers, so that nothing is read from cache that wouldn't
be in a step. What is left of a whole step is launches and tails between kinds.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import full_size
from bench.floor import copy_bandwidth
from bench.report import last_line
from bench.step import CUDA, pretend, steps_at
from engine.drama3 import kernels
from engine.drama3.graphs import FrameDesk
from engine.family import Piece
from engine.take import Character, Sampling

READING = ("gemv", "gemv_gated", "delta", "attention", "experts_up", "experts_down")  # a matrix, or a state
SMALL = ("norm", "tower_in", "draw_main", "draw_head", "commit")


class Recorder:
    """Stands in for the kernels of a step while it is queued once; keeps every call by its kind."""

    def __init__(self, rows: int, top_k: int) -> None:
        self.rows, self.top_k = rows, top_k
        self.calls: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self.bytes: dict[str, int] = defaultdict(int)

    def function(self, name: str, real: Callable) -> Callable:
        def call(*args, **kwargs) -> None:
            kind = name
            if name in READING:
                tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
                largest = max(tensors, key=lambda each: each.nbytes)
                kind = f"{name} {'x'.join(map(str, largest.shape))}"
                self.bytes[kind] = self._read(name, largest)
            self.calls[kind].append(lambda: real(*args, **kwargs))
            real(*args, **kwargs)

        return call

    def _read(self, name: str, largest: torch.Tensor) -> int:
        """Bytes of the largest tensor that a call reads (and writes, of a state)."""
        if name.startswith("experts"):
            return largest[0].nbytes * self.top_k
        if name == "attention":  # of keys and values the live rows
            return 2 * largest[:, 0].nbytes * self.rows
        return largest.nbytes * (2 if name == "delta" else 1)


def recorded(desk: FrameDesk) -> Recorder:
    """One step of the desk's chain, by kind of call."""
    recorder = Recorder(desk.state.num_rows, desk.model.config.text.num_experts_per_tok)
    real = {name: getattr(kernels, name) for name in (*READING, *SMALL)}
    for name, function in real.items():
        setattr(kernels, name, recorder.function(name, function))
    try:
        desk._fused()
    finally:
        for name, was in real.items():
            setattr(kernels, name, was)
    return recorder


def microseconds(calls: list[Callable[[], None]], rounds: int = 20) -> float:
    """Of all calls once, inside a graph that holds them several times."""
    repeats = max(1, 200 // len(calls))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            for call in calls:
                call()
    graph.replay()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(rounds):
        graph.replay()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end) / rounds / repeats


@torch.inference_mode()
def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--layers", type=int, default=40)
    options.add_argument("--rows", type=int, default=1024)
    args = options.parse_args()
    model = full_size.model(CUDA, args.layers)
    desk = FrameDesk(model, 64, fused=True)
    with closing(desk.sit(Piece("", 0, Character(), (), Sampling(), 7, 64))) as take:
        pretend(take.state, args.rows)
        take.step()
        torch.cuda.synchronize()
        recorder = recorded(desk)
        torch.cuda.synchronize()
        taken = {kind: microseconds(calls) for kind, calls in recorder.calls.items()}
    whole = sorted(steps_at(desk, args.rows, 40)[0])[20]
    print(f"{'kind':<44}{'calls':>6}{'us each':>9}{'us all':>9}{'GB/s':>7}")
    for kind, us in sorted(taken.items(), key=lambda each: -each[1]):
        count = len(recorder.calls[kind])
        speed = recorder.bytes[kind] * count / us / 1e3
        print(f"{kind:<44}{count:>6}{us / count:>9.2f}{us:>9.1f}{speed:>7.0f}")
    total = sum(taken.values())
    print(
        f"sum {total / 1e3:.3f} ms, whole step {whole:.3f} ms, {sum(map(len, recorder.calls.values()))} calls"
    )
    last_line(
        {
            "layers": args.layers,
            "rows": args.rows,
            "copy_bytes_s": copy_bandwidth(),
            "step_ms": whole,
            "us": taken,
            "calls": {kind: len(calls) for kind, calls in recorder.calls.items()},
        }
    )


if __name__ == "__main__":
    main()
