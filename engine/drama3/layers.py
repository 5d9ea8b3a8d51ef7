"""Small layers that backbone and tower share, and the trace that lets a verifier see inside one forward path.

A layer that owns checkpoint tensors tells the loader so by `slots(prefix)`: pairs of a checkpoint key and the
view (of exactly that tensor's shape) that it fills. Projections that read the same input are kept as one
matrix; the views cut it up again. `finish()` runs once after loading.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Trace = MutableMapping[str, list[Tensor]]
Slots = Iterator[tuple[str, Tensor]]


def note(trace: Trace | None, name: str, value: Tensor) -> None:
    """Keep a copy of an intermediate value under `name`, when somebody asked."""
    if trace is not None:
        trace.setdefault(name, []).append(value.detach().clone())


def weight(*shape: int, dtype: torch.dtype | None = None) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape, dtype=dtype), requires_grad=False)


class ZeroCentredNorm(nn.Module):
    """rms(x) (1 + w): mean of squares and product in float32, then cast back to x's dtype."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.gain = weight(width, dtype=torch.float32)
        self.root_eps = weight(1, dtype=torch.float32)
        self.width, self.eps = width, eps

    def slots(self, key: str) -> Slots:
        yield f"{key}.weight", self.gain

    def finish(self) -> None:
        self.gain += 1
        self.root_eps.fill_(math.sqrt(self.eps))

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return F.rms_norm(x.float(), self.gain.shape, self.gain, self.eps).to(x.dtype)
        # On a CPU rms_norm is put together from twice as many operations (20 us against 12 a row).
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return (x / torch.hypot(length * self.width**-0.5, self.root_eps) * self.gain).to(x.dtype)


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, the two halves of the last axis; the product is rounded to the dtype of its input."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


class RopeTable(nn.Module):
    """cos and sin of p base^(-2j/width), float32 [rows, width/2], read by position."""

    def __init__(self, rows: int, width: int, base: float) -> None:
        super().__init__()
        self.rows, self.width, self.base = rows, width, base
        self.cos, self.sin = (
            weight(rows, width // 2, dtype=torch.float32),
            weight(rows, width // 2, dtype=torch.float32),
        )

    def finish(self) -> None:
        powers = torch.arange(0, self.width, 2, dtype=torch.float64) / self.width
        # The frequency is rounded to float32 before it meets the position, as in the reference code.
        angles = torch.arange(self.rows, dtype=torch.float32)[:, None] * (1.0 / self.base**powers).float()
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos[positions], self.sin[positions]


def rotate_halves(x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """x [heads, rows, dim]: pairs (j, j + width/2) of the first `width` dims turn, the rest stays
    (backbone).
    """
    cos, sin = rope
    half = cos.shape[-1]
    a, b = x[..., :half].float(), x[..., half : 2 * half].float()
    turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
    return torch.cat((turned, x[..., 2 * half :]), -1)


def rotate_pairs(x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """x [heads, rows, dim]: neighbouring pairs (2j, 2j + 1) of the first `width` dims turn (tower)."""
    cos, sin = rope
    width = 2 * cos.shape[-1]
    a, b = x[..., 0:width:2].float(), x[..., 1:width:2].float()
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(x.dtype)
    return torch.cat((turned, x[..., width:]), -1)


def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """Causal grouped-query attention: q [heads, rows, dim] over k, v [kv_heads, window, dim] -> [rows, heads
    * dim].

    `visible` [rows, window] bool: cached row w may be seen by query row t. Softmax in float32.
    """
    mixed = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=visible, enable_gqa=True)[0]
    return mixed.transpose(0, 1).reshape(q.shape[1], -1)
