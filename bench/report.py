"""What every bench says of itself: machine, versions, commit; and the one JSON line at its end.

Where the sources were copied without their repository, whoever copied them says which commit they are:
`TABLEREAD_COMMIT` is then its hash and `TABLEREAD_DIRTY` empty if nothing was changed. Without either the
commit is unknown and counts as changed, and `bench/check.py` refuses to see such a run published.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent


def median_p95(samples: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    return float(np.median(samples)), float(np.percentile(samples, 95))


def show(samples: dict[str, dict[str, list[float]]]) -> None:
    """Print every metric of every variant."""
    for name, metrics in samples.items():
        for metric, values in metrics.items():
            median, p95 = median_p95(values)
            print(f"  {name:<16} {metric:<16} median {median:10.3f}   p95 {p95:10.3f}   of {len(values)}")


def facts() -> dict[str, Any]:
    """Where and with what a bench ran."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        **_source(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "driver": _driver(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def last_line(results: dict[str, Any]) -> None:
    """Print `results` with the facts, as the one line of JSON that ends a bench."""
    print(json.dumps({**facts(), **results}))


def _source() -> dict[str, Any]:
    """The commit, whether files differ from it, and who says so."""
    if commit := os.environ.get("TABLEREAD_COMMIT"):
        return {"commit": commit, "dirty": bool(os.environ.get("TABLEREAD_DIRTY")), "told_by": "environment"}
    commit = _answer("git", "-C", str(ROOT), "rev-parse", "HEAD")
    changed = _answer("git", "-C", str(ROOT), "status", "--porcelain")
    return {"commit": commit, "dirty": not commit or bool(changed), "told_by": "git"}


def _driver() -> str | None:
    """Version of the NVIDIA driver, or None."""
    return _answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")


def _answer(*command: str) -> str | None:
    """What a program prints, or None where it isn't there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
