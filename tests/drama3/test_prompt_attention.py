"""Attention of a prompt's rows beside its twins of plain torch; without a GPU in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engine.drama3.backbone import Rows
from engine.drama3.config import Drama3Config
from engine.drama3.layers import RopeTable, ZeroCentredNorm, attend, rotate_halves, rotate_pairs
from engine.drama3.prompt_attention import attention_rows
from engine.drama3.weights import load_model
from tests.drama3.test_kernels import DEVICE, DTYPES, close, random

CAPACITY = 64


def places(before: int, count: int) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor([value], device=DEVICE) for name, value in (("before", before), ("count", count))
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tower", [False, True])
@pytest.mark.parametrize(
    ("before", "rows", "count"),
    [
        (-1, 5, 5),
        (-2, 5, 4),  # what comes first is no row
        (40, 3, 2),  # behind more rows than are read at once
        (3, 20, 18),  # more rows than a tile of queries
        (61, 6, 2),  # the last places there are
        (9, 4, 0),
    ],
)
def test_rows_attend_as_by_the_twin(drama3_tiny, dtype, tower, before, rows, count):
    folder = drama3_tiny / "checkpoint"
    model = load_model(folder, Drama3Config.from_folder(folder), DEVICE, dtype)
    full = next(layer for layer in model.backbone.layers if layer.full)
    attention, table = (
        (model.tower.layers[0].attention, model.tower.rope) if tower else (full.mixer, model.rope)
    )
    x = random(rows, attention.read.shape[1], dtype=dtype)
    shape = attention.kv_heads, CAPACITY, attention.dim
    ours = random(*shape, seed=1, dtype=dtype), random(*shape, seed=2, dtype=dtype)
    theirs = ours[0].clone(), ours[1].clone()
    got = attention_rows(
        F.linear(x, attention.read), attention.q_norm.gain, attention.k_norm.gain, attention.q_norm.eps,
        table.cos, table.sin, *ours, **places(before, count), gate_by_head=not tower, pairs=tower,
    )  # fmt: skip
    skipped = max(0, -1 - before)
    real = slice(skipped, count)
    if count:
        at = Rows.at(torch.arange(before + 1 + skipped, before + 1 + count, device=DEVICE), CAPACITY, table)
        want = attention(x[real], *theirs, at) if tower else attention(x[real], *theirs, at, None)
        assert close(F.linear(got[real], attention.write), want)
    assert not got[:skipped].any()
    assert not got[count:].any()
    for mine, other in zip(ours, theirs, strict=True):
        written = slice(before + 1 + skipped, before + 1 + count)
        if count:
            assert close(mine[:, written], other[:, written])
        mine[:, written] = other[:, written]
        assert torch.equal(mine, other)


@pytest.mark.parametrize("pairs", [True, False])
def test_heads_of_any_size_attend(pairs):
    heads, kv, dim, half, rows, before = 6, 2, 24, 5, 7, 35
    norms = [ZeroCentredNorm(dim, 1e-6).to(DEVICE) for _ in range(2)]
    for seed, norm in enumerate(norms):
        norm.gain.copy_(random(dim, seed=seed) / 4)
        norm.finish()
    table = RopeTable(CAPACITY, 2 * half, 1e4).to(DEVICE)
    table.finish()
    read = random(rows, (2 * heads + 2 * kv) * dim)
    keys, values = random(kv, CAPACITY, dim, seed=4), random(kv, CAPACITY, dim, seed=5)
    all_keys, all_values = keys.clone(), values.clone()
    got = attention_rows(
        read, norms[0].gain, norms[1].gain, 1e-6, table.cos, table.sin, keys, values, **places(before, rows),
        gate_by_head=False, pairs=pairs,
    )  # fmt: skip
    turn = rotate_pairs if pairs else rotate_halves
    at = Rows.at(torch.arange(before + 1, before + 1 + rows, device=DEVICE), CAPACITY, table)
    q, gate, k, v = read.split([heads * dim, heads * dim, kv * dim, kv * dim], -1)
    q = turn(norms[0](q.view(rows, heads, dim)).transpose(0, 1), at.rope)
    all_keys[:, at.positions] = turn(norms[1](k.view(rows, kv, dim)).transpose(0, 1), at.rope)
    all_values[:, at.positions] = v.view(rows, kv, dim).transpose(0, 1)
    assert close(got, attend(q, all_keys, all_values, at.visible) * gate.sigmoid())
    assert close(keys, all_keys)
    assert torch.equal(values, all_values)
