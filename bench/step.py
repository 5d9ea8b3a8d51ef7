"""How near is a decode step to the speed of the memory: a graph of kernels, and one of plain layers?

    python bench/step.py [--layers 40] [--rows 1024 8192] [--steps 200] [--plain] [--eager] [--transformers]

On a random checkpoint of Drama 3's size. First a whole take is performed whose prompt fills the limit, with a
clip that must be encoded: the memory it needs above the weights. Then steps are timed from event to event
over consecutive frames behind so many rows; host time is what queueing a frame costs the CPU, its mean holds
the blocks of noise. Variants take turns: `kernels` and `plain` are graphs, `eager` is the plain layers
without one, `transformers` its own backbone alone (no tower, no draws) beside `backbone`, our plain layers'.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import full_size
from bench.check import ratios
from bench.floor import copy_bandwidth, floor
from bench.report import last_line, median_p95
from bench.takes import LINE, clip, longest, performed
from engine.drama3.backbone import Rows
from engine.drama3.family import Drama3Family
from engine.drama3.graphs import FrameDesk, fusible
from engine.drama3.model import Drama3Model, TakeState
from engine.engine import Engine
from engine.family import Piece
from engine.noise import NoiseBlocks
from engine.sampling import TakeKnobs
from engine.take import Character, Reference, Sampling

CUDA = torch.device("cuda")
WARM_UP = 8
SLOW_STEPS = 30  # of the variants that take tens of milliseconds a step
Took = tuple[list[float], list[float]]  # milliseconds of each step on the device, and of the host


def pretend(state: TakeState, rows: int) -> None:
    """Put a state behind `rows` rows that nobody read: their keys and values are noise."""
    for part in (state.backbone.keys, state.backbone.values, state.tower):
        part.narrow(-2, 0, rows).normal_()
    state.hidden.normal_()
    state.last.fill_(rows - 1)
    state.num_rows = rows


def timed(step: Callable[[], None], count: int) -> Took:
    """Of each of `count` steps after some to warm up."""
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    host = []
    marks[0].record()
    for mark in marks[1:]:
        began = time.perf_counter()
        step()
        host.append(1e3 * (time.perf_counter() - began))
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in itertools.pairwise(marks)], host


def steps_at(desk: FrameDesk, rows: int, count: int) -> Took:
    """Steps at a desk behind `rows` rows."""
    piece = Piece("", 0, Character(), (), Sampling(), 7, count + WARM_UP)
    with closing(desk.sit(piece)) as take:
        pretend(take.state, rows)
        took = timed(take.step, count)
        _check(take.state, count)
    return took


def eager_steps_at(model: Drama3Model, rows: int, count: int) -> Took:
    """The twin: plain layers, launched one by one."""
    knobs = TakeKnobs.of(1.0, None, 1.0, model.device)
    noise = NoiseBlocks(7, 0, model.config.tower.num_codebooks + 1, len(model.candidates), model.device)
    frames = count + WARM_UP
    state = TakeState.open(model, rows + frames, frames, knobs, noise)
    pretend(state, rows)
    took = timed(state.step, count)
    _check(state, count)
    return took


@torch.inference_mode()
def backbone_steps_at(model: Drama3Model, rows: int, count: int) -> Took:
    """Only the backbone of the twin: embedding, layers, final norm."""
    state = TakeState.open(model, rows + 1, 1, TakeKnobs.of(1.0, None, 1.0, model.device), None)
    pretend(state, rows)
    at = Rows.at(state.last + 1, rows + 1, model.rope)
    return timed(lambda: model.backbone(state.row, state.backbone, at), count)


def _check(state: TakeState, count: int) -> None:
    if not state.log[: count + WARM_UP, -1].all():
        raise RuntimeError("the random checkpoint gave numbers that are not finite")


def whole_take(family: Drama3Family, frames: int) -> dict[str, list[float]]:
    """Bytes of weights, and the most that a take behind a full prompt had allocated and reserved."""
    loaded, engine, began = torch.cuda.memory_allocated(), Engine(family), time.perf_counter()
    torch.cuda.reset_peak_memory_stats()
    wanted, rows = longest(engine, frames)
    heard = Reference(clip(10.0, family.sample_rate), LINE)
    done, _ = performed(engine, dataclasses.replace(wanted, character=Character(voice=(heard,))))
    engine.forget()
    took = time.perf_counter() - began
    print(f"{done.frames} frames behind {rows} rows, kernels compiled in it: {took:.1f} s", flush=True)
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return {"loaded_bytes": [loaded], "peak_bytes": [allocated], "reserved_bytes": [reserved]}


def baseline(model: Drama3Model, rows: int, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(samples, what ran) of transformers' backbone: as it comes, and as a graph if that can be captured."""
    import transformers

    from bench import transformers_step  # late: only this variant needs transformers

    torch.cuda.empty_cache()
    other = transformers_step.text_model(model.config.text, CUDA)
    told: dict[str, Any] = {
        "version": transformers.__version__,
        "layers": model.config.text.num_hidden_layers,
        "weights_bytes": sum(weight.nbytes for weight in other.parameters()),
    }
    print(f"transformers {told['version']}: {told['weights_bytes'] / 1e9:.1f} GB in bfloat16", flush=True)
    eager, told["eager"] = transformers_step.eager_steps(other, rows, count)
    samples = {f"transformers {rows}": {"step_ms": eager}}
    try:
        graph, told["graph"] = transformers_step.graph_steps(other, rows, count)
        samples[f"transformers graph {rows}"] = {"step_ms": graph}
    except RuntimeError as problem:
        told["graph"] = f"can't be captured: {str(problem).splitlines()[0]}"
        print(f"  as a graph it {told['graph']}", flush=True)
    return samples, told


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--layers", type=int, default=40)
    options.add_argument("--rows", type=int, nargs="+", default=[1024, 8192])
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--frames", type=int, default=120, help="of the take behind a full prompt")
    options.add_argument("--plain", action="store_true", help="the plain layers as a graph, too")
    options.add_argument("--eager", action="store_true", help="the plain layers without a graph, too")
    options.add_argument("--transformers", action="store_true", help="transformers' own backbone, too")
    args = options.parse_args()
    began = time.perf_counter()
    family = full_size.family(CUDA, args.layers)
    weights_gb = torch.cuda.memory_allocated() / 1e9
    print(f"{weights_gb:.1f} GB of weights made in {time.perf_counter() - began:.1f} s", flush=True)
    samples: dict[str, Any] = {"memory": whole_take(family, args.frames)}
    memory, told, first = samples["memory"], {}, args.rows[0]
    variants = variants_of(family, args)
    lowest = floor(args.rows, family.model.step_bytes, copy_bandwidth())
    for rows in args.rows:
        floor_ms = lowest["floor_ms"][rows]
        print(f"\n{rows} rows: floor {floor_ms:.3f} ms at {lowest['floor_gb_s']:.0f} GB/s")
        for kind, steps in variants.items():
            device, host = steps(rows)
            samples[f"{kind} {rows}"] = {"step_ms": device, "host_ms": host}
            _print(kind, samples[f"{kind} {rows}"], floor_ms)
    over_floor = [name for name in samples if name.startswith(("kernels", "plain", "eager"))]
    if args.transformers:
        try:
            more, told["transformers"] = baseline(family.model, first, SLOW_STEPS)
        except (ImportError, RuntimeError) as problem:  # ours are measured: they are told in any case
            more, told["transformers"] = {}, {"failed": str(problem)}
            print(f"transformers' step failed: {problem}")
        for name, each in more.items():
            _print(name, each, lowest["floor_ms"][first])
        samples |= more
    last_line(
        {
            "layers": args.layers,
            **lowest,
            "step_over_floor": {
                name: median_p95(samples[name]["step_ms"])[0] / lowest["floor_ms"][int(name.split(" ")[1])]
                for name in over_floor
            },
            "ratios": ratios(names_of_ratios(samples, args.rows), samples),
            "means": {name: {"host_ms": float(np.mean(samples[name]["host_ms"]))} for name in over_floor},
            "peak_above_weights_gib": (memory["peak_bytes"][0] - memory["loaded_bytes"][0]) / 2**30,
            **told,
            "samples": samples,
        }
    )


