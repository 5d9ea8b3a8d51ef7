"""The reel: what the player hears of a scene, one take of it whatever it is made of.

It numbers the messages, knows where each line begins, and guesses from what was sent and the clock how much
sound the listener still has.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from web import player

BLOCK_S = 0.5  # sound that lies ready is sent in messages of this length


class Reel:
    """One performance as the player gets it. Lives as long as its handler."""

    def __init__(self, sample_rate: int, start_buffer_s: float, name: str = "Take") -> None:
        self.id = secrets.token_hex(6)
        self.sample_rate, self.samples = sample_rate, 0
        self._name, self._start_buffer_s = name, start_buffer_s
        self._seq = 0
        self._runs_dry_at = 0.0

    @property
    def left_s(self) -> float:
        """Seconds of sound that the listener has not heard yet."""
        return max(0.0, self._runs_dry_at - time.monotonic())

    def status(self, phase: str, detail: str) -> dict[str, Any]:
        return player.status(self.id, phase, detail)

    def mark(self, lines: Sequence[str], label: str = "") -> Iterator[dict[str, Any]]:
        """What comes from here on are these lines; none for a silence."""
        yield from self._opened()
        yield player.mark(self.id, self.samples, lines, label)

    def sound(self, pcm: np.ndarray) -> Iterator[dict[str, Any]]:
        """`pcm` int16 [n], in messages of a handy length."""
        yield from self._opened()
        for _, block in self.blocks(pcm):
            self._runs_dry_at = max(self._runs_dry_at, time.monotonic()) + len(block) / self.sample_rate
            self.samples += len(block)
            self._seq += 1
            yield player.audio(self.id, self._seq - 1, block)

    def blocks(self, pcm: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """`pcm` in the pieces that make one message each, with where they begin."""
        size = round(BLOCK_S * self.sample_rate)
        for start in range(0, len(pcm), size):
            yield start, pcm[start : start + size]

    def silence(self, seconds: float) -> Iterator[dict[str, Any]]:
        yield from self.mark(())
        yield from self.sound(np.zeros(round(seconds * self.sample_rate), np.int16))

    def end(self, reason: str = "stop") -> dict[str, Any]:
        return player.end(self.id, self._seq, reason, self.samples)

    def trouble(self, sentence: str) -> dict[str, Any]:
        return player.trouble(self.id, sentence)

    def _opened(self) -> Iterator[dict[str, Any]]:
        if not self._runs_dry_at:
            self._runs_dry_at = time.monotonic()
            yield player.config(self.id, self.sample_rate, self._start_buffer_s, self._name)
