"""The decode step on a CPU, for models so small that the work between two matrices costs more than they do.

A step of the plain layers is some 1,300 torch operations of 2 to 10 us: of the 14.5 ms that a model of 14 M
parameters takes on one core, more than half. The same sums in numpy, over the same memory (`Tensor.numpy()`
shares it), take 5.9. This is the CPU's counterpart of `fused.py`; the twin of both is `TakeState.draw_frame`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from engine.drama3.backbone import DeltaNet, GatedAttention
from engine.drama3.experts import MixtureOfExperts
from engine.drama3.layers import ZeroCentredNorm
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.tower import TowerLayer
from engine.sampling import RETRY_TOP_K, Knobs

Array = np.ndarray


def hostable(model: Drama3Model) -> bool:
    """Whether the model lies on a CPU in float32, experts and all."""
    return model.device.type == "cpu" and all(
        weight.dtype == torch.float32 for weight in model.parameters() if weight.is_floating_point()
    )


def silu(x: Array) -> Array:
    return x / (1.0 + np.exp(-x))


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def spans(cuts: Sequence[int]) -> list[slice]:
    """Where the parts of a joined projection lie (np.split takes 30 us for it)."""
    ends = list(accumulate(cuts))
    return [slice(end - cut, end) for cut, end in zip(cuts, ends, strict=True)]


def swiglu(gate_up: Array) -> Array:
    half = len(gate_up) // 2
    return silu(gate_up[:half]) * gate_up[half:]


class Norm:
    """rms(x) gain of one row, or of each row of a matrix."""

    def __init__(self, gain: Tensor, width: int, eps: float) -> None:
        self.gain, self.width, self.eps = gain.numpy(), width, eps

    @classmethod
    def of(cls, norm: ZeroCentredNorm) -> Norm:
        return cls(norm.gain, norm.width, norm.eps)

    def __call__(self, x: Array) -> Array:
        if x.ndim == 1:
            return x * np.float32(1 / math.sqrt(x.dot(x) / self.width + self.eps)) * self.gain
        mean = np.einsum("hd,hd->h", x, x) / np.float32(self.width) + np.float32(self.eps)
        return x * (1 / np.sqrt(mean))[:, None] * self.gain


def rotated(x: Array, cos: Array, sin: Array, pairs: bool) -> Array:
    """x [heads, dim] turned by the angles of one position: neighbours (`pairs`) or halves."""
    half = len(cos)
    first, second = slice(half), slice(half, 2 * half)
    if pairs:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    turned, a, b = x.copy(), x[:, first], x[:, second]
    turned[:, first] = a * cos - b * sin
    turned[:, second] = b * cos + a * sin
    return turned


def attended(q: Array, keys: Array, values: Array) -> Array:
    """[heads, dim] of q [heads, dim] over keys, values [kv heads, rows, dim]."""
    grouped = q.reshape(len(keys), -1, q.shape[-1]) * np.float32(q.shape[-1] ** -0.5)
    score = np.matmul(grouped, keys.transpose(0, 2, 1))
    share = np.exp(score - score.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    return np.matmul(share, values).reshape(q.shape)


class Draw:
    """One sampler with its knobs; the law is that of `sampling.draw`."""

    def __init__(self, knobs: Knobs, keep_crossing: bool, most_ranks: int | None) -> None:
        self.temperature = max(knobs.temperature.item(), 1e-5)
        self.top_k, self.top_p = knobs.top_k.item(), np.float32(knobs.top_p.item())
        self.keep_crossing = keep_crossing
        self.ranks = most_ranks

    def __call__(self, logits: Array, noise: Array) -> int:
        scaled = logits / np.float32(self.temperature)
        odds = np.exp(scaled - scaled.max())
        odds /= odds.sum()
        order = self._best(odds)
        if not len(order):  # no number among them; `finite` says so
            return 0
        ranked = odds[order]
        mass = ranked.cumsum()
        if self.keep_crossing:
            mass -= ranked
        keep = mass <= self.top_p
        keep[self.top_k :] = False
        keep[0] = True
        return int(order[np.where(keep, ranked / noise[order], -np.inf).argmax()])

    def _best(self, odds: Array) -> Array:
        """Indices by falling odds, as many as can matter; equal ones in the order of their index."""
        count = len(odds) if self.ranks is None else min(self.ranks, self.top_k, len(odds))
        if count >= len(odds):
            return np.argsort(-odds, kind="stable")
        some = np.flatnonzero(odds >= np.partition(odds, -count)[-count])
        return some[np.argsort(-odds[some], kind="stable")][:count]


class HostStep:
    """The step over one state's buffers. Lives as long as the state."""

    def __init__(self, model: Drama3Model, state: TakeState) -> None:
        c = model.config
        self.model, self.state, self.config = model, state, c
        self.hidden, self.row = state.hidden[0].numpy(), state.row[0].numpy()
        self.window, self.log = state.window.numpy(), state.log.numpy()
        self.candidates = model.candidates.numpy()
        self.head, self.heads = model.backbone.head.numpy(), model.tower.heads.numpy()
        self.embedding = model.backbone.embedding.numpy()
        self.codes = model.backbone.code_embedding.view(c.tower.num_codebooks, c.tower.vocab_size, -1).numpy()
        self.rope = model.rope.cos.numpy(), model.rope.sin.numpy()
        self.tower_rope = model.tower.rope.cos.numpy(), model.tower.rope.sin.numpy()
        self.norm = Norm.of(model.backbone.norm)
        memory, full, linear = state.backbone, 0, 0
        self.layers = []
        for layer in model.backbone.layers:
            if layer.full:
                mixer = _Attention(layer.mixer, memory.keys[full].numpy(), memory.values[full].numpy())
                full += 1
            else:
                mixer = _Delta(layer.mixer, memory.conv[linear].numpy(), memory.recurrent[linear].numpy())
                linear += 1
            self.layers.append(
                (Norm.of(layer.mixer_norm), mixer, Norm.of(layer.experts_norm), _Experts(layer.experts))
            )
        self.tower = [
            _TowerLayer(layer, *state.tower[:, index].numpy())
            for index, layer in enumerate(model.tower.layers)
        ]
        knobs = state.knobs
        self.draw_main = Draw(knobs.main, keep_crossing=True, most_ranks=None)
        self.draw_again = Draw(knobs.retry, keep_crossing=True, most_ranks=RETRY_TOP_K)
        self.draw_code = Draw(knobs.heads, keep_crossing=False, most_ranks=knobs.heads.top_k.item())

    def __call__(self, noise: Array) -> None:
        """Draw the next frame with `noise` [codebooks + 1, candidates] and advance the backbone by it."""
        with np.errstate(all="ignore"):  # numbers that are none are told to the host, not to the console
            row, finite = self._drawn(noise)
            self._commit(row, finite)
            self.hidden[:] = self._advanced(row, self.state.num_rows)

    def _drawn(self, noise: Array) -> tuple[Array, bool]:
        """The row of the next frame, and whether all its logits were numbers."""
        c, position = self.config, self.state.num_rows - 1
        logits = self.head.dot(self.hidden)
        finite, row = bool(np.isfinite(logits).all()), np.zeros_like(self.row)
        row[0] = main = self._main(logits, noise)
        row[1] = min(max(main - c.semantic_start_token_id, 0), c.tower.vocab_size - 1)
        cos, sin = (table[position] for table in self.tower_rope)
        x, shared = self.hidden, c.tower.shared_enrichment_layers
        for index, layer in enumerate(self.tower):
            vector = layer.table[row[1 + max(0, index - shared)]] * np.float32(main != c.eos_token_id)
            if index == 0:
                vector = vector + self._shared_in()
            x = layer(x, vector, position, cos, sin)
            if index >= shared:
                book = index - shared
                logits = self.heads[book].dot(x)
                finite = finite and bool(np.isfinite(logits).all())
                row[2 + book] = self.draw_code(logits, noise[2 + book, : len(logits)])
        return row, finite

    def _main(self, logits: Array, noise: Array) -> int:
        first = int(self.candidates[self.draw_main(logits, noise[0])])
        if first == self.config.eos_token_id or first not in self.window:
            return first
        return int(self.candidates[self.draw_again(logits, noise[1])])

    def _is_semantic(self, main: int) -> bool:
        return self.config.semantic_start_token_id <= main <= self.config.semantic_end_token_id

    def _heard(self, row: Array, first: int, last: int) -> Array:
        """The sum of the table's entries for codebooks first..last-1 of a row."""
        books = np.arange(first, last)
        return self.codes[books, row[1 + first : 1 + last].clip(0, self.config.tower.vocab_size - 1)].sum(0)

    def _shared_in(self) -> Array | float:
        first, last = 1 + self.model.backbone.mixed_codebooks, self.config.tower.num_codebooks
        return self._heard(self.row, first, last) if first < last and self._is_semantic(self.row[0]) else 0.0

    def _commit(self, row: Array, finite: bool) -> None:
        state = self.state
        self.row[:] = row
        self.log[state.num_frames, :-2] = row
        self.log[state.num_frames, -2:] = row[0] == self.config.eos_token_id, finite
        self.window[:-1] = self.window[1:]
        self.window[-1] = row[0]
        state.last += 1
        state.frame += 1

    def _advanced(self, row: Array, position: int) -> Array:
        """The backbone's final hidden of `row` at `position`."""
        x, mixed = self.embedding[row[0]], self.model.backbone.mixed_codebooks
        if self._is_semantic(row[0]):
            x = (x + self._heard(row, 1, 1 + mixed)) * np.float32((1 + mixed) ** -0.5)
        cos, sin = (table[position] for table in self.rope)
        for mixer_norm, mixer, experts_norm, experts in self.layers:
            x = x + mixer(mixer_norm(x), position, cos, sin)
            x = x + experts(experts_norm(x))
        return self.norm(x)


