"""When frames become sound: the chunk schedule, PCM, and the vocoder that turns one into the other.

The codec streams exactly, whatever the chunk sizes, so the schedule decides only how early sound starts and
how many kernels it costs: small chunks first, because the listener waits for the first one, then larger
ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent import futures
from typing import Protocol

import numpy as np
from torch import Tensor

from engine.family import Sound

# Frames; the last size repeats. The first chunk is about what a player holds before it starts, and no chunk
# is more than half as long again as the one before, so that a model at 0.6 of real time never runs dry. None
# is longer than 16, because what remains when a piece ends is waited for.
SCHEDULE = (3, 4, 6, 8, 12, 16)
# For a model at 0.4 of real time or faster, as one of kernels on a GPU is: sound starts with the first frame,
# and each chunk is there before those before it have been played. In a chunk of 32 a frame would cost the
# codec a quarter less, but on an H200 one of the steps beside it takes 2.4 times as long (of 16: 1.7).
EARLY_SCHEDULE = (1, 2, 4, 8, 16)


def pcm16(samples: np.ndarray) -> np.ndarray:
    """float [n] -> int16 [n]: clamp to -1..1, times 32,767, truncated toward zero."""
    return (np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)


class Schedule:
    """Which frames are due as one chunk. Lives as long as one piece."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self._sizes = sizes
        self._chunks = 0
        self.done = 0  # frames handed over so far

    def due(self, num_frames: int, last: bool = False) -> tuple[int, int] | None:
        """(first, end) of the chunk to decode now that `num_frames` exist, or None; `last`: take what is
        left.
        """
        size = self._sizes[min(self._chunks, len(self._sizes) - 1)]
        if num_frames - self.done < (1 if last else size):
            return None
        first, self.done = self.done, num_frames
        self._chunks += 1
        return first, num_frames


class Vocoder(Protocol):
    """One piece's way from codes to sound. It may lag behind, and keeps the order.

    `schedule` says in which chunks it wants its codes.
    """

    schedule: tuple[int, ...]

    def queue(self, codes: Tensor) -> None:
        """Take in the next codes [codebooks, frames] int64, on the host, without waiting for sound."""

    def heard(self, wait: bool) -> Iterator[Sound]:
        """The sound that is ready by now, or with `wait` the sound of everything that was queued."""

    def close(self) -> None:
        """Return when nothing of this piece runs any more."""


class CodecStream(Protocol):
    """One piece's decoding state; exact whatever the chunk sizes."""

    def decode(self, codes: Tensor) -> Tensor: ...


class ThreadVocoder:
    """Decodes on a thread of its own, beside the steps: both spend their time outside of Python.

    The first chunk is decoded where it is queued: a listener waits for it, and steps beside it would make it
    later (120 ms instead of 90 until the first sound, on two cores).
    """

    schedule = SCHEDULE

    def __init__(self, stream: CodecStream) -> None:
        self._stream = stream
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="vocoder")
        self._queued: deque[futures.Future[Sound]] = deque()
        self._began = False

    def queue(self, codes: Tensor) -> None:
        job = self._thread.submit(self._decode, codes)
        if not self._began:
            futures.wait([job])
        self._began = True
        self._queued.append(job)

    def _decode(self, codes: Tensor) -> Sound:
        return Sound(pcm16(self._stream.decode(codes).float().cpu().numpy()), codes.shape[1])

    def heard(self, wait: bool) -> Iterator[Sound]:
        while self._queued and (wait or self._queued[0].done()):
            yield self._queued.popleft().result()

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
