"""The reading of prompt rows as a chain of kernels: what a GPU runs in place of `TakeState.read_rows`, its
twin.

Rows come in blocks of fixed size, of which the first `count` are real. The rest fill up: they choose no
experts and are remembered nowhere. Where the block begins, and how many rows are known, only the device
knows; so the chain can be captured as one CUDA graph for each size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.drama3.backbone import GatedAttention
from engine.drama3.experts import MixtureOfExperts
from engine.drama3.layers import RopeTable, ZeroCentredNorm
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.prompt_attention import attention_rows
from engine.drama3.prompt_kernels import delta_rows, experts_grouped, route
from engine.drama3.prompt_rows import join_rows, merge_rows, norm_rows, swiglu_rows
from engine.drama3.tower import TowerAttention
from engine.sampling import RAS_WINDOW


class FusedPrompt:
    """The chain over one state's buffers. Lives as long as they do.

    `block` [rows, 1 + codebooks] int64 holds the rows to be read, `count` [1] int64 how many are real.
    """

    def __init__(self, model: Drama3Model, state: TakeState, block: Tensor, count: Tensor) -> None:
        self.model, self.state, self.block, self.count = model, state, block, count

    def __call__(self, size: int) -> None:
        """Queue the reading of the block's first `size` rows, at least `count`; the host's count of rows is
        the caller's."""
        state, rows = self.state, self.block[:size]
        hidden = self._backbone(rows)
        known, heard = torch.cat((state.row, rows)), torch.cat((state.hidden, hidden))
        self._fill_tower(known, heard)
        state.row.copy_(known.index_select(0, self.count))
        state.hidden.copy_(heard.index_select(0, self.count))
        mains = self.count + torch.arange(RAS_WINDOW, device=rows.device)
        state.window.copy_(torch.cat((state.window, rows[:, 0])).index_select(0, mains))
        state.last += self.count

    def _backbone(self, rows: Tensor) -> Tensor:
        """The final hidden [rows, H]."""
        backbone, memory = self.model.backbone, self.state.backbone
        norms = [*(layer.mixer_norm for layer in backbone.layers), backbone.norm]
        full = linear = 0
        x = backbone.embed(rows)
        h = norm_rows(x, norms[0].gain, norms[0].eps)
        for layer, norm in zip(backbone.layers, norms[1:], strict=True):
            mixer = layer.mixer
            read = F.linear(h, mixer.read)
            if layer.full:
                caches = memory.keys[full], memory.values[full]
                mixed = self._attend(mixer, read, self.model.rope, caches, self.state.last, pairs=False)
                full += 1
            else:
                mixed = delta_rows(
                    read, memory.conv[linear], mixer.conv, mixer.log_rate, mixer.dt_bias, mixer.gain,
                    mixer.eps, memory.recurrent[linear], self.count, mixer.key_heads,
                )  # fmt: skip
                linear += 1
            after = layer.experts_norm
            h = norm_rows(x, after.gain, after.eps, more=F.linear(mixed, mixer.write))
            h = self._experts(layer.experts, x, h, norm)
        return h

    def _attend(
        self,
        attention: GatedAttention | TowerAttention,
        read: Tensor,
        rope: RopeTable,
        caches: tuple[Tensor, Tensor],
        before: Tensor,
        pairs: bool,
    ) -> Tensor:
        """What one row after the other attends to, [rows, heads * dim]; in the tower in `pairs`."""
        return attention_rows(
            read, attention.q_norm.gain, attention.k_norm.gain, attention.q_norm.eps, rope.cos, rope.sin,
            *caches, before, self.count, gate_by_head=not pairs, pairs=pairs,
        )  # fmt: skip

    def _experts(self, moe: MixtureOfExperts, x: Tensor, h: Tensor, norm: ZeroCentredNorm) -> Tensor:
        """x += the experts' part of h, in place; its norm for the next layer."""
        experts, read = moe.experts, F.linear(h, moe.read)
        share, index = route(read[:, : experts.num], moe.top_k, self.count)
        weights = experts.gate_up, experts.gate_up_scale, experts.down, experts.down_scale
        out, place = experts_grouped(h, index, *weights)
        shared = None
        if moe.shared_down is not None:
            shared = F.linear(swiglu_rows(read[:, experts.num + 1 :]), moe.shared_down)
        return join_rows(out, place, share, x, read, experts.num, shared, norm.gain, norm.eps)

    def _fill_tower(self, known: Tensor, heard: Tensor) -> None:
        """Write the tower's caches of the rows known[:-1], whose hidden are heard[:-1], labelled by the next.

        Before a take's first row there is none: what stands in its place is at position -1 and not real.
        """
        model, before = self.model, self.state.last - 1
        semantic, extra = model.backbone.is_semantic(known[1:]), model.shared_in(known[:-1])
        x, shared, caches = heard[:-1], model.tower.num_shared, self.state.tower
        for index, layer in enumerate(model.tower.layers):
            attention, codes = layer.attention, known[1:, 1 + max(0, index - shared)]
            pair = merge_rows(
                x, codes, semantic, extra if index == 0 else None, layer.table, layer.code_norm.gain,
                layer.hidden_norm.gain, layer.code_norm.eps,
            )  # fmt: skip
            rest = F.linear(pair, layer.merge)
            h = norm_rows(rest, layer.attention_norm.gain, layer.attention_norm.eps)
            read, mine = F.linear(h, attention.read), (caches[0, index], caches[1, index])
            mixed = self._attend(attention, read, model.tower.rope, mine, before, pairs=True)
            if index + 1 == len(model.tower.layers):  # of the last one only keys and values are kept
                return
            more = F.linear(mixed, attention.write)
            h = norm_rows(rest, layer.ffn_norm.gain, layer.ffn_norm.eps, more)
            fed = F.linear(swiglu_rows(F.linear(h, layer.gate_up)), layer.down)
            x = norm_rows(rest, layer.out_norm.gain, layer.out_norm.eps, fed)
