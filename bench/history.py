"""What does memory cost: lines of history, further references, a longer script?

    python bench/history.py [--model understudy | full-size] [--rounds N]

The prefix is known up to the last turn, as within a session: so a take with history should start hardly
later than one without. Variants take turns. The last part performs `--lines` short lines, each with the
earlier ones as its history as far as it fits, and gives the slope of their times and the memory at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import last_line, median_p95
from bench.takes import LINE, engine_of, performed, request
from engine.engine import Engine
from engine.take import Spoken

VARIANTS = {
    "1 reference": {},
    "4 references": {"references": 4},
    "10 turns": {"turns": 10},
    "40 turns": {"turns": 40},
}


def memory_mib() -> float:
    """What the takes need: of the GPU where there is one, else the process's peak."""
    if torch.cuda.is_available():
        return torch.cuda.memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def scene(engine: Engine, lines: int, frames: int) -> tuple[list[float], list[float]]:
    """(seconds, MiB) of each of many lines of one scene."""
    history, seconds, memory = (), [], []
    for number in range(lines):
        wanted = dataclasses.replace(request(engine.family, frames=frames, seed=number), history=history)
        done, _ = performed(engine, wanted)
        history = (*history, Spoken(LINE, done.codes))[-60:]
        seconds.append(done.timings.total_s)
        memory.append(memory_mib())
    return seconds, memory


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="understudy")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--lines", type=int, default=200)
    options.add_argument("--frames", type=int, default=60)
    args = options.parse_args()
    engine, samples = engine_of(args.model), defaultdict(list)
    for turn in range(args.rounds + 1):
        for name, how in VARIANTS.items():
            performed(engine, request(engine.family, **how, seed=turn))  # the session's earlier line
            done, _ = performed(engine, request(engine.family, **how, seed=100 + turn))
            if turn:
                samples[f"{name} first_pcm_ms"].append(1e3 * done.timings.first_pcm_s)
                samples[f"{name} frame_ms"].append(1e3 / done.timings.frames_per_s)
    base = median_p95(samples["1 reference first_pcm_ms"])[0]
    ratios = {
        f"ttfa {name} / 1 reference": median_p95(samples[f"{name} first_pcm_ms"])[0] / base
        for name in VARIANTS
    }
    for name, values in samples.items():
        print("{:<32} median {:8.1f}   p95 {:8.1f}".format(name, *median_p95(values)))
    seconds, memory = scene(engine, args.lines, args.frames)
    warm = args.lines // 4
    slope = np.polyfit(np.arange(len(seconds[warm:])), seconds[warm:], 1)[0] / np.median(seconds[warm:])
    print(
        f"{args.lines} lines: {np.median(seconds):.3f} s each, {100 * slope:.3f} % more a line after {warm}"
    )
    print(f"memory after {warm} lines {memory[warm]:.0f} MiB, at the end {memory[-1]:.0f} MiB")
    last_line(
        {
            "model": engine.family.name,
            "ratios": ratios,
            "slope_a_line": slope,
            "samples": {**samples, "line_s": seconds, "memory_mib": memory},
        }
    )


if __name__ == "__main__":
    main()
