"""`doctor`: what this machine can run and why, and what is missing with the way to get it. Loads no model."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
from typing import Any

import torch

from engine.drama3.compiled import why_plain
from engine.models import (
    DRAMA3,
    GIB,
    HEADROOM_BYTES,
    PINNED,
    UNDERSTUDY,
    checkpoint_bytes,
    default_device,
    default_model,
    free_memory_bytes,
    local_snapshot,
)
from engine.take import RequestError

# Bytes of the release before any of it is local: 37.2 GB backbone, 1.6 GB codec, the rest the tower.
DRAMA3_BYTES = 41_000_000_000


def report(as_json: bool = False) -> str:
    """The findings as text for a person, or as one line of JSON."""
    found = findings()
    if as_json:
        return json.dumps(found)
    lines = [f"{name}: {value}" for name, value in found["machine"].items()]
    lines += ["", "Models"]
    lines += [
        f"  {'yes' if model['runs'] else 'no ':<3} {name}: {model['why']}"
        for name, model in found["models"].items()
    ]
    lines += ["", f"Runs by default: {found['default']['model']}. {found['default']['why']}"]
    lines += ["", "Missing", *(f"  {item}" for item in found["missing"])] if found["missing"] else []
    return "\n".join(lines)


def findings() -> dict[str, Any]:
    """machine, models (runs, why, bytes), default (model, why), missing (sentences)."""
    choice = default_model()
    return {
        "machine": _machine(),
        "models": {DRAMA3: _drama3(), "understudy": _understudy(), "kokoro": _kokoro()},
        "default": {"model": choice.model, "why": choice.why},
        "missing": _missing(),
    }


def _machine() -> dict[str, str]:
    memory = free_memory_bytes()
    facts = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": str(default_device()),
        "cores": str(os.cpu_count()),
        "free memory": f"{memory / GIB:.1f} GiB" if memory is not None else "unknown",
    }
    if torch.cuda.is_available():
        free, total = (size / GIB for size in torch.cuda.mem_get_info())
        major, minor = torch.cuda.get_device_capability()
        facts["gpu"] = (
            f"{torch.cuda.get_device_name()}, sm_{major}{minor}, {free:.1f} of {total:.1f} GiB free"
        )
        facts["decode step"] = _gpu_step()
    facts["decode step on a CPU"] = _cpu_step()
    return facts


def _gpu_step() -> str:
    """What one frame of Drama 3 is on this GPU."""
    from engine.drama3 import graphs  # late: it needs CUDA

    reason = graphs.why_plain(torch.device("cuda"))
    return f"a CUDA graph of plain layers, because {reason}" if reason else "a CUDA graph of fused kernels"


def _cpu_step() -> str:
    reason = why_plain()
    return f"plain layers, nine times slower, because {reason}" if reason else "compiled loops"


def _drama3() -> dict[str, Any]:
    folder = local_snapshot(DRAMA3, PINNED[DRAMA3])
    weights = checkpoint_bytes(folder) if folder else DRAMA3_BYTES
    need = weights + HEADROOM_BYTES
    if not torch.cuda.is_available():
        return _model(False, need, f"needs a CUDA GPU with {need / GIB:.0f} GiB free; this machine has none.")
    free = torch.cuda.mem_get_info()[0]
    if free < need:
        return _model(
            False, need, f"needs {need / GIB:.0f} GiB of GPU memory, {free / GIB:.0f} GiB are free."
        )
    if not folder:
        return _model(False, need, f"fits, but its 41 GB are not here; get them with `hf download {DRAMA3}`.")
    return _model(True, need, f"is here and fits: {need / GIB:.0f} GiB needed, {free / GIB:.0f} GiB free.")


def _understudy() -> dict[str, Any]:
    if not (UNDERSTUDY / "config.json").is_file():
        return _model(False, 0, "is not in this copy of Tableread yet.")
    weights = checkpoint_bytes(UNDERSTUDY)
    return _model(True, weights, f"is embedded ({weights / 1e6:.0f} MB) and runs on any CPU.")


def _kokoro() -> dict[str, Any]:
    try:
        from engine.kokoro import weights  # late: doctor must work where the stand-in's packages don't

        weights.require()
    except (ImportError, RequestError) as problem:
        return _model(False, 0, str(problem))
    return _model(True, 500_000_000, "runs on any CPU in half a GB; it describes voices and doesn't clone.")


def _model(runs: bool, need_bytes: int, why: str) -> dict[str, Any]:
    return {"runs": runs, "needs_bytes": need_bytes, "why": why}


def _missing() -> list[str]:
    missing = []
    if not shutil.which("ffmpeg"):
        missing.append(
            "ffmpeg: m4a, mp4 and webm clips need it; WAV, FLAC, OGG and MP3 don't (apt-get install ffmpeg)."
        )
    for package, loss in (
        ("soundfile", "no clip or take can be read or written"),
        ("soxr", "no clip can be resampled"),
        ("numba", "the small models speak nine times slower on a CPU"),
    ):
        if importlib.util.find_spec(package) is None:
            missing.append(f"{package}: without it {loss} (pip install {package}).")
    if not torch.cuda.is_available():
        missing.append("A CUDA GPU: everything runs on the CPU, which is enough for the small models.")
    return missing
