"""The takes of every session: files with their card, few of them, gone when the session goes.

A shelf belongs to one browser session. What a visitor made is on nobody else's shelf, and the oldest takes
make room, so that a long evening fills no disk.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.audio_files import write_take

TAKES_PER_SESSION = 20
SESSIONS = 200


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
        self._root = Path(tempfile.mkdtemp(prefix="tableread-"))
        self._takes: OrderedDict[Hashable, list[Take]] = OrderedDict()
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
            self._takes.move_to_end(session)
            takes.insert(0, take)
            dropped = takes[TAKES_PER_SESSION:]
            del takes[TAKES_PER_SESSION:]
            while len(self._takes) > SESSIONS:
                dropped += self._takes.popitem(last=False)[1]
        self._remove(dropped)
        return take

    def takes(self, session: Hashable) -> tuple[Take, ...]:
        """The session's takes, newest first."""
        with self._lock:
            return tuple(self._takes.get(session, ()))

    def forget(self, session: Hashable) -> None:
        """Remove everything a session made."""
        with self._lock:
            dropped = self._takes.pop(session, [])
        self._remove(dropped)

    def close(self) -> None:
        """Remove every file."""
        shutil.rmtree(self._root, ignore_errors=True)

    @staticmethod
    def _remove(takes: list[Take]) -> None:
        for take in takes:
            shutil.rmtree(take.wav.parent, ignore_errors=True)
