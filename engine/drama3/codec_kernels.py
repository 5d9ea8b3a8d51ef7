"""The codec's convolutions as kernels: what the plain layers do in up to fourteen launches, in two or three.

A chunk of one frame is 4 to 2,048 rows and reads 200 MB of weights, so its time is launches and bytes; a
block of a clip is up to 131,072 rows, so its time is multiplications. Both are one product of matrices whose
left one is never written: row t of it are the inputs that output t hears.

`heard` puts the carry before a piece, sends the piece through a snake and moves the carry on; a sine is
worked out once for each input and not for each tap that hears it. `convolve` multiplies, on tensor cores in
TF32, whose ten bits are too few for a waveform: every float32 is split in two there and multiplied in three
products, which come close to float32, and the sum over steps is one of float32. Where rows and outputs are
too few to keep a GPU busy, taps and channels are shared out among programs and their sums are added in a
fixed order: no result depends on which program is first.

Both are held against the plain layers of `codec_layers.py` by tests; without a GPU in Triton's interpreter.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from engine.drama3.kernels import INTERPRETED

PRECISION = "ieee" if INTERPRETED else "tf32x3"
BUSY = 256  # programs that keep a GPU busy
LEAST_STEPS = 4  # blocks of inputs that are worth a program of their own
HEARD = 64, 32, 4  # rows and channels of a program of `heard`, warps; a longer carry takes more rows
JOINED = 256  # outputs of a program of `_join_kernel`

Snake = tuple[Tensor, Tensor]  # alpha and scale [channels] float32


class Tiles(NamedTuple):
    """How a convolution is shared out: what one program has, and how it is launched."""

    rows: int
    outputs: int
    inputs: int  # read at once, of one tap
    splits: int  # programs that share a tile's taps and inputs; a power of two
    warps: int
    stages: int


def tiles_of(rows: int, inputs: int, outputs: int, taps: int) -> Tiles:
    """Few rows: narrow tiles, for the weights' sake; many: wide ones, for the tensor cores'.

    Each is the fastest that an H200 was seen with, or within a fifth of it.
    """
    few = rows <= 32
    wide = 32 if few or 0 < outputs % 64 <= 32 else 64
    wide = min(wide, max(16, triton.next_power_of_2(outputs)))
    tall = 16 if rows <= 16 else 32 if few else 64 if rows < 8192 or wide < 64 else 128
    deep = min(64 if few else 32, max(16, triton.next_power_of_2(inputs)))
    programs = triton.cdiv(rows, tall) * triton.cdiv(outputs, wide)
    steps = taps * triton.cdiv(inputs, deep)
    splits = 1
    while programs * splits < BUSY and steps >= 2 * splits * LEAST_STEPS:
        splits *= 2
    warps, stages = {16: (4, 4), 32: (2, 5), 64: (4, 3), 128: (8, 3)}[tall]
    return Tiles(tall, wide, deep, splits, warps, stages)


@triton.jit
def _sine_squared(y):
    """As `loops.sine_squared`; CUDA's sine has a path for large y that spills and compiles for seconds."""
    n = tl.floor(y * 0.31830988618 + 0.5)
    r = (y - n * 3.140625) - n * 9.676535897932e-4
    q = tl.minimum(r * r, 2.5)
    p = -3.63102352e-6 * q + 1.39349314e-4
    p = p * q - 3.17239901e-3
    p = p * q + 4.44431787e-2
    p = p * q - 3.33333067e-1
    p = p * q + 9.99999991e-1
    return p * q


@triton.jit
def _snaked(x, alpha, scale, channel, inside):
    """x [rows, channels] + sin^2(a x) / a."""
    a = tl.load(alpha + channel, mask=inside, other=0.0)[None, :]
    return x + _sine_squared(x * a) * tl.load(scale + channel, mask=inside, other=0.0)[None, :]


