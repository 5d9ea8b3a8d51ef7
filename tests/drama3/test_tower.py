"""The tower pairs each row with the next one, wherever a prompt is cut."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drama3.backbone import Rows
from engine.drama3.model import TakeState
from engine.sampling import TakeKnobs

GATE = 5e-4  # of the goldens, for caches in float32
OUTPUT_GATE = 1e-3  # and for outputs of the tower, whose five random layers amplify


@pytest.fixture(scope="module")
def golden(drama3_tiny):
    with np.load(drama3_tiny / "run_greedy.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def model(tiny_family):
    return tiny_family.model


def caches_after(model, rows, cuts) -> torch.Tensor:
    """[2, layers, kv heads, rows, dim]: the tower's keys and values after a prompt prefilled by `cuts`."""
    state, start = TakeState.open(model, len(rows), 1, TakeKnobs.of(1.0, None, 1.0, "cpu"), noise=None), 0
    for end in [*cuts, len(rows)]:
        state.prefill(rows[start:end])
        start = end
    return state.tower


def assert_golden_caches(tower: torch.Tensor, golden) -> None:
    keys, values = tower[:, :, :, :141].transpose(2, 3)
    assert (keys - golden["prefill_kv_key"]).abs().max() < GATE
    assert (values - golden["prefill_kv_value"]).abs().max() < GATE
    # The last row's label is not known before the first step draws it.
    assert not tower[:, :, :, 141].any()


@settings(max_examples=20, deadline=None)
@given(cuts=st.sets(st.integers(1, 141), max_size=6))
def test_any_split_of_a_prompt_gives_the_golden_caches(model, golden, cuts):
    assert_golden_caches(caches_after(model, golden["prompt"], sorted(cuts)), golden)


@pytest.mark.parametrize("cuts", [[1], [141], [1, 2, 3], [140, 141], list(range(1, 142))], ids=len)
def test_a_chunk_of_one_row_still_meets_its_neighbours(model, golden, cuts):
    assert_golden_caches(caches_after(model, golden["prompt"], cuts), golden)


def test_one_row_alone_fills_nothing(model, golden):
    assert not caches_after(model, golden["prompt"][:1], []).any()


def test_a_step_is_a_fill_of_one_row_whose_codes_are_picked_on_the_way(model, golden):
    tower, config = model.tower, model.config
    hidden = golden["step_hidden"][:1]
    frame = golden["frames"][0]
    extra, semantic = torch.zeros_like(hidden), torch.tensor([True])
    at = Rows.at(torch.tensor([0]), 1, tower.rope)
    filled, stepped = (tower.fresh_cache(config.tower, 1, hidden.device, hidden.dtype) for _ in "ab")
    with torch.inference_mode():
        tower.fill(hidden, frame[None, 1:], semantic, extra, filled, at)
        pick = lambda book, logits: frame[2 + book].view(1)  # noqa: E731
        codes = tower.step(hidden, frame[1].view(1), semantic, extra, stepped, at, pick)
    assert torch.equal(torch.cat(codes), frame[1:])
    assert torch.equal(filled, stepped)


def test_the_heads_score_codes_1_and_up_in_order(model, golden):
    for step in (0, 20):
        outputs = golden["step_tower_output"][step]
        for book, head in enumerate(model.tower.heads):
            logits = outputs[model.tower.num_shared + book] @ head.T
            assert (logits - golden["step_head_logits"][step, book]).abs().max() < OUTPUT_GATE


def test_the_tower_has_its_own_rope(model, drama3_tiny):
    config = json.loads((drama3_tiny / "checkpoint/config.json").read_text())["audio_decoder_config"]
    width = int(config["head_dim"] * config["rotary_percent"])
    angle = 100 * config["rope_base"] ** (-2 / width)  # position 100, second pair
    cos, sin = (part[0, 1].item() for part in model.tower.rope(torch.tensor([100])))
    assert (cos, sin) == pytest.approx((np.cos(angle), np.sin(angle)), abs=1e-5)
