"""Gated attention of a block of a prompt's rows, between its two projections.

In plain torch that is some 45 operations a layer, and its product runs over a whole bucket of the cache. Here
it is two kernels that read live rows only: the first norms and turns queries and keys and writes the cache,
the second passes a tile of queries over the cached rows with a running softmax. Rounding is as in
`kernels.py`. A test holds both against `backbone.GatedAttention` and `tower.TowerAttention`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.drama3.kernels import _angles, _attended, _mate, _rows, _turned, widen

QUERIES = 16  # of one head, that a program answers
KEYS = 64, 8  # cached rows that a program reads at once, warps


@triton.jit
def _place_kernel(
    read, q_gain, k_gain, cos, sin, keys, values, queries, before, count, eps, stride, capacity,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, HALF: tl.constexpr,
    PAIRS: tl.constexpr, Q_STRIDE: tl.constexpr, K_AT: tl.constexpr,
):  # fmt: skip
    """A row's query of one head, or its key and value of one, to where they are looked for."""
    row, part = tl.program_id(0), tl.program_id(1)
    position = tl.load(before) + 1 + row
    if (row < tl.load(count)) & (position >= 0):
        d = tl.arange(0, DP)
        mate, inside, kv = _mate(d, HALF, PAIRS), d < D, part - HEADS
        is_query = part < HEADS
        at = read + row.to(tl.int64) * stride + tl.where(is_query, part * Q_STRIDE, K_AT + kv * D)
        x = tl.load(at + d, mask=inside, other=0.0)[None, :]
        x_mate = tl.load(at + mate, mask=inside, other=0.0)[None, :]
        gain = k_gain
        if is_query:
            gain = q_gain
        own = tl.load(gain + d, mask=inside, other=0.0)
        other = tl.load(gain + mate, mask=inside, other=0.0)
        c, s = _angles(cos, sin, position, d, HALF, PAIRS)
        x = _turned(x, x_mate, own, other, c, s, eps, D)
        if is_query:
            tl.store(queries + ((row * HEADS + part) * D + d)[None, :], x, mask=inside[None, :])
        else:
            entry = (kv.to(tl.int64) * capacity + position) * D + d
            tl.store(keys + entry[None, :], x, mask=inside[None, :])
            tl.store(values + entry, tl.load(at + KV_HEADS * D + d, mask=inside, other=0.0), mask=inside)


@triton.jit
def _attend_kernel(
    read, queries, keys, values, out, before, count, stride, capacity, scale, rows,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, GATE_STRIDE: tl.constexpr,
    GATE_AT: tl.constexpr, QUERIES: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    tile, head = tl.program_id(0), tl.program_id(1)
    row, d = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DP)
    first, real_rows = tl.load(before) + 1, tl.load(count)
    position = first + row
    real = (row < real_rows) & (position >= 0)
    inside = real[:, None] & (d < D)[None, :]
    kind = out.dtype.element_ty
    q = tl.load(queries + (row[:, None] * HEADS + head) * D + d[None, :], mask=inside, other=0.0)
    gate_at = read + row.to(tl.int64)[:, None] * stride + GATE_AT + head * GATE_STRIDE
    gate = tl.load(gate_at + d[None, :], mask=inside, other=0.0).to(tl.float32)
    base = (head // GROUP).to(tl.int64) * capacity
    # Behind the newest row that the tile may see.
    end = tl.where(tile * QUERIES < real_rows, first + tl.minimum(real_rows, (tile + 1) * QUERIES), 0)
    most = tl.full([QUERIES], -float("inf"), tl.float32)
    mass = tl.zeros([QUERIES], tl.float32)
    mixed = tl.zeros([QUERIES, DP], tl.float32)
    key = _rows(keys, base, 0, end, d, D, BLOCK)
    value = _rows(values, base, 0, end, d, D, BLOCK)
    for start in range(0, end, BLOCK):
        next_key = _rows(keys, base, start + BLOCK, end, d, D, BLOCK)
        next_value = _rows(values, base, start + BLOCK, end, d, D, BLOCK)
        # The first row of all is seen by all, also by those that aren't real: no scores are all infinite.
        seen = (start + tl.arange(0, BLOCK))[None, :] <= tl.maximum(position, 0)[:, None]
        most, mass, mixed = _attended(q, key, value, seen, scale, most, mass, mixed, WIDE)
        key, value = next_key, next_value
    mixed = (mixed / tl.where(real, mass, 1.0)[:, None]).to(kind).to(tl.float32)
    gated = tl.where(inside, mixed * tl.sigmoid(gate).to(kind).to(tl.float32), 0.0)
    at = (row.to(tl.int64)[:, None] * HEADS + head) * D + d[None, :]
    tl.store(out + at, gated.to(kind), mask=(row < rows)[:, None] & (d < D)[None, :])


def attention_rows(
    read: Tensor,
    q_gain: Tensor,
    k_gain: Tensor,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    before: Tensor,
    count: Tensor,
    gate_by_head: bool,
    pairs: bool,
) -> Tensor:
    """What each row of a block attends to, gated: [rows, heads * dim].

    `read` [rows, W] is laid out as for `kernels.attention`. The rows stand behind position `before` [1]
    int64, which may be below 0; a row is real if it is among the first `count` [1] int64 and its own position
    is not below 0. Real rows are written into `keys`, `values` [kv_heads, capacity, dim] and attend to all
    rows up to themselves; the others are written nowhere and give 0.
    """
    kv_heads, capacity, dim = keys.shape
    rows, width = read.shape
    heads = (width // dim - 2 * kv_heads) // 2
    shared = dict(HEADS=heads, D=dim, DP=max(16, triton.next_power_of_2(dim)))
    stride, (block, warps) = 2 * dim if gate_by_head else dim, KEYS
    queries, out = read.new_empty(rows, heads, dim), read.new_empty(rows, heads * dim)
    _place_kernel[(rows, heads + kv_heads)](
        read, q_gain, k_gain, cos, sin, keys, values, queries, before, count, eps, read.stride(0), capacity,
        KV_HEADS=kv_heads, HALF=cos.shape[-1], PAIRS=pairs, Q_STRIDE=stride, K_AT=2 * heads * dim,
        num_warps=1, **shared,
    )  # fmt: skip
    _attend_kernel[(triton.cdiv(rows, QUERIES), heads)](
        read, queries, keys, values, out, before, count, read.stride(0), capacity, dim**-0.5, rows,
        GROUP=heads // kv_heads, GATE_STRIDE=stride, GATE_AT=dim if gate_by_head else heads * dim,
        QUERIES=QUERIES, BLOCK=block, WIDE=widen(read.dtype), num_warps=warps, num_stages=1, **shared,
    )  # fmt: skip
    return out
