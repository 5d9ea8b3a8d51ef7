"""The decode step as a chain of kernels: what a GPU runs in place of `TakeState.draw_frame`, its twin.

One call queues one frame: some 370 kernels at the size of Drama 3, each a matrix read once with everything
small folded in. All buffers are made at the start and none of the numbers is seen by the host, so the chain
can be captured as one CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.drama3 import kernels as k
from engine.drama3.backbone import DeltaNet, GatedAttention, Layer
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.tower import TowerLayer


class FusedStep:
    """The chain over one state's buffers and one block of noise. Lives as long as they do.

    `noise` [block frames, draws, candidates] float32 holds the noise of frame f in slot f % block frames.
    """

    def __init__(self, model: Drama3Model, state: TakeState, noise: Tensor) -> None:
        c, device, dtype = model.config, model.device, state.hidden.dtype
        text, tower = c.text, c.tower
        self.model, self.state, self.noise = model, state, noise
        self.books, self.shared = tower.num_codebooks, tower.shared_enrichment_layers

        def buffer(*shape: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.zeros(*shape, dtype=kind, device=device)

        self.x = buffer(text.hidden_size)
        widest = max(
            2 * (text.num_attention_heads + text.num_key_value_heads) * text.head_dim,
            c.text.conv_dim + text.value_dim + 2 * text.linear_num_value_heads,
            2 * (tower.n_head + tower.n_local_heads) * tower.head_dim,
        )
        self.read = buffer(widest)
        self.router = buffer(text.num_experts + 1 + 2 * text.shared_expert_intermediate_size)
        self.mixed = buffer(text.value_dim)
        self.attended = buffer(text.num_attention_heads * text.head_dim)
        self.tower_attended = buffer(tower.n_head * tower.head_dim)
        self.pair, self.merged, self.rest = buffer(2 * tower.dim), buffer(tower.dim), buffer(tower.dim)
        self.feed = buffer(tower.intermediate_size)
        self.logits = buffer(len(model.candidates), kind=torch.float32)
        self.head_logits = buffer(tower.vocab_size, kind=torch.float32)
        self.experts = k.ExpertScratch(text.num_experts_per_tok, text.moe_intermediate_size, device, dtype)
        self.attention = k.AttentionScratch(text.num_attention_heads, text.head_dim, device)
        self.tower_attention = k.AttentionScratch(tower.n_head, tower.head_dim, device)
        kernel = text.linear_conv_kernel_dim
        self.rings = buffer(len(text.linear_layers), kernel, text.conv_dim)
        linear = (layer.mixer for layer in model.backbone.layers if not layer.full)
        self.convs = [mixer.conv[:, 0].T.contiguous() for mixer in linear]
        self.frame_row = buffer(1 + self.books, kind=torch.int64)
        self.row = buffer(2 + self.books, kind=torch.int64)  # the last row, and whether it is one of audio
        self.verdicts = buffer(self.books, kind=torch.int32)

    def begin(self) -> None:
        """Take over from the prefill: what the plain layers keep in another form."""
        state, size = self.state, self.rings.shape[1]
        slots = torch.arange(state.num_rows - size + 1, state.num_rows, device=self.rings.device) % size
        self.rings[:, slots] = state.backbone.conv.transpose(1, 2)
        self.row[:-1] = state.row[0]
        self.row[-1:] = self.model.backbone.is_semantic(state.row)

    def __call__(self) -> None:
        """Queue one frame."""
        self._draw_main()
        for index, layer in enumerate(self.model.tower.layers):
            self._tower_layer(index, layer)
            if index >= self.shared:
                self._draw_code(index - self.shared, layer)
        self._commit()
        full = linear = 0
        for layer in self.model.backbone.layers:
            if layer.full:
                self._attend(layer, layer.mixer, full)
                full += 1
            else:
                self._scan(layer, layer.mixer, linear)
                linear += 1
            self._experts(layer)
        last = self.model.backbone.norm
        k.norm(self.x, last.gain, last.eps, self.state.hidden[0])

    def _draw_main(self) -> None:
        model, state, c = self.model, self.state, self.model.config
        k.gemv(state.hidden[0], model.backbone.head, self.logits)
        k.draw_main(
            self.logits, self.noise, state.frame, state.window, model.candidates, state.knobs.main,
            state.knobs.retry, self.frame_row, self.verdicts, c.eos_token_id, c.semantic_start_token_id,
            c.tower.vocab_size,
        )  # fmt: skip

    def _tower_layer(self, index: int, layer: TowerLayer) -> None:
        model, state, c, attention = self.model, self.state, self.model.config.tower, layer.attention
        before = model.tower.layers[index - 1] if index else None
        k.tower_in(
            self.rest if before else state.hidden[0], before.out_norm.gain if before else None, c.norm_eps,
            self.frame_row, 1 + max(0, index - self.shared), layer.table, layer.code_norm.gain,
            layer.hidden_norm.gain, self.pair, self.row, model.backbone.code_embedding, self.books,
            self.books if before else 1 + c.vq_backbone_codebooks, model.config.eos_token_id,
        )  # fmt: skip
        k.gemv(self.pair, layer.merge, self.merged)
        read = self.read[: attention.read.shape[0]]
        k.gemv(self.merged, attention.read, read, layer.attention_norm.gain, c.norm_eps)
        k.attention(
            read, attention.q_norm.gain, attention.k_norm.gain, c.norm_eps, model.tower.rope.cos,
            model.tower.rope.sin, state.tower[0, index], state.tower[1, index], state.last,
            self.tower_attended, self.tower_attention, gate_by_head=False, pairs=True,
        )  # fmt: skip
        k.gemv(self.tower_attended, attention.write, self.rest, rest=self.merged)
        k.gemv(self.rest, layer.gate_up, self.feed, layer.ffn_norm.gain, c.norm_eps, swiglu=True)
        k.gemv(self.feed, layer.down, self.rest, rest=self.rest)

    def _draw_code(self, book: int, layer: TowerLayer) -> None:
        norm, head = layer.out_norm, self.model.tower.heads[book]
        k.gemv(self.rest, head, self.head_logits, norm.gain, norm.eps)
        k.draw_head(
            self.head_logits, self.noise, self.state.frame, 2 + book, self.state.knobs.heads,
            self.frame_row[2 + book :], self.verdicts[1 + book :],
        )  # fmt: skip

    def _commit(self) -> None:
        model, state, c = self.model, self.state, self.model.config
        k.commit(
            self.frame_row, self.row, state.log, state.window, state.last, state.frame, self.verdicts,
            model.backbone.embedding, model.backbone.code_embedding, c.tower.vocab_size,
            model.backbone.mixed_codebooks,
            (c.eos_token_id, c.semantic_start_token_id, c.semantic_end_token_id), self.x,
        )  # fmt: skip

    def _scan(self, layer: Layer, mixer: DeltaNet, number: int) -> None:
        read, norm = self.read[: mixer.read.shape[0]], layer.mixer_norm
        k.gemv(self.x, mixer.read, read, norm.gain, norm.eps)
        k.delta(
            read, self.rings[number], self.convs[number], mixer.log_rate, mixer.dt_bias,
            self.state.backbone.recurrent[number], self.mixed, self.state.last, mixer.key_heads,
        )  # fmt: skip
        z = read[mixer.channels : mixer.channels + mixer.value_dim]
        k.gemv_gated(self.mixed, z, mixer.gain, mixer.eps, mixer.write, self.x, self.x, mixer.heads)

    def _attend(self, layer: Layer, mixer: GatedAttention, number: int) -> None:
        state, rope, norm = self.state, self.model.rope, layer.mixer_norm
        read = self.read[: mixer.read.shape[0]]
        k.gemv(self.x, mixer.read, read, norm.gain, norm.eps)
        k.attention(
            read, mixer.q_norm.gain, mixer.k_norm.gain, norm.eps, rope.cos, rope.sin,
            state.backbone.keys[number], state.backbone.values[number], state.last, self.attended,
            self.attention, gate_by_head=True, pairs=False,
        )  # fmt: skip
        k.gemv(self.attended, mixer.write, self.x, rest=self.x)

    def _experts(self, layer: Layer) -> None:
        moe, norm = layer.experts, layer.experts_norm
        experts = moe.experts
        k.gemv(self.x, moe.read, self.router, norm.gain, norm.eps)
        k.experts_up(
            self.x, norm.gain, norm.eps, self.router, experts.gate_up, experts.gate_up_scale, self.experts
        )
        k.experts_down(
            self.experts, experts.down, experts.down_scale, self.router, moe.shared_down, self.x, self.x
        )
