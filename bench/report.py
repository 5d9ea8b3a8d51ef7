"""What every bench says of itself: machine, versions, commit; and the one JSON line at its end."""

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


def facts() -> dict[str, Any]:
    """Where and with what a bench ran."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def last_line(results: dict[str, Any]) -> None:
    """Print `results` with the facts, as the one line of JSON that ends a bench."""
    print(json.dumps({**facts(), **results}))


def _git(*words: str) -> str | None:
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
