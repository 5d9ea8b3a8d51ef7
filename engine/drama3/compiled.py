"""What can be compiled here: a CPU's loops if Numba is there, a GPU's kernels for the codec if Triton is."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

import torch


@cache
def compiled_loops() -> tuple[ModuleType | None, str]:
    """`loops.py`, or None and the reason why it can't be had."""
    try:
        from engine.drama3 import loops  # late: Numba takes half a second, and a GPU doesn't need it
    except (ImportError, OSError) as problem:  # not installed, or at odds with this numpy or this system
        return None, f"Numba can't be used ({problem})"
    return loops, ""


def why_plain() -> str:
    """Why a step on this CPU is one of plain layers; empty where it is compiled."""
    return compiled_loops()[1]


@cache
def codec_kernels(device: torch.device) -> ModuleType | None:
    """`codec_kernels.py`, or None: it needs Triton, and tensor cores that know TF32."""
    if not importlib.util.find_spec("triton") or torch.cuda.get_device_capability(device) < (8, 0):
        return None
    from engine.drama3 import codec_kernels as kernels  # late: Triton isn't there on every machine

    return kernels
