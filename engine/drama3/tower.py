"""The codebook tower: S shared layers and N-1 residual layers, chained in depth, each attending over time.

It is not a small transformer over the codebooks of a frame: every layer keeps a cache over *time* as long as
the backbone's. Position p sees the backbone's hidden h[p], the input frame f[p] and the label frame f[p+1] -
the one being predicted. So a prompt of P rows fills the tower's caches for rows 0..P-2 only; row P-1 is
filled by the first decode step, when its label is drawn. Mathematics: Drama 3 notes, section 6 (SGLang
Omni's torch path).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.drama3.backbone import Rows
from engine.drama3.config import Drama3Config, TowerConfig
from engine.drama3.layers import (
    RopeTable,
    Slots,
    Trace,
    ZeroCentredNorm,
    attend,
    note,
    rotate_pairs,
    swiglu,
    weight,
)


class TowerAttention(nn.Module):
    """Like the backbone's, but the projection holds all queries, all gates, keys, values in four blocks, and
    rope turns neighbouring pairs."""

    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = c.n_head, c.n_local_heads, c.head_dim
        self.cuts = [
            self.heads * self.dim,
            self.heads * self.dim,
            self.kv_heads * self.dim,
            self.kv_heads * self.dim,
        ]
        self.read = weight(sum(self.cuts), c.dim)
        self.q_norm, self.k_norm = (
            ZeroCentredNorm(self.dim, c.norm_eps),
            ZeroCentredNorm(self.dim, c.norm_eps),
        )
        self.write = weight(c.dim, self.heads * self.dim)

    def slots(self, key: str) -> Slots:
        yield f"{key}.wqkv.weight", self.read
        yield f"{key}.wo.weight", self.write
        yield from self.q_norm.slots(f"{key}.q_norm")
        yield from self.k_norm.slots(f"{key}.k_norm")

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, at: Rows) -> Tensor:
        q, gate, k, v = F.linear(x, self.read).split(self.cuts, -1)
        q = rotate_pairs(self.q_norm(q.view(len(x), self.heads, -1)).transpose(0, 1), at.rope)
        k = rotate_pairs(self.k_norm(k.view(len(x), self.kv_heads, -1)).transpose(0, 1), at.rope)
        keys.index_copy_(1, at.positions, k)
        values.index_copy_(1, at.positions, v.view(len(x), self.kv_heads, -1).transpose(0, 1))
        mixed = attend(q, keys[:, : at.window], values[:, : at.window], at.visible)
        return F.linear(mixed * gate.sigmoid(), self.write)


class TowerLayer(nn.Module):
    """A code table and a transformer layer; its output is already normed and is the next layer's hidden."""

    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.table = weight(c.vocab_size, c.dim)
        self.merge = weight(c.dim, 2 * c.dim)
        self.code_norm, self.hidden_norm = (
            ZeroCentredNorm(c.dim, c.norm_eps),
            ZeroCentredNorm(c.dim, c.norm_eps),
        )
        self.attention_norm, self.ffn_norm = (
            ZeroCentredNorm(c.dim, c.norm_eps),
            ZeroCentredNorm(c.dim, c.norm_eps),
        )
        self.out_norm = ZeroCentredNorm(c.dim, c.norm_eps)
        self.attention = TowerAttention(c)
        self.gate_up = weight(2 * c.intermediate_size, c.dim)
        self.down = weight(c.dim, c.intermediate_size)

    def slots(self, key: str) -> Slots:
        block, feed_forward = f"{key}.transformer_layer", f"{key}.transformer_layer.feed_forward"
        yield f"{key}.codebook_embedding.weight", self.table
        yield f"{key}.eh_proj.weight", self.merge
        yield from self.code_norm.slots(f"{key}.enorm")
        yield from self.hidden_norm.slots(f"{key}.hnorm")
        yield from self.out_norm.slots(f"{key}.final_layernorm")
        yield from self.attention_norm.slots(f"{block}.attention_norm")
        yield from self.ffn_norm.slots(f"{block}.ffn_norm")
        yield from self.attention.slots(f"{block}.attention")
        gate, up = self.gate_up.chunk(2)
        yield f"{feed_forward}.w1.weight", gate
        yield f"{feed_forward}.w3.weight", up
        yield f"{feed_forward}.w2.weight", self.down

    def forward(
        self,
        x: Tensor,
        code: Tensor,
        semantic: Tensor,
        extra: Tensor | None,
        keys: Tensor,
        values: Tensor,
        at: Rows,
    ) -> Tensor:
        """x [rows, H], label codes [rows] int64, `semantic` [rows, 1] bool -> [rows, H]. `extra` [rows, H]
        joins the code's vector, also where the label is not semantic."""
        vector = self.table[code.clamp(0, len(self.table) - 1)] * semantic
        if extra is not None:
            vector = vector + extra
        merged = F.linear(torch.cat((self.code_norm(vector), self.hidden_norm(x)), -1), self.merge)
        rest = merged + self.attention(self.attention_norm(merged), keys, values, at)
        rest = rest + F.linear(swiglu(F.linear(self.ffn_norm(rest), self.gate_up)), self.down)
        return self.out_norm(rest)


