"""The two forms of the delta rule are one, and a prompt may be cut anywhere."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drama3.backbone import DELTA_CHUNK, DeltaNet, delta_chunk, delta_step
from engine.drama3.model import TakeState
from engine.sampling import TakeKnobs

GATE = 5e-4  # of the goldens, for hidden states, logits and caches in float32
HEADS, KEY, VALUE = 3, 16, 24


@pytest.fixture(scope="module")
def golden(drama3_tiny):
    with np.load(drama3_tiny / "backbone.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def model(tiny_family):
    return tiny_family.model


def delta_inputs(rows: int, slowest: float, fastest: float):
    """q, k, v, beta, log decay of `rows` rows as the layer makes them; decays lie between the two."""
    rng = torch.Generator().manual_seed(rows)
    q, k = (torch.nn.functional.normalize(torch.randn(HEADS, rows, KEY, generator=rng), dim=-1) for _ in "qk")
    v, beta = torch.randn(HEADS, rows, VALUE, generator=rng), torch.rand(HEADS, rows, generator=rng)
    decay = -(slowest + (fastest - slowest) * torch.rand(HEADS, rows, generator=rng))
    return q * KEY**-0.5, k, v, beta, decay


def chunked(inputs, state):
    """o [heads, rows, value dim] by chunks of 64 rows; `state` is advanced."""
    parts = zip(*(x.split(DELTA_CHUNK, 1) for x in inputs), strict=True)
    return torch.cat([delta_chunk(*part, state) for part in parts], 1)


# From hardly any forgetting to e^-60 a row, where e^G over a chunk is far below what float32 can hold.
@pytest.mark.parametrize(("slowest", "fastest"), [(0.0, 1e-4), (0.0, 1.0), (0.0, 60.0), (5.0, 60.0)])
def test_chunks_and_single_rows_are_the_same_rule_for_1_to_130_rows(slowest, fastest):
    # Sums of up to 64 products of numbers near 1 in another order; and the running sum of the log decay: its
    # rounding (2^-24 of at most 64 x fastest) is a relative error of the weights made of its differences.
    tolerance = 1e-5 + 64 * fastest * 2**-24
    inputs, start = delta_inputs(130, slowest, fastest), torch.full((HEADS, KEY, VALUE), 0.1)
    state, rows, states = start.clone(), [], []
    for t in range(130):
        rows.append(delta_step(*(x[:, t] for x in inputs), state))
        states.append(state.clone())
    single = torch.stack(rows, 1)
    for count in range(1, 131):
        state = start.clone()
        out = chunked([x[:, :count] for x in inputs], state)
        assert (out - single[:, :count]).abs().max() < tolerance
        assert (state - states[count - 1]).abs().max() < tolerance


def test_a_row_with_complete_forgetting_starts_anew():
    inputs = delta_inputs(70, 0.0, 0.1)
    inputs[4][:, 20] = -100.0  # e^-100 is 0 beside anything
    late = [x[:, 20:].clone() for x in inputs]
    late[4][:, 0] = 0.0
    forgot, fresh = torch.ones(HEADS, KEY, VALUE), torch.zeros(HEADS, KEY, VALUE)
    assert (chunked(inputs, forgot)[:, 20:] - chunked(late, fresh)).abs().max() < 2e-5
    assert (forgot - fresh).abs().max() < 2e-5


def test_a_convolution_over_one_row_remembers_nothing(model):
    config = dataclasses.replace(model.config.text, linear_conv_kernel_dim=1)
    net = DeltaNet(config)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = torch.randn(5, config.hidden_size, generator=torch.Generator().manual_seed(1))
    recurrent = torch.zeros(net.heads, net.key_head_dim, net.value_head_dim)
    whole = net(x, torch.zeros(net.channels, 0), recurrent.clone(), None)
    state = recurrent.clone()
    rows = [net(row[None], torch.zeros(net.channels, 0), state, None) for row in x]
    assert (whole - torch.cat(rows)).abs().max() < 1e-5


def prefilled(model, rows: torch.Tensor, cuts=()) -> tuple[TakeState, torch.Tensor]:
    """(state, final hidden [rows, H]) after `rows`, prefilled up to each of the rising `cuts` in turn."""
    state = TakeState.open(model, len(rows), 1, TakeKnobs.of(1.0, None, 1.0, "cpu"), noise=None)
    trace, start = {}, 0
    for end in [*cuts, len(rows)]:
        state.prefill(rows[start:end], trace)
        start = end
    return state, torch.cat(trace["final_hidden"])


def assert_golden_state(state: TakeState, golden) -> None:
    memory = state.backbone
    for name, got in (
        ("conv_state", memory.conv),
        ("recurrent_state", memory.recurrent),
        ("kv_key", memory.keys),
        ("kv_value", memory.values),
    ):
        assert (got - golden[name]).abs().max() < GATE, name


@settings(max_examples=25, deadline=None)
@given(cuts=st.sets(st.integers(1, 141), max_size=6))
def test_any_split_of_a_prompt_gives_the_golden_state(model, golden, cuts):
    state, hidden = prefilled(model, golden["frames"], sorted(cuts))
    assert_golden_state(state, golden)
    assert (hidden - golden["final_hidden"]).abs().max() < GATE
    assert torch.equal(state.row[0], golden["frames"][-1])
    assert torch.equal(state.window, golden["frames"][-16:, 0])
    assert (state.num_rows, state.last.item()) == (142, 141)


def test_40_rows_at_once_and_then_one_at_a_time_give_the_golden_state(model, golden):
    state, hidden = prefilled(model, golden["frames"], range(40, 142))
    assert_golden_state(state, golden)
    assert (hidden - golden["final_hidden"]).abs().max() < GATE


def test_a_cut_at_each_end_of_a_delta_chunk_gives_the_golden_state(model, golden):
    for cut in (1, DELTA_CHUNK - 1, DELTA_CHUNK, DELTA_CHUNK + 1, 2 * DELTA_CHUNK, 141):
        assert_golden_state(prefilled(model, golden["frames"], [cut])[0], golden)


def test_a_prefill_touches_only_the_rows_it_reads(model, golden):
    state, _ = prefilled(model, golden["frames"][:50])
    roomy = TakeState.open(model, 90, 1, state.knobs, noise=None)
    roomy.prefill(golden["frames"][:50])
    assert torch.equal(roomy.backbone.keys[:, :, :50], state.backbone.keys)
    assert not roomy.backbone.keys[:, :, 50:].any()
    assert not roomy.backbone.values[:, :, 50:].any()


def test_candidate_logits_are_the_golden_ones(model, golden):
    logits = model.backbone.candidate_logits(golden["final_hidden"])
    assert (logits - golden["candidate_logits"]).abs().max() < GATE
    assert torch.equal(model.candidates, golden["candidate_ids"])


def test_codes_of_a_row_that_is_not_semantic_change_nothing(model, golden):
    rows = golden["frames"][:1].repeat(2, 1)
    rows[1, 1:] = 63
    assert not model.backbone.is_semantic(rows).any()
    assert torch.equal(*model.backbone.embed(rows))


def test_a_semantic_row_mixes_its_first_codebooks_and_leaves_the_later_to_the_tower(model):
    backbone, start = model.backbone, model.config.semantic_start_token_id
    rows = torch.tensor([[start + 5, 5, 7, 9, 11]])
    table = backbone.code_embedding.view(4, 64, -1)
    mixed = (backbone.embedding[start + 5] + table[1, 7] + table[2, 9]) / np.sqrt(3)
    assert (backbone.embed(rows)[0] - mixed).abs().max() < 1e-6
    assert torch.equal(model.shared_in(rows)[0], table[3, 11])


def test_nothing_is_left_to_the_tower_when_the_backbone_hears_every_codebook(model):
    whole = copy.copy(model.backbone)
    whole.mixed_codebooks = 3
    hearing = copy.copy(model)
    hearing._modules = {**model._modules, "backbone": whole}
    assert hearing.shared_in(torch.zeros(2, 5, dtype=torch.int64)) is None