# Counts of rows and steps don't change a kernel: fewer of them have to be compiled.
@triton.jit(do_not_specialize=["rows", "left"])
def _heard_kernel(
    x, held, alpha, scale, y, rows, channels, left,
    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, SNAKE: tl.constexpr,
):  # fmt: skip
    """The first program of a block of channels has the carry, all of it, and the others have rows."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    there = c < channels
    t = tl.arange(0, BLOCK_T)
    if tl.program_id(1) == 0:
        carry = t[:, None] * channels + c[None, :]
        within = (t < left)[:, None] & there[None, :]
        was = tl.load(held + carry, mask=within, other=0.0)
        back = t + rows - left  # the row that comes to lie here; negative: one of the carry
        some = within & (back >= 0)[:, None]
        new = tl.load(x + back[:, None] * channels + c[None, :], mask=some, other=0.0)
        if SNAKE:
            new = _snaked(new, alpha, scale, c, there)
        some = within & (back < 0)[:, None]
        new = tl.where(some, tl.load(held + carry + rows * channels, mask=some, other=0.0), new)
        tl.debug_barrier()  # another thread may still have to read what this one writes
        tl.store(y + carry, was, mask=within)
        tl.store(held + carry, new, mask=within)
    else:
        t += (tl.program_id(1) - 1) * BLOCK_T
        within = (t < rows)[:, None] & there[None, :]
        at = t[:, None] * channels + c[None, :]
        new = tl.load(x + at, mask=within, other=0.0)
        if SNAKE:
            new = _snaked(new, alpha, scale, c, there)
        tl.store(y + left * channels + at, new, mask=within)


def heard(x: Tensor, held: Tensor, snake: Snake | None = None) -> Tensor:
    """The carry `held` [left, channels], then rows x [n, channels] behind a snake: [left + n, channels].

    The carry holds what is behind the snake, and moves on by n; n may be smaller than left.
    """
    (rows, channels), left = x.shape, len(held)
    tall, wide, warps = HEARD
    tall, wide = max(tall, triton.next_power_of_2(left)), min(wide, triton.next_power_of_2(channels))
    y = x.new_empty(left + rows, channels)
    _heard_kernel[(triton.cdiv(channels, wide), 1 + triton.cdiv(rows, tall))](
        x.contiguous(), held, *(snake or (x, x)), y, rows, channels, left,
        BLOCK_T=tall, BLOCK_C=wide, SNAKE=snake is not None, num_warps=warps,
    )  # fmt: skip
    return y


@triton.jit
def _finished(
    total, bias, alpha, scale, rest, t, o, rows, outputs, SNAKE: tl.constexpr, REST: tl.constexpr
):  # fmt: skip
    """Sums [t, o] with all that a convolution's outputs get besides."""
    there = o < outputs
    total += tl.load(bias + o, mask=there, other=0.0)[None, :]
    if SNAKE:
        total = _snaked(total, alpha, scale, o, there)
    if REST:
        within = (t < rows)[:, None] & there[None, :]
        total += tl.load(rest + t[:, None] * outputs + o[None, :], mask=within, other=0.0)
    return total