def variants_of(family: Drama3Family, args: argparse.Namespace) -> dict[str, Callable[[int], Took]]:
    """The ways to step that were asked for: each times steps behind so many rows."""
    model, variants = family.model, {}
    if fusible(CUDA):
        variants["kernels"] = lambda rows: steps_at(family.desks().frames, rows, args.steps)
    if args.plain:
        plain = FrameDesk(model, SLOW_STEPS + WARM_UP, False)
        variants["plain"] = lambda rows: steps_at(plain, rows, SLOW_STEPS)
    if args.eager:
        variants["eager"] = lambda rows: eager_steps_at(model, rows, SLOW_STEPS)
    if args.transformers:
        variants["backbone"] = lambda rows: backbone_steps_at(model, rows, SLOW_STEPS)
    return variants


def names_of_ratios(samples: dict[str, Any], rows: list[int]) -> list[str]:
    """Each variant behind more rows against behind the first count; there, each against the kernels."""
    first, kinds = rows[0], {name.rsplit(" ", 1)[0] for name in samples if name != "memory"}
    pairs = [(f"{kind} {more}", f"{kind} {first}") for kind in sorted(kinds) for more in rows[1:]]
    pairs += [(f"{kind} {first}", f"kernels {first}") for kind in sorted(kinds - {"kernels"})]
    pairs += [(f"transformers {first}", f"backbone {first}")]
    return [f"step_ms {one} / {other}" for one, other in pairs if one in samples and other in samples]


def _print(name: str, told: dict[str, list[float]], floor_ms: float) -> None:
    step, p95 = median_p95(told["step_ms"])
    host = told.get("host_ms", [float("nan")])
    print(
        f"  {name:<24} {step:8.3f} ms (p95 {p95:.3f}), {step / floor_ms:6.2f} x floor, host median "
        f"{np.median(host):.3f}, mean {np.mean(host):.3f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
