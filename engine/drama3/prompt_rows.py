"""Small kernels for a block of a prompt's rows: norms and what stands between two matrix products.

Each takes the place of three to eight operations of torch, of which a block would have two thousand. Rounding
is as in `kernels.py`. Every function is held against its twin by a test: the norms and `swiglu_rows` against
`layers.py`, `merge_rows` against the input of `tower.TowerLayer`, `join_rows` against `experts.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.drama3.kernels import _normed, _silu

NORM_WARPS = 8  # of a program that has a whole row
FEED = 1024  # entries of a row that one program of `swiglu_rows` makes


@triton.jit
def _norm_rows_kernel(x, more, gain, y, eps, stride, K: tl.constexpr, KP: tl.constexpr, ADD: tl.constexpr):
    row, k = tl.program_id(0).to(tl.int64), tl.arange(0, KP)
    at = x + row * stride + k
    value = tl.load(at, mask=k < K, other=0.0).to(tl.float32)
    kind = y.dtype.element_ty
    if ADD:
        value += tl.load(more + row * K + k, mask=k < K, other=0.0).to(tl.float32)
        tl.store(at, value.to(kind), mask=k < K)
        value = value.to(kind).to(tl.float32)
    tl.store(y + row * K + k, _normed(value, gain, eps, k, K).to(kind), mask=k < K)


def norm_rows(x: Tensor, gain: Tensor, eps: float, more: Tensor | None = None) -> Tensor:
    """The norm of x [rows, K] times `gain` [K] float32 -> [rows, K]; `more` [rows, K] joins x first, in
    place."""
    rows, width = x.shape
    y = x.new_empty(rows, width)
    _norm_rows_kernel[(rows,)](
        x, x if more is None else more, gain, y, eps, x.stride(0), K=width,
        KP=triton.next_power_of_2(width), ADD=more is not None, num_warps=NORM_WARPS,
    )  # fmt: skip
    return y


@triton.jit
def _swiglu_rows_kernel(both, y, stride, N: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = both + row * stride + i
    gate = tl.load(at, mask=i < N, other=0.0).to(tl.float32)
    up = tl.load(at + N, mask=i < N, other=0.0).to(tl.float32)
    tl.store(y + row * N + i, (_silu(gate) * up).to(y.dtype.element_ty), mask=i < N)


def swiglu_rows(both: Tensor) -> Tensor:
    """silu(gate) * up of both [rows, gate | up], maybe rows of a wider matrix -> [rows, half]."""
    rows, width = len(both), both.shape[1] // 2
    y = both.new_empty(rows, width)
    block = min(FEED, triton.next_power_of_2(width))
    _swiglu_rows_kernel[(rows, triton.cdiv(width, block))](
        both, y, both.stride(0), N=width, BLOCK=block, num_warps=4
    )
    return y


@triton.jit
def _merge_rows_kernel(
    x, codes, semantic, extra, table, code_gain, hidden_gain, y, eps, stride, entries,
    K: tl.constexpr, KP: tl.constexpr, EXTRA: tl.constexpr,
):  # fmt: skip
    row, of_hidden, k = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, KP)
    kind = y.dtype.element_ty
    if of_hidden:
        value = tl.load(x + row * K + k, mask=k < K, other=0.0).to(tl.float32)
        value = _normed(value, hidden_gain, eps, k, K)
    else:
        code = tl.load(codes + row * stride)
        code = tl.minimum(tl.maximum(code, 0), entries - 1)
        said = tl.load(semantic + row).to(tl.int32) * K  # so many of its entries count
        value = tl.load(table + code * K + k, mask=k < said, other=0.0).to(tl.float32)
        if EXTRA:
            value += tl.load(extra + row * K + k, mask=k < K, other=0.0).to(tl.float32)
            value = value.to(kind).to(tl.float32)
        value = _normed(value, code_gain, eps, k, K)
    tl.store(y + row * 2 * K + of_hidden * K + k, value.to(kind), mask=k < K)


def merge_rows(
    x: Tensor,
    codes: Tensor,
    semantic: Tensor,
    extra: Tensor | None,
    table: Tensor,
    code_gain: Tensor,
    hidden_gain: Tensor,
    eps: float,
) -> Tensor:
    """What a layer of the tower merges: [rows, norm of the code's vector | norm of x], x [rows, H].

    `codes` [rows] int64, clamped to the `table` [V, H], count where `semantic` [rows] bool says so; `extra`
    [rows, H] joins their vectors everywhere.
    """
    rows, width = x.shape
    y = x.new_empty(rows, 2 * width)
    _merge_rows_kernel[(rows, 2)](
        x, codes, semantic, x if extra is None else extra, table, code_gain, hidden_gain, y, eps,
        codes.stride(0), len(table), K=width, KP=triton.next_power_of_2(width), EXTRA=extra is not None,
        num_warps=NORM_WARPS,
    )  # fmt: skip
    return y


@triton.jit
def _join_rows_kernel(
    out, place, share, x, read, shared, gain, y, eps, stride,
    K: tl.constexpr, KP: tl.constexpr, TOP: tl.constexpr, GATE_AT: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    row, k = tl.program_id(0).to(tl.int64), tl.arange(0, KP)
    at = x + row * K + k
    value = tl.load(at, mask=k < K, other=0.0).to(tl.float32)
    if SHARED:
        gate = tl.sigmoid(tl.load(read + row * stride + GATE_AT).to(tl.float32))
        value += gate * tl.load(shared + row * K + k, mask=k < K, other=0.0).to(tl.float32)
    for rank in tl.static_range(TOP):
        there = tl.load(place + row * TOP + rank).to(tl.int64)
        entries = tl.where(there < 0, 0, K)
        part = tl.load(out + there * K + k, mask=k < entries, other=0.0).to(tl.float32)
        value += part * tl.load(share + row * TOP + rank).to(tl.float32)
    kind = y.dtype.element_ty
    tl.store(at, value.to(kind), mask=k < K)
    value = _normed(value.to(kind).to(tl.float32), gain, eps, k, K)
    tl.store(y + row * K + k, value.to(kind), mask=k < K)


def join_rows(
    out: Tensor,
    place: Tensor,
    share: Tensor,
    x: Tensor,
    read: Tensor,
    gate_at: int,
    shared: Tensor | None,
    gain: Tensor,
    eps: float,
) -> Tensor:
    """The end of a mixture of experts, in place on x [rows, H], and its norm times `gain` -> [rows, H].

    x += sum over ranks of share [rows, k] times `out` [pairs, H] at `place` [rows * k] int32 (below 0: no
    expert), + sigmoid(read[:, gate_at]) times what the shared expert made, `shared` [rows, H], if there is
    one.
    """
    rows, width = x.shape
    y = x.new_empty(rows, width)
    _join_rows_kernel[(rows,)](
        out, place, share, x, read, x if shared is None else shared, gain, y, eps, read.stride(0),
        K=width, KP=triton.next_power_of_2(width), TOP=share.shape[1], GATE_AT=gate_at,
        SHARED=shared is not None, num_warps=NORM_WARPS,
    )  # fmt: skip
    return y