@triton.jit(do_not_specialize=["rows", "steps", "split_steps"])
def _convolve_kernel(
    x, w, bias, alpha, scale, rest, y, rows, inputs, outputs, steps, split_steps,
    row_step, tap_step, w_tap, w_in, w_out,
    BLOCK_T: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_I: tl.constexpr, EVEN: tl.constexpr,
    SPLIT: tl.constexpr, SNAKE: tl.constexpr, REST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A step is a block of inputs of one tap."""
    o = tl.program_id(0) * BLOCK_O + tl.arange(0, BLOCK_O)
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    there, within = (o < outputs)[:, None], (t < rows)[:, None]
    tap_blocks = tl.cdiv(inputs, BLOCK_I)
    first = tl.program_id(2) * split_steps
    total = tl.zeros([BLOCK_T, BLOCK_O], tl.float32)
    for step in range(first, tl.minimum(first + split_steps, steps)):
        tap = step // tap_blocks
        i = (step % tap_blocks) * BLOCK_I + tl.arange(0, BLOCK_I)
        i_in = (i < inputs)[None, :]
        x_at = x + tap * tap_step + t[:, None] * row_step + i[None, :]
        w_at = w + tap * w_tap + o[:, None] * w_out + i[None, :] * w_in
        part = tl.load(x_at, mask=within if EVEN else within & i_in, other=0.0)
        tile = tl.load(w_at, mask=there if EVEN else there & i_in, other=0.0)
        total = tl.dot(part, tl.trans(tile), total, input_precision=PRECISION)
    at = t[:, None] * outputs + o[None, :]
    if SPLIT:
        at += tl.program_id(2) * rows * outputs
    else:
        total = _finished(total, bias, alpha, scale, rest, t, o, rows, outputs, SNAKE, REST)
    tl.store(y + at, total, mask=within & (o < outputs)[None, :])


@triton.jit(do_not_specialize=["rows"])
def _join_kernel(
    parts, bias, alpha, scale, rest, y, rows, outputs,
    SPLITS: tl.constexpr, BLOCK: tl.constexpr, SNAKE: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """A row's outputs from the sums of the programs that shared their steps."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(1) + tl.arange(0, 1)
    split, there = tl.arange(0, SPLITS), o < outputs
    at = (split * rows + tl.program_id(1))[:, None] * outputs + o[None, :]
    total = tl.sum(tl.load(parts + at, mask=there[None, :], other=0.0), 0)[None, :]
    total = _finished(total, bias, alpha, scale, rest, t, o, rows, outputs, SNAKE, REST)
    tl.store(y + t[:, None] * outputs + o[None, :], total, mask=there[None, :])


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    stride: int = 1,
    dilation: int = 1,
    snake: Snake | None = None,
    rest: Tensor | None = None,
) -> Tensor:
    """y[t] = bias + the sum over taps i of x[t * stride + i * dilation] @ weight[i], all float32.

    x [positions, inputs] contiguous, its carry included; `weight` [taps, inputs, outputs] in any layout, best
    with the inputs side by side. y [n, outputs] goes through a snake, if there is one, and is
    added to `rest` [n, outputs].
    """
    taps, inputs, outputs = weight.shape
    rows = (len(x) - (taps - 1) * dilation - 1) // stride + 1
    tiles = tiles_of(rows, inputs, outputs, taps)
    y = x.new_empty(rows, outputs)
    parts = x.new_empty(tiles.splits, rows, outputs) if tiles.splits > 1 else y
    ends = bias, *(snake or (bias, bias)), y if rest is None else rest
    asked = dict(SNAKE=snake is not None, REST=rest is not None)
    steps = taps * triton.cdiv(inputs, tiles.inputs)
    grid = triton.cdiv(outputs, tiles.outputs), triton.cdiv(rows, tiles.rows), tiles.splits
    _convolve_kernel[grid](
        x, weight, *ends, parts, rows, inputs, outputs, steps, triton.cdiv(steps, tiles.splits),
        stride * inputs, dilation * inputs, weight.stride(0), weight.stride(1), weight.stride(2),
        BLOCK_T=tiles.rows, BLOCK_O=tiles.outputs, BLOCK_I=tiles.inputs, EVEN=inputs % tiles.inputs == 0,
        SPLIT=tiles.splits > 1, PRECISION=PRECISION, num_warps=tiles.warps, num_stages=tiles.stages, **asked,
    )  # fmt: skip
    if tiles.splits > 1:
        block = min(JOINED, triton.next_power_of_2(outputs))
        _join_kernel[(triton.cdiv(outputs, block), rows)](
            parts, *ends, y, rows, outputs, SPLITS=tiles.splits, BLOCK=block, num_warps=4, **asked
        )
    return y
