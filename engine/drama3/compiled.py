"""Whether a CPU's loops can be compiled here: Numba is asked for when a model first lies on a CPU."""

from __future__ import annotations

from functools import cache
from types import ModuleType


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
