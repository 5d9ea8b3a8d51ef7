"""Codes in ten bits each."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays


@settings(max_examples=50, deadline=None)
@given(codes=arrays.arrays(np.int16, st.integers(1, 40), elements=st.integers(0, 1023)))
def test_packed_codes_come_back_whatever_their_number(recipe, codes):
    packed = recipe.encode.pack10(codes)
    assert packed.dtype == np.uint8
    assert len(packed) == -(-len(codes) // 4) * 5
    got = recipe.encode.unpack10(packed, len(codes))
    assert got.dtype == np.int16
    np.testing.assert_array_equal(got, codes)
