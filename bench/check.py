"""Do the published figures follow from their own samples? Recomputes every ratio in bench/results.

    python bench/check.py

Names the first figure that doesn't, and ends with 1.
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


def figures(run: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """(name, as published, as recomputed) of every ratio of a run."""
    samples = run["samples"]
    for name, told in run.get("ratios", {}).items():
        what, pair = name.split(" ", 1)
        one, other = pair.split(" / ")
        key = {"rtf": "rtf_cached"}[what]
        yield name, told, np.median(samples[one][key]) / np.median(samples[other][key])
    for name, told in run.get("step_over_floor", {}).items():
        rows = name.rsplit(" ", 1)[1]
        floor_ms = 1e3 * sum(run["bytes"][rows].values()) / np.median(run["copy_bytes_s"])
        yield name, told, np.median(samples[name]["step_ms"]) / floor_ms


def problem(path: Path) -> str | None:
    """What is wrong with a published run, in a sentence, or None."""
    run = json.loads(path.read_text(encoding="utf-8"))
    if missing := [key for key in NEEDED if key not in run]:
        return f"{path.name} doesn't say its {missing[0]}."
    if run["dirty"]:
        return f"{path.name} was measured with changes that are in no commit."
    told = list(figures(run))
    if not told:
        return f"{path.name} publishes no ratio."
    for name, published, recomputed in told:
        if not np.isclose(published, recomputed, rtol=0.02):
            return f"{path.name}: {name} is {published:.3f}, its samples say {recomputed:.3f}."
    return None


def main() -> int:
    problems = [found for path in sorted(RESULTS.glob("*.json")) if (found := problem(path))]
    print(
        "\n".join(problems) or f"{len(list(RESULTS.glob('*.json')))} published runs follow from their samples"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
