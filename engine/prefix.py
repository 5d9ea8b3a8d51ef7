"""Prompts that begin alike are read once: states after the stable part of a prompt, kept by its rows.

Prefill always splits at a prompt's borders (after system and references, after each turn of history), hit or
miss, so a remembered prefix changes nothing but time. A snapshot holds everything the rows left behind: KV,
recurrent and convolution states, tower KV, the last hidden and the last row - the tower fills row P-1 only
when row P is known - and the main ids that the sampler looks back at.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Protocol

import numpy as np

from engine.cache import BoundedCache


class Snapshot(Protocol):
    """A state after `num_rows` rows; immutable."""

    num_rows: int
    num_bytes: int

    def to_host(self) -> Snapshot:
        """The same in host memory; itself where it is there already."""
        ...


class PrefixCache:
    """Snapshots by the hash of the rows that made them, bounded in bytes, the latest used kept.

    A hit saves the prefill of a voice and of the lines before: most of the time to the first sound. Lives and
    dies with one loaded model. At most `max_bytes` lie where they were made. Where there is room for
    `host_bytes` in host memory, the longest unused move there: behind a long history one state of a large
    model takes half a gigabyte, and every character of a scene has one. They move when `settle` is called,
    since page-locked memory takes a tenth of a second to get; until then they are a little more than allowed.
    """

    def __init__(self, max_bytes: int, host_bytes: int = 0) -> None:
        self._leaving: dict[str, Snapshot] = {}
        self._host: BoundedCache[Snapshot] = BoundedCache(host_bytes)
        self._snapshots: BoundedCache[Snapshot] = BoundedCache(
            max_bytes, self._leaving.__setitem__ if host_bytes else None
        )
        self._lock = threading.Lock()  # of what moves, so that nothing forgotten comes back

    @property
    def num_bytes(self) -> int:
        """Bytes of all snapshots, wherever they lie."""
        leaving = sum(snapshot.num_bytes for snapshot in tuple(self._leaving.values()))
        return self._snapshots.num_bytes + leaving + self._host.num_bytes

    def settle(self) -> None:
        """Move what had to make room to host memory; for when no sound waits for it."""
        with self._lock:
            while self._leaving:
                key, snapshot = self._leaving.popitem()
                try:
                    moved = snapshot.to_host()
                except (RuntimeError, MemoryError):  # the host has no room: its rows will be read again
                    continue
                self._host.put(key, moved, moved.num_bytes)

    def longest(self, rows: np.ndarray, borders: tuple[int, ...]) -> Snapshot | None:
        """The snapshot of the longest prefix of `rows` that ends at one of `borders` and is known."""
        for border in sorted(borders, reverse=True):
            key = _key(rows[:border])
            if snapshot := self._snapshots.get(key) or self._leaving.get(key) or self._host.get(key):
                return snapshot
        return None

    def keep(self, rows: np.ndarray, snapshot: Snapshot) -> bool:
        """Remember the state after exactly `rows`; whether there is room for it."""
        key = _key(rows)
        self._drop(key)
        return self._snapshots.put(key, snapshot, snapshot.num_bytes)

    def drop(self, rows: np.ndarray) -> None:
        """Forget the state after exactly `rows`."""
        self._drop(_key(rows))

    def clear(self) -> int:
        """Forget every prefix, and with them what clips and lines left in them; how many there were."""
        with self._lock:
            count = self._snapshots.clear() + len(self._leaving) + self._host.clear()
            self._leaving.clear()
            return count

    def _drop(self, key: str) -> None:
        with self._lock:
            self._snapshots.forget(key)
            self._leaving.pop(key, None)
            self._host.forget(key)


def _key(rows: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
