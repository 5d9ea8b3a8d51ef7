"""A cache that is bounded in bytes and keyed by content."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class BoundedCache(Generic[V]):
    """Values by key, at most `max_bytes` of them, the latest used kept. Safe to share between threads.

    Values are shared, not copied: what is put in must not be written any more. `evicted` is called with the
    key and value of what makes room (not of what is forgotten), under the lock.
    """

    def __init__(self, max_bytes: int, evicted: Callable[[str, V], None] | None = None) -> None:
        self._max_bytes = max_bytes
        self._evicted = evicted
        self._num_bytes = 0
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes held now, never above the limit."""
        return self._num_bytes

    def get(self, key: str) -> V | None:
        """The value under `key`, now the latest used, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: str, value: V, num_bytes: int) -> bool:
        """Keep `value`; the longest unused make room. False: it is too large for the cache and isn't kept."""
        with self._lock:
            self._drop(key)
            if num_bytes > self._max_bytes:
                return False
            self._values[key] = value, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                oldest, (leaving, _) = next(iter(self._values.items()))
                self._drop(oldest)
                if self._evicted:
                    self._evicted(oldest, leaving)
            return True

    def forget(self, key: str) -> bool:
        """Drop the value under `key`; whether there was one."""
        with self._lock:
            return self._drop(key)

    def clear(self) -> int:
        """Drop everything; how many values there were."""
        with self._lock:
            count = len(self._values)
            self._values.clear()
            self._num_bytes = 0
            return count

    def _drop(self, key: str) -> bool:
        if key not in self._values:
            return False
        self._num_bytes -= self._values.pop(key)[1]
        return True
