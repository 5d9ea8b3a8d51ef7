"""What does memory cost: lines of history, further references, a longer script, a long evening?

    python bench/history.py [--model understudy | full-size] [--rounds N] [--lines N]

First sound of one line with so many turns of history, references and sentences, variants taking turns. The
prefix is known up to the last turn, as within a session: so a take with history should start hardly later
than one without. The slopes are milliseconds for one more turn, reference or sentence.

Then `--lines` lines in one process, in cycles of 40 that are alike but for their codes: 24 lines of a cloned
voice behind 30 older turns, each line kept until the oldest must go; 8 lines of a voice from a new clip; 8
lines after all earlier ones were dropped. Time and memory are flat if the median line and the largest memory
of the last cycle are at most 2 % above those of the second; the first is warm-up.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.check import Samples, ratios, slopes
from bench.report import last_line, show
from bench.takes import LINE, clip, engine_of, performed, random_codes, request
from engine.engine import Engine
from engine.take import Spoken, TakeRequest

VARIANTS = {
    **{f"turns {count}": {"turns": count} for count in (0, 5, 10, 20, 30)},
    **{f"references {count}": {"references": count} for count in (1, 2, 4)},
    **{f"sentences {count}": {"text": " ".join([LINE] * count)} for count in (1, 8, 48)},
}
CYCLE, OLDER = 40, 30  # lines of a cycle; turns that its first line finds
NEW_CLIP, FRESH = 24, 32  # lines of a cycle before which the voice changes, and all is dropped
FLAT = 1.02


def starts(engine: Engine, rounds: int) -> Samples:
    """Milliseconds to the first sound, and of a frame, of each variant."""
    samples: Samples = defaultdict(lambda: {"first_pcm_ms": [], "frame_ms": []})
    for turn in range(rounds + 1):
        for name, how in VARIANTS.items():
            performed(engine, request(engine.family, **how, seed=turn))  # the session's earlier line
            done, _ = performed(engine, request(engine.family, **how, seed=100 + turn))
            if turn:
                samples[name]["first_pcm_ms"].append(1e3 * done.timings.first_pcm_s)
                samples[name]["frame_ms"].append(1e3 / done.timings.frames_per_s)
        print(f"round {turn} of {rounds}", flush=True)
    return dict(samples)


def memory() -> dict[str, float]:
    """MiB that are held now: of the GPU, where there is one, and of the process."""
    with open("/proc/self/statm") as told:
        resident = int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    found = {"host_mib": resident / 2**20}
    if torch.cuda.is_available():
        found["memory_mib"] = torch.cuda.memory_allocated() / 2**20
        found["reserved_mib"] = torch.cuda.memory_reserved() / 2**20
    return found


class Scene:
    """Lines of one process, one after the other; `history` is what the next one remembers."""

    def __init__(self, engine: Engine, frames: int) -> None:
        self.engine, self.frames = engine, frames
        self.history: tuple[Spoken, ...] = ()
        self.dropped = 0  # lines for which the engine had to drop turns

    def line(self, number: int) -> dict[str, float]:
        """Perform line `number`: its seconds, and the memory after it."""
        cycle, place = divmod(number, CYCLE)
        if place == 0:
            self.history = tuple(
                Spoken(LINE, random_codes(self.engine.family, 4.0, 1000 * cycle + turn))
                for turn in range(OLDER)
            )
        elif place in (NEW_CLIP, FRESH):
            self.history = ()
        done, _ = performed(self.engine, self._wanted(cycle, place))
        self.history = (*self.history, Spoken(LINE, done.codes))
        self.dropped += any(flag.startswith("history_dropped") for flag in done.flags)
        return {"line_s": done.timings.total_s, **memory()}

    def _wanted(self, cycle: int, place: int) -> TakeRequest:
        family, new = self.engine.family, NEW_CLIP <= place < FRESH
        sound = clip(10.0, family.sample_rate, seed=cycle) if new else None
        wanted = request(family, frames=self.frames, seed=CYCLE * cycle + place, audio=sound)
        return dataclasses.replace(wanted, history=self.history)

    def perform(self, lines: int, seconds: float) -> Samples:
        """So many lines, or the whole cycles that fit in so many seconds."""
        began, samples = time.perf_counter(), {}
        for number in range(lines):
            cycle, place = divmod(number, CYCLE)
            if place == 0 and time.perf_counter() - began > seconds:
                print(f"stopped after {number} lines: {seconds:.0f} s are over", flush=True)
                break
            name = f"cycle {cycle + 1}" if cycle else "warm-up"
            metrics = samples.setdefault(name, defaultdict(list))
            for metric, value in self.line(number).items():
                metrics[metric].append(value)
            if place % 20 == 19:
                print(
                    f"{number + 1} lines, {time.perf_counter() - began:.0f} s, "
                    f"{', '.join(f'{key} {values[-1]:.2f}' for key, values in metrics.items())}",
                    flush=True,
                )
        return samples


def figures(samples: Samples) -> tuple[dict[str, float], dict[str, float]]:
    """(ratios, slopes) that the samples have something to say about."""
    names = [f"first_pcm_ms turns {count} / turns 0" for count in (10, 30)]
    names += ["first_pcm_ms references 4 / references 1", "first_pcm_ms sentences 48 / sentences 1"]
    units = ["first_pcm_ms by turns", "first_pcm_ms by references", "first_pcm_ms by sentences"]
    if "turns 0" not in samples:
        names, units = [], []
    full = [name for name, metrics in samples.items() if name.startswith("cycle") and _whole(metrics)]
    if len(full) > 1:
        metrics = samples[full[0]]
        names += [f"{metric} {full[-1]} / {full[0]}" for metric in metrics]
        units += [f"{metric} by cycle" for metric in metrics]
    return ratios(names, samples), slopes(units, samples)


def _whole(metrics: dict[str, list[float]]) -> bool:
    return len(metrics["line_s"]) == CYCLE


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="understudy")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--lines", type=int, default=200)
    options.add_argument("--frames", type=int, default=60)
    options.add_argument("--seconds", type=float, default=200, help="at most about so long for all lines")
    args = options.parse_args()
    engine = engine_of(args.model)
    samples = starts(engine, args.rounds) if args.rounds else {}
    scene = Scene(engine, args.frames)
    samples |= scene.perform(args.lines, args.seconds)
    show(samples)
    found, sloped = figures(samples)
    for name, value in found.items():
        flat = f" (flat: {value <= FLAT})" if " cycle " in name else ""
        print(f"{name} = {value:.3f}{flat}")
    for name, value in sloped.items():
        print(f"{name}: {value:.4f}")
    last_line(
        {
            "model": engine.family.name,
            "ratios": found,
            "slopes": sloped,
            "lines": sum(len(metrics.get("line_s", ())) for metrics in samples.values()),
            "lines_that_dropped_turns": scene.dropped,
            "samples": samples,
        }
    )


if __name__ == "__main__":
    main()
