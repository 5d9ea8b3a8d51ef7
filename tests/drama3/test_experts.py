"""The ways to multiply experts are one function, and block-FP8 is what its definition says."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch

from engine.drama3.config import Drama3Config
from engine.drama3.experts import (
    BLOCK,
    FP8_MAX,
    GATHER_ROWS,
    Experts,
    dequantise,
    quantise_rows,
    quantised_matmul,
)
from engine.drama3.weights import load_model


@pytest.fixture(scope="module")
def quantised(drama3_tiny):
    """The routed experts of the FP8 checkpoint's first layer."""
    config = Drama3Config.from_folder(drama3_tiny / "checkpoint_fp8")
    model = load_model(drama3_tiny / "checkpoint_fp8", config, torch.device("cpu"), torch.float32)
    return model.backbone.layers[0].experts.experts


@pytest.fixture(scope="module")
def plain(tiny_family):
    return tiny_family.model.backbone.layers[1].experts.experts


@pytest.fixture(params=["plain", "quantised"])
def experts(request) -> Experts:
    return request.getfixturevalue(request.param)


def routed(experts: Experts, rows: int, seed: int = 0):
    """(x, index, share) of random rows, two different experts each."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, experts.hidden, generator=rng)
    scores = torch.rand(rows, experts.num, generator=rng)
    share, index = scores.topk(2)
    return x, index, share / share.sum(-1, keepdim=True)


def by_definition(experts: Experts, x, index, share) -> torch.Tensor:
    """y = sum over the chosen experts of w down(silu(gate x) * up x), row by row, in float64."""
    out = torch.zeros(len(x), experts.hidden, dtype=torch.float64)
    for row, (chosen, weights) in enumerate(zip(index, share, strict=True)):
        for e, w in zip(chosen.tolist(), weights.tolist(), strict=True):
            gate_up, down = (matrix.double() for matrix in experts._of(e, torch.float32))
            gate, up = (gate_up @ x[row].double()).chunk(2)
            out[row] += w * (down @ (gate * gate.sigmoid() * up))
    return out


@pytest.mark.parametrize("rows", [1, 2, 3, GATHER_ROWS, GATHER_ROWS + 1, 40])
def test_gathered_and_grouped_are_the_same_sum(experts, rows):
    given = routed(experts, rows)
    expected = by_definition(experts, *given)
    largest = expected.abs().max()
    for way in (experts._gathered, experts._grouped, experts):
        # Sums of 256 float32 products, three deep: 1e-5 of the largest is 80 roundings.
        assert (way(*given) - expected).abs().max() < 1e-5 * largest


def test_two_rows_may_choose_the_same_expert_and_one_may_go_unused(experts):
    x, _, share = routed(experts, 6)
    index = torch.tensor([[2, 0]] * 3 + [[0, 2]] * 3)
    expected = by_definition(experts, x, index, share)
    for way in (experts._gathered, experts._grouped):
        assert (way(x, index, share) - expected).abs().max() < 1e-5 * expected.abs().max()


def test_fp8_experts_are_their_dequantised_twins(quantised):
    twin = copy.copy(quantised)
    twin.__dict__ = {**quantised.__dict__, "_parameters": dict(quantised._parameters)}
    for name in ("gate_up", "down"):
        full = dequantise(getattr(quantised, name), getattr(quantised, f"{name}_scale"), torch.float32)
        twin._parameters[name] = torch.nn.Parameter(full, requires_grad=False)
        twin._parameters[f"{name}_scale"] = None
    for rows in (1, 3, 9):
        given = routed(quantised, rows)
        assert torch.equal(quantised(*given), twin(*given))


def test_a_ragged_matrix_is_dequantised_block_by_block():
    rng = np.random.default_rng(3)
    q = torch.from_numpy(rng.standard_normal((200, 320)).astype(np.float32)).to(torch.float8_e4m3fn)
    scale = torch.from_numpy(rng.uniform(0.1, 3.0, (2, 3)).astype(np.float32))
    expected = np.empty((200, 320), np.float32)
    values = q.float().numpy()
    for row in range(200):
        for column in range(320):
            expected[row, column] = values[row, column] * scale[row // 128, column // 128].item()
    assert np.array_equal(dequantise(q, scale, torch.float32).numpy(), expected)
    stacked = dequantise(torch.stack((q, q)), torch.stack((scale, 2 * scale)), torch.float32).numpy()
    assert np.array_equal(stacked, np.stack((expected, 2 * expected)))


def test_the_golden_ragged_linear_is_dequantised_exactly(drama3_tiny):
    with np.load(drama3_tiny / "fp8.npz") as golden:
        q = torch.from_numpy(golden["linear_weight_bits"]).view(torch.float8_e4m3fn)
        full = dequantise(q, torch.from_numpy(golden["linear_scale_inv"]), torch.float32)
        assert np.array_equal(full.numpy(), golden["linear_weight_dequant"])


def test_activations_are_quantised_by_row_and_group():
    x = torch.zeros(2, BLOCK + 40)
    x[0, 0], x[0, 5], x[0, BLOCK], x[1, 3] = 896.0, 1.0, -0.5, 1e-20
    bits, scale = quantise_rows(x)
    assert bits.shape == x.shape
    # max / 448, and 1e-10 / 448 where a group is all but zero.
    assert scale[0].tolist() == pytest.approx([2.0, 0.5 / FP8_MAX])
    assert scale[1].tolist() == pytest.approx([1e-10 / FP8_MAX] * 2)
    assert bits.float()[0, [0, 5, BLOCK]].tolist() == [448.0, 0.5, -448.0]


def test_quantised_activations_cost_a_few_percent_and_no_more(quantised):
    x = torch.randn(20, quantised.hidden, generator=torch.Generator().manual_seed(4))
    q, scale = quantised.down[0], quantised.down_scale[0]
    hidden = x[:, : q.shape[1]]
    exact = hidden @ dequantise(q, scale, torch.float32).T
    error = quantised_matmul(hidden, q, scale) - exact
    # e4m3 has 3 bits behind the point: rounding is at most 1/16 of a value, about 1/40 in the mean square.
    assert 0.005 < error.std() / exact.std() < 0.04


def test_an_expert_narrower_than_a_block_has_one_scale(tiny_family):
    config = dataclasses.replace(tiny_family.config.text, moe_intermediate_size=32, hidden_size=200)
    narrow = Experts(config, quantised=True)
    assert narrow.gate_up_scale.shape == (4, 2, 1, 2)
    assert narrow.down_scale.shape == (4, 2, 1)
