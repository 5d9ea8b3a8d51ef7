"""Prompts that begin alike are read once: states after the stable part of a prompt, kept by its rows.

Prefill always splits at a prompt's borders (after system and references, after each turn of history), hit or
miss, so a remembered prefix changes nothing but time. A snapshot holds everything the rows left behind: KV,
recurrent and convolution states, tower KV, the last hidden and the last row - the tower fills row P-1 only
when row P is known - and the main ids that the sampler looks back at.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

import numpy as np

from engine.cache import BoundedCache


class Snapshot(Protocol):
    """A state after `num_rows` rows; immutable."""

    num_rows: int
    num_bytes: int


class PrefixCache:
    """Snapshots by the hash of the rows that made them, bounded in bytes, the latest used kept.

    A hit saves the prefill of a voice and of the lines before: most of the time to the first sound. Lives and
    dies with one loaded model.
    """

    def __init__(self, max_bytes: int) -> None:
        self._snapshots: BoundedCache[Snapshot] = BoundedCache(max_bytes)

    @property
    def num_bytes(self) -> int:
        return self._snapshots.num_bytes

    def longest(self, rows: np.ndarray, borders: tuple[int, ...]) -> Snapshot | None:
        """The snapshot of the longest prefix of `rows` that ends at one of `borders` and is known."""
        for border in sorted(borders, reverse=True):
            if snapshot := self._snapshots.get(_key(rows[:border])):
                return snapshot
        return None

    def keep(self, rows: np.ndarray, snapshot: Snapshot) -> bool:
        """Remember the state after exactly `rows`; whether there is room for it."""
        return self._snapshots.put(_key(rows), snapshot, snapshot.num_bytes)

    def drop(self, rows: np.ndarray) -> None:
        """Forget the state after exactly `rows`."""
        self._snapshots.forget(_key(rows))

    def clear(self) -> int:
        """Forget every prefix, and with them what clips and lines left in them; how many there were."""
        return self._snapshots.clear()


def _key(rows: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
