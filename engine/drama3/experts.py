"""The mixture of experts: router, routed experts (plain or block-FP8), gated shared expert.

Block-FP8 keeps an expert matrix as float8_e4m3fn with one scale per 128 x 128 block (ragged edges share the
last partial block). It is used weight-only: dequantised where it is read, activations untouched. That reads
the same bytes as the W8A8 scheme the release was trained for and is numerically better; W8A8 is
`quantised_matmul`, kept for checking against it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.drama3.config import TextConfig
from engine.drama3.layers import Slots, Trace, note, swiglu, weight

BLOCK = 128
FP8_MAX = 448.0
GATHER_ROWS = 4  # up to so many rows, fetching each row's own experts beats sorting rows by expert


def dequantise(q: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """q [..., n, k] float8 times its block scales [..., ceil(n/128), ceil(k/128)], in `dtype`."""
    n, k = q.shape[-2:]
    rows = scale.float().repeat_interleave(BLOCK, -2)[..., :n, :]
    return (q.float() * rows.repeat_interleave(BLOCK, -1)[..., :k]).to(dtype)


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [rows, k] -> float8 [rows, k] and float32 scales [rows, ceil(k/128)]: per row and group of 128
    channels s = max(max|x|, 1e-10) / 448, q = clamp(x / s, +-448) to e4m3 (nearest even)."""
    rows, k = x.shape
    groups = F.pad(x.float(), (0, -k % BLOCK)).view(rows, -1, BLOCK)
    scale = groups.abs().amax(-1).clamp(min=1e-10) / FP8_MAX
    q = (groups / scale[..., None]).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return q.flatten(1)[:, :k], scale


