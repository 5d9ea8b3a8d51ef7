"""The hybrid backbone: gated delta net layers with a full-attention layer at every k-th place, experts in
each.

One forward serves prefill and the decode step: `rows` rows enter at `positions`, read and extend the state.
The delta net has two forms of the same recurrence - one row at a time, and chunks of 64 rows solved as a
triangular system - chosen by the number of rows; a test holds them together. Mathematics: Drama 3 notes,
section 4 (Qwen3.5-MoE text model of transformers).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.drama3.config import Drama3Config, TextConfig
from engine.drama3.experts import MixtureOfExperts
from engine.drama3.layers import RopeTable, Slots, Trace, ZeroCentredNorm, attend, note, rotate_halves, weight

DELTA_CHUNK = 64


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the rows of one forward sit in time.

    `positions` [rows] int64; `rope` cos and sin of them; `window` a host number of cached rows to read;
    `visible` [rows, window] bool, causal.
    """

    positions: Tensor
    rope: tuple[Tensor, Tensor]
    window: int
    visible: Tensor

    @classmethod
    def at(cls, positions: Tensor, window: int, table: RopeTable) -> Rows:
        visible = torch.arange(window, device=positions.device) <= positions[:, None]
        return cls(positions, table(positions), window, visible)


@dataclass(eq=False)
class BackboneState:
    """What the backbone remembers of one take; made once, written only in place.

    `keys`, `values` [full layers, kv heads, capacity, dim]; `conv` [linear layers, channels, K-1];
    `recurrent` [linear layers, value heads, dk, dv] float32.
    """

    keys: Tensor
    values: Tensor
    conv: Tensor
    recurrent: Tensor

    @classmethod
    def fresh(cls, c: TextConfig, capacity: int, device: torch.device, dtype: torch.dtype) -> BackboneState:
        num_full, num_linear = len(c.full_layers), len(c.linear_layers)
        kv = num_full, c.num_key_value_heads, capacity, c.head_dim
        channels = 2 * c.key_dim + c.value_dim
        heads = c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim
        return cls(
            torch.zeros(kv, dtype=dtype, device=device),
            torch.zeros(kv, dtype=dtype, device=device),
            torch.zeros(num_linear, channels, c.linear_conv_kernel_dim - 1, dtype=dtype, device=device),
            torch.zeros(num_linear, *heads, dtype=torch.float32, device=device),
        )


def delta_step(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor, state: Tensor) -> Tensor:
    """One row of the gated delta rule, in place on `state` [heads, dk, dv] float32.

    q, k [heads, dk], v [heads, dv], beta and log `decay` [heads], all float32 -> o [heads, dv].
    S = e^g S; d = beta (v - S^T k); S += k d^T; o = S^T q.
    """
    state *= decay.exp()[:, None, None]
    delta = beta[:, None] * (v - (k[:, None] @ state).squeeze(1))
    state += k[:, :, None] * delta[:, None]
    return (q[:, None] @ state).squeeze(1)


def delta_chunk(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor, state: Tensor) -> Tensor:
    """Up to 64 rows of the same rule at once: q, k [heads, rows, dk], v [heads, rows, dv] -> o [heads, rows,
    dv].

    With G the running sum of the log decay, the corrections d solve a unit lower triangular system
    (I + tril(beta e^(G_t - G_s) k_t.k_s, -1)) d = beta (v - e^G k S), and
    o_t = e^G_t q_t S + sum_{s <= t} e^(G_t - G_s) (q_t.k_s) d_s. Differences of G are masked before exp, so
    that nothing overflows above the diagonal.
    """
    total = decay.double().cumsum(-1)  # strong decays reach -4,000 and their differences must keep the rest
    lower = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool, device=q.device).tril()
    falloff = (total[:, :, None] - total[:, None]).masked_fill(~lower, -torch.inf).exp().float()
    grown = total.exp().float()[..., None]
    system = beta[..., None] * (k @ k.transpose(1, 2)) * falloff
    target = beta[..., None] * (v - grown * (k @ state))
    delta = torch.linalg.solve_triangular(system, target, upper=False, unitriangular=True)
    out = grown * (q @ state) + ((q @ k.transpose(1, 2)) * falloff) @ delta
    left = (total[:, -1:] - total).exp().float()[..., None]
    state *= grown[:, -1:]
    state += (k * left).transpose(1, 2) @ delta
    return out


