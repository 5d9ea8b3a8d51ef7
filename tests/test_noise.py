"""What a seed means, against a second computation in numpy's uint64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine import noise
from engine.noise import BLOCK_FRAMES, NoiseBlocks, exponential, philox, seed_words, uniform

ONES = 0xFFFFFFFF
# Drama 3 notes, 7.1: (counter, key, words).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
SEEDS = [0, 1, 7, 2**32 - 1, 2**32, 0x9E3779B97F4A7C15, 2**64 - 1]


def philox_in_numpy(counter, key):
    """Philox4x32-10 on uint64 arrays that hold 32 bits each: the paper's round, written out once more."""
    mask, shift = np.uint64(ONES), np.uint64(32)
    x = [np.asarray(word, np.uint64) for word in counter]
    k = [int(word) for word in key]
    for _ in range(10):
        first, second = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [
            (second >> shift) ^ x[1] ^ np.uint64(k[0]),
            second & mask,
            (first >> shift) ^ x[3] ^ np.uint64(k[1]),
            first & mask,
        ]
        k = [(k[0] + 0x9E3779B9) & ONES, (k[1] + 0xBB67AE85) & ONES]
    return x


def uniform_in_numpy(seed, frames, num_draws, count, piece):
    """u [frames, draws, count]: counter (i div 4, frame, draw, piece), word i mod 4."""
    frame, draw, index = np.meshgrid(frames, np.arange(num_draws), np.arange(count), indexing="ij")
    words = philox_in_numpy((index // 4, frame, draw, np.full_like(index, piece)), (seed & ONES, seed >> 32))
    word = np.choose(index % 4, words)
    return ((word >> np.uint64(9)).astype(np.float64) + 0.5) * 2.0**-23


def u(seed, frames, num_draws=3, count=10, piece=0):
    return uniform(seed_words(seed), torch.tensor(frames), num_draws, count, torch.tensor(piece)).numpy()


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_the_known_answers_come_out(counter, key, words):
    as_words = tuple(map(torch.tensor, counter)), tuple(map(torch.tensor, key))
    assert tuple(word.item() for word in philox(*as_words)) == words
    assert tuple(int(word) for word in philox_in_numpy(counter, key)) == words


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("piece", [0, 3, 2**31])
def test_u_is_what_the_formula_says(seed, piece):
    frames = [0, 1, 15, 16, 1199, 2**31]
    expected = uniform_in_numpy(seed, frames, 5, 67, piece)
    got = u(seed, frames, 5, 67, piece)
    assert got.dtype == np.float32
    assert np.array_equal(got.astype(np.float64), expected)  # 24 bits: exact in float32


def test_the_largest_and_the_smallest_word_give_neither_1_nor_0(monkeypatch):
    for word, expected in ((0, 2.0**-24), (ONES, 1 - 2.0**-24)):
        monkeypatch.setattr(noise, "philox", lambda c, k, w=word: [torch.full_like(c[0], w)] * 4)
        assert np.all(u(1, [0]) == expected)


def test_e_lies_in_its_range_even_for_the_extreme_words(monkeypatch):
    given = seed_words(1), torch.tensor([0]), 1, 4, torch.tensor(0)
    for word, expected in ((0, 16.635532), (ONES, 5.9604645e-8)):  # -log(2^-24), -log(1 - 2^-24)
        monkeypatch.setattr(noise, "philox", lambda c, k, w=word: [torch.full_like(c[0], w)] * 4)
        assert exponential(*given).numpy() == pytest.approx(np.full((1, 1, 4), expected), rel=1e-6)


def test_e_has_mean_and_variance_of_an_exponential():
    e = exponential(seed_words(3), torch.arange(200), 5, 100, torch.tensor(0)).numpy().astype(np.float64)
    # 100,000 values: the mean's standard error is 0.0032, the variance's 0.0089.
    assert e.mean() == pytest.approx(1, abs=0.015)
    assert e.var() == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_blocks_give_each_frame_the_noise_it_has_alone(seed):
    blocks = NoiseBlocks(seed, 2, 6, 65, "cpu")
    for frame in (*range(3 * BLOCK_FRAMES + 1), 5, 2 * BLOCK_FRAMES, 1000):
        alone = exponential(seed_words(seed), torch.tensor([frame]), 6, 65, torch.tensor(2))[0]
        assert torch.equal(blocks.frame(frame), alone)


def test_a_longer_candidate_list_only_adds_noise_at_its_end():
    assert np.array_equal(u(5, [3], 2, 67)[..., :10], u(5, [3], 2, 10))


def test_seed_frame_draw_and_piece_each_change_everything():
    base = u(5, [3], 2, 64)
    others = [u(6, [3], 2, 64), u(5 + 2**32, [3], 2, 64), u(5, [4], 2, 64), u(5, [3], 2, 64, piece=1)]
    others.append(base[:, ::-1])  # draws 0 and 1 exchanged
    for other in others:
        assert (base == other).mean() < 0.01
