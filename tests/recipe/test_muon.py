"""Muon's update: as large as AdamW's, orthogonal, in the direction of the gradient."""

from __future__ import annotations

import pytest
import torch

LR, DECAY = 0.01, 0.1


@pytest.fixture
def parameters() -> list[torch.nn.Parameter]:
    """Matrices wide, tall and stacked, with a gradient each."""
    make = torch.Generator().manual_seed(0)
    shapes = (32, 64), (64, 32), (3, 24, 48), (32, 64)
    made = [torch.nn.Parameter(torch.randn(shape, generator=make)) for shape in shapes]
    for each in made:
        each.grad = torch.randn(each.shape, generator=make)
    return made


def test_the_first_update_of_every_matrix_is_its_gradient_made_orthogonal(recipe, parameters):
    before = [p.detach().clone() for p in parameters]
    recipe.muon.Muon(parameters, LR, DECAY).step()
    for p, old in zip(parameters, before, strict=True):
        update = (p.detach() - old * (1 - LR * DECAY)) / (-LR * 0.2 * max(p.shape[-2:]) ** 0.5)
        values = torch.linalg.svdvals(update)
        assert values.min() > 0.65  # the iteration ends between 0.7 and 1.2, not at 1
        assert values.max() < 1.25
        u, _, v = torch.linalg.svd(p.grad, full_matrices=False)
        away = update - u @ v
        assert away.square().sum() < 0.1 * (u @ v).square().sum()


def test_momentum_carries_a_gradient_into_the_next_step(recipe, parameters):
    optimiser = recipe.muon.Muon(parameters, LR, 0.0)
    optimiser.step()
    before = [p.detach().clone() for p in parameters]
    for p in parameters:
        p.grad.zero_()
    optimiser.step()
    assert all((p - old).norm() > LR for p, old in zip(parameters, before, strict=True))