def quantised_matmul(x: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    """W8A8: x [rows, k] quantised on the fly, times q [n, k] float8 and its scales -> float32 [rows, n]."""
    bits, row_scale = quantise_rows(x)
    wide = row_scale.repeat_interleave(BLOCK, -1)[:, : x.shape[-1]]
    return (bits.float() * wide) @ dequantise(q, scale, torch.float32).T


class Experts(nn.Module):
    """E routed SwiGLU experts, each gate|up [2, I, H] and down [H, I], with scales when `quantised`."""

    def __init__(self, config: TextConfig, quantised: bool) -> None:
        super().__init__()
        self.num, self.hidden, self.width = (
            config.num_experts,
            config.hidden_size,
            config.moe_intermediate_size,
        )
        kind = torch.float8_e4m3fn if quantised else None
        self.gate_up = weight(self.num, 2, self.width, self.hidden, dtype=kind)
        self.down = weight(self.num, self.hidden, self.width, dtype=kind)
        self.gate_up_scale = self.down_scale = None
        if quantised:
            blocks = -(-self.width // BLOCK), -(-self.hidden // BLOCK)
            self.gate_up_scale = weight(self.num, 2, *blocks, dtype=torch.float32)
            self.down_scale = weight(self.num, *blocks[::-1], dtype=torch.float32)
        self.activations_fp8 = False

    def fused_slots(self, key: str) -> Slots:
        yield f"{key}.gate_up_proj", self.gate_up.flatten(1, 2)
        yield f"{key}.down_proj", self.down
        if self.gate_up_scale is not None:
            yield f"{key}.gate_up_proj_scale_inv", self.gate_up_scale.flatten(1, 2)
            yield f"{key}.down_proj_scale_inv", self.down_scale

    def split_slots(self, key: str) -> Slots:
        for e in range(self.num):
            yield f"{key}.{e}.gate_proj.weight", self.gate_up[e, 0]
            yield f"{key}.{e}.up_proj.weight", self.gate_up[e, 1]
            yield f"{key}.{e}.down_proj.weight", self.down[e]
            if self.gate_up_scale is not None:
                yield f"{key}.{e}.gate_proj.weight_scale_inv", self.gate_up_scale[e, 0]
                yield f"{key}.{e}.up_proj.weight_scale_inv", self.gate_up_scale[e, 1]
                yield f"{key}.{e}.down_proj.weight_scale_inv", self.down_scale[e]

    def _of(self, which: Tensor | int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """gate|up [..., 2I, H] and down [..., H, I] of the experts `which`, ready to multiply in `dtype`."""
        gate_up, down = self.gate_up[which], self.down[which]
        if self.gate_up_scale is not None:
            gate_up = dequantise(gate_up, self.gate_up_scale[which], dtype)
            down = dequantise(down, self.down_scale[which], dtype)
        return gate_up.flatten(-3, -2), down

    def _gathered(self, x: Tensor, index: Tensor, share: Tensor) -> Tensor:
        """No host sync: every row multiplies its own copy of its experts. The twin of `_grouped`."""
        gate_up, down = self._of(index, x.dtype)
        hidden = swiglu((gate_up @ x[:, None, :, None]).squeeze(-1))
        return torch.einsum("tkhi,tki,tk->th", down, hidden, share)

    def _viewed(self, x: Tensor, index: Tensor, share: Tensor) -> Tensor:
        """The twin for one row on a CPU, where looking at the choice is free: no expert is copied."""
        out = torch.zeros_like(x)
        for e, part in zip(index[0].tolist(), share[0].tolist(), strict=True):
            gate_up, down = self._of(e, x.dtype)
            out += F.linear(swiglu(F.linear(x, gate_up)) * part, down)
        return out

    def _grouped(self, x: Tensor, index: Tensor, share: Tensor) -> Tensor:
        """Rows sorted by expert, each expert read once."""
        run = self._quantised_expert if self.activations_fp8 else self._expert
        out = torch.zeros_like(x)
        for e in index.unique().tolist():
            rows, place = (index == e).nonzero(as_tuple=True)
            out.index_add_(0, rows, run(e, x[rows]) * share[rows, place, None])
        return out

    def _expert(self, e: int, x: Tensor) -> Tensor:
        gate_up, down = self._of(e, x.dtype)
        return swiglu(x @ gate_up.T) @ down.T

    def _quantised_expert(self, e: int, x: Tensor) -> Tensor:
        """W8A8: activations quantised before both products."""
        gate, up = (quantised_matmul(x, self.gate_up[e, i], self.gate_up_scale[e, i]) for i in (0, 1))
        hidden = (F.silu(gate) * up).to(x.dtype)
        return quantised_matmul(hidden, self.down[e], self.down_scale[e]).to(x.dtype)

    def forward(self, x: Tensor, index: Tensor, share: Tensor) -> Tensor:
        """x [rows, H], chosen experts `index` and their shares [rows, k] -> [rows, H]."""
        if len(x) > GATHER_ROWS or self.activations_fp8:
            return self._grouped(x, index, share)
        if len(x) == 1 and x.device.type == "cpu":
            return self._viewed(x, index, share)
        return self._gathered(x, index, share)


def route(logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Router logits [rows, E] -> (share float32, index int64) [rows, top_k]: softmax over all experts and
    renormalisation of the kept, in float32."""
    share, index = logits.float().softmax(-1).topk(top_k, -1)
    return share / share.sum(-1, keepdim=True), index


class MixtureOfExperts(nn.Module):
    """Routed experts plus the gated shared one. Router and shared projections read x in one matrix."""

    def __init__(self, config: TextConfig, quantised: bool) -> None:
        super().__init__()
        self.top_k = config.num_experts_per_tok
        self.shared_width = config.shared_expert_intermediate_size
        wide = config.num_experts + (1 + 2 * self.shared_width if self.shared_width else 0)
        self.cuts = (
            [config.num_experts, 1, 2 * self.shared_width] if self.shared_width else [config.num_experts]
        )
        self.read = weight(wide, config.hidden_size)
        self.experts = Experts(config, quantised)
        self.shared_down = weight(config.hidden_size, self.shared_width) if self.shared_width else None

    def slots(self, key: str) -> Slots:
        router, *shared = self.read.split(self.cuts)
        yield f"{key}.gate.weight", router
        if shared:
            gate_proj, up_proj = shared[1].chunk(2)
            yield f"{key}.shared_expert_gate.weight", shared[0]
            yield f"{key}.shared_expert.gate_proj.weight", gate_proj
            yield f"{key}.shared_expert.up_proj.weight", up_proj
            yield f"{key}.shared_expert.down_proj.weight", self.shared_down

    def forward(self, x: Tensor, trace: Trace | None = None) -> Tensor:
        """x [rows, H] -> [rows, H]."""
        note(trace, "moe_input", x)
        logits, *shared = F.linear(x, self.read).split(self.cuts, -1)
        share, index = route(logits, self.top_k)
        note(trace, "route_index", index)
        note(trace, "route_weight", share)
        out = self.experts(x, index, share.to(x.dtype))
        if shared:
            gate, gate_up = shared
            out = out + gate.sigmoid() * F.linear(swiglu(gate_up), self.shared_down)
        note(trace, "moe_output", out)
        return out
