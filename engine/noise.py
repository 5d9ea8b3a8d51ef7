"""What a seed means: noise as a pure function of (seed, frame, draw, index, piece).

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with
key = (seed low word, seed high word) and counter = (index div 4, frame, draw, piece), word index mod 4.
No generator state exists, so a take cannot depend on what else runs, on graphs or on chunking.

Traps: the 32 x 32 bit products overflow int64, harmlessly as long as the shifted high word is masked; and u
keeps 23 bits plus a half so that it is exact in float32 and never 0 or 1 - a u that rounds to 1 gives E = 0,
and a race p / E that any forbidden token wins.
"""

from __future__ import annotations

import torch
from torch import Tensor

WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
BLOCK_FRAMES = 16  # one frame at a time costs 0.7-1.2 ms on a CPU, sixteen at once a tenth of that each


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Four words (int64 tensors holding 32 bits) from a counter and a key of such words that broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = ((b >> 32) & WORD) ^ c1 ^ k0, b & WORD, ((a >> 32) & WORD) ^ c3 ^ k1, a & WORD
        k0, k1 = (k0 + _WEYL[0]) & WORD, (k1 + _WEYL[1]) & WORD
    return c0, c1, c2, c3


def seed_words(seed: int, device: torch.device | str = "cpu") -> Tensor:
    """[2] int64: the low and the high word of a seed 0..2^64-1."""
    return torch.tensor([seed & WORD, seed >> 32], dtype=torch.int64, device=device)


def uniform(seed: Tensor, frames: Tensor, num_draws: int, count: int, piece: Tensor) -> Tensor:
    """u in (0, 1), float32 [frames, num_draws, count], equal bit for bit on every device.

    `seed` [2] int64 words, `frames` [n] int64 numbers of frames, `piece` [] int64.
    """
    blocks = -(-count // 4)
    index = torch.arange(blocks, device=frames.device)
    draw = torch.arange(num_draws, device=frames.device)[:, None]
    shape = (len(frames), num_draws, blocks)
    counter = (
        index.expand(shape),
        frames[:, None, None].expand(shape),
        draw.expand(shape),
        piece.expand(shape),
    )
    words = torch.stack(philox(counter, (seed[0], seed[1])), -1).flatten(-2)[..., :count]
    return ((words >> 9).to(torch.float32) + 0.5) * 2.0**-23


def exponential(seed: Tensor, frames: Tensor, num_draws: int, count: int, piece: Tensor) -> Tensor:
    """E ~ Exp(1), float32 [frames, num_draws, count], 5.9e-8 <= E <= 16.7; arguments as in `uniform`."""
    return -uniform(seed, frames, num_draws, count, piece).log()


class NoiseBlocks:
    """The noise of one piece, frame by frame, made `BLOCK_FRAMES` frames at once. Lives as long as the
    piece.
    """

    def __init__(self, seed: int, piece: int, num_draws: int, count: int, device: torch.device | str) -> None:
        self._seed = seed_words(seed, device)
        self._piece = torch.tensor(piece, dtype=torch.int64, device=device)
        self._shape = (num_draws, count)
        # One attribute, so that nobody who shares it ever sees half a change.
        self._block: tuple[int, Tensor | None] = -1, None

    def frame(self, frame: int) -> Tensor:
        """[num_draws, count] float32 for frame number `frame`."""
        first = frame - frame % BLOCK_FRAMES
        known, block = self._block
        if first != known:
            block = self.made(first)
            self._block = first, block
        return block[frame - first]

    def made(self, first: int) -> Tensor:
        """[BLOCK_FRAMES, num_draws, count] float32 for frames from `first` on."""
        numbers = torch.arange(first, first + BLOCK_FRAMES, device=self._seed.device)
        return exponential(self._seed, numbers, *self._shape, self._piece)
