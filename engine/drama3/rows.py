"""A prompt's segments become rows: one backbone position each, [token, codes...].

A text row is [token, 0, ..., 0]. A row of audio is [semantic_start + code 0, code 0, ..., code N-1]: its
token says the first code once more, as a word of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from engine.references import check_codes
from prompts.drama3 import Codes, Layout, Segment

Encode = Callable[[str], list[int]]


def layout_rows(
    layout: Layout, encode: Encode, semantic_start: int, num_codebooks: int, codebook_size: int
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows [rows, 1 + num_codebooks] int64 of a prompt, and how many of them stand before each border.

    `encode` gives the ids of one text and adds none of its own at the ends. Raises RequestError for codes
    that are not of this model.
    """
    parts = _parts(layout.segments, encode, semantic_start, num_codebooks, codebook_size)
    ends = [0, *accumulate(len(part) for part in parts)]
    empty = np.zeros((0, 1 + num_codebooks), np.int64)
    return np.concatenate([empty, *parts]), tuple(ends[border] for border in layout.borders)


def count_rows(layout: Layout, num_tokens: Callable[[str], int]) -> tuple[int, tuple[int, ...]]:
    """The rows of a prompt, and how many stand before each border, without making them."""
    counts = [
        segment.array.shape[1] if isinstance(segment, Codes) else num_tokens(segment)
        for segment in layout.segments
    ]
    ends = [0, *accumulate(counts)]
    return ends[-1], tuple(ends[border] for border in layout.borders)


def _parts(
    segments: Sequence[Segment], encode: Encode, semantic_start: int, num_codebooks: int, codebook_size: int
) -> list[np.ndarray]:
    """The rows of each segment."""
    parts = []
    for segment in segments:
        if isinstance(segment, Codes):
            codes = check_codes(segment.array, num_codebooks, codebook_size, segment.name)
            parts.append(np.concatenate([semantic_start + codes[:1], codes]).T)
        else:
            ids = encode(segment)
            parts.append(np.zeros((len(ids), 1 + num_codebooks), np.int64))
            parts[-1][:, 0] = ids
    return parts
