"""How near is a decode step to the speed of the memory: a graph of kernels, and one of plain layers?

    python bench/step.py [--layers 40] [--rows 1024 8192] [--steps 200]

On a random checkpoint of Drama 3's size. The floor is the bytes a step must read over the bandwidth of a
large device-to-device copy, measured in the same run. A step is timed from event to event over consecutive
replays of one take; host time is what queueing a frame costs the CPU. Variants take turns.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from contextlib import closing
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import full_size
from bench.report import last_line, median_p95
from engine.drama3.graphs import FrameDesk, fusible
from engine.drama3.model import TakeState
from engine.family import Piece
from engine.take import Character, Sampling

CUDA = torch.device("cuda")


def copy_bandwidth(num_bytes: int = 4 << 30, rounds: int = 12) -> list[float]:
    """Bytes a second, read and written together, of each of some copies."""
    source = torch.empty(num_bytes // 4, dtype=torch.int32, device=CUDA)
    target, found = torch.empty_like(source), []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        found.append(2 * num_bytes / (1e-3 * begin.elapsed_time(end)))
    return found[2:]


def pretend(state: TakeState, rows: int) -> None:
    """Put a state behind `rows` rows that nobody read: their keys and values are noise."""
    for part in (state.backbone.keys, state.backbone.values, state.tower):
        part.narrow(-2, 0, rows).normal_()
    state.hidden.normal_()
    state.last.fill_(rows - 1)
    state.num_rows = rows


def steps_at(desk: FrameDesk, rows: int, count: int) -> tuple[list[float], list[float]]:
    """(milliseconds on the device, milliseconds of the host) of each of `count` steps behind `rows` rows."""
    piece = Piece("", 0, Character(), (), Sampling(), 7, count + 8)
    with closing(desk.sit(piece)) as take:
        pretend(take.state, rows)
        for _ in range(8):
            take.step()
        torch.cuda.synchronize()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        host = []
        marks[0].record()
        for mark in marks[1:]:
            began = time.perf_counter()
            take.step()
            host.append(1e3 * (time.perf_counter() - began))
            mark.record()
        torch.cuda.synchronize()
        took = [a.elapsed_time(b) for a, b in itertools.pairwise(marks)]
        finite = bool(take.state.log[: count + 8, -1].all())
    if not finite:
        raise RuntimeError("the random checkpoint gave numbers that are not finite")
    return took, host


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--layers", type=int, default=40)
    options.add_argument("--rows", type=int, nargs="+", default=[1024, 8192])
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--plain", action="store_true", help="the plain layers as a graph, too")
    args = options.parse_args()
    began = time.perf_counter()
    model = full_size.model(CUDA, args.layers)
    loaded = torch.cuda.memory_allocated()
    print(f"{loaded / 1e9:.1f} GB of weights made in {time.perf_counter() - began:.1f} s")
    kinds = {"kernels": fusible(CUDA), "plain": args.plain}
    desks = {}
    for kind in (name for name, wanted in kinds.items() if wanted):
        began = time.perf_counter()
        desks[kind] = FrameDesk(model, args.steps + 8, kind == "kernels")
        steps_at(desks[kind], args.rows[0], 4)
        print(f"{kind}: captured in {time.perf_counter() - began:.1f} s")
    peak = torch.cuda.max_memory_allocated() - loaded
    bandwidth = copy_bandwidth()
    gb_s = median_p95(bandwidth)[0] / 1e9
    samples, floors, ratios = {}, {}, {}
    for rows in args.rows:
        parts = model.step_bytes(rows + args.steps // 2)
        floors[rows] = 1e3 * sum(parts.values()) / (1e9 * gb_s)
        gb = sum(parts.values()) / 1e9
        print(f"\n{rows} rows: {gb:.3f} GB, floor {floors[rows]:.3f} ms at {gb_s:.0f} GB/s")
        for kind, desk in desks.items():
            device, host = steps_at(desk, rows, args.steps)
            samples[f"{kind} {rows}"] = {"step_ms": device, "host_ms": host}
            step, p95 = median_p95(device)
            ratios[f"{kind} {rows}"] = step / floors[rows]
            print(
                f"  {kind:<8} {step:7.3f} ms (p95 {p95:.3f}), {step / floors[rows]:.2f} x floor, host "
                f"{median_p95(host)[0]:.3f} ms"
            )
    last_line(
        {
            "layers": args.layers,
            "floor_gb_s": gb_s,
            "copy_bytes_s": bandwidth,
            "bytes": {rows: model.step_bytes(rows) for rows in args.rows},
            "floor_ms": floors,
            "step_over_floor": ratios,
            "peak_above_weights_gib": peak / 2**30,
            "samples": samples,
        }
    )


if __name__ == "__main__":
    main()
