"""Do the published figures follow from their own samples? Recomputes every one in bench/results.

    python bench/check.py

Names the first figure that doesn't, or that it can't recompute, and ends with 1. The names say how:

    samples   {variant: {metric: [raw values]}}
    ratios    {"metric one / other"}: the metric of one variant over that of the other, medians but for
              frames (sums), MiB (largest), p95 (95th percentile), wrong and lost words (their sum over
              that of all words)
    medians   {variant: {metric}}, means likewise
    slopes    {"metric by unit"}: least squares through the medians of the variants "unit N"
    floor_ms  {rows}: bytes over the median bandwidth; step_over_floor {"variant rows"}: median step over it
    peak_above_weights_gib: the largest of peak_bytes over the loaded_bytes of "memory"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
NEEDED = ("date", "command", "commit", "dirty", "cpu", "cores", "torch", "samples")
METRICS = {"rtf": "rtf_cached", "p95_line_s": "line_s"}  # by the name in a ratio
SHARES = ("wrong", "lost")  # of words
STATISTICS = {
    "frames": np.sum,
    "memory_mib": np.max,
    "host_mib": np.max,
    "p95_line_s": lambda values: np.percentile(values, 95),
}

Samples = dict[str, dict[str, list[float]]]


def ratio(name: str, samples: Samples) -> float:
    """The ratio called "metric one / other", from the samples; KeyError for a variant or metric not there."""
    called, pair = name.split(" ", 1)
    metric, (one, other) = METRICS.get(called, called), pair.split(" / ")
    if called in SHARES:
        return float(np.sum(samples[one][called]) / np.sum(samples[other]["words"]))
    of = STATISTICS.get(called, np.median)
    return float(of(samples[one][metric]) / of(samples[other][metric]))


def ratios(names: list[str], samples: Samples) -> dict[str, float]:
    """What a bench publishes as its ratios."""
    return {name: ratio(name, samples) for name in names}


def medians(samples: Samples) -> dict[str, dict[str, float]]:
    """What a bench publishes as its medians."""
    return {
        name: {metric: float(np.median(values)) for metric, values in metrics.items()}
        for name, metrics in samples.items()
    }


def slope(name: str, samples: Samples) -> float:
    """The slope called "metric by unit": of the metric, for one more `unit`, over the variants "unit N"."""
    metric, unit = name.split(" by ")
    points = [(int(each.removeprefix(f"{unit} ")), each) for each in samples if each.startswith(f"{unit} ")]
    counts, medians = zip(*((count, np.median(samples[each][metric])) for count, each in points), strict=True)
    return float(np.polyfit(counts, medians, 1)[0])


def slopes(names: list[str], samples: Samples) -> dict[str, float]:
    """What a bench publishes as its slopes."""
    return {name: slope(name, samples) for name in names}


def figures(run: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """(name, as published, as recomputed) of every figure of a run. KeyError, ValueError: no such samples."""
    samples = run["samples"]
    for name, told in run.get("ratios", {}).items():
        yield name, told, ratio(name, samples)
    for name, told in run.get("slopes", {}).items():
        yield name, told, slope(name, samples)
    for kind, of in (("medians", np.median), ("means", np.mean)):
        for variant, metrics in run.get(kind, {}).items():
            for metric, told in metrics.items():
                yield f"{kind} {variant} {metric}", told, of(samples[variant][metric])
    for rows, told in run.get("floor_ms", {}).items():
        yield f"floor_ms {rows}", told, floor_ms(run, rows)
    for name, told in run.get("step_over_floor", {}).items():
        yield name, told, np.median(samples[name]["step_ms"]) / floor_ms(run, name.rsplit(" ", 1)[1])
    if "peak_above_weights_gib" in run:
        memory = samples["memory"]
        peak = np.max(memory["peak_bytes"]) - np.max(memory["loaded_bytes"])
        yield "peak_above_weights_gib", run["peak_above_weights_gib"], peak / 2**30


def floor_ms(run: dict[str, Any], rows: str) -> float:
    """Milliseconds in which the bytes of a step behind `rows` rows can be read."""
    return 1e3 * sum(run["bytes"][rows].values()) / np.median(run["copy_bytes_s"])


def problem(path: Path) -> str | None:
    """What is wrong with a published run, in a sentence, or None."""
    run = json.loads(path.read_text(encoding="utf-8"))
    if missing := [key for key in NEEDED if run.get(key) is None]:
        return f"{path.name} doesn't say its {missing[0]}."
    if run["dirty"]:
        return f"{path.name} was measured with changes that are in no commit."
    if not any(run.get(kind) for kind in ("ratios", "step_over_floor")):
        return f"{path.name} publishes no ratio."
    told = figures(run)
    while True:
        try:
            name, published, recomputed = next(told)
        except StopIteration:
            return None
        except (KeyError, ValueError, TypeError) as unknown:
            return f"{path.name} publishes a figure without samples: {unknown}."
        if not np.isclose(published, recomputed, rtol=0.02):
            return f"{path.name}: {name} is {published:.3f}, its samples say {recomputed:.3f}."


def main() -> int:
    problems = [found for path in sorted(RESULTS.glob("*.json")) if (found := problem(path))]
    print(
        "\n".join(problems) or f"{len(list(RESULTS.glob('*.json')))} published runs follow from their samples"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
