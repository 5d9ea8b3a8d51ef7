"""What a CPU computes, written out as loops that Numba compiles: for `host.py` the decode step, prompts and
noise, for the codec its snake and its linear.

Steps and prompts work on a block of `rows`, of which a step has one, in one thread without Python's lock;
the order of every sum depends on nothing but the number of rows. Matrices lie one behind the other in `w`,
float32 or the bits of float16, vectors in `v`; `SHAPE`, `LAYER` and `TOWER_LAYER` say where. Trap: an index
that might be negative costs a loop its vectors, so rows are cut out of the arrays first.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import float32, int32, njit, types, uint16
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


def wide(x):
    """A weight as float32, whichever way it is kept."""


@overload(wide, inline="always")
def _wide(x):
    if x == types.uint16:
        return lambda x: _half(x)
    return lambda x: x


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
def multiply(w, at, x, width, y):
    rows, n = y.shape
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


@exact
def before(odds, a, b):
    """Whether index a ranks before index b: by falling odds, equal ones by their index."""
    return odds[a] > odds[b] or (odds[a] == odds[b] and a < b)


@exact
def sink(heap, size, odds, place):
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and before(odds, heap[child + 1], heap[child]):
            child += 1
        if before(odds, heap[place], heap[child]):
            return
        heap[place], heap[child] = heap[child], heap[place]
        place = child


@outer
def draw(logits, noise, temperature, top_k, top_p, keep_crossing):
    """The law of `sampling.draw`: ranks are taken from a heap until the mass or their number is reached."""
    size, best, total = len(logits), largest(logits), np.float32(0)
    odds, heap = np.empty(size, np.float32), np.empty(size, np.int64)
    temperature = max(temperature, np.float32(1e-5))
    for i in range(size):
        odds[i] = exp((logits[i] - best) / temperature)
        total += odds[i]
    for i in range(size):
        odds[i] /= total
        heap[i] = i
    for place in range(size // 2 - 1, -1, -1):
        sink(heap, size, odds, place)
    chosen, most, mass = heap[0], np.float32(-np.inf), 0.0
    for rank in range(min(top_k, size)):
        index = heap[0]
        reached = mass if keep_crossing else mass + odds[index]
        if rank and not np.float32(reached) <= top_p:
            break
        mass += odds[index]
        score = odds[index] / noise[index]
        if score > most:
            chosen, most = index, score
        size -= 1
        heap[0] = heap[size]
        sink(heap, size, odds, np.int64(0))
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
    """sin(y)^2 of a float32: y less its multiple of pi, whose 201 / 64 is exact, then the series to r^11."""
    n = (y * np.float32(1 / math.pi) + ROUND) - ROUND
    r = (y - n * np.float32(201 / 64)) - n * np.float32(math.pi - 201 / 64)
    r = np.float32(1.6) if r > np.float32(1.6) else r  # only where y has no fraction any more
    r = np.float32(-1.6) if r < np.float32(-1.6) else r
    q = r * r
    p = np.float32(-1 / 39916800) * q + np.float32(1 / 362880)
    p = p * q + np.float32(-1 / 5040)
    p = p * q + np.float32(1 / 120)
    p = p * q + np.float32(-1 / 6)
    sine = p * q * r + r
    return sine * sine


@entry
def snake(x, alpha, scale, y):
    """y = x + sin(alpha x)^2 scale, all flat; `alpha` and `scale` repeat as often as they fit."""
    for first in range(0, len(x), len(alpha)):
        a, b = x[first : first + len(alpha)], y[first : first + len(alpha)]
        for i in range(len(a)):
            b[i] = a[i] + sine_squared(a[i] * alpha[i]) * scale[i]


@entry
def linear(x, weight, bias, y):
    """y [rows, n] = x [rows, k] by weight [n, k] plus bias [n]. Rows always go by fours, so that what one
    becomes doesn't depend on how many there are.
    """
    last, n = len(x) - 1, len(weight)
    for i in range(0, n, 2):
        k = min(i + 1, n - 1)
        for t in range(0, len(x), 4):
            u, v, w = min(t + 1, last), min(t + 2, last), min(t + 3, last)
            sums = products(weight[i], weight[k], x[t], x[u], x[v], x[w])
            y[w, i], y[v, i], y[u, i], y[t, i] = (
                sums[3] + bias[i], sums[2] + bias[i], sums[1] + bias[i], sums[0] + bias[i]
            )  # fmt: skip
            y[w, k], y[v, k], y[u, k], y[t, k] = (
                sums[7] + bias[k], sums[6] + bias[k], sums[5] + bias[k], sums[4] + bias[k]
            )  # fmt: skip


WORD, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
FIRST, SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
FIRST_KEY, SECOND_KEY = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@exact
def philox(c0, c1, c2, c3, k0, k1):
    """Four words of `noise.philox`, all uint64 that hold 32 bits."""
    for _ in range(10):
        a, b = c0 * FIRST, c2 * SECOND
        c0, c1, c2, c3 = (b >> HALF) ^ c1 ^ k0, b & WORD, (a >> HALF) ^ c3 ^ k1, a & WORD
        k0, k1 = (k0 + FIRST_KEY) & WORD, (k1 + SECOND_KEY) & WORD
    return c0, c1, c2, c3


@exact
def fraction(word):
    return (np.float32(np.int32(word >> np.uint64(9))) + np.float32(0.5)) * np.float32(2.0**-23)


@entry
def uniform(low, high, frame, piece, out):
    """The bits of `noise.uniform` for frames from `frame` on, to out [frames, draws, count]."""
    count = out.shape[2]
    for f in range(out.shape[0]):
        for draw in range(out.shape[1]):
            line = out[f, draw]
            for block in range((count + 3) // 4):
                words = philox(
                    np.uint64(block), np.uint64(frame + f), np.uint64(draw), np.uint64(piece),
                    np.uint64(low), np.uint64(high),
                )  # fmt: skip
                if 4 * block + 3 < count:
                    line[4 * block], line[4 * block + 1] = fraction(words[0]), fraction(words[1])
                    line[4 * block + 2], line[4 * block + 3] = fraction(words[2]), fraction(words[3])
                else:
                    for j in range(count - 4 * block):
                        line[4 * block + j] = fraction(words[j])
