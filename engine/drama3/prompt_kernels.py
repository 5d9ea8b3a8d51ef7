"""A prompt's rows through the delta net and the experts: what the plain layers do in many operations, in few.

Where rows come in blocks of fixed size (`fused_prompt.py`) the work is to read the experts, nearly all of
them, and to launch: the delta net alone is 79 operations of torch a layer, here it is three. Rounding is as
in `kernels.py`. Every function is held against its twin by a test: `delta_rows` against
`backbone.DeltaNet`, `route` and `experts_grouped` against `experts.py`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.drama3.kernels import FP8_BLOCK, _choice, _delta_places, _dot, _gates, _silu, widen

SCAN = 8, 1  # values of a program of the delta net's scan, warps
GROUPED = 64, 4, 3  # rows of an expert's matrix in a program, warps, stages

# ---------------------------------------------------------------- delta net


@triton.jit
def _input(read, conv, row, channel, inside, stride, L: tl.constexpr):
    """What a convolution hears at `row` of a block: before its first one, what its memory holds."""
    if row >= 0:
        heard = tl.load(read + row * stride + channel, mask=inside, other=0.0)
    else:
        heard = tl.load(conv + channel * (L - 1) + (L - 1 + row), mask=inside, other=0.0)
    return heard


@triton.jit
def _delta_in_kernel(
    read, conv, w, log_rate, dt_bias, qkv, gates, count, stride,
    KEY_HEADS: tl.constexpr, HEADS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, P: tl.constexpr,
    L: tl.constexpr,
):  # fmt: skip
    """A row's q, k or v of one head behind the convolution, q and k of unit length; with v go the gates."""
    row, part = tl.program_id(0), tl.program_id(1)
    if row < tl.load(count):
        keys: tl.constexpr = 2 * KEY_HEADS
        channels: tl.constexpr = keys * DK + HEADS * DV
        is_key = part < keys
        head = part - keys
        i = tl.arange(0, P)
        inside = i < tl.where(is_key, DK, DV)
        channel = tl.where(is_key, part * DK, keys * DK + head * DV) + i
        total = tl.zeros([P], tl.float32)
        for back in tl.static_range(0, L):
            now = _input(read, conv, row - back, channel, inside, stride, L)
            weight = tl.load(w + channel * L + (L - 1 - back), mask=inside, other=0.0)
            total += now.to(tl.float32) * weight.to(tl.float32)
        kind = read.dtype.element_ty
        x = _silu(total.to(kind).to(tl.float32)).to(kind).to(tl.float32)
        unit = tl.rsqrt(tl.sum(x * x, 0) + 1e-6)
        x *= tl.where(part < KEY_HEADS, unit * (DK**-0.5), tl.where(is_key, unit, 1.0))
        tl.store(qkv + row * channels + channel, x, mask=inside)
        if part >= keys:
            at = read + row * stride + channels + HEADS * DV
            beta, decay = _gates(at, log_rate, dt_bias, head, HEADS)
            pair = gates + (row * HEADS + head) * 2
            tl.store(pair, beta)
            tl.store(pair + 1, decay)


@triton.jit
def _remember(read, conv, channel, inside, n, stride, L: tl.constexpr):
    """Move a convolution's memory on by `n` rows; upwards, no place is read after it was written."""
    for j in tl.static_range(0, L - 1):
        heard = _input(read, conv, n - (L - 1) + j, channel, inside, stride, L)
        tl.store(conv + channel * (L - 1) + j, heard, mask=inside)