class _Delta:
    def __init__(self, net: DeltaNet, conv: Array, state: Array) -> None:
        self.net, self.conv, self.state = net, conv, state
        self.read, self.write, self.weight = net.read.numpy(), net.write.numpy(), net.conv[:, 0].numpy()
        self.log_rate, self.dt_bias = net.log_rate.numpy(), net.dt_bias.numpy()
        self.norm = Norm(net.gain, net.value_head_dim, net.eps)
        self.parts, self.qkv = spans(net.cuts), spans([net.key_dim, net.key_dim, net.value_dim])

    def __call__(self, x: Array, position: int, cos: Array, sin: Array) -> Array:
        net, heads = self.net, self.net.heads
        read = self.read.dot(x)
        u, z, b, a = (read[part] for part in self.parts)
        mixed = silu(np.einsum("ck,ck->c", self.conv, self.weight[:, :-1]) + u * self.weight[:, -1])
        self.conv[:, :-1] = self.conv[:, 1:]
        self.conv[:, -1] = u
        q, k, v = (mixed[part] for part in self.qkv)
        q = self._unit(q) * np.float32(net.key_head_dim**-0.5)
        k, v = self._unit(k), v.reshape(heads, -1)
        decay = np.exp(self.log_rate * np.logaddexp(0, a + self.dt_bias))
        state = self.state
        state *= decay[:, None, None]
        delta = sigmoid(b)[:, None] * (v - np.matmul(k[:, None], state)[:, 0])
        state += k[:, :, None] * delta[:, None]
        o = np.matmul(q[:, None], state)[:, 0]
        return self.write.dot((self.norm(o) * silu(z.reshape(heads, -1))).ravel())

    def _unit(self, x: Array) -> Array:
        x = x.reshape(self.net.key_heads, -1)
        x = x * (1 / np.sqrt(np.einsum("hd,hd->h", x, x) + np.float32(1e-6)))[:, None]
        return x.repeat(self.net.heads // self.net.key_heads, 0)


class _Attention:
    def __init__(self, net: GatedAttention, keys: Array, values: Array) -> None:
        self.net, self.keys, self.values = net, keys, values
        self.read, self.write = net.read.numpy(), net.write.numpy()
        self.q_norm, self.k_norm = Norm.of(net.q_norm), Norm.of(net.k_norm)
        self.parts = spans(net.cuts)

    def __call__(self, x: Array, position: int, cos: Array, sin: Array) -> Array:
        net, end, read = self.net, position + 1, self.read.dot(x)
        q_gate, k, v = (read[part] for part in self.parts)
        q, gate = q_gate.reshape(net.heads, 2, -1).transpose(1, 0, 2)
        self.keys[:, position] = rotated(self.k_norm(k.reshape(net.kv_heads, -1)), cos, sin, pairs=False)
        self.values[:, position] = v.reshape(net.kv_heads, -1)
        q = rotated(self.q_norm(q), cos, sin, pairs=False)
        return self.write.dot((attended(q, self.keys[:, :end], self.values[:, :end]) * sigmoid(gate)).ravel())


class _Experts:
    def __init__(self, moe: MixtureOfExperts) -> None:
        experts = moe.experts
        self.moe, self.read = moe, moe.read.numpy()
        self.gate_up, self.down = experts.gate_up.flatten(1, 2).numpy(), experts.down.numpy()
        self.shared_down = None if moe.shared_down is None else moe.shared_down.numpy()

    def __call__(self, x: Array) -> Array:
        read, num = self.read.dot(x), len(self.down)
        odds = np.exp(read[:num] - read[:num].max())
        chosen = np.argsort(-odds, kind="stable")[: self.moe.top_k]
        shares = odds[chosen] / odds[chosen].sum()
        out = np.zeros_like(x)
        for expert, share in zip(chosen, shares, strict=True):
            out += self.down[expert].dot(swiglu(self.gate_up[expert].dot(x)) * share)
        if self.shared_down is not None:
            out += sigmoid(read[num]) * self.shared_down.dot(swiglu(read[num + 1 :]))
        return out


class _TowerLayer:
    def __init__(self, layer: TowerLayer, keys: Array, values: Array) -> None:
        self.layer, self.keys, self.values = layer, keys, values
        self.table, self.merge = layer.table.numpy(), layer.merge.numpy()
        self.gate_up, self.down = layer.gate_up.numpy(), layer.down.numpy()
        self.read, self.write = layer.attention.read.numpy(), layer.attention.write.numpy()
        self.code_norm, self.hidden_norm = Norm.of(layer.code_norm), Norm.of(layer.hidden_norm)
        self.attention_norm, self.ffn_norm = Norm.of(layer.attention_norm), Norm.of(layer.ffn_norm)
        self.out_norm = Norm.of(layer.out_norm)
        self.q_norm, self.k_norm = Norm.of(layer.attention.q_norm), Norm.of(layer.attention.k_norm)
        self.parts = spans(layer.attention.cuts)

    def __call__(self, x: Array, vector: Array, position: int, cos: Array, sin: Array) -> Array:
        merged = self.merge.dot(np.concatenate((self.code_norm(vector), self.hidden_norm(x))))
        rest = merged + self._attend(self.attention_norm(merged), position, cos, sin)
        rest += self.down.dot(swiglu(self.gate_up.dot(self.ffn_norm(rest))))
        return self.out_norm(rest)

    def _attend(self, x: Array, position: int, cos: Array, sin: Array) -> Array:
        net, end, read = self.layer.attention, position + 1, self.read.dot(x)
        q, gate, k, v = (read[part] for part in self.parts)
        self.keys[:, position] = rotated(self.k_norm(k.reshape(net.kv_heads, -1)), cos, sin, pairs=True)
        self.values[:, position] = v.reshape(net.kv_heads, -1)
        q = rotated(self.q_norm(q.reshape(net.heads, -1)), cos, sin, pairs=True)
        return self.write.dot(attended(q, self.keys[:, :end], self.values[:, :end]).ravel() * sigmoid(gate))
