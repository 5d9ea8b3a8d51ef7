"""Drawing: the golden choices, the two nucleus policies, the law of the race, repetition-aware sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.noise import exponential, seed_words
from engine.sampling import HEAD_TOP_K, UNCAPPED, Knobs, TakeKnobs, draw, draw_main

TINY, HUGE = 5.9e-8, 16.6  # the ends of what noise can be
MASSES = [0.4, 0.3, 0.15, 0.1, 0.05]


@pytest.fixture(scope="module")
def golden(drama3_tiny):
    with np.load(drama3_tiny / "sampler.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def favouring(token: int, count: int) -> torch.Tensor:
    """Noise [1, count] with which `token` wins any race that it may enter."""
    noise = torch.full((1, count), HUGE)
    noise[0, token] = TINY
    return noise


def winners(logits: torch.Tensor, knobs: Knobs, keep_crossing: bool) -> set[int]:
    """All tokens that can be drawn: each is favoured in turn."""
    count = logits.shape[-1]
    return {draw(logits, favouring(token, count), knobs, keep_crossing).item() for token in range(count)}


def noise_of(seed: int, rows: int, count: int) -> torch.Tensor:
    return exponential(seed_words(seed), torch.arange(rows), 1, count, torch.tensor(0))[:, 0]


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_choices_are_those_of_the_reference(golden, policy):
    knobs = Knobs(golden["temperature"], golden["top_k"], golden["top_p"])
    chosen = draw(golden["logits"], golden["noise"], knobs, keep_crossing=policy == "keep")
    assert torch.equal(chosen, golden[f"choice_{policy}_crossing"])


@pytest.mark.parametrize("row", range(24))
def test_repetition_aware_draws_are_those_of_the_reference(golden, row):
    noise = torch.stack((golden["ras_first_noise"][row], golden["ras_retry_noise"][row]))
    asked = [golden[f"ras_{name}"][row].item() for name in ("temperature", "top_k", "top_p")]
    candidates = torch.tensor([418, *range(439, 503)])
    logits, window = golden["ras_logits"][row][None], golden["ras_window"][row]
    first, main = draw_main(logits, noise, window, candidates, 418, TakeKnobs.of(*asked, "cpu"))
    assert first == golden["ras_first_token"][row]
    assert main == golden["ras_main_token"][row]


@pytest.mark.parametrize(
    ("keep_crossing", "top_k", "top_p", "kept"),
    [
        # Mass before a rank: 0, .4, .7, .85, .95; up to and including it: .4, .7, .85, .95, 1.
        (True, None, 0.75, {0, 1, 2}),
        (False, None, 0.75, {0, 1}),
        (True, None, 0.9, {0, 1, 2, 3}),
        (False, None, 0.9, {0, 1, 2}),
        (True, 2, 0.9, {0, 1}),
        (False, 2, 0.5, {0}),
        (True, None, 0.1, {0}),
        (False, None, 0.1, {0}),
        (True, 1, 0.99, {0}),
        (True, None, 0.99, {0, 1, 2, 3, 4}),
    ],
)
def test_only_kept_ranks_can_be_drawn_however_small_the_noise(keep_crossing, top_k, top_p, kept):
    order = [3, 0, 4, 1, 2]  # rank -> token: the candidates don't come sorted
    logits = torch.empty(1, 5)
    logits[0, order] = torch.tensor(MASSES).log()
    drawn = winners(logits, Knobs.of(1.0, top_k, top_p, "cpu"), keep_crossing)
    assert drawn == {order[rank] for rank in kept}


def test_a_candidate_without_probability_is_never_drawn():
    logits = torch.tensor([[0.0, -1e4, -torch.inf, 1.0]])
    assert winners(logits, Knobs.of(1.0, None, 1.0, "cpu"), keep_crossing=True) == {0, 3}


@pytest.mark.parametrize("temperature", [0.0, 1e-6])
def test_temperature_0_draws_the_likeliest_whatever_the_noise(temperature):
    # Over 1e-5 a lead of 0.001 is e^100; noise can favour a token by e^19 at most.
    logits = torch.tensor([[0.1, 0.3, 0.299, -2.0]])
    assert winners(logits, Knobs.of(temperature, None, 1.0, "cpu"), keep_crossing=True) == {1}


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, None, 1.0), (0.6, None, 0.85), (1.7, 4, 1.0)]
)
def test_the_race_has_the_law_of_the_kept_softmax(temperature, top_k, top_p):
    logits, rows = torch.tensor([1.2, 0.1, -0.4, 0.9, -1.5, 0.3]), 20_000
    mass = (logits.double() / temperature).softmax(-1).numpy()
    order = np.argsort(-mass)
    before = np.cumsum(mass[order]) - mass[order]
    kept = order[: min((before <= top_p).sum(), top_k or 6)]
    expected = np.zeros(6)
    expected[kept] = rows * mass[kept] / mass[kept].sum()
    drawn = draw(
        logits.expand(rows, 6), noise_of(11, rows, 6), Knobs.of(temperature, top_k, top_p, "cpu"), True
    )
    counts = np.bincount(drawn.numpy(), minlength=6)
    assert not counts[expected == 0].any()
    chi_square = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert chi_square < 20.5  # exceeded once in a thousand with 5 degrees of freedom


def test_rows_of_a_batch_are_drawn_each_with_its_own_knobs_and_noise():
    logits = torch.log(torch.tensor([MASSES, MASSES]))
    knobs = Knobs(torch.tensor([1.0, 1.0]), torch.tensor([1, 5]), torch.tensor([1.0, 1.0]))
    noise = torch.cat((favouring(3, 5), favouring(3, 5)))
    assert draw(logits, noise, knobs, keep_crossing=True).tolist() == [0, 3]


def test_half_precision_logits_are_drawn_in_float32():
    logits = torch.randn(64, 40, generator=torch.Generator().manual_seed(0)).bfloat16()
    knobs = Knobs.of(0.8, None, 0.95, "cpu")
    noise = noise_of(2, 64, 40)
    assert torch.equal(draw(logits, noise, knobs, True), draw(logits.float(), noise, knobs, True))


@pytest.mark.parametrize(
    ("asked", "main", "heads"), [(None, UNCAPPED, 30), (5, 5, 5), (100, 100, 30), (10**12, UNCAPPED, 30)]
)
def test_the_heads_are_capped_at_30_whatever_was_asked(asked, main, heads):
    knobs = TakeKnobs.of(0.7, asked, 0.8, "cpu")
    assert (knobs.main.top_k.item(), knobs.heads.top_k.item()) == (main, heads)
    assert (knobs.heads.temperature.item(), knobs.heads.top_p.item()) == pytest.approx((0.7, 0.8))
    assert (
        knobs.retry.temperature.item(),
        knobs.retry.top_k.item(),
        knobs.retry.top_p.item(),
    ) == pytest.approx((1, 30, 0.95))


@pytest.mark.parametrize("keep_crossing", [True, False])
@pytest.mark.parametrize("count", [7, 30, 64])
def test_sorting_only_the_ranks_that_count_changes_no_draw(keep_crossing, count):
    logits = 2 * torch.randn(500, count, generator=torch.Generator().manual_seed(count))
    noise, knobs = noise_of(9, 500, count), Knobs.of(1.3, HEAD_TOP_K, 0.97, "cpu")
    whole = draw(logits, noise, knobs, keep_crossing)
    assert torch.equal(draw(logits, noise, knobs, keep_crossing, ranks=HEAD_TOP_K), whole)


def test_rank_30_can_be_drawn_by_the_main_draw_and_not_by_a_head():
    logits = torch.linspace(0, -0.1, 64)[None]  # rank = token
    knobs = TakeKnobs.of(1.0, None, 1.0, "cpu")
    noise = favouring(HEAD_TOP_K, 64)
    assert draw(logits, noise, knobs.main, keep_crossing=True).item() == HEAD_TOP_K
    assert draw(logits, noise, knobs.heads, keep_crossing=False).item() < HEAD_TOP_K


class TestRepetition:
    """Candidates 10 (end of speech) and 20..23; the first draw and the retry are steered to a token each."""

    candidates = torch.tensor([10, 20, 21, 22, 23])

    def drawn(self, first: int, again: int, window: list[int]) -> tuple[int, int]:
        noise = torch.cat((favouring(first, 5), favouring(again, 5)))
        seen = torch.tensor([-1] * (16 - len(window)) + window)
        knobs = TakeKnobs.of(1.0, None, 0.9, "cpu")
        first_id, main = draw_main(torch.zeros(1, 5), noise, seen, self.candidates, 10, knobs)
        return first_id.item(), main.item()

    def test_a_code_that_is_not_in_the_window_stays(self):
        assert self.drawn(1, 3, [21, 22]) == (20, 20)

    @pytest.mark.parametrize("place", [0, 7, 15])
    def test_a_code_anywhere_in_the_window_is_drawn_again(self, place):
        window = [23] * 16
        window[place] = 20
        assert self.drawn(1, 3, window) == (20, 22)

    def test_the_second_draw_is_not_checked_again(self):
        assert self.drawn(1, 3, [20, 22]) == (20, 22)

    def test_end_of_speech_is_never_drawn_again(self):
        assert self.drawn(0, 3, [10]) == (10, 10)

    def test_the_second_draw_may_end_the_speech(self):
        assert self.drawn(1, 0, [20]) == (20, 10)