class DeltaNet(nn.Module):
    """Linear attention. Its state is `conv` [channels, K-1], the last inputs of the convolution (before it,
    oldest first), and `recurrent` [value heads, dk, dv] float32."""

    def __init__(self, c: TextConfig) -> None:
        super().__init__()
        self.key_heads, self.heads = c.linear_num_key_heads, c.linear_num_value_heads
        self.key_head_dim, self.value_head_dim = c.linear_key_head_dim, c.linear_value_head_dim
        self.key_dim, self.value_dim = c.key_dim, c.value_dim
        self.channels, self.eps = 2 * c.key_dim + c.value_dim, c.rms_norm_eps
        self.cuts = [self.channels, self.value_dim, self.heads, self.heads]
        self.read = weight(sum(self.cuts), c.hidden_size)
        self.conv = weight(self.channels, 1, c.linear_conv_kernel_dim)
        self.log_rate, self.dt_bias = (
            weight(self.heads, dtype=torch.float32),
            weight(self.heads, dtype=torch.float32),
        )
        self.gain = weight(self.value_head_dim, dtype=torch.float32)
        self.write = weight(c.hidden_size, self.value_dim)

    def slots(self, key: str) -> Slots:
        for name, view in zip(("qkv", "z", "b", "a"), self.read.split(self.cuts), strict=True):
            yield f"{key}.in_proj_{name}.weight", view
        yield f"{key}.conv1d.weight", self.conv
        yield f"{key}.A_log", self.log_rate
        yield f"{key}.dt_bias", self.dt_bias
        yield f"{key}.norm.weight", self.gain
        yield f"{key}.out_proj.weight", self.write

    def finish(self) -> None:
        self.log_rate.copy_(-self.log_rate.exp())

    def forward(self, x: Tensor, conv: Tensor, recurrent: Tensor, trace: Trace | None) -> Tensor:
        rows = len(x)
        u, z, b, a = F.linear(x, self.read).split(self.cuts, -1)
        wide = torch.cat((conv, u.T), -1)
        conv.copy_(wide[:, rows:])
        if rows == 1:  # the same sum without the set-up of a convolution: 5 us against 84 on a CPU
            mixed = F.silu((wide * self.conv[:, 0]).sum(-1))[None]
        else:
            mixed = F.silu(F.conv1d(wide[None], self.conv, groups=self.channels))[0].T
        q, k, v = mixed.split([self.key_dim, self.key_dim, self.value_dim], -1)
        q = self._unit(q) * self.key_head_dim**-0.5
        k, v = self._unit(k), v.view(rows, self.heads, -1).transpose(0, 1).float()
        beta, decay = b.float().sigmoid().T, (self.log_rate * F.softplus(a.float() + self.dt_bias)).T
        o = self._scan(q, k, v, beta, decay, recurrent).transpose(0, 1).to(x.dtype)
        normed = F.rms_norm(o.float(), self.gain.shape, self.gain, self.eps)
        gated = (normed * F.silu(z.view(rows, self.heads, -1).float())).flatten(1).to(x.dtype)
        if trace is not None:
            parts = dict(
                q=q.transpose(0, 1), k=k.transpose(0, 1), v=v.transpose(0, 1), beta=beta.T, log_decay=decay.T
            )
            parts |= dict(qkv_pre_conv=u, conv_out=mixed, z=z.view_as(o), o=o, gated=gated)
            for name, value in parts.items():
                note(trace, f"gdn_{name}", value)
        return F.linear(gated, self.write)

    def _unit(self, x: Tensor) -> Tensor:
        """[rows, key heads * dk] -> [value heads, rows, dk] float32, unit length, each key head repeated."""
        x = x.view(len(x), self.key_heads, -1).transpose(0, 1).float()
        x = x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
        return x.repeat_interleave(self.heads // self.key_heads, 0)

    def _scan(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor, state: Tensor) -> Tensor:
        if q.shape[1] == 1:
            return delta_step(q[:, 0], k[:, 0], v[:, 0], beta[:, 0], decay[:, 0], state)[:, None]
        parts = zip(*(x.split(DELTA_CHUNK, 1) for x in (q, k, v, beta, decay)), strict=True)
        return torch.cat([delta_chunk(*part, state) for part in parts], 1)


class GatedAttention(nn.Module):
    """Full attention with a sigmoid gate on the mixed heads; its projection interleaves query and gate per
    head.
    """

    def __init__(self, c: TextConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.cuts = [2 * self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim]
        self.read = weight(sum(self.cuts), c.hidden_size)
        self.q_norm, self.k_norm = (
            ZeroCentredNorm(self.dim, c.rms_norm_eps),
            ZeroCentredNorm(self.dim, c.rms_norm_eps),
        )
        self.write = weight(c.hidden_size, self.heads * self.dim)

    def slots(self, key: str) -> Slots:
        for name, view in zip(("q_proj", "k_proj", "v_proj"), self.read.split(self.cuts), strict=True):
            yield f"{key}.{name}.weight", view
        yield f"{key}.o_proj.weight", self.write
        yield from self.q_norm.slots(f"{key}.q_norm")
        yield from self.k_norm.slots(f"{key}.k_norm")

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, at: Rows, trace: Trace | None) -> Tensor:
        """Writes k (normed, rotated) and v of the rows into keys, values [kv_heads, capacity, dim], then
        attends.
        """
        q_gate, k, v = F.linear(x, self.read).split(self.cuts, -1)
        q, gate = q_gate.view(len(x), self.heads, 2, self.dim).unbind(2)
        q = rotate_halves(self.q_norm(q).transpose(0, 1), at.rope)
        k = rotate_halves(self.k_norm(k.view(len(x), self.kv_heads, -1)).transpose(0, 1), at.rope)
        v = v.view(len(x), self.kv_heads, -1).transpose(0, 1)
        keys.index_copy_(1, at.positions, k)
        values.index_copy_(1, at.positions, v)
        mixed = attend(q, keys[:, : at.window], values[:, : at.window], at.visible)
        gated = mixed * gate.flatten(1).sigmoid()
        if trace is not None:
            parts = dict(
                q=q.transpose(0, 1), k=k.transpose(0, 1), v=v.transpose(0, 1), gate=gate, gated=gated
            )
            for name, value in parts.items():
                note(trace, f"attn_{name}", value)
        return F.linear(gated, self.write)


class Layer(nn.Module):
    """x += mixer(norm(x)); x += experts(norm(x))."""

    def __init__(self, c: TextConfig, full: bool, quantised: bool) -> None:
        super().__init__()
        self.full = full
        self.mixer = GatedAttention(c) if full else DeltaNet(c)
        self.mixer_norm = ZeroCentredNorm(c.hidden_size, c.rms_norm_eps)
        self.experts_norm = ZeroCentredNorm(c.hidden_size, c.rms_norm_eps)
        self.experts = MixtureOfExperts(c, quantised)

    def slots(self, key: str) -> Slots:
        yield from self.mixer_norm.slots(f"{key}.input_layernorm")
        yield from self.experts_norm.slots(f"{key}.post_attention_layernorm")
        yield from self.mixer.slots(f"{key}.{'self_attn' if self.full else 'linear_attn'}")
        yield from self.experts.slots(f"{key}.mlp")


class Backbone(nn.Module):
    """Embedding, layers, final norm and the candidate head: rows of frames in, hidden states out."""

    def __init__(self, config: Drama3Config) -> None:
        super().__init__()
        c, quantised = config.text, config.quantization is not None
        self.semantic = config.semantic_start_token_id, config.semantic_end_token_id
        self.mixed_codebooks = config.tower.vq_backbone_codebooks
        self.code_size = config.tower.vocab_size
        self.embedding = weight(c.vocab_size, c.hidden_size)
        self.code_embedding = weight(config.tower.num_codebooks * self.code_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c, kind == "full_attention", quantised) for kind in c.layer_types)
        self.norm = ZeroCentredNorm(c.hidden_size, c.rms_norm_eps)
        self.head = weight(len(config.candidate_ids), c.hidden_size)

    def slots(self, fused_experts: bool) -> Slots:
        key = "model.language_model"
        yield f"{key}.embed_tokens.weight", self.embedding
        yield "audio_decoder.codebook_embeddings.weight", self.code_embedding
        yield from self.norm.slots(f"{key}.norm")
        for i, layer in enumerate(self.layers):
            yield from layer.slots(f"{key}.layers.{i}")
            experts = layer.experts.experts
            yield from (experts.fused_slots if fused_experts else experts.split_slots)(
                f"{key}.layers.{i}.mlp.experts"
            )

    def is_semantic(self, rows: Tensor) -> Tensor:
        """[rows] bool: the main id lies in the semantic band."""
        return (rows[:, 0] >= self.semantic[0]) & (rows[:, 0] <= self.semantic[1])

    def code_vectors(self, rows: Tensor, first: int, last: int) -> Tensor:
        """[rows, last - first, H]: the table's entries for codebooks first..last-1 of frame rows."""
        books = torch.arange(first, last, device=rows.device) * self.code_size
        codes = rows[:, 1 + first : 1 + last].clamp(0, self.code_size - 1)
        return self.code_embedding[codes + books]

    def embed(self, rows: Tensor) -> Tensor:
        """Frame rows int64 [rows, 1 + codebooks] -> [rows, H]. Codes count only where the main id is
        semantic; there the sum over 1 + B vectors is divided by sqrt(1 + B)."""
        token = self.embedding[rows[:, 0]]
        mixed = token + self.code_vectors(rows, 1, 1 + self.mixed_codebooks).sum(1)
        return torch.where(self.is_semantic(rows)[:, None], mixed * (1 + self.mixed_codebooks) ** -0.5, token)

    def forward(self, rows: Tensor, state: BackboneState, at: Rows, trace: Trace | None = None) -> Tensor:
        """Frame rows [rows, 1 + codebooks] at `at.positions` -> final hidden [rows, H]; extends `state` in
        place.
        """
        x = self.embed(rows)
        note(trace, "inputs_embeds", x)
        num_full = num_linear = 0
        for layer in self.layers:
            normed = layer.mixer_norm(x)
            if layer.full:
                mixed = layer.mixer(normed, state.keys[num_full], state.values[num_full], at, trace)
                num_full += 1
            else:
                mixed = layer.mixer(normed, state.conv[num_linear], state.recurrent[num_linear], trace)
                num_linear += 1
            x = x + mixed
            x = x + layer.experts(layer.experts_norm(x), trace)
            note(trace, "layer_output", x)
        x = self.norm(x)
        note(trace, "final_hidden", x)
        return x

    def candidate_logits(self, hidden: Tensor) -> Tensor:
        """[rows, candidates] float32 over `candidate_ids`: end of speech and the semantic band."""
        return F.linear(hidden, self.head).float()
