"""What a CPU computes, written out as loops that Numba compiles: for `host.py` the decode step, prompts and
noise, for the codec its convolutions and its transformer.

Steps and prompts work on a block of `rows`, of which a step has one, in one thread without Python's lock;
the order of every sum depends on nothing but the number of rows. Matrices lie one behind the other in `w`,
float32 or the bits of float16, vectors in `v`; `SHAPE`, `LAYER` and `TOWER_LAYER` say where. Trap: an index
that might be negative costs a loop its vectors, so rows are cut out of the arrays first.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import float32, int32, int64, njit, types, uint16
from numba.core import cgutils
from numba.core.types import UniTuple
from numba.extending import intrinsic, overload

# Sums may be reordered into vectors and fused; numbers that are none must stay what they are.
SUMS = {"reassoc", "contract"}
# What only other loops call needs no door from Python, and takes half the time to compile without.
INNER = dict(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
outer = njit(fastmath=SUMS, **INNER)  # may make arrays
# Without Numba's counting of references, whose locked instructions took a third of a step; such a loop must
# neither make nor return an array.
loop, exact = njit(fastmath=SUMS, _nrt=False, **INNER), njit(fastmath={"contract"}, _nrt=False, **INNER)


def entry(function):
    """Compiled at the first call and kept beside this file or in the user's cache; where neither can be
    written, compiled anew in every process.
    """
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(function)


def _record(names: str, kind: type = np.int64) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


SHAPE = np.dtype(
    _record("hidden codebooks code_size mixed eos first_semantic last_semantic candidates")
    + _record("heads kv_heads dim key_heads value_heads key_dim value_dim kernel")
    + _record("experts top_k expert_width shared_width")
    + _record("tower_shared tower_heads tower_kv_heads tower_dim tower_width")
    + _record("embedding codes norm head")
    + _record("eps tower_eps", np.float64)
)
LAYER = np.dtype(
    _record("full place norm read write conv log_rate dt_bias gain q_norm k_norm")
    + _record("experts_norm route gate_up down shared_down")
)
TOWER_LAYER = np.dtype(
    _record("table merge code_norm hidden_norm attention_norm read q_norm k_norm write")
    + _record("ffn_norm gate_up down out_norm head")
)


@intrinsic
def _half(context, bits):
    """The number that 16 bits say as a float16."""

    def code(_, builder, __, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return float32(uint16), code


@intrinsic
def _as_float(context, bits):
    def code(_, builder, __, args):
        return builder.bitcast(args[0], ir.FloatType())

    return float32(int32), code


@intrinsic
def _as_bits(context, number):
    def code(_, builder, __, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return int32(float32), code


@intrinsic
def _fetch(context, w, at):
    """Have the cache line of w[at] come nearer, which may lie behind w's end."""

    def code(context, builder, signature, args):
        place = builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(fetch, [builder.bitcast(place, byte), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(w, int64), code


def wide(x):
    """A weight as float32, whichever way it is kept."""


@overload(wide, inline="always")
def _wide(x):
    if x == types.uint16:
        return lambda x: _half(x)
    return lambda x: x


PIECE = 16_384  # numbers that a convolution takes at once, with what it makes of them half a cache of level 2
AHEAD = 4096  # numbers of a matrix between what a step multiplies and what it calls for
TILE_ROWS, TILE_COLUMNS, LANES = 6, 16, 8  # 12 vectors of sums: with what feeds them, 15 of a core's 16
VECTOR, PLACE = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)


@intrinsic
def _tile(context, x, starts, taps, tap_step, inner, w, at, y, places):
    """Six rows by sixteen columns of a product, written to y from `places` [6] on.

    Sum over `taps` and `inner` of x[starts[r] + tap tap_step + k] by the next line [16] of w, whose lines
    begin at w[at] with that of the bias. Told in vectors, because no compiler keeps such a block of sums in
    registers by itself: 97 billion operations a second on a core of which `products` gets 60. The twin is a
    product of matrices.
    """
    integers = UniTuple(int64, TILE_ROWS)
    kinds = x, integers, int64, int64, int64, w, int64, y, integers

    def code(context, builder, signature, args):
        def start(position):
            return context.make_array(signature.args[position])(context, builder, args[position]).data

        def vectors(place):
            place = builder.bitcast(place, VECTOR.as_pointer())
            return [builder.gep(place, [PLACE(j)]) for j in range(TILE_COLUMNS // LANES)]

        def line():
            """The next line of w."""
            place = builder.load(lines)
            builder.store(builder.gep(place, [PLACE(TILE_COLUMNS)]), lines)
            return [builder.load(each, align=4) for each in vectors(place)]

        lines = cgutils.alloca_once_value(builder, builder.gep(start(5), [args[6]]))
        bias = line()
        sums = [[cgutils.alloca_once_value(builder, part) for part in bias] for _ in range(TILE_ROWS)]
        rows = [builder.gep(start(0), [builder.extract_value(args[1], r)]) for r in range(TILE_ROWS)]
        with cgutils.for_range(builder, args[2], intp=PLACE) as tap:
            here = [builder.gep(row, [builder.mul(tap.index, args[3])]) for row in rows]
            with cgutils.for_range(builder, args[4], intp=PLACE) as k:
                weights = line()
                for row, mine in zip(here, sums, strict=True):
                    number = builder.load(builder.gep(row, [k.index]))
                    number = builder.insert_element(VECTOR(ir.Undefined), number, ir.IntType(32)(0))
                    spread = ir.VectorType(ir.IntType(32), LANES)([0] * LANES)
                    number = builder.shuffle_vector(number, VECTOR(ir.Undefined), spread)
                    for part, weight in zip(mine, weights, strict=True):
                        more = builder.fmul(number, weight, flags=("contract",))
                        builder.store(builder.fadd(builder.load(part), more, flags=("contract",)), part)
        for r, mine in enumerate(sums):
            row = builder.gep(start(7), [builder.extract_value(args[8], r)])
            for part, place in zip(mine, vectors(row), strict=True):
                builder.store(builder.load(part), place, align=4)
        return context.get_dummy_value()

    return types.void(*kinds), code


# Not plain True, False, 0 and 1: for each of those a function would be compiled once more.
YES, NO = np.bool_(True), np.bool_(False)
ROUND = np.float32(1.5 * 2**23)  # added and taken away again, it leaves a float32 rounded to a whole number


@exact
def exp(x):
    """e^x of a float32 within 2e-7 of itself, without a call, so that loops of it become vectors.

    x = n ln 2 + r with |r| <= ln 2 / 2; e^r is its series to the 7th power and 2^n is made of its bits,
    which n + ROUND has at its end. Below -87 it stays at 1.6e-38, above 88 at 1.7e38.
    """
    x = np.float32(88.0) if x > np.float32(88.0) else x
    x = np.float32(-87.0) if x < np.float32(-87.0) else x
    shifted = x * np.float32(1 / math.log(2)) + ROUND
    n = shifted - ROUND
    r = x - n * np.float32(355 / 512) - n * np.float32(math.log(2) - 355 / 512)
    p = np.float32(1 / 5040) * r + np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(1 / 2)
    p = p * r + np.float32(1)
    p = p * r + np.float32(1)
    return p * _as_float((_as_bits(shifted) << int32(23)) + int32(127 << 23))


@loop
def sigmoid(x):
    return np.float32(1) / (np.float32(1) + exp(-x))


@loop
def copy(x, y):
    """y = x; an assignment of slices would be compiled with all that could go wrong with it, in 2 s."""
    for i in range(len(x)):
        y[i] = x[i]


@loop
def clear(x):
    for i in range(len(x)):
        x[i] = 0


@exact
def largest(x):
    best = x[0]
    for i in range(len(x)):
        best = x[i] if x[i] > best else best
    return best


@loop
def dot(a, b):
    total = np.float32(0)
    for i in range(len(a)):
        total += wide(a[i]) * b[i]
    return total


@loop
def dots(a, b0, b1, b2, b3):
    s0 = s1 = s2 = s3 = np.float32(0)
    for i in range(len(a)):
        x = a[i]
        s0 += x * b0[i]
        s1 += x * b1[i]
        s2 += x * b2[i]
        s3 += x * b3[i]
    return s0, s1, s2, s3


@loop
def products(a, b, c0, c1, c2, c3):
    """Two lines of a matrix by four rows at once: twice as many sums a second as one by one."""
    s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = np.float32(0)
    for i in range(len(a)):
        x, y = wide(a[i]), wide(b[i])
        s0 += x * c0[i]
        s1 += x * c1[i]
        s2 += x * c2[i]
        s3 += x * c3[i]
        t0 += y * c0[i]
        t1 += y * c1[i]
        t2 += y * c2[i]
        t3 += y * c3[i]
    return s0, s1, s2, s3, t0, t1, t2, t3


@loop
def four_dots(a, b, c, d, x):
    s0 = s1 = s2 = s3 = np.float32(0)
    for i in range(len(x)):
        s0 += wide(a[i]) * x[i]
        s1 += wide(b[i]) * x[i]
        s2 += wide(c[i]) * x[i]
        s3 += wide(d[i]) * x[i]
    return s0, s1, s2, s3


@loop
def multiply_one(w, at, x, y):
    """`multiply` of one row. It is nothing but reading w, so lines are called for before their turn: a step
    takes 1.5 ms instead of 1.8.
    """
    n, width, line = len(y), len(x), 64 // w.itemsize
    for i in range(0, n, 4):
        j, k, m = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        first = at + i * width + AHEAD
        for place in range(first, first + 4 * width, line):
            _fetch(w, place)
        a, b = w[at + i * width : at + (i + 1) * width], w[at + j * width : at + (j + 1) * width]
        c, d = w[at + k * width : at + (k + 1) * width], w[at + m * width : at + (m + 1) * width]
        sums = four_dots(a, b, c, d, x)
        y[m], y[k], y[j], y[i] = sums[3], sums[2], sums[1], sums[0]


@loop
def multiply(w, at, x, width, y):
    rows, n = y.shape
    if rows == 1:
        multiply_one(w, at, x[0, :width], y[0])
        return
    for i in range(0, n, 2):
        k = min(i + 1, n - 1)
        a, b = w[at + i * width : at + (i + 1) * width], w[at + k * width : at + (k + 1) * width]
        for t in range(0, rows - 3, 4):
            sums = products(a, b, x[t, :width], x[t + 1, :width], x[t + 2, :width], x[t + 3, :width])
            y[t, i], y[t + 1, i], y[t + 2, i], y[t + 3, i] = sums[0], sums[1], sums[2], sums[3]
            y[t, k], y[t + 1, k], y[t + 2, k], y[t + 3, k] = sums[4], sums[5], sums[6], sums[7]
        for t in range(rows // 4 * 4, rows):
            y[t, i], y[t, k] = dot(a, x[t, :width]), dot(b, x[t, :width])


@outer
def product(w, at, x, width, n):
    """[rows, n] of x [rows, >= width] by the matrix [n, width] that begins at w[at]."""
    y = np.empty((len(x), n), np.float32)
    multiply(w, at, x, width, y)
    return y


@loop
def add(x, y):
    for t in range(len(x)):
        a, b = x[t], y[t]
        for i in range(len(a)):
            a[i] += b[i]


@loop
def scale(x, gain, eps):
    """x [n] becomes rms(x) gain."""
    factor = np.float32(1) / np.float32(math.sqrt(dot(x, x) / np.float32(len(x)) + np.float32(eps)))
    for i in range(len(x)):
        x[i] *= factor * gain[i]


@outer
def normed(x, v, at, eps):
    """rms(x) gain of x [rows, n], in a copy."""
    y, gain = np.empty_like(x), v[at : at + x.shape[1]]
    for t in range(len(x)):
        copy(x[t], y[t])
        scale(y[t], gain, eps)
    return y


@loop
def swiglu(x, at, width, factor):
    """silu(gate) up factor, in place on the first `width` of the 2 `width` numbers from x[at] on."""
    gate, up = x[at : at + width], x[at + width : at + 2 * width]
    for i in range(width):
        gate[i] = gate[i] * sigmoid(gate[i]) * up[i] * factor


@loop
def turn(x, cos, sin, pairs):
    """x [dim] turned by the angles of one position: neighbours (`pairs`) or halves."""
    half = len(cos)
    for j in range(half):
        first, second = (2 * j, 2 * j + 1) if pairs else (j, j + half)
        a, b = x[first], x[second]
        x[first] = a * cos[j] - b * sin[j]
        x[second] = b * cos[j] + a * sin[j]


@loop
def mix(q, keys, values, score, out):
    """Attention of q [dim] over keys and values [rows, dim], written to out [dim]; score [rows] is spoilt."""
    rows, factor = len(keys), np.float32(1 / math.sqrt(len(q)))
    for j in range(0, rows - 3, 4):
        four = dots(q, keys[j], keys[j + 1], keys[j + 2], keys[j + 3])
        score[j], score[j + 1], score[j + 2], score[j + 3] = four
    for j in range(rows // 4 * 4, rows):
        score[j] = dot(q, keys[j])
    best, total = largest(score[:rows]), np.float32(0)
    for j in range(rows):
        score[j] = exp((score[j] - best) * factor)
        total += score[j]
    clear(out)
    for j in range(0, rows - 3, 4):
        a, b, c, d = score[j], score[j + 1], score[j + 2], score[j + 3]
        first, second, third, fourth = values[j], values[j + 1], values[j + 2], values[j + 3]
        for i in range(len(out)):
            out[i] += a * first[i] + b * second[i] + c * third[i] + d * fourth[i]
    for j in range(rows // 4 * 4, rows):
        share, value = score[j], values[j]
        for i in range(len(out)):
            out[i] += share * value[i]
    for i in range(len(out)):
        out[i] /= total


@loop
def attend(
    read, start, heads, kv_heads, dim, by_head, pairs, q_gain, k_gain, eps, cos, sin, keys, values, score,
    mixed,
):  # fmt: skip
    """Gated attention of rows at positions from `start` to `mixed` [rows, heads dim].

    `read` [rows, 2 heads dim + 2 kv_heads dim] holds queries and gates (head by head, or all of one before
    the other), keys, values: those are kept. It and `score` [rows seen] are spoilt.
    """
    group, end = heads // kv_heads, 2 * heads * dim
    for t in range(len(read)):
        for h in range(kv_heads):
            k = read[t, end + h * dim : end + (h + 1) * dim]
            scale(k, k_gain, eps)
            turn(k, cos[start + t], sin[start + t], pairs)
            copy(k, keys[h, start + t])
            value_at = end + (kv_heads + h) * dim
            copy(read[t, value_at : value_at + dim], values[h, start + t])
        for h in range(heads):
            at = 2 * h * dim if by_head else h * dim
            gate_at = at + dim if by_head else at + heads * dim
            q, gate = read[t, at : at + dim], read[t, gate_at : gate_at + dim]
            scale(q, q_gain, eps)
            turn(q, cos[start + t], sin[start + t], pairs)
            out = mixed[t, h * dim : (h + 1) * dim]
            mix(q, keys[h // group, : start + t + 1], values[h // group, : start + t + 1], score, out)
            for i in range(dim):
                out[i] *= sigmoid(gate[i])


@loop
def unit(x, factor):
    length = np.float32(factor) / np.float32(math.sqrt(dot(x, x) + np.float32(1e-6)))
    for i in range(len(x)):
        x[i] *= length


@loop
def convolve(u, conv, taps):
    """silu of the causal convolution of u [channels], in place; `conv` [channels, K - 1] moves on by one."""
    last = conv.shape[1]
    for c in range(len(u)):
        at, newest = c * (last + 1), u[c]
        total = newest * taps[at + last]
        for j in range(last):
            total += conv[c, j] * taps[at + j]
        for j in range(last - 1):
            conv[c, j] = conv[c, j + 1]
        if last:
            conv[c, last - 1] = newest
        u[c] = total
    for c in range(len(u)):
        u[c] *= sigmoid(u[c])


@loop
def recall(q, k, v, beta, decay, state, out):
    """One row of the gated delta rule for one head, as `backbone.delta_step` has it, in place on `state`."""
    clear(out)
    for i in range(len(k)):
        line, key = state[i], k[i]
        for j in range(len(v)):
            line[j] *= decay
            out[j] += key * line[j]
    for j in range(len(v)):
        v[j] = beta * (v[j] - out[j])
    clear(out)
    for i in range(len(k)):
        line, key, query = state[i], k[i], q[i]
        for j in range(len(v)):
            line[j] += key * v[j]
            out[j] += query * line[j]


@loop
def delta_net(read, v, s, layer, conv, recurrent, mixed):
    """The mixed and gated heads of `read` [rows, qkv z b a], which is spoilt, to `mixed` [rows, heads dv]."""
    dk, dv, heads = s.key_dim, s.value_dim, s.value_heads
    keys, channels = s.key_heads * dk, 2 * s.key_heads * dk + heads * dv
    taps = v[layer.conv : layer.conv + channels * s.kernel]
    gain, group, z = v[layer.gain : layer.gain + dv], heads // s.key_heads, channels
    for t in range(len(read)):
        row = read[t]
        convolve(row[:channels], conv, taps)
        for h in range(s.key_heads):
            unit(row[h * dk : (h + 1) * dk], 1 / math.sqrt(dk))
            unit(row[keys + h * dk : keys + (h + 1) * dk], 1.0)
        for h in range(heads):
            at, b = h // group * dk, z + heads * dv + h
            step = row[b + heads] + v[layer.dt_bias + h]
            soft = step if step > np.float32(20) else np.float32(math.log1p(math.exp(step)))
            out = mixed[t, h * dv : (h + 1) * dv]
            recall(
                row[at : at + dk],
                row[keys + at : keys + at + dk],
                row[2 * keys + h * dv : 2 * keys + (h + 1) * dv],
                sigmoid(row[b]),
                exp(v[layer.log_rate + h] * soft),
                recurrent[h],
                out,
            )
            scale(out, gain, s.eps)
            gate = row[z + h * dv : z + (h + 1) * dv]
            for i in range(dv):
                out[i] *= gate[i] * sigmoid(gate[i])


@loop
def shares(odds, top_k, share):
    """Softmax over the `top_k` best of `odds` [experts], the first of equals; the others' share is 0."""
    clear(share)
    best, total = largest(odds), np.float32(0)
    for _ in range(top_k):
        chosen = -1
        for e in range(len(odds)):
            if share[e] == 0 and (chosen < 0 or odds[e] > odds[chosen]):
                chosen = e
        share[chosen] = exp(odds[chosen] - best)
        total += share[chosen]
    for e in range(len(odds)):
        share[e] /= total


@outer
def experts(w, v, s, layer, x):
    """Add to x [rows, hidden] what its experts say; every expert is read once, for the rows that chose it."""
    rows, width = len(x), s.expert_width
    heard = normed(x, v, layer.experts_norm, s.eps)
    wanted = s.experts + (1 + 2 * s.shared_width if s.shared_width else 0)
    read, share = product(w, layer.route, heard, s.hidden, wanted), np.empty((rows, s.experts), np.float32)
    for t in range(rows):
        shares(read[t, : s.experts], s.top_k, share[t])
    some, whose = np.empty_like(heard), np.empty(rows, np.int64)
    for e in range(s.experts):
        count = 0
        for t in range(rows):
            if share[t, e] != 0:  # also where it is no number
                copy(heard[t], some[count])
                whose[count] = t
                count += 1
        if count:
            gate_up = layer.gate_up + e * 2 * width * s.hidden
            inner = product(w, gate_up, some[:count], s.hidden, 2 * width)
            for i in range(count):
                swiglu(inner[i], np.int64(0), width, share[whose[i], e])
            said = product(w, layer.down + e * s.hidden * width, inner, width, s.hidden)
            for i in range(count):
                add(x[whose[i] : whose[i] + 1], said[i : i + 1])
    if s.shared_width:
        inner = np.empty((rows, s.shared_width), np.float32)
        for t in range(rows):
            swiglu(read[t], s.experts + 1, s.shared_width, sigmoid(read[t, s.experts]))
            copy(read[t, s.experts + 1 : s.experts + 1 + s.shared_width], inner[t])
        add(x, product(w, layer.shared_down, inner, s.shared_width, s.hidden))


@loop
def hear(w, s, row, first, last, x):
    """Add to x [hidden] the table's entries for codebooks first..last-1 of a row."""
    for book in range(first, last):
        code = min(max(row[1 + book], 0), s.code_size - 1)
        at = s.codes + (book * s.code_size + code) * s.hidden
        line = w[at : at + s.hidden]
        for i in range(s.hidden):
            x[i] += wide(line[i])


@exact
def semantic(s, main):
    return s.first_semantic <= main <= s.last_semantic


@outer
def embed(w, s, rows):
    x = np.empty((len(rows), s.hidden), np.float32)
    for t in range(len(rows)):
        at, y = s.embedding + rows[t, 0] * s.hidden, x[t]
        line = w[at : at + s.hidden]
        for i in range(s.hidden):
            y[i] = wide(line[i])
        if semantic(s, rows[t, 0]):
            hear(w, s, rows[t], np.int64(1), 1 + s.mixed, y)
            for i in range(s.hidden):
                y[i] *= np.float32(1 / math.sqrt(1 + s.mixed))
    return x


@outer
def tower_layer(w, v, s, layer, x, codes, heard, extra, start, keys, values, cos, sin):
    """x [rows, hidden] behind one layer of the tower, given the label `codes` [rows]; where `heard` [rows] is
    false the label has none. `extra` [rows, hidden] joins the code's vector."""
    pair = np.empty((len(x), 2 * s.hidden), np.float32)
    code_gain = v[layer.code_norm : layer.code_norm + s.hidden]
    hidden_gain = v[layer.hidden_norm : layer.hidden_norm + s.hidden]
    for t in range(len(x)):
        vector, before = pair[t, : s.hidden], pair[t, s.hidden :]
        copy(extra[t], vector)
        if heard[t]:
            at = layer.table + min(max(codes[t], 0), s.code_size - 1) * s.hidden
            line = w[at : at + s.hidden]
            for i in range(s.hidden):
                vector[i] += wide(line[i])
        copy(x[t], before)
        scale(vector, code_gain, s.tower_eps)
        scale(before, hidden_gain, s.tower_eps)
    rest = product(w, layer.merge, pair, 2 * s.hidden, s.hidden)
    inner, dim = normed(rest, v, layer.attention_norm, s.tower_eps), s.tower_dim
    read = product(w, layer.read, inner, s.hidden, 2 * (s.tower_heads + s.tower_kv_heads) * dim)
    score, mixed = np.empty(start + len(x), np.float32), np.empty((len(x), s.tower_heads * dim), np.float32)
    attend(
        read, start, s.tower_heads, s.tower_kv_heads, dim, NO, YES, v[layer.q_norm : layer.q_norm + dim],
        v[layer.k_norm : layer.k_norm + dim], s.tower_eps, cos, sin, keys, values, score, mixed,
    )  # fmt: skip
    add(rest, product(w, layer.write, mixed, mixed.shape[1], s.hidden))
    inner = normed(rest, v, layer.ffn_norm, s.tower_eps)
    inner = product(w, layer.gate_up, inner, s.hidden, 2 * s.tower_width)
    for t in range(len(x)):
        swiglu(inner[t], np.int64(0), s.tower_width, np.float32(1))
    add(rest, product(w, layer.down, inner, s.tower_width, s.hidden))
    return normed(rest, v, layer.out_norm, s.tower_eps)


@outer
def unheard(w, s, rows):
    """[rows, hidden] of the codes that the backbone doesn't hear; zero where a row isn't semantic."""
    extra = np.empty((len(rows), s.hidden), np.float32)
    for t in range(len(rows)):
        clear(extra[t])
        if semantic(s, rows[t, 0]):
            hear(w, s, rows[t], 1 + s.mixed, s.codebooks, extra[t])
    return extra


@loop
def kept(odds, index, top_k, top_p, keep_crossing):
    """Whether `index` has one of the ranks that may be drawn; of equal odds the first ranks first."""
    own, rank, mass = odds[index], 0, 0.0
    for i in range(index):
        rank += 1 if odds[i] >= own else 0
        mass += odds[i] if odds[i] >= own else np.float32(0)
    for i in range(index + 1, len(odds)):
        rank += 1 if odds[i] > own else 0
        mass += odds[i] if odds[i] > own else np.float32(0)
    return rank == 0 or (rank < top_k and np.float32(mass if keep_crossing else mass + own) <= top_p)


@exact
def winner(scores, odds, limit):
    """The index of the best score among those that rank before `limit`, or of all where it is negative."""
    chosen, most = 0, np.float32(-np.inf)
    bound = odds[limit] if limit >= 0 else np.float32(-1)
    for i in range(len(scores)):
        if scores[i] > most and (odds[i] > bound or (odds[i] == bound and i < limit)):
            chosen, most = i, scores[i]
    return chosen


@outer
def draw(logits, noise, temperature, top_k, top_p, keep_crossing):
    """The law of `sampling.draw`, without its order: who wins the race among all is asked whether its rank
    may be drawn, and if not, the race is run among those that rank before it. Nearly always the first may.
    """
    size, best, total = len(logits), largest(logits), np.float32(0)
    odds, scores = np.empty(size, np.float32), np.empty(size, np.float32)
    temperature = max(temperature, np.float32(1e-5))
    for i in range(size):
        odds[i] = exp((logits[i] - best) / temperature)
        total += odds[i]
    for i in range(size):
        odds[i] /= total
        scores[i] = odds[i] / noise[i]
    chosen = winner(scores, odds, -1)
    while not kept(odds, chosen, top_k, top_p, keep_crossing):
        chosen = winner(scores, odds, chosen)
    return chosen


@exact
def among(window, main):
    for i in range(len(window)):  # noqa: SIM110
        if window[i] == main:
            return True
    return False


@exact
def numbers(x):
    for i in range(len(x)):  # noqa: SIM110
        if not np.isfinite(x[i]):
            return False
    return True


@entry
def advance(w, v, shapes, layers, cos, sin, keys, values, conv, recurrent, rows, start):
    """The backbone's final hidden [rows, hidden] of `rows` at positions from `start`; extends its state."""
    s = shapes[0]
    x = embed(w, s, rows)
    for layer in layers:
        heard, place = normed(x, v, layer.norm, s.eps), layer.place
        if layer.full:
            read = product(w, layer.read, heard, s.hidden, 2 * (s.heads + s.kv_heads) * s.dim)
            q_gain, k_gain = v[layer.q_norm : layer.q_norm + s.dim], v[layer.k_norm : layer.k_norm + s.dim]
            mixed = np.empty((len(x), s.heads * s.dim), np.float32)
            score = np.empty(start + len(x), np.float32)
            attend(
                read, start, s.heads, s.kv_heads, s.dim, YES, NO, q_gain, k_gain, s.eps, cos, sin,
                keys[place], values[place], score, mixed,
            )  # fmt: skip
        else:
            width = 2 * s.key_heads * s.key_dim + 2 * s.value_heads * (s.value_dim + 1)
            read = product(w, layer.read, heard, s.hidden, width)
            mixed = np.empty((len(x), s.value_heads * s.value_dim), np.float32)
            delta_net(read, v, s, layer, conv[place], recurrent[place], mixed)
        add(x, product(w, layer.write, mixed, mixed.shape[1], s.hidden))
        experts(w, v, s, layer, x)
    return normed(x, v, s.norm, s.eps)


@entry
def tower(
    w, v, shapes, layers, cos, sin, keys, values, x, parents, labels, start, drawing, candidates, temperature,
    top_k, top_p, window, noise,
):  # fmt: skip
    """The tower behind hidden x [rows, hidden] of the rows `parents` at positions from `start`, given their
    `labels` [rows, 1 + codebooks].

    With `drawing` the label of the one row is drawn and written: `noise` [codebooks + 1, candidates] and the
    samplers are main, retry and heads, in this order. Gives whether all logits were numbers.
    """
    s, finite = shapes[0], True
    if drawing:
        logits = product(w, s.head, x, s.hidden, s.candidates)[0]
        finite = numbers(logits)
        main = candidates[draw(logits, noise[0], temperature[0], top_k[0], top_p[0], YES)]
        if main != s.eos and among(window, main):
            main = candidates[draw(logits, noise[1], temperature[1], top_k[1], top_p[1], YES)]
        labels[0, 0], labels[0, 1] = main, min(max(main - s.first_semantic, 0), s.code_size - 1)
    extra, heard = unheard(w, s, parents), np.empty(len(x), np.bool_)
    for t in range(len(x)):
        heard[t] = labels[t, 0] != s.eos if drawing else semantic(s, labels[t, 0])
    for index in range(len(layers)):
        layer, book = layers[index], max(0, index - s.tower_shared)
        x = tower_layer(
            w, v, s, layer, x, labels[:, 1 + book], heard, extra, start, keys[index], values[index], cos, sin
        )
        for t in range(len(x) if index == 0 else 0):
            clear(extra[t])
        if drawing and index >= s.tower_shared:
            logits = product(w, layer.head, x, s.hidden, s.code_size)[0]
            finite = numbers(logits) and finite
            labels[0, 2 + book] = draw(logits, noise[2 + book], temperature[2], top_k[2], top_p[2], NO)
    return finite


@exact
def sine_squared(y):
    """sin(y)^2 of a float32 within 1e-7: y less its multiple of pi, whose 201 / 64 is exact, is r; then r^2
    by the polynomial in r^2 that fits sin(r)^2 / r^2 at Chebyshev's points up to pi / 2.
    """
    n = (y * np.float32(1 / math.pi) + ROUND) - ROUND
    r = (y - n * np.float32(201 / 64)) - n * np.float32(math.pi - 201 / 64)
    q = r * r
    q = np.float32(2.5) if q > np.float32(2.5) else q  # only where y has no fraction any more
    p = np.float32(-3.63102352e-6) * q + np.float32(1.39349314e-4)
    p = p * q + np.float32(-3.17239901e-3)
    p = p * q + np.float32(4.44431787e-2)
    p = p * q + np.float32(-3.33333067e-1)
    p = p * q + np.float32(9.99999991e-1)
    return p * q


@loop
def snake(x, alpha, scale, y):
    """y = x + sin(alpha x)^2 scale, all flat; `alpha` and `scale` repeat as often as they fit."""
    for first in range(0, len(x), len(alpha)):
        a, b = x[first : first + len(alpha)], y[first : first + len(alpha)]
        for i in range(len(a)):
            b[i] = a[i] + sine_squared(a[i] * alpha[i]) * scale[i]


@exact
def six(t, last, step):
    """Where the six rows from t on begin; behind the last one it is the last once more."""
    return (
        t * step, min(t + 1, last) * step, min(t + 2, last) * step, min(t + 3, last) * step,
        min(t + 4, last) * step, min(t + 5, last) * step,
    )  # fmt: skip


@outer
def tiles(x, panels, taps, tap_step, row_step, y, columns):
    """y [n columns] = for each row t the sum over taps i and numbers k of x[t row_step + i tap_step + k] by
    `panels` [columns / 16, 1 + taps numbers, 16], whose first line is the bias. What a row becomes doesn't
    depend on how many rows there are.
    """
    n, inner, lines = len(y) // columns, (panels.shape[1] - 1) // taps, panels.shape[1] * TILE_COLUMNS
    spill, none, width = np.empty(TILE_ROWS * TILE_COLUMNS, np.float32), np.int64(0), np.int64(TILE_COLUMNS)
    for panel in range(len(panels)):
        first = panel * TILE_COLUMNS
        some, behind = min(columns - first, TILE_COLUMNS), y[first:]
        for t in range(0, n, TILE_ROWS):
            rows = six(t, n - 1, row_step)
            if some == TILE_COLUMNS:
                _tile(x, rows, taps, tap_step, inner, panels, panel * lines, behind, six(t, n - 1, columns))
            else:
                _tile(x, rows, taps, tap_step, inner, panels, panel * lines, spill, six(none, width, width))
                for r in range(min(TILE_ROWS, n - t)):
                    copy(spill[r * width : r * width + some], behind[(t + r) * columns :])


@outer
def one_column(x, panels, row_step, y):
    """`tiles` of one tap and one column, where fifteen of a tile's sixteen would be empty."""
    weight, bias = np.empty(panels.shape[1] - 1, np.float32), panels[0, 0, 0]
    for k in range(len(weight)):
        weight[k] = panels[0, 1 + k, 0]
    for t in range(len(y)):
        y[t] = dot(weight, x[t * row_step : t * row_step + len(weight)]) + bias


@loop
def add_to(x, y):
    """x += y, all flat."""
    for i in range(len(x)):
        x[i] += y[i]


@loop
def take_in(x, held, alpha, scale, whole):
    """whole = what was `held`, then x behind a snake, if `alpha` has numbers; `held` moves on. All flat."""
    copy(held, whole)
    if len(alpha):
        snake(x, alpha, scale, whole[len(held) :])
    else:
        copy(x, whole[len(held) :])
    copy(whole[len(x) : len(x) + len(held)], held)


@entry
def convolve_rows(x, held, inputs, alpha, scale, panels, taps, tap_step, stride, y, columns):
    """y [n / stride, columns] = `tiles` of x [n, inputs] behind a snake and what was `held` of the piece
    before, all flat. It goes in pieces that stay in the processor's cache.
    """
    rows = max(1, PIECE // (stride * max(inputs, columns))) * stride
    whole, steps = np.empty(len(held) + min(rows * inputs, len(x)), np.float32), len(x) // inputs
    for first in range(0, steps, rows):
        last = min(first + rows, steps)
        take_in(x[first * inputs : last * inputs], held, alpha, scale, whole)
        some = y[first // stride * columns : last // stride * columns]
        if columns == 1 and taps == 1:
            one_column(whole, panels, stride * inputs, some)
        else:
            tiles(whole, panels, taps, tap_step, stride * inputs, some, columns)


@entry
def residual_unit(x, held, channels, alpha, scale, panels, taps, tap_step, end_alpha, end_scale, end_panels):
    """A codec's residual unit, added to x [n channels] in place; pieces as in `convolve_rows`."""
    size, one, none = max(1, PIECE // channels) * channels, np.int64(1), np.int64(0)
    some = min(size, len(x))
    whole, heard = np.empty(len(held) + some, np.float32), np.empty(some, np.float32)
    said = np.empty_like(heard)
    for first in range(0, len(x), size):
        piece = x[first : first + size]
        y, z = heard[: len(piece)], said[: len(piece)]
        take_in(piece, held, alpha, scale, whole)
        tiles(whole, panels, taps, tap_step, channels, y, channels)
        snake(y, end_alpha, end_scale, y)
        tiles(y, end_panels, one, none, channels, z, channels)
        add_to(piece, z)


@entry
def convolve_each(x, weight, bias, y):
    """y [n, channels]: each channel of x [n + taps - 1, channels] by its own column of weight [taps,
    channels].
    """
    for t in range(len(y)):
        out = y[t]
        copy(bias, out)
        for tap in range(len(weight)):
            line, taps = x[t + tap], weight[tap]
            for c in range(len(out)):
                out[c] += line[c] * taps[c]


@exact
def gelu(x):
    """x by half of 1 + erf(x / sqrt 2), within 3e-7: erf by formula 7.1.26 of Abramowitz and Stegun."""
    z = np.float32(abs(x)) * np.float32(math.sqrt(0.5))
    t = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * z)
    p = np.float32(1.061405429) * t + np.float32(-1.453152027)
    p = p * t + np.float32(1.421413741)
    p = p * t + np.float32(-0.284496736)
    p = p * t + np.float32(0.254829592)
    erf = np.float32(1) - p * t * exp(-z * z)
    return np.float32(0.5) * x * (np.float32(1) + (erf if x > np.float32(0) else -erf))


@loop
def layer_norm(x, gain, bias, eps):
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i]
    mean, square = total / np.float32(len(x)), np.float32(0)
    for i in range(len(x)):
        x[i] -= mean
        square += x[i] * x[i]
    factor = np.float32(1) / np.float32(math.sqrt(square / np.float32(len(x)) + np.float32(eps)))
    for i in range(len(x)):
        x[i] = x[i] * factor * gain[i] + bias[i]


@loop
def gelu_all(x):
    for i in range(len(x)):
        x[i] = gelu(x[i])


@entry
def feed(x, width, gain, bias, eps, up, down, rest, y):
    """y = rest + down(gelu(up(norm(x)))), all [n width]; x is spoilt, `up` and `down` are panels."""
    n, one, none, columns = len(x) // width, np.int64(1), np.int64(0), len(up) * TILE_COLUMNS
    inner = np.empty(n * columns, np.float32)
    for t in range(n):
        layer_norm(x[t * width : (t + 1) * width], gain, bias, eps)
    tiles(x, up, one, none, width, inner, np.int64(columns))
    gelu_all(inner)
    tiles(inner, down, one, none, np.int64(columns), y, width)
    add_to(y, rest)


@loop
def look_back(q, keys, values, oldest, score, out):
    """Attention of q [dim] over a ring's keys and values [slots, dim] from slot `oldest` on, as many as
    `score` has numbers; it is spoilt.
    """
    slots, factor, total = len(keys), np.float32(1 / math.sqrt(len(q))), np.float32(0)
    for j in range(len(score)):
        score[j] = dot(q, keys[(oldest + j) % slots])
    best = largest(score)
    for j in range(len(score)):
        score[j] = exp((score[j] - best) * factor)
        total += score[j]
    clear(out)
    for j in range(len(score)):
        share, value = score[j] / total, values[(oldest + j) % slots]
        for i in range(len(out)):
            out[i] += share * value[i]


@loop
def norm_rows(x, gain, eps, y):
    for first in range(0, len(x), len(gain)):
        row = y[first : first + len(gain)]
        copy(x[first : first + len(gain)], row)
        scale(row, gain, eps)


@entry
def look_and_feed(x, start, window, cos, sin, keys, values, norm, qkv, out, feed_norm, gate_up, down, eps):
    """Rows x [n width] at positions from `start` on become what they are behind one layer of a codec's
    transformer, with the rings `keys` and `values` [heads, slots, dim]; cos and sin [n, dim / 2]; the four
    matrices are panels.
    """
    (heads, slots, dim), width, one, none = keys.shape, np.int64(len(norm)), np.int64(1), np.int64(0)
    n, part, columns = len(x) // width, heads * dim, np.int64(len(gate_up) * TILE_COLUMNS)
    heard, mixed = np.empty_like(x), np.empty((n, part), np.float32)
    read = np.empty((n, 3 * part), np.float32)
    inner, scores = np.empty((n, columns), np.float32), np.empty(window, np.float32)
    norm_rows(x, norm, eps, heard)
    tiles(heard, qkv, one, none, width, read.reshape(-1), np.int64(3 * part))
    for t in range(n):
        count, slot = min(start + t + 1, window), (start + t) % slots
        for h in range(heads):
            q, k = read[t, h * dim : (h + 1) * dim], read[t, part + h * dim : part + (h + 1) * dim]
            turn(q, cos[t], sin[t], YES)
            turn(k, cos[t], sin[t], YES)
            copy(k, keys[h, slot])
            copy(read[t, 2 * part + h * dim : 2 * part + (h + 1) * dim], values[h, slot])
            oldest = (start + t + 1 - count) % slots
            look_back(q, keys[h], values[h], oldest, scores[:count], mixed[t, h * dim : (h + 1) * dim])
    tiles(mixed.reshape(-1), out, one, none, np.int64(part), heard, width)
    add_to(x, heard)
    norm_rows(x, feed_norm, eps, heard)
    tiles(heard, gate_up, one, none, width, inner.reshape(-1), columns)
    for t in range(n):
        swiglu(inner[t], none, np.int64(down.shape[1] - 1), np.float32(1))
    tiles(inner.reshape(-1), down, one, none, columns, heard, width)
    add_to(x, heard)


WORD, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
FIRST, SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
FIRST_KEY, SECOND_KEY = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@entry
def uniform(low, high, frame, piece, out):
    """The bits of `noise.uniform` for frames from `frame` on, to out [frames, draws, count]. A round goes
    over all the counters of a draw, so that it becomes vectors: an eighth of the time of one by one.
    """
    frames, draws, count = out.shape
    words = np.empty((4, (count + 3) // 4), np.uint64)
    c0, c1, c2, c3 = words[0], words[1], words[2], words[3]
    for f in range(frames):
        for draw in range(draws):
            for i in range(len(c0)):
                c0[i], c1[i] = np.uint64(i), np.uint64(frame + f)
                c2[i], c3[i] = np.uint64(draw), np.uint64(piece)
            k0, k1 = np.uint64(low), np.uint64(high)
            for _ in range(10):
                for i in range(len(c0)):
                    a, b = c0[i] * FIRST, c2[i] * SECOND
                    c0[i], c2[i] = (b >> HALF) ^ c1[i] ^ k0, (a >> HALF) ^ c3[i] ^ k1
                    c1[i], c3[i] = b & WORD, a & WORD
                k0, k1 = (k0 + FIRST_KEY) & WORD, (k1 + SECOND_KEY) & WORD
            line = out[f, draw]
            for i in range(count):
                whole = np.float32(np.int32(words[i & 3, i >> 2] >> np.uint64(9)))
                line[i] = (whole + np.float32(0.5)) * np.float32(2.0**-23)