class Tower(nn.Module):
    """All layers and heads. Caches are `keys`, `values` [layers, kv heads, capacity, dim], owned by the
    take.
    """

    def __init__(self, config: Drama3Config, max_rows: int) -> None:
        super().__init__()
        c = config.tower
        self.num_shared, self.num_codebooks = c.shared_enrichment_layers, c.num_codebooks
        self.layers = nn.ModuleList(TowerLayer(c) for _ in range(c.num_layers))
        self.heads = weight(c.num_codebooks - 1, c.vocab_size, c.dim)
        self.rope = RopeTable(max_rows, c.rotary_dim, c.rope_base)

    def slots(self) -> Slots:
        for i, layer in enumerate(self.layers):
            shared = i < self.num_shared
            place = f"shared.layers.{i}" if shared else f".layers.{i - self.num_shared}"
            yield from layer.slots(f"audio_decoder_mtp{'_' if shared else ''}{place}")
        for i, head in enumerate(self.heads):
            yield f"audio_decoder_mtp.heads.{i}.weight", head

    def fresh_cache(self, c: TowerConfig, capacity: int, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Zeros [2 (keys, values), layers, kv heads, capacity, dim]."""
        return torch.zeros(
            2, len(self.layers), c.n_local_heads, capacity, c.head_dim, dtype=dtype, device=device
        )

    def fill(
        self,
        hidden: Tensor,
        labels: Tensor,
        semantic: Tensor,
        extra: Tensor,
        cache: Tensor,
        at: Rows,
        trace: Trace | None = None,
    ) -> None:
        """Write the caches of prompt rows: hidden [rows, H] with the codes `labels` [rows, codebooks] that
        follow.
        """
        x = hidden
        for i, layer in enumerate(self.layers):
            code = labels[:, max(0, i - self.num_shared)]
            x = layer(x, code, semantic[:, None], extra if i == 0 else None, cache[0, i], cache[1, i], at)
            note(trace, "tower_output", x)

    def step(
        self,
        hidden: Tensor,
        code: Tensor,
        semantic: Tensor,
        extra: Tensor,
        cache: Tensor,
        at: Rows,
        pick: Callable[[int, Tensor], Tensor],
        trace: Trace | None = None,
    ) -> list[Tensor]:
        """The codes [1] of one frame, first to last, given code 0. `pick(i, logits)` draws code i + 1 from
        head i's float32 logits [1, C]."""
        x, codes = hidden, [code]
        for i, layer in enumerate(self.layers):
            x = layer(
                x, codes[-1], semantic[:, None], extra if i == 0 else None, cache[0, i], cache[1, i], at
            )
            note(trace, "tower_output", x)
            if i >= self.num_shared:
                book = i - self.num_shared
                logits = F.linear(x, self.heads[book]).float()
                note(trace, "head_logits", logits)
                codes.append(pick(book, logits))
        return codes