@triton.jit
def _delta_scan_kernel(
    read, conv, qkv, gates, state, out, count, stride,
    KEY_HEADS: tl.constexpr, HEADS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, KP: tl.constexpr,
    BLOCK_V: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """The recurrence of one head for some of its values, row by row; the next row is fetched meanwhile."""
    head, block = tl.program_id(0), tl.program_id(1)
    channels: tl.constexpr = 2 * KEY_HEADS * DK + HEADS * DV
    places = _delta_places(head, block, KEY_HEADS, HEADS, DK, DV, KP, BLOCK_V)
    q_channel, k_channel, v_channel, k_in, v_in, entry = places
    v_at, at = v_channel - 2 * KEY_HEADS * DK, state + entry
    inside = k_in[:, None] & v_in[None, :]
    s = tl.load(at, mask=inside, other=0.0)
    n = tl.load(count).to(tl.int32)
    q = tl.load(qkv + q_channel, mask=k_in, other=0.0)
    k = tl.load(qkv + k_channel, mask=k_in, other=0.0)
    v = tl.load(qkv + v_channel, mask=v_in, other=0.0)
    beta, decay = tl.load(gates + head * 2), tl.load(gates + head * 2 + 1)
    for row in range(n):
        after = qkv + (row + 1) * channels
        next_q = tl.load(after + q_channel, mask=k_in, other=0.0)
        next_k = tl.load(after + k_channel, mask=k_in, other=0.0)
        next_v = tl.load(after + v_channel, mask=v_in, other=0.0)
        pair = gates + ((row + 1) * HEADS + head) * 2
        next_beta, next_decay = tl.load(pair), tl.load(pair + 1)
        s *= decay
        delta = beta * (v - tl.sum(k[:, None] * s, 0))
        s += k[:, None] * delta[None, :]
        o = tl.sum(q[:, None] * s, 0)
        tl.store(out + row * (HEADS * DV) + v_at, o.to(out.dtype.element_ty), mask=v_in)
        q, k, v, beta, decay = next_q, next_k, next_v, next_beta, next_decay
    tl.store(at, s, mask=inside)
    if L > 1:
        _remember(read, conv, v_channel, v_in, n, stride, L)
        if (head % (HEADS // KEY_HEADS) == 0) & (block == 0):
            _remember(read, conv, q_channel, k_in, n, stride, L)
            _remember(read, conv, k_channel, k_in, n, stride, L)


@triton.jit
def _delta_out_kernel(
    read, o, gain, eps, count, stride, first, HEADS: tl.constexpr, DV: tl.constexpr, P: tl.constexpr
):
    """o = norm(o) * gain * silu(z) of one row and head, in place; 0 in the rows that fill up."""
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, P)
    inside = d < DV
    at = o + row * (HEADS * DV) + head * DV + d
    if row < tl.load(count):
        x = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        z = tl.load(read + row * stride + first + head * DV + d, mask=inside, other=0.0).to(tl.float32)
        x *= tl.rsqrt(tl.sum(x * x, 0) / DV + eps) * tl.load(gain + d, mask=inside, other=0.0) * _silu(z)
        tl.store(at, x.to(o.dtype.element_ty), mask=inside)
    else:
        tl.store(at, tl.zeros([P], o.dtype.element_ty), mask=inside)


def delta_rows(
    read: Tensor,
    conv: Tensor,
    weights: Tensor,
    log_rate: Tensor,
    dt_bias: Tensor,
    gain: Tensor,
    eps: float,
    recurrent: Tensor,
    count: Tensor,
    key_heads: int,
) -> Tensor:
    """The delta net between its two projections: read [rows, q|k|v|z|b|a] -> [rows, heads * dv].

    Only the first `count` [1] int64 rows are real. `conv` [channels, K-1] and `recurrent` [heads, dk, dv]
    float32 move on in place; `weights` [channels, 1, K].
    """
    rows, stride = read.shape
    heads, dk, dv = recurrent.shape
    channels, length = len(conv), weights.shape[-1]
    # A row more, which is fetched behind the last one and not used.
    qkv = torch.empty(rows + 1, channels, dtype=torch.float32, device=read.device)
    gates = torch.empty(rows + 1, heads, 2, dtype=torch.float32, device=read.device)
    out = read.new_empty(rows, heads * dv)
    sizes = dict(KEY_HEADS=key_heads, HEADS=heads, DK=dk, DV=dv, L=length)
    _delta_in_kernel[(rows, 2 * key_heads + heads)](
        read, conv, weights, log_rate, dt_bias, qkv, gates, count, stride,
        P=triton.next_power_of_2(max(dk, dv)), num_warps=1, **sizes,
    )  # fmt: skip
    block, warps = min(SCAN[0], triton.next_power_of_2(dv)), SCAN[1]
    _delta_scan_kernel[(heads, triton.cdiv(dv, block))](
        read, conv, qkv, gates, recurrent, out, count, stride,
        KP=triton.next_power_of_2(dk), BLOCK_V=block, num_warps=warps, **sizes,
    )  # fmt: skip
    _delta_out_kernel[(rows, heads)](
        read, out, gain, eps, count, stride, channels,
        HEADS=heads, DV=dv, P=triton.next_power_of_2(dv), num_warps=1,
    )  # fmt: skip
    return out


# ---------------------------------------------------------------- experts


@triton.jit
def _route_kernel(logits, index, share, count, stride, E: tl.constexpr, EP: tl.constexpr, TOP: tl.constexpr):
    row, slot = tl.program_id(0), tl.program_id(1)
    expert, odds = _choice(logits + row * stride, slot, E, EP, TOP, 1)
    tl.store(index + row * TOP + slot, tl.where(row < tl.load(count), expert, E))
    tl.store(share + row * TOP + slot, odds)


def route(logits: Tensor, top_k: int, count: Tensor) -> tuple[Tensor, Tensor]:
    """`experts.route` of logits [rows, E]: (share float32, index int32) [rows, top_k], best first.

    Only the first `count` [1] int64 rows are real: the others choose expert E, whom nobody knows.
    """
    rows, num = logits.shape
    index = torch.empty(rows, top_k, dtype=torch.int32, device=logits.device)
    share = torch.empty(rows, top_k, dtype=torch.float32, device=logits.device)
    _route_kernel[(rows, top_k)](
        logits, index, share, count, logits.stride(0), E=num, EP=triton.next_power_of_2(num), TOP=top_k,
        num_warps=1,
    )  # fmt: skip
    return share, index


@triton.jit
def _order_kernel(index, order, place, ends, pairs, E: tl.constexpr, PP: tl.constexpr):
    """Where the pairs of one expert lie among all, sorted by expert; nowhere, those of none."""
    expert = tl.program_id(0)
    pair = tl.arange(0, PP)
    theirs = tl.load(index + pair, mask=pair < pairs, other=1 << 30)
    mine = theirs == expert
    start = tl.sum((theirs < expert).to(tl.int32), 0)
    at = start + tl.cumsum(mine.to(tl.int32), 0) - 1
    if expert == E:
        tl.store(place + pair, -1, mask=mine)
    else:
        tl.store(order + at, pair, mask=mine)
        tl.store(place + pair, at, mask=mine)
        tl.store(ends + expert, start + tl.sum(mine.to(tl.int32), 0))


@triton.jit
def _grouped_kernel(
    x, order, ends, w, scale, y, n,
    K: tl.constexpr, PER_ROW: tl.constexpr, FP8: tl.constexpr, SWIGLU: tl.constexpr, GATHER: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    expert, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    rows = block * BLOCK_N + tl.arange(0, BLOCK_N)
    end = tl.load(ends + expert)
    start = tl.load(ends + expert - 1, mask=expert > 0, other=0)
    halves: tl.constexpr = 2 if SWIGLU else 1
    row_blocks = (n + FP8_BLOCK - 1) // FP8_BLOCK
    column_blocks: tl.constexpr = (K + FP8_BLOCK - 1) // FP8_BLOCK
    matrix = w + expert * halves * n * K
    scales = scale + (expert * halves * row_blocks + block * BLOCK_N // FP8_BLOCK) * column_blocks
    kind = y.dtype.element_ty
    for tile in range(start, end, BLOCK_M):
        pair = tile + tl.arange(0, BLOCK_M)
        there = pair < end
        source = tl.load(order + pair, mask=there, other=0) // PER_ROW if GATHER else pair
        sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        ups = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for first in range(0, K, BLOCK_K):
            k = first + tl.arange(0, BLOCK_K)
            k_in = k < K
            part = tl.load(
                x + source[:, None] * K + k[None, :], mask=there[:, None] & k_in[None, :], other=0.0
            )
            for half in tl.static_range(halves):
                at = half * n * K + rows[:, None] * K + k[None, :]
                tile_w = tl.load(matrix + at, mask=(rows < n)[:, None] & k_in[None, :], other=0.0)
                product = _dot(part, tl.trans(tile_w.to(kind)), WIDE)
                if FP8:  # a tile lies within one block, which has one scale
                    s_at = half * row_blocks * column_blocks + first // FP8_BLOCK
                    product *= tl.load(scales + s_at)
                if half == 0:
                    sums += product
                else:
                    ups += product
        if SWIGLU:
            sums = _silu(sums) * ups
        tl.store(
            y + pair[:, None] * n + rows[None, :], sums.to(kind), mask=there[:, None] & (rows < n)[None, :]
        )


def experts_grouped(
    x: Tensor,
    index: Tensor,
    gate_up: Tensor,
    gate_up_scale: Tensor | None,
    down: Tensor,
    down_scale: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """What the chosen experts `index` int32 [rows, k] make of x [rows, H], each of them read once:
    (out [rows * k, H], place int32 [rows * k]).

    Pairs of (row, expert) lie sorted by expert, pair p in out[place[p]]; a program has a block of one
    expert's matrix and passes all its pairs. An expert that isn't there (`route`) makes nothing and its place
    is -1. Nothing is read back.
    """
    num, _, width, h = gate_up.shape
    rows, top = index.shape
    pairs = rows * top
    order, place = torch.empty(2, pairs, dtype=torch.int32, device=x.device)
    ends = torch.empty(num, dtype=torch.int32, device=x.device)
    _order_kernel[(num + 1,)](
        index, order, place, ends, pairs, E=num, PP=triton.next_power_of_2(pairs), num_warps=4
    )
    block, warps, stages = GROUPED
    hidden, out = x.new_empty(pairs, width), x.new_empty(pairs, h)
    for source, w, scale, into, gather in (
        (x, gate_up, gate_up_scale, hidden, True),
        (hidden, down, down_scale, out, False),
    ):
        n = into.shape[1]
        _grouped_kernel[(num, triton.cdiv(n, block))](
            source, order, ends, w, x if scale is None else scale, into, n,
            K=source.shape[1], PER_ROW=top, FP8=scale is not None, SWIGLU=gather, GATHER=gather,
            BLOCK_M=16, BLOCK_N=block, BLOCK_K=FP8_BLOCK.value, WIDE=widen(x.dtype),
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    return out, place
