"""Small kernels for a prompt's rows beside their twins of plain torch; without a GPU in the interpreter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engine.drama3 import prompt_rows
from engine.drama3.layers import ZeroCentredNorm, swiglu
from tests.drama3.test_kernels import DEVICE, DTYPES, close, random

pytestmark = pytest.mark.parametrize("dtype", DTYPES)
EPS = 1e-5


def norm_of(width: int, seed: int) -> ZeroCentredNorm:
    norm = ZeroCentredNorm(width, EPS).to(DEVICE)
    norm.gain.copy_(random(width, seed=seed) / 4)
    norm.finish()
    return norm


@pytest.mark.parametrize(("rows", "width"), [(1, 8), (3, 48), (2, 1100)])
def test_rows_of_a_wider_matrix_are_normed(dtype, rows, width):
    x, norm = random(rows, width + 7, dtype=dtype)[:, :width], norm_of(width, 1)
    got = prompt_rows.norm_rows(x, norm.gain, EPS)
    assert got.dtype == dtype
    assert close(got, norm(x))


@pytest.mark.parametrize(("rows", "width"), [(1, 8), (3, 48), (2, 1100)])
def test_rows_are_added_and_normed(dtype, rows, width):
    x, more, norm = (
        random(rows, width, dtype=dtype),
        random(rows, width, seed=1, dtype=dtype),
        norm_of(width, 2),
    )
    want = x + more
    got = prompt_rows.norm_rows(x, norm.gain, EPS, more)
    assert torch.equal(x, want)
    assert close(got, norm(want))


@pytest.mark.parametrize("width", [4, 24, 1500])
def test_gate_and_up_of_a_slice(dtype, width):
    both = random(3, 2 * width + 5, dtype=dtype)[:, 5:]
    assert close(prompt_rows.swiglu_rows(both), swiglu(both))


@pytest.mark.parametrize("joined", [True, False])
def test_a_tower_layer_merges_code_and_hidden(dtype, joined):
    width, frames = 24, torch.tensor([[7, 0, 3], [7, 5, -2], [7, 99, 1], [7, 4, 4]], device=DEVICE)
    x, table, extra = random(4, width, dtype=dtype), random(6, width, seed=1, dtype=dtype), None
    if joined:
        extra = random(4, width, seed=2, dtype=dtype)
    semantic = torch.tensor([True, True, True, False], device=DEVICE)
    code_norm, hidden_norm, codes = norm_of(width, 3), norm_of(width, 4), frames[:, 1]
    vector = table[codes.clamp(0, 5)] * semantic[:, None]
    want = torch.cat((code_norm(vector if extra is None else vector + extra), hidden_norm(x)), -1)
    got = prompt_rows.merge_rows(x, codes, semantic, extra, table, code_norm.gain, hidden_norm.gain, EPS)
    assert close(got, want)


@pytest.mark.parametrize("with_shared", [True, False])
def test_experts_join_the_row_they_belong_to(dtype, with_shared):
    rows, top, width, gate_at = 4, 3, 40, 6
    place = torch.tensor([[4, 0, 7], [1, 8, 2], [-1, -1, -1], [3, 6, 5]], device=DEVICE, dtype=torch.int32)
    out, share = random(9, width, dtype=dtype), random(rows, top, seed=1).softmax(-1)
    x, norm = random(rows, width, seed=2, dtype=dtype), norm_of(width, 5)
    read, shared = random(rows, 9, seed=3, dtype=dtype)[:, :8], None
    want = x.float()
    if with_shared:
        shared = random(rows, width, seed=4, dtype=dtype)
        want = want + read[:, gate_at, None].float().sigmoid() * shared.float()
    parts = F.embedding(place.clamp(min=0).long(), out.float()) * (place >= 0)[..., None]
    want = (want + (parts * share[..., None]).sum(1)).to(dtype)
    got = prompt_rows.join_rows(out, place.flatten(), share, x, read, gate_at, shared, norm.gain, EPS)
    assert close(x, want)
    assert close(got, norm(x))
