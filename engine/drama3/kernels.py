"""The decode step's kernels: one row at a time, bound by the bytes of the weights.

At batch 1 a step reads every weight it needs once and does next to nothing with it, so a kernel is good when
it streams its matrix at the speed of the memory and the next one starts at once. Therefore everything small
(norms, gates, activations, residual sums, the router's choice, rope) is folded into the kernel that reads a
matrix beside it: a program recomputes what it needs from a few kilobytes in cache, which is cheaper than one
more launch. Sums are in float32; what the plain torch layers round to the model's dtype between two layers is
rounded here as well, what they round inside one is not.

On compute capability 9.0 and later the kernels of a step overlap (CUDA's programmatic dependent launch): each
lets its successor start at once, loads what no kernel of this frame writes - weights, the delta net's state -
and only then waits for its predecessor. A frame is one graph and graphs run in order, so what an earlier
frame wrote is there.

Every function is held against its twin by a test: `gemv` against norm, `F.linear` and `swiglu` in
`layers.py`; `delta` against the one-row path of `backbone.DeltaNet`; `experts_up` and `experts_down` against
`experts.py`; `attention` against `layers.attend` behind norm, rope and cache write; the draws against
`sampling.py`; `tower_in` and `commit` as parts of the whole step (`fused.py`). Without a GPU the tests run
them in Triton's interpreter.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.sampling import Knobs

FP8_BLOCK = tl.constexpr(128)  # rows and columns that share a scale
INTERPRETED = os.getenv("TRITON_INTERPRET") == "1"


@lru_cache
def overlapping() -> dict[str, Any]:
    """How a kernel of the step is launched here: whether it overlaps with its neighbours."""
    if INTERPRETED or triton.runtime.driver.active.get_current_target().arch < 90:
        return {"OVERLAP": False}
    return {"OVERLAP": True, "launch_pdl": True}


@triton.jit
def _let_next_start(OVERLAP: tl.constexpr):
    if OVERLAP:  # in PTX's own words: Triton 3.4 can't compile its functions for them
        tl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def _await_last(OVERLAP: tl.constexpr):
    """Until here nothing may be loaded that this frame wrote, and nothing stored."""
    if OVERLAP:
        tl.inline_asm_elementwise(
            "griddepcontrol.wait; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def _silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _normed(x, gain, eps, k, K: tl.constexpr):
    """x [KP] float32, 0 beyond K, of length sqrt(K) and times `gain`."""
    return x * tl.rsqrt(tl.sum(x * x, 0) / K + eps) * tl.load(gain + k, mask=k < K, other=0.0)


@triton.jit
def _gemv_kernel(
    x, gain, w, rest, y, eps, n,
    K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    NORM: tl.constexpr, SWIGLU: tl.constexpr, ADD: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    ups = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    squares = tl.zeros([BLOCK_K], tl.float32)
    for start in tl.static_range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = (rows < n)[:, None] if K % BLOCK_K == 0 else (rows < n)[:, None] & (k < K)[None, :]
        at = rows.to(tl.int64)[:, None] * K + k[None, :]
        tile = tl.load(w + at, mask=inside, other=0.0, eviction_policy="evict_first")
        if SWIGLU:
            up = tl.load(w + n * K + at, mask=inside, other=0.0, eviction_policy="evict_first")
        if start == 0:
            _await_last(OVERLAP)
        part = tl.load(x + k, mask=k < K, other=0.0).to(tl.float32)
        if NORM:  # the row's own scale is a factor of the sum: nothing has to wait for it
            squares += part * part
            part *= tl.load(gain + k, mask=k < K, other=0.0)
        sums += tile.to(tl.float32) * part[None, :]
        if SWIGLU:
            ups += up.to(tl.float32) * part[None, :]
    rstd = tl.rsqrt(tl.sum(squares, 0) / K + eps) if NORM else 1.0
    out = tl.sum(sums, 1) * rstd
    if SWIGLU:
        out = _silu(out) * (tl.sum(ups, 1) * rstd)
    if ADD:
        out += tl.load(rest + rows, mask=rows < n, other=0.0).to(tl.float32)
    tl.store(y + rows, out.to(y.dtype.element_ty), mask=rows < n)


def gemv(
    x: Tensor,
    w: Tensor,
    y: Tensor,
    gain: Tensor | None = None,
    eps: float = 0.0,
    rest: Tensor | None = None,
    swiglu: bool = False,
) -> None:
    """y [n] = w [n, K] @ x [K]; `gain` norms x first, `rest` [n] is added at the end.

    `swiglu`: w is [2n, K], gate rows then up rows, and y = silu(gate) * up.
    """
    n, width = y.shape[-1], w.shape[1]
    block_n, block_k, warps = gemv_blocks(n, width, swiglu)
    _gemv_kernel[(triton.cdiv(n, block_n),)](
        x, x if gain is None else gain, w, x if rest is None else rest, y, eps, n,
        K=width, BLOCK_N=block_n, BLOCK_K=block_k,
        NORM=gain is not None, SWIGLU=swiglu, ADD=rest is not None, num_warps=warps, **overlapping(),
    )  # fmt: skip


def gemv_blocks(n: int, width: int, swiglu: bool) -> tuple[int, int, int]:
    """(rows of a program, columns it reads at once, warps): the fastest on an H200, within a twentieth."""
    if width > 2048:
        return 4, 2048, 4
    return 2, min(1024 if n > 2048 else 2048, triton.next_power_of_2(width)), 2 if swiglu else 4


@triton.jit
def _norm_kernel(x, gain, y, eps, K: tl.constexpr, KP: tl.constexpr, OVERLAP: tl.constexpr):
    _let_next_start(OVERLAP)
    _await_last(OVERLAP)
    k = tl.arange(0, KP)
    row = tl.load(x + k, mask=k < K, other=0.0).to(tl.float32)
    row *= tl.rsqrt(tl.sum(row * row, 0) / K + eps) * tl.load(gain + k, mask=k < K, other=0.0)
    tl.store(y + k, row.to(y.dtype.element_ty), mask=k < K)


def norm(x: Tensor, gain: Tensor, eps: float, y: Tensor) -> None:
    """y [K] = norm(x [K])."""
    width = x.shape[-1]
    padded = triton.next_power_of_2(width)
    _norm_kernel[(1,)](x, gain, y, eps, K=width, KP=padded, num_warps=8, **overlapping())


# ---------------------------------------------------------------- delta net


@triton.jit
def _conv(u, ring, w, channel, inside, last, channels, L: tl.constexpr):
    """silu of the causal convolution's newest output for `channel`, in u's dtype as float32.

    `w` [L, channels]; `ring` [L, channels] holds the input of position p in slot p % L, so that reading the
    last L - 1 and writing the newest never meet.
    """
    total = tl.load(u + channel, mask=inside, other=0.0).to(tl.float32)
    total *= tl.load(w + (L - 1) * channels + channel, mask=inside, other=0.0).to(tl.float32)
    for back in tl.static_range(1, L):
        slot = (last - back + L) % L
        older = tl.load(ring + slot * channels + channel, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(w + (L - 1 - back) * channels + channel, mask=inside, other=0.0)
        total += older * weight.to(tl.float32)
    kind = u.dtype.element_ty
    return _silu(total.to(kind).to(tl.float32)).to(kind).to(tl.float32)


@triton.jit
def _gates(at, log_rate, dt_bias, head, HEADS: tl.constexpr):
    """(beta, decay) of a head, from a row's b and a, which begin `at`."""
    a = tl.load(at + HEADS + head).to(tl.float32) + tl.load(dt_bias + head)
    softplus = tl.where(a > 20.0, a, tl.log(1.0 + tl.exp(tl.minimum(a, 20.0))))
    beta = tl.sigmoid(tl.load(at + head).to(tl.float32))
    return beta, tl.exp(tl.load(log_rate + head) * softplus)


