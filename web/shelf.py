"""The takes of every visitor: files with their card, few of them, gone some hours after the last visit.

A shelf belongs to whoever has its key. What a visitor made is on nobody else's shelf, and the oldest takes
make room, so that a long evening fills no disk.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.audio_files import write_take
from web.folders import TemporaryFolder

TAKES_PER_SESSION = 20
SESSIONS = 200
KEPT_S = 6 * 3600.0  # after the last visit


@dataclass(frozen=True)
class Take:
    """One finished (or cut) take: its two files, its card, how long it is in seconds."""

    wav: Path
    flac: Path
    card: dict[str, Any]
    audio_s: float


class Shelf:
    """Keeps takes by session, newest first. Safe to use from several threads."""

    def __init__(self) -> None:
        self._folder = TemporaryFolder("takes")
        self._root = self._folder.path
        self._takes: OrderedDict[Hashable, list[Take]] = OrderedDict()  # the longest unvisited first
        self._visited: dict[Hashable, float] = {}
        self._lock = threading.Lock()

    def keep(self, session: Hashable, take_id: str, pcm: np.ndarray, rate: int, card: dict[str, Any]) -> Take:
        """Write the take's files and put it on the session's shelf."""
        folder = self._root / take_id
        folder.mkdir()
        name = f"take-{card['seed']}"
        take = Take(folder / f"{name}.wav", folder / f"{name}.flac", card, len(pcm) / rate)
        for path in (take.wav, take.flac):
            write_take(path, pcm, rate, card)
        with self._lock:
            takes = self._takes.setdefault(session, [])
            self._visit(session)
            takes.insert(0, take)
            dropped = takes[TAKES_PER_SESSION:]
            del takes[TAKES_PER_SESSION:]
            dropped += self._left_alone()
        self._remove(dropped)
        return take

    def takes(self, session: Hashable) -> tuple[Take, ...]:
        """The session's takes, newest first."""
        with self._lock:
            if session in self._takes:
                self._visit(session)
            return tuple(self._takes.get(session, ()))

    def forget(self, session: Hashable) -> None:
        """Remove everything a session made."""
        with self._lock:
            dropped = self._takes.pop(session, [])
            self._visited.pop(session, None)
        self._remove(dropped)

    def close(self) -> None:
        """Remove every file."""
        self._folder.close()

    def _visit(self, session: Hashable) -> None:
        self._takes.move_to_end(session)
        self._visited[session] = time.monotonic()

    def _left_alone(self) -> list[Take]:
        """The takes, no longer on any shelf, of those who are too many or were here too long ago."""
        dropped = []
        for session in list(self._takes):
            if len(self._takes) <= SESSIONS and time.monotonic() - self._visited[session] <= KEPT_S:
                break
            dropped += self._takes.pop(session)
            del self._visited[session]
        return dropped

    @staticmethod
    def _remove(takes: list[Take]) -> None:
        for take in takes:
            shutil.rmtree(take.wav.parent, ignore_errors=True)
