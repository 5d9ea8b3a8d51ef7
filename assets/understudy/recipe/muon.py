"""Muon: momentum whose update is made orthogonal, for the matrices of the language model.

All matrices of one shape are stacked and handled together, because one launch per matrix would take
longer than the training step. Updates are scaled by 0.2 * sqrt(longer side), so that they
are as large as AdamW's and share its learning rate and weight decay (Liu et al. 2025, "Muon is
scalable for LLM training"; the iteration's coefficients are Jordan's, 2024).
"""

from __future__ import annotations

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """[n, rows, columns]: each matrix with its singular values brought near 1 (0.7 to 1.2)."""
    a, b, c = COEFFICIENTS
    x = g.bfloat16() if g.is_cuda else g
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).to(g.dtype)


class Muon:
    """Keeps one momentum buffer [n, rows, columns] per shape; 3-d parameters count as stacks of matrices."""

    def __init__(self, parameters, lr: float, weight_decay: float = 0.1, momentum: float = 0.95) -> None:
        self.param_groups = [dict(lr=lr)]
        self.weight_decay, self.momentum = weight_decay, momentum
        self.by_shape: dict[tuple, list] = {}
        for p in parameters:
            self.by_shape.setdefault(tuple(p.shape[-2:]), []).append(p)
        self.buffers = {shape: torch.zeros_like(self.stack(ps)) for shape, ps in self.by_shape.items()}

    @staticmethod
    def stack(tensors) -> torch.Tensor:
        return torch.cat([t.reshape(-1, *t.shape[-2:]) for t in tensors])

    @torch.no_grad()
    def step(self) -> None:
        lr = self.param_groups[0]["lr"]
        for shape, parameters in self.by_shape.items():
            gradient, buffer = self.stack([p.grad for p in parameters]), self.buffers[shape]
            buffer.lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(buffer, self.momentum)) * (-lr * 0.2 * max(shape) ** 0.5)
            parts = update.split([p.numel() // (shape[0] * shape[1]) for p in parameters])
            torch._foreach_mul_(parameters, 1 - lr * self.weight_decay)
            torch._foreach_add_(parameters, [u.view_as(p) for u, p in zip(parts, parameters, strict=False)])