@triton.jit
def _delta_places(
    head, block, KEY_HEADS: tl.constexpr, HEADS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    KP: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """A head's channels of q, k and one block of v, which of k and v exist, and the head's entries [KP,
    BLOCK_V] of the state."""
    key_head = head // (HEADS // KEY_HEADS)
    i, v_at = tl.arange(0, KP), block * BLOCK_V + tl.arange(0, BLOCK_V)
    q_channel = key_head * DK + i
    k_channel = KEY_HEADS * DK + q_channel
    v_channel = 2 * KEY_HEADS * DK + head * DV + v_at
    entry = (head * DK + i)[:, None] * DV + v_at[None, :]
    return q_channel, k_channel, v_channel, i < DK, v_at < DV, entry


@triton.jit
def _delta_kernel(
    read, ring, conv, log_rate, dt_bias, state, out, last,
    KEY_HEADS: tl.constexpr, HEADS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    KP: tl.constexpr, BLOCK_V: tl.constexpr, L: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    head, block = tl.program_id(0), tl.program_id(1)
    places = _delta_places(head, block, KEY_HEADS, HEADS, DK, DV, KP, BLOCK_V)
    q_channel, k_channel, v_channel, k_in, v_in, entry = places
    v_at, at = v_channel - 2 * KEY_HEADS * DK, state + entry
    inside = k_in[:, None] & v_in[None, :]
    s = tl.load(at, mask=inside, other=0.0)
    _await_last(OVERLAP)
    position = tl.load(last)
    channels: tl.constexpr = 2 * KEY_HEADS * DK + HEADS * DV
    q = _conv(read, ring, conv, q_channel, k_in, position, channels, L)
    k = _conv(read, ring, conv, k_channel, k_in, position, channels, L)
    v = _conv(read, ring, conv, v_channel, v_in, position, channels, L)
    newest = ring + (position % L) * channels
    if (head % (HEADS // KEY_HEADS) == 0) & (block == 0):
        tl.store(newest + q_channel, tl.load(read + q_channel, mask=k_in, other=0.0), mask=k_in)
        tl.store(newest + k_channel, tl.load(read + k_channel, mask=k_in, other=0.0), mask=k_in)
    tl.store(newest + v_channel, tl.load(read + v_channel, mask=v_in, other=0.0), mask=v_in)
    q = q * tl.rsqrt(tl.sum(q * q, 0) + 1e-6) * (DK**-0.5)
    k = k * tl.rsqrt(tl.sum(k * k, 0) + 1e-6)
    gates = 2 * KEY_HEADS * DK + 2 * HEADS * DV
    beta, decay = _gates(read + gates, log_rate, dt_bias, head, HEADS)
    s *= decay
    delta = beta * (v - tl.sum(k[:, None] * s, 0))
    s += k[:, None] * delta[None, :]
    tl.store(at, s, mask=inside)
    o = tl.sum(q[:, None] * s, 0)
    tl.store(out + v_at, o.to(out.dtype.element_ty), mask=v_in)


def delta(
    read: Tensor,
    ring: Tensor,
    conv: Tensor,
    log_rate: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    out: Tensor,
    last: Tensor,
    key_heads: int,
) -> None:
    """One row of the delta net between its two projections, in place on `state` [heads, dk, dv] float32.

    `read` holds q, k, v, z, b, a; `conv` [K, channels] the convolution, `ring` [K, channels] its inputs,
    position p in slot p % K;
    `last` [1] int64 the row's position; `out` [heads * dv] what the gated norm of `gemv_gated` takes.
    """
    heads, dk, dv = state.shape
    block = min(32, triton.next_power_of_2(dv))
    _delta_kernel[(heads, triton.cdiv(dv, block))](
        read, ring, conv, log_rate, dt_bias, state, out, last,
        KEY_HEADS=key_heads, HEADS=heads, DK=dk, DV=dv, KP=triton.next_power_of_2(dk), BLOCK_V=block,
        L=len(ring), num_warps=4, **overlapping(),
    )  # fmt: skip


@triton.jit
def _gemv_gated_kernel(
    o, z, gain, w, rest, y, eps, n,
    HEADS: tl.constexpr, HP: tl.constexpr, DV: tl.constexpr, DP: tl.constexpr, BLOCK_N: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    i = tl.arange(0, HP * DP)
    head, d = i // DP, i % DP
    inside, at = (head < HEADS) & (d < DV), head * DV + d
    w_at = rows.to(tl.int64)[:, None] * (HEADS * DV) + at[None, :]
    w_in = (rows < n)[:, None] & inside[None, :]
    tile = tl.load(w + w_at, mask=w_in, other=0.0, eviction_policy="evict_first")
    weight = tl.load(gain + d, mask=inside, other=0.0)
    _await_last(OVERLAP)
    part = tl.load(o + at, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(z + at, mask=inside, other=0.0).to(tl.float32)
    before = tl.load(rest + rows, mask=rows < n, other=0.0).to(tl.float32)
    squares = tl.sum(tl.reshape(part * part, [HP, DP]), 1)
    rstd = tl.reshape(tl.broadcast_to(tl.rsqrt(squares / DV + eps)[:, None], [HP, DP]), [HP * DP])
    part *= rstd * weight
    part *= _silu(gate)
    part = part.to(o.dtype.element_ty).to(tl.float32)
    out = tl.sum(tile.to(tl.float32) * part[None, :], 1) + before
    tl.store(y + rows, out.to(y.dtype.element_ty), mask=rows < n)


GEMV_GATED = 8, 8  # rows of a program, warps; gating costs a program as much as four rows of the matrix


def gemv_gated(
    o: Tensor, z: Tensor, gain: Tensor, eps: float, w: Tensor, rest: Tensor, y: Tensor, heads: int
) -> None:
    """y [n] = rest + w [n, heads * dv] @ (rms(o) * gain * silu(z)), the norm over each head of o, z."""
    n, dv = y.shape[-1], w.shape[1] // heads
    block_n, warps = GEMV_GATED
    _gemv_gated_kernel[(triton.cdiv(n, block_n),)](
        o, z, gain, w, rest, y, eps, n, HEADS=heads, HP=triton.next_power_of_2(heads), DV=dv,
        DP=triton.next_power_of_2(dv), BLOCK_N=block_n, num_warps=warps, **overlapping(),
    )  # fmt: skip


# ---------------------------------------------------------------- attention


@triton.jit
def _dot(a, b, WIDE: tl.constexpr):
    """a @ b with float32 sums; WIDE: in float32 throughout."""
    if WIDE:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return tl.dot(a, b)


def widen(dtype: torch.dtype) -> bool:
    """Float32 keeps its bits; and Triton's interpreter can't multiply bfloat16."""
    return dtype == torch.float32 or INTERPRETED


@triton.jit
def _mate(d, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """The entry that turns together with each entry d of a head. From 2 HALF on they stay."""
    first = d % 2 == 0 if PAIRS else d < HALF
    step: tl.constexpr = 1 if PAIRS else HALF
    return tl.where(d < 2 * HALF, tl.where(first, d + step, d - step), d)


@triton.jit
def _angles(cos, sin, position, d, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """(c, s) of each entry d of a head: rotated, it is x c + x[mate] s."""
    turns = d < 2 * HALF
    if PAIRS:
        first, angle = d % 2 == 0, d // 2
    else:
        first, angle = d < HALF, d % HALF
    c = tl.load(cos + position * HALF + angle, mask=turns, other=1.0)
    s = tl.load(sin + position * HALF + angle, mask=turns, other=0.0)
    return c, tl.where(first, -s, s)


@triton.jit
def _turned(x, mate, gain, mate_gain, c, s, eps, D: tl.constexpr):
    """The heads x [heads, entries] and their mates, normed and rotated, in x's dtype."""
    kind = x.dtype
    x, mate = x.to(tl.float32), mate.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, 1) / D + eps)[:, None]
    x = (x * rstd * gain[None, :]).to(kind).to(tl.float32)
    mate = (mate * rstd * mate_gain[None, :]).to(kind).to(tl.float32)
    return (x * c[None, :] + mate * s[None, :]).to(kind)


@triton.jit
def _rows(cache, base, row, end, d, D: tl.constexpr, BLOCK: tl.constexpr):
    """Rows row..row + BLOCK - 1 of a head's cache, zero from `end` on."""
    r = row + tl.arange(0, BLOCK)
    inside = (r < end)[:, None] & (d < D)[None, :]
    return tl.load(cache + (base + r)[:, None] * D + d[None, :], mask=inside, other=0.0)


@triton.jit
def _attended(q, key, value, seen, scale, most, mass, mixed, WIDE: tl.constexpr):
    """A running softmax behind one more block of rows, of which each query has `seen` some: the largest
    score, and the sums of the weights and of the weighted values, relative to it."""
    score = tl.where(seen, _dot(q, tl.trans(key), WIDE) * scale, -float("inf"))
    top = tl.maximum(most, tl.max(score, 1))
    shrink, share = tl.exp(most - top), tl.exp(score - top[:, None])
    mass = mass * shrink + tl.sum(share, 1)
    return top, mass, mixed * shrink[:, None] + _dot(share.to(q.dtype), value, WIDE)


@triton.jit
def _attention_part_kernel(
    read, q_gain, k_gain, cos, sin, keys, values, part, peak, total, last, eps, capacity, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    HALF: tl.constexpr, PAIRS: tl.constexpr, Q_STRIDE: tl.constexpr, K_AT: tl.constexpr,
    SPLITS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    kv, split = tl.program_id(0), tl.program_id(1)
    d, g = tl.arange(0, DP), tl.arange(0, GP)
    d_in = d < D
    mate = _mate(d, HALF, PAIRS)
    gains = tl.load(q_gain + d, mask=d_in, other=0.0), tl.load(q_gain + mate, mask=d_in, other=0.0)
    k_gains = tl.load(k_gain + d, mask=d_in, other=0.0), tl.load(k_gain + mate, mask=d_in, other=0.0)
    _await_last(OVERLAP)
    position = tl.load(last)
    head = kv * GROUP + g
    q_in = (g < GROUP)[:, None] & d_in[None, :]
    q_at = read + head[:, None] * Q_STRIDE
    q = tl.load(q_at + d[None, :], mask=q_in, other=0.0)
    q_mate = tl.load(q_at + mate[None, :], mask=q_in, other=0.0)
    k_at = read + K_AT + kv * D
    new_key = tl.load(k_at + d, mask=d_in, other=0.0)[None, :]
    k_mate = tl.load(k_at + mate, mask=d_in, other=0.0)[None, :]
    new_value = tl.load(k_at + KV_HEADS * D + d, mask=d_in, other=0.0)[None, :]
    base = kv.to(tl.int64) * capacity
    rows_a_split = tl.cdiv(tl.cdiv(position + 1, SPLITS), BLOCK) * BLOCK
    start = split * rows_a_split
    end = tl.minimum(start + rows_a_split, position)
    key = _rows(keys, base, start, end, d, D, BLOCK)  # under way while the queries are turned
    value = _rows(values, base, start, end, d, D, BLOCK)
    c, s = _angles(cos, sin, position, d, HALF, PAIRS)
    q = _turned(q, q_mate, gains[0], gains[1], c, s, eps, D)
    new_key = _turned(new_key, k_mate, k_gains[0], k_gains[1], c, s, eps, D)
    # The newest row belongs to the program whose rows end with it: it begins with that row, and writes it.
    newest = (start <= position) & (position < start + rows_a_split)
    if newest:
        at = ((base + position) * D + d)[None, :]
        tl.store(keys + at, new_key, mask=d_in[None, :])
        tl.store(values + at, new_value, mask=d_in[None, :])
    most = tl.sum(q.to(tl.float32) * new_key.to(tl.float32), 1) * scale
    most = tl.where(newest, most, -float("inf"))
    mass = tl.zeros([GP], tl.float32) + tl.where(newest, 1.0, 0.0)
    mixed = tl.zeros([GP, DP], tl.float32) + tl.where(newest, new_value.to(tl.float32), 0.0)
    for row in range(start, end, BLOCK):
        next_key = _rows(keys, base, row + BLOCK, end, d, D, BLOCK)
        next_value = _rows(values, base, row + BLOCK, end, d, D, BLOCK)
        seen = (row + tl.arange(0, BLOCK) < end)[None, :]
        most, mass, mixed = _attended(q, key, value, seen, scale, most, mass, mixed, WIDE)
        key, value = next_key, next_value
    slot = split * (KV_HEADS * GROUP) + head
    tl.store(part + slot[:, None] * D + d[None, :], mixed, mask=q_in)
    tl.store(peak + slot, most, mask=g < GROUP)
    tl.store(total + slot, mass, mask=g < GROUP)


@triton.jit
def _attention_join_kernel(
    read, part, peak, total, out,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
    GATE_STRIDE: tl.constexpr, GATE_AT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    _await_last(OVERLAP)
    head = tl.program_id(0)
    d, split = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, SPLITS)
    most = tl.load(peak + split * HEADS + head)
    masses = tl.load(total + split * HEADS + head)
    at = (split * HEADS + head)[:, None] * D + d[None, :]
    parts = tl.load(part + at, mask=(d < D)[None, :], other=0.0)
    gate = tl.load(read + GATE_AT + head * GATE_STRIDE + d, mask=d < D, other=0.0).to(tl.float32)
    weight = tl.exp(most - tl.max(most, 0))
    mass = tl.sum(weight * masses, 0)
    kind = out.dtype.element_ty
    mixed = (tl.sum(parts * weight[:, None], 0) / mass).to(kind).to(tl.float32)
    gated = mixed * tl.sigmoid(gate).to(kind).to(tl.float32)
    tl.store(out + head * D + d, gated.to(kind), mask=d < D)


SPLITS = 64  # parts of the cached rows: with 2 kv heads as many programs as a large card has multiprocessors
ATTENTION = 32, 8  # cached rows that a program reads at once, warps
JOIN_ENTRIES = 64  # of a head, that one program joins from all parts


class AttentionScratch:
    """Partial results of one attention, float32; every layer of a step may use the same."""

    def __init__(self, heads: int, dim: int, device: torch.device) -> None:
        self.part = torch.empty(SPLITS, heads, dim, device=device)
        self.peak = torch.empty(SPLITS, heads, device=device)
        self.total = torch.empty(SPLITS, heads, device=device)


def attention(
    read: Tensor,
    q_gain: Tensor,
    k_gain: Tensor,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    last: Tensor,
    out: Tensor,
    scratch: AttentionScratch,
    gate_by_head: bool,
    pairs: bool,
) -> None:
    """One row of gated attention between its two projections: out [heads * dim].

    `read` holds queries and gates (head by head in turn if `gate_by_head`, else all queries, then all gates),
    keys, values. Queries and keys are normed and rotated (`pairs`: neighbours, else halves); the row at
    position `last` [1] int64 is written into `keys`, `values` [kv_heads, capacity, dim] and attends to all
    rows up to itself. Only live rows are read.
    """
    kv_heads, capacity, dim = keys.shape
    heads = out.shape[-1] // dim
    group, half = heads // kv_heads, cos.shape[-1]
    dp, (block, warps) = triton.next_power_of_2(dim), ATTENTION
    _attention_part_kernel[(kv_heads, SPLITS)](
        read, q_gain, k_gain, cos, sin, keys, values, scratch.part, scratch.peak, scratch.total, last, eps,
        capacity, dim**-0.5,
        KV_HEADS=kv_heads, GROUP=group, GP=max(16, triton.next_power_of_2(group)), D=dim, DP=max(16, dp),
        HALF=half, PAIRS=pairs, Q_STRIDE=2 * dim if gate_by_head else dim, K_AT=2 * heads * dim,
        SPLITS=SPLITS, BLOCK=block, WIDE=widen(read.dtype), num_warps=warps, num_stages=1, **overlapping(),
    )  # fmt: skip
    entries = min(JOIN_ENTRIES, dp)
    _attention_join_kernel[(heads, triton.cdiv(dim, entries))](
        read, scratch.part, scratch.peak, scratch.total, out,
        HEADS=heads, D=dim, BLOCK=entries, SPLITS=SPLITS, GATE_STRIDE=2 * dim if gate_by_head else dim,
        GATE_AT=dim if gate_by_head else heads * dim, num_warps=4, **overlapping(),
    )  # fmt: skip


# ---------------------------------------------------------------- experts


@triton.jit
def _ordered(value):
    """int32 keys that sort as the float32 values do."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _value(key):
    """The float32 value of an int32 key."""
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def _choice(logits, slot, E: tl.constexpr, EP: tl.constexpr, TOP: tl.constexpr, WARPS: tl.constexpr):
    """(expert, share) of rank `slot` among E: softmax over all, renormalised over the TOP best, float32.

    Keys of score and index are unique: the best is found and struck out TOP times, of equals the first one.
    Every warp does it for itself, on a copy of all scores, because the eight maxima wait for one another and
    one that is taken across warps costs three barriers.
    """
    e = tl.broadcast_to(tl.arange(0, EP)[None, :], [WARPS, EP])
    score = tl.load(logits + e, mask=e < E, other=-float("inf"))
    short: tl.constexpr = score.dtype == tl.bfloat16  # 16 bits of score and 16 of index are one word
    score = score.to(tl.float32)
    if short:
        key = (_ordered(score) & -0x10000) | (EP - 1 - e)
    else:
        key = (_ordered(score).to(tl.int64) << 32) | (EP - 1 - e).to(tl.int64)
    lowest: tl.constexpr = -0x80000000 if short else -0x8000000000000000
    key = tl.where(e < E, key, lowest)
    first, kept = tl.zeros([WARPS], tl.float32), tl.zeros([WARPS], tl.float32)
    expert, mine = tl.zeros([WARPS], tl.int32), tl.zeros([WARPS], tl.float32)
    for rank in tl.static_range(TOP):
        best = tl.max(key, 1)
        if short:
            value = _value(tl.where(best < 0, best | 0xFFFF, best & -0x10000))
        else:
            value = _value((best >> 32).to(tl.int32))
        if rank == 0:
            first = value
        odds = tl.exp(value - first)
        kept += odds
        expert = tl.where(rank == slot, EP - 1 - (best & 0xFFFF).to(tl.int32), expert)
        mine = tl.where(rank == slot, odds, mine)
        key = tl.where(key == best[:, None], lowest, key)
    return tl.max(expert, 0), tl.max(mine / kept, 0)


@triton.jit
def _by_block(products, scales, N: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """[N] sums of products [N, K], each block of columns times its scale: scales are read once a block."""
    blocks = tl.sum(tl.reshape(products, [N, K // BLOCK, BLOCK]), 2)
    return tl.sum(blocks * scales[None, :], 1)


@triton.jit
def _experts_up_kernel(
    x, gain, logits, w, scale, hidden, chosen, share, eps,
    H: tl.constexpr, WIDTH: tl.constexpr, E: tl.constexpr, EP: tl.constexpr, TOP: tl.constexpr,
    FP8: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPAN: tl.constexpr,
    WARPS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    _await_last(OVERLAP)
    slot, block = tl.program_id(0), tl.program_id(1)
    expert, part = _choice(logits, slot, E, EP, TOP, WARPS)
    kind = x.dtype.element_ty
    if block == 0:
        tl.store(chosen + slot, expert.to(tl.int32))
        tl.store(share + slot, part.to(kind).to(tl.float32))
    rows = block * BLOCK_N + tl.arange(0, BLOCK_N)
    gates, ups = tl.zeros([BLOCK_N], tl.float32), tl.zeros([BLOCK_N], tl.float32)
    squares = tl.zeros([BLOCK_K], tl.float32)
    row_blocks: tl.constexpr = (WIDTH + FP8_BLOCK - 1) // FP8_BLOCK
    column_blocks: tl.constexpr = (H + FP8_BLOCK - 1) // FP8_BLOCK
    base = expert.to(tl.int64) * 2 * WIDTH * H
    for start in tl.static_range(0, H, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = (rows < WIDTH)[:, None] if H % BLOCK_K == 0 else (rows < WIDTH)[:, None] & (k < H)[None, :]
        at = base + rows[:, None] * H + k[None, :]
        gate = tl.load(w + at, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        up = tl.load(w + at + WIDTH * H, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        value = tl.load(x + k, mask=k < H, other=0.0).to(tl.float32)
        squares += value * value
        value *= tl.load(gain + k, mask=k < H, other=0.0)
        if FP8:  # the rows of a program lie in one block of rows
            b = start // FP8_BLOCK + tl.arange(0, BLOCK_K // SPAN)
            s_at = scale + (expert * 2 * row_blocks + block * BLOCK_N // FP8_BLOCK) * column_blocks + b
            s = tl.load(s_at, mask=b < column_blocks, other=0.0)
            gates += _by_block(gate * value[None, :], s, BLOCK_N, BLOCK_K, SPAN)
            s = tl.load(s_at + row_blocks * column_blocks, mask=b < column_blocks, other=0.0)
            ups += _by_block(up * value[None, :], s, BLOCK_N, BLOCK_K, SPAN)
        else:
            gates += tl.sum(gate * value[None, :], 1)
            ups += tl.sum(up * value[None, :], 1)
    rstd = tl.rsqrt(tl.sum(squares, 0) / H + eps)
    out = _silu(gates * rstd) * (ups * rstd)
    tl.store(hidden + slot * WIDTH + rows, out.to(kind), mask=rows < WIDTH)


@triton.jit
def _experts_down_kernel(
    hidden, chosen, share, w, scale, read, shared_w, rest, y,
    H: tl.constexpr, WIDTH: tl.constexpr, WP: tl.constexpr, SHARED: tl.constexpr, SP: tl.constexpr,
    TOP: tl.constexpr, TP: tl.constexpr, GATE_AT: tl.constexpr, FP8: tl.constexpr, BLOCK_N: tl.constexpr,
    SPAN: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    block = tl.program_id(0)
    rows = block * BLOCK_N + tl.arange(0, BLOCK_N)
    if SHARED:
        j = tl.arange(0, SP)
        inside = (rows < H)[:, None] & (j < SHARED)[None, :]
        tile = tl.load(shared_w + rows[:, None] * SHARED + j[None, :], mask=inside, other=0.0)
    _await_last(OVERLAP)
    # The experts' rows as one long row, so that a thread holds the few inputs of its columns for all rows.
    slot, i = tl.arange(0, TP * WP) // WP, tl.arange(0, TP * WP) % WP
    there = (slot < TOP) & (i < WIDTH)
    expert = tl.load(chosen + slot, mask=there, other=0)
    column = expert.to(tl.int64) * (H * WIDTH) + i
    if WIDTH % 16 == 0 and WP % 16 == 0:  # what a load can't know of numbers it has read
        column = tl.max_contiguous(tl.multiple_of(column, 16), 16)
    at = rows.to(tl.int64)[:, None] * WIDTH + column[None, :]
    in_w = (rows < H)[:, None] & there[None, :]
    part = tl.load(w + at, mask=in_w, other=0.0, eviction_policy="evict_first")
    value = tl.load(hidden + slot * WIDTH + i, mask=there, other=0.0).to(tl.float32)
    value *= tl.load(share + slot, mask=there, other=0.0)
    if FP8:
        row_blocks: tl.constexpr = (H + FP8_BLOCK - 1) // FP8_BLOCK
        column_blocks: tl.constexpr = (WIDTH + FP8_BLOCK - 1) // FP8_BLOCK
        s_at = (expert * row_blocks + block * BLOCK_N // FP8_BLOCK) * column_blocks + i // SPAN
        value *= tl.load(scale + s_at, mask=there, other=0.0)
    out = tl.load(rest + rows, mask=rows < H, other=0.0).to(tl.float32)
    if SHARED:  # before the experts' part, whose matrices are still on their way
        kind = read.dtype.element_ty
        gate = tl.load(read + GATE_AT + 1 + j, mask=j < SHARED, other=0.0).to(tl.float32)
        up = tl.load(read + GATE_AT + 1 + SHARED + j, mask=j < SHARED, other=0.0).to(tl.float32)
        both = (_silu(gate) * up).to(kind).to(tl.float32)
        share_of_all = tl.sigmoid(tl.load(read + GATE_AT).to(tl.float32))
        out += tl.sum(tile.to(tl.float32) * both[None, :], 1) * share_of_all
    out += tl.sum(part.to(tl.float32) * value[None, :], 1)
    tl.store(y + rows, out.to(y.dtype.element_ty), mask=rows < H)


EXPERTS_UP, EXPERTS_DOWN = (8, 4), (4, 4)  # rows of a program, warps


class ExpertScratch:
    """What one layer's experts hand from their first product to the second; shared by all layers."""

    def __init__(self, top_k: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        self.hidden = torch.empty(top_k, width, device=device, dtype=dtype)
        self.chosen = torch.empty(top_k, device=device, dtype=torch.int32)
        self.share = torch.empty(top_k, device=device)


def experts_up(
    x: Tensor,
    gain: Tensor,
    eps: float,
    logits: Tensor,
    w: Tensor,
    scale: Tensor | None,
    scratch: ExpertScratch,
) -> None:
    """The chosen experts' swiglu of norm(x [H]): `w` [E, 2, I, H], `logits` [>= E] the router's."""
    num, _, width, h = w.shape
    top = len(scratch.chosen)
    block_n, warps = EXPERTS_UP
    block_k = min(2048, triton.next_power_of_2(h))
    _experts_up_kernel[(top, triton.cdiv(width, block_n))](
        x, gain, logits, w, x if scale is None else scale, scratch.hidden, scratch.chosen, scratch.share, eps,
        H=h, WIDTH=width, E=num, EP=triton.next_power_of_2(num), TOP=top, FP8=scale is not None,
        BLOCK_N=block_n, BLOCK_K=block_k, SPAN=min(FP8_BLOCK.value, block_k), WARPS=warps, num_warps=warps,
        **overlapping(),
    )  # fmt: skip


def experts_down(
    scratch: ExpertScratch,
    w: Tensor,
    scale: Tensor | None,
    read: Tensor,
    shared_w: Tensor | None,
    rest: Tensor,
    y: Tensor,
) -> None:
    """y [H] = rest + the sum of the experts' down products by their shares + the gated shared expert's.

    `w` [E, H, I]; `read` holds the router's logits, the shared gate and the shared gate|up; `shared_w`
    [H, Is].
    """
    num, h, width = w.shape
    shared, top = 0 if shared_w is None else shared_w.shape[1], len(scratch.chosen)
    block_n, warps = EXPERTS_DOWN
    wide = triton.next_power_of_2(width)
    _experts_down_kernel[(triton.cdiv(h, block_n),)](
        scratch.hidden, scratch.chosen, scratch.share, w, rest if scale is None else scale, read,
        rest if shared_w is None else shared_w, rest, y,
        H=h, WIDTH=width, WP=wide, SHARED=shared, SP=triton.next_power_of_2(max(shared, 1)), TOP=top,
        TP=triton.next_power_of_2(top), GATE_AT=num, FP8=scale is not None, BLOCK_N=block_n,
        SPAN=min(FP8_BLOCK.value, wide), num_warps=warps, **overlapping(),
    )  # fmt: skip


# ---------------------------------------------------------------- frames


@triton.jit
def _tower_in_kernel(
    x, out_gain, row, table, code_at, code_embedding, code_norm, hidden_norm, y, eps, eos, code_size,
    frame_row,
    NORM: tl.constexpr, EXTRA: tl.constexpr, FIRST: tl.constexpr, BOOKS: tl.constexpr, H: tl.constexpr,
    HP: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    _await_last(OVERLAP)
    k = tl.arange(0, HP)
    inside = k < H
    kind = y.dtype.element_ty
    value = tl.load(x + k, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        value *= tl.rsqrt(tl.sum(value * value, 0) / H + eps) * tl.load(out_gain + k, mask=inside, other=0.0)
        value = value.to(kind).to(tl.float32)
    code = tl.load(frame_row + code_at)
    code = tl.minimum(tl.maximum(code, 0), code_size - 1)
    vector = tl.load(table + code * H + k, mask=inside, other=0.0).to(tl.float32)
    vector = tl.where(tl.load(frame_row) != eos, vector, 0.0)
    if EXTRA:
        # The codes of the last row that the backbone doesn't hear, if that row is one of audio.
        total = tl.zeros([HP], tl.float32)
        for book in tl.static_range(FIRST, BOOKS):
            older = tl.load(row + 1 + book)
            older = tl.minimum(tl.maximum(older, 0), code_size - 1) + book * code_size
            total += tl.load(code_embedding + older * H + k, mask=inside, other=0.0).to(tl.float32)
        audio = tl.load(row + BOOKS + 1)
        vector += tl.where(audio != 0, total.to(kind).to(tl.float32), 0.0)
        vector = vector.to(kind).to(tl.float32)
    for part in tl.static_range(2):
        source = vector if part == 0 else value
        gain = code_norm if part == 0 else hidden_norm
        tl.store(y + part * H + k, _normed(source, gain, eps, k, H).to(kind), mask=inside)


def tower_in(
    x: Tensor,
    out_gain: Tensor | None,
    eps: float,
    frame_row: Tensor,
    code_at: int,
    table: Tensor,
    code_gain: Tensor,
    hidden_gain: Tensor,
    y: Tensor,
    row: Tensor,
    code_embedding: Tensor,
    books: int,
    unheard: int,
    eos: int,
) -> None:
    """y [2H] = a tower layer's two normed inputs: the vector of a code; x [H], normed by `out_gain` first.

    The code is entry `code_at` of `frame_row` [1 + books], looked up in `table` [codes, H], and nothing in a
    frame that ends the take. From book `unheard` on, the codes of the last `row` [2 + books] are added, if
    that row is one of audio: the backbone doesn't hear them. (`unheard` = `books`: none are.)
    """
    width = x.shape[-1]
    _tower_in_kernel[(1,)](
        x, x if out_gain is None else out_gain, row, table, code_at, code_embedding, code_gain, hidden_gain,
        y, eps, eos, len(table), frame_row, NORM=out_gain is not None, EXTRA=unheard < books, FIRST=unheard,
        BOOKS=books, H=width, HP=triton.next_power_of_2(width), num_warps=8, **overlapping(),
    )  # fmt: skip


@triton.jit
def _drawn(
    value, chance, n, temperature, top_k, top_p, CROSSING: tl.constexpr, NP: tl.constexpr, BARS: tl.constexpr
):
    """(index, finite): drawn from logits `value` [NP] with noise `chance` ~ Exp(1), as `sampling.draw` does,
    and whether all logits are numbers.

    Nothing is sorted: mass and number of the candidates above a bar rise as the bar falls, so the lowest bar
    above which all may stay is searched with BARS bars a round, even steps of the value and of its bits in
    turn. The next level below it stays as far as it fits, by index; all further ones go.
    """
    i = tl.arange(0, NP)
    inside = i < n
    key = tl.maximum(tl.minimum(_ordered(value), 0x7FFFFFFD), -0x7FFFFFFD)
    key = tl.where(inside, key, -0x7FFFFFFF)
    top, best = tl.max(key, 0, return_indices=True)
    bottom = tl.min(tl.where(inside, key, top), 0)
    finite = (tl.abs(_value(top)) < float("inf")) & (tl.abs(_value(bottom)) < float("inf"))
    temperature = tl.maximum(temperature, 1e-5)
    peak = _value(top) / temperature
    odds = tl.where(inside, tl.exp(value / temperature - peak), 0.0)
    whole = tl.sum(odds, 0)
    probability = odds / whole
    low, high = bottom - 1, top + 1
    kept, mass_kept, above_low = 0, 0.0, n  # number and mass from `high` on, and number from `low` on
    j = tl.arange(0, BARS) + 1
    turn = 0
    while (low + 1 < high) & (kept + 1 < above_low):
        even = _ordered(_value(low) + (_value(high) - _value(low)) * (j.to(tl.float32) / (BARS + 1)))
        bits = low + tl.maximum(high // (BARS + 1) - low // (BARS + 1), 1) * j
        bar = tl.minimum(tl.maximum(tl.where(turn % 2 == 0, even, bits), low + 1), high - 1)
        turn += 1
        # Bars first, so that a thread has few candidates and all bars: no key is held twice.
        from_bar = key[None, :] >= bar[:, None]
        mass = tl.sum(tl.where(from_bar, probability[None, :], 0.0), 1)
        count = tl.sum(from_bar.to(tl.int32), 1)
        fits = (mass <= top_p) & (count <= top_k)
        above_low = tl.min(tl.where(fits, above_low, count), 0)
        kept = tl.max(tl.where(fits, count, kept), 0)
        mass_kept = tl.max(tl.where(fits, mass, mass_kept), 0)
        low = tl.max(tl.where(fits, low, bar), 0)
        high = tl.min(tl.where(fits, bar, high), 0)
    level = tl.max(tl.where(key < high, key, -0x7FFFFFFF), 0)
    at_level = inside & (key == level)
    rank = tl.zeros([NP], tl.int32)
    if low + 1 == high:  # else the search ended because the level has one candidate at most
        rank = tl.cumsum(at_level.to(tl.int32), 0) - 1
    before = rank if CROSSING else rank + 1
    mass = mass_kept + before * (tl.exp(_value(level) / temperature - peak) / whole)
    stays = (key >= high) | (at_level & (mass <= top_p) & (kept + rank < top_k)) | (i == best)
    drawn = tl.argmax(tl.where(stays, probability / chance, -float("inf")), 0)
    return tl.minimum(drawn, n - 1), finite  # among logits that are no numbers none may be the largest


@triton.jit
def _draw_main_kernel(
    logits, noise, frame, window, candidates, main_t, main_k, main_p, retry_t, retry_k, retry_p,
    frame_row, verdict, n, eos, start, code_size, block_frames, frame_stride, draw_stride,
    NP: tl.constexpr, WINDOW: tl.constexpr, BARS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    i = tl.arange(0, NP)
    chance = noise + (tl.load(frame) % block_frames) * frame_stride
    one = tl.load(chance + i, mask=i < n, other=1.0)
    recent = tl.load(window + tl.arange(0, WINDOW))
    temperature, top_k, top_p = tl.load(main_t), tl.load(main_k), tl.load(main_p)
    _await_last(OVERLAP)
    value = tl.load(logits + i, mask=i < n, other=0.0)
    drawn, finite = _drawn(value, one, n, temperature, top_k, top_p, True, NP, BARS)
    main = tl.load(candidates + drawn)
    seen = recent == main
    if (main != eos) & (tl.sum(seen.to(tl.int32), 0) > 0):
        value = tl.load(logits + i, mask=i < n, other=0.0)  # read again: kept, it would cost registers
        two = tl.load(chance + draw_stride + i, mask=i < n, other=1.0)
        knobs = tl.load(retry_t), tl.load(retry_k), tl.load(retry_p)
        again, _ = _drawn(value, two, n, knobs[0], knobs[1], knobs[2], True, NP, BARS)
        main = tl.load(candidates + again)
    tl.store(frame_row, main)
    tl.store(frame_row + 1, tl.minimum(tl.maximum(main - start, 0), code_size - 1))
    tl.store(verdict, finite.to(tl.int32))


@triton.jit
def _draw_head_kernel(
    logits, noise, frame, knob_t, knob_k, knob_p, code, verdict, n, block_frames, frame_stride, draw_at,
    NP: tl.constexpr, BARS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    i = tl.arange(0, NP)
    chance = noise + (tl.load(frame) % block_frames) * frame_stride + draw_at + i
    one = tl.load(chance, mask=i < n, other=1.0)
    temperature, top_k, top_p = tl.load(knob_t), tl.load(knob_k), tl.load(knob_p)
    _await_last(OVERLAP)
    value = tl.load(logits + i, mask=i < n, other=0.0)
    drawn, finite = _drawn(value, one, n, temperature, top_k, top_p, False, NP, BARS)
    tl.store(code, drawn.to(tl.int64))
    tl.store(verdict, finite.to(tl.int32))


def draw_main(
    logits: Tensor,
    noise: Tensor,
    frame: Tensor,
    window: Tensor,
    candidates: Tensor,
    main: Knobs,
    retry: Knobs,
    frame_row: Tensor,
    verdict: Tensor,
    eos: int,
    semantic_start: int,
    code_size: int,
) -> None:
    """`frame_row` [:2] = the main id and its code 0, by `sampling.draw_main`; `verdict` [1] int32 whether all
    logits are numbers.

    `logits` [n] float32 over `candidates` [n]; `noise` [block frames, draws, n], of which frame f has slot
    f % block frames; `frame` [1] int64; `window` the last main ids.
    """
    n = len(logits)
    bars, warps = DRAW
    _draw_main_kernel[(1,)](
        logits, noise, frame, window, candidates, main.temperature, main.top_k, main.top_p,
        retry.temperature, retry.top_k, retry.top_p, frame_row, verdict, n, eos, semantic_start, code_size,
        len(noise), noise.stride(0), noise.stride(1), NP=triton.next_power_of_2(n), WINDOW=len(window),
        BARS=bars, num_warps=warps, **overlapping(),
    )  # fmt: skip


def draw_head(
    logits: Tensor, noise: Tensor, frame: Tensor, draw: int, knobs: Knobs, code: Tensor, verdict: Tensor
) -> None:
    """`code` [1] int64 = one of `logits` [n] float32, drawn with row `draw` of the frame's noise."""
    n = len(logits)
    bars, warps = DRAW
    _draw_head_kernel[(1,)](
        logits, noise, frame, knobs.temperature, knobs.top_k, knobs.top_p, code, verdict, n, len(noise),
        noise.stride(0), draw * noise.stride(1), NP=triton.next_power_of_2(n), BARS=bars, num_warps=warps,
        **overlapping(),
    )  # fmt: skip


DRAW = 2, 8  # bars of a round, warps


@triton.jit
def _commit_kernel(
    frame_row, row, log, window, last, frame, verdicts, embedding, code_embedding, x, eos, start, end,
    code_size, scale,
    BOOKS: tl.constexpr, MIXED: tl.constexpr, BP: tl.constexpr, WINDOW: tl.constexpr, H: tl.constexpr,
    HP: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_next_start(OVERLAP)
    _await_last(OVERLAP)
    k, b, w = tl.arange(0, HP), tl.arange(0, BP), tl.arange(0, WINDOW)
    inside = k < H
    main, at = tl.load(frame_row), tl.load(frame)
    audio = (main >= start) & (main <= end)
    total = tl.load(embedding + main * H + k, mask=inside, other=0.0).to(tl.float32)
    codes = tl.zeros([HP], tl.float32)
    for book in tl.static_range(1, 1 + MIXED):
        code = tl.minimum(tl.maximum(tl.load(frame_row + 1 + book), 0), code_size - 1) + book * code_size
        codes += tl.load(code_embedding + code * H + k, mask=inside, other=0.0).to(tl.float32)
    kind = x.dtype.element_ty
    blend = (total + codes.to(kind).to(tl.float32)).to(kind).to(tl.float32) * scale
    tl.store(x + k, tl.where(audio, blend, total).to(kind), mask=inside)
    values = tl.load(frame_row + b, mask=b <= BOOKS, other=0)
    tl.store(row + b, values, mask=b <= BOOKS)
    tl.store(row + BOOKS + 1, audio.to(tl.int64))
    log_at = log + at * (BOOKS + 3)
    tl.store(log_at + b, values, mask=b <= BOOKS)
    tl.store(log_at + BOOKS + 1, (main == eos).to(tl.int64))
    verdict = tl.min(tl.load(verdicts + b, mask=b < BOOKS, other=1), 0)
    tl.store(log_at + BOOKS + 2, verdict.to(tl.int64))
    moved = tl.load(window + w + 1, mask=w + 1 < WINDOW, other=0)
    tl.debug_barrier()
    tl.store(window + w, tl.where(w + 1 < WINDOW, moved, main))
    tl.store(last, tl.load(last) + 1)
    tl.store(frame, at + 1)


def commit(
    frame_row: Tensor,
    row: Tensor,
    log: Tensor,
    window: Tensor,
    last: Tensor,
    frame: Tensor,
    verdicts: Tensor,
    embedding: Tensor,
    code_embedding: Tensor,
    code_size: int,
    mixed: int,
    ids: tuple[int, int, int],
    x: Tensor,
) -> None:
    """Write down the drawn `frame_row` [1 + books] and begin the backbone's step with it: x [H].

    `ids` are those of the end and of the first and the last semantic token; of `code_embedding`
    [books * codes, H] books 1..`mixed` are heard. `row` [2 + books], `log` [frames, 3 + books], `window`,
    `last` and `frame` move on by one; `verdicts` [books] int32 are those of the draws.
    """
    books, width = len(verdicts), x.shape[-1]
    _commit_kernel[(1,)](
        frame_row, row, log, window, last, frame, verdicts, embedding, code_embedding, x, *ids, code_size,
        (1 + mixed) ** -0.5, BOOKS=books, MIXED=mixed, BP=triton.next_power_of_2(books + 1),
        WINDOW=len(window), H=width, HP=triton.next_power_of_2(width), num_warps=8, **overlapping(),
    )  # fmt: skip
