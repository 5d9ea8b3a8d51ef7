"""The training pass computes what the engine will draw from, and its extra losses are what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engine.drama3.backbone import BackboneState, Rows, delta_step
from engine.drama3.model import Drama3Model

GOLDEN_GATE = 5e-4  # of the goldens, for hidden states and logits in float32


@dataclass(frozen=True)
class Likelihood:
    """Log-likelihood of what follows each row: its main id [rows - 1], its codes 1.. [rows - 1, codebooks -
    1].
    """

    main: torch.Tensor
    codes: torch.Tensor


@torch.inference_mode()
def by_the_engine(model: Drama3Model, rows: torch.Tensor) -> Likelihood:
    """Of rows [rows, 1 + codebooks], by the engine's plain layers; main ids that can't be drawn have none."""
    c, count = model.config, len(rows)
    memory = BackboneState.fresh(c.text, count, torch.device("cpu"), torch.float32)
    hidden = model.backbone(rows, memory, Rows.at(torch.arange(count), count, model.rope))[:-1]
    following, codes = rows[1:], []
    drawn = (following[:, :1] == model.candidates).float()
    main = (model.backbone.candidate_logits(hidden).log_softmax(-1) * drawn).sum(-1)

    def told(book: int, logits: torch.Tensor) -> torch.Tensor:
        codes.append(logits.log_softmax(-1).gather(1, following[:, 2 + book, None])[:, 0])
        return following[:, 2 + book]

    model.tower.step(
        hidden,
        following[:, 1],
        model.backbone.is_semantic(following),
        model.shared_in(rows[:-1]),
        model.tower.fresh_cache(c.tower, count, torch.device("cpu"), torch.float32),
        Rows.at(torch.arange(count - 1), count - 1, model.tower.rope),
        told,
    )
    return Likelihood(main, torch.stack(codes, -1))


def heard(model, rows: torch.Tensor) -> torch.Tensor:
    """Positions whose next row is a frame, or the end of speech behind one."""
    speech = model.is_semantic(rows[:, 0])
    return torch.nonzero(speech[1:] | (speech[:-1] & (rows[1:, 0] == model.eos)))[:, 0]


@torch.inference_mode()
def losses(model, rows: torch.Tensor, where: torch.Tensor, **options) -> dict[str, torch.Tensor]:
    return model(rows, where, torch.tensor(len(where)), **options)


@pytest.fixture(scope="module")
def tiny(recipe, drama3_tiny):
    return recipe.model.Understudy.load(drama3_tiny / "checkpoint")


@pytest.fixture(scope="module")
def golden(drama3_tiny) -> dict[str, torch.Tensor]:
    with np.load(drama3_tiny / "backbone.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(params=["plain", "voice", "described", "golden"])
def both(request, understudy, family, tiny, tiny_family, golden, rows_of, expected):
    """(the recipe's model, the engine's, rows)."""
    if request.param == "golden":
        return tiny, tiny_family.model, golden["frames"]
    case = expected[("plain", "voice", "described").index(request.param) * 2]
    return understudy, family.model, rows_of(case)


def test_the_losses_of_a_take_are_the_engines_likelihoods(both):
    model, theirs, rows = both
    where, wanted = heard(model, rows), by_the_engine(theirs, rows)
    got = losses(model, rows[None], where)
    frames = where[model.is_semantic(rows[1:, 0])[where]]
    assert len(frames) > 40
    assert got["main"].item() == pytest.approx(-wanted.main[where].mean().item(), rel=1e-3)
    torch.testing.assert_close(got["codes"], -wanted.codes[frames].mean(0), rtol=1e-3, atol=0)


def test_the_losses_of_single_rows_are_the_engines_likelihoods(both):
    model, theirs, rows = both
    where, wanted = heard(model, rows), by_the_engine(theirs, rows)
    for at in {*where[:: len(where) // 4].tolist(), int(where[-1])}:
        got = losses(model, rows[None], torch.tensor([at]))
        ends = rows[at + 1, 0] == model.eos
        assert got["main"].item() == pytest.approx(-wanted.main[at].item(), rel=1e-3, abs=1e-4)
        assert got["end"].item() == pytest.approx(got["main"].item() if ends else 0.0)
        codes = torch.zeros_like(wanted.codes[at]) if ends else -wanted.codes[at]
        torch.testing.assert_close(got["codes"], codes, rtol=1e-3, atol=1e-4)


def test_positions_past_the_count_and_padding_behind_a_take_change_nothing(understudy, rows_of, expected):
    rows = rows_of(expected[4])
    where = heard(understudy, rows)
    wide = F.pad(rows, (0, 0, 0, 37))
    wide[len(rows) :, 0] = understudy.config["pad_token_id"]
    more = torch.cat((where, torch.zeros(20, dtype=torch.int64)))
    with torch.inference_mode():
        got = understudy(wide[None], more, torch.tensor(len(where)))
    alone = losses(understudy, rows[None], where)
    for name in ("main", "codes", "end"):
        torch.testing.assert_close(got[name], alone[name], rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_the_backbone_gives_the_golden_values(tiny, golden):
    rows = golden["frames"]
    inputs = tiny.embed(rows[None])
    hidden = tiny.model.language_model(inputs, torch.arange(len(rows)))
    logits = hidden @ tiny.lm_head.weight[golden["candidate_ids"]].T
    for name, value in dict(inputs_embeds=inputs, final_hidden=hidden, candidate_logits=logits).items():
        assert (value[0] - golden[name]).abs().max() < GOLDEN_GATE, name


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 130])
def test_the_delta_rule_by_chunks_is_the_rule_row_by_row(recipe, rows):
    make = torch.Generator().manual_seed(rows)
    q, k = (F.normalize(torch.randn(1, 3, rows, 16, generator=make), dim=-1) for _ in "qk")
    v, beta = torch.randn(1, 3, rows, 24, generator=make), torch.rand(1, 3, rows, generator=make)
    decay = -2 * torch.rand(1, 3, rows, generator=make)
    state = torch.zeros(3, 16, 24)
    single = [delta_step(*(x[0, :, t] for x in (q, k, v, beta, decay)), state) for t in range(rows)]
    chunked = recipe.model.delta_rule(q, k, v, decay, beta)
    torch.testing.assert_close(chunked[0], torch.stack(single, 1), rtol=0, atol=2e-5)


# Twins


@pytest.fixture(scope="module")
def twins(understudy, rows_of, expected):
    """Rows of two described takes, and of the same under another description."""
    true = [expected[4], expected[5]]
    false = [{**case, "character": ["Robin", "American man, high voice, speaks quickly."]} for case in true]
    return [rows_of(case) for case in (*true, *false)]


def padded(model, takes: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch of takes, and the flat positions in [takes, width - 1] whose next row is heard."""
    width = max(map(len, takes))
    rows = torch.zeros(len(takes), width, takes[0].shape[1], dtype=torch.int64)
    rows[..., 0] = model.config["pad_token_id"]
    for row, take in zip(rows, takes, strict=True):
        row[: len(take)] = take
    return rows, torch.cat([i * (width - 1) + heard(model, take) for i, take in enumerate(takes)])


def test_told_is_how_much_likelier_takes_are_as_described_than_under_a_false_description(understudy, twins):
    nats, main, counts = [], [], []
    for take in twins:
        where = heard(understudy, take)
        alone = losses(understudy, take[None], where)
        frames = int(understudy.is_semantic(take[1:, 0])[where].sum())
        nats.append(float(alone["main"]) * len(where) + float(alone["codes"].sum()) * frames)
        main.append(float(alone["main"])), counts.append(len(where))
    away = [nats[0] - nats[2], nats[1] - nats[3]]
    assert min(map(abs, away)) > 0.5
    got = losses(understudy, *padded(understudy, twins), twins=True)
    told = np.mean([math.log1p(math.exp(each)) for each in away])
    assert got["told"].item() == pytest.approx(told, rel=1e-3, abs=2e-3)
    assert got["told_right"].item() == np.mean([each < 0 for each in away])
    # the false half is no example of speech
    assert got["main"].item() == pytest.approx(np.average(main[:2], weights=counts[:2]), rel=1e-4)


def test_twins_exchanged_are_told_the_other_way(understudy, twins):
    batch = padded(understudy, twins[:1] + twins[2:3])
    right = losses(understudy, *batch, twins=True)
    wrong = losses(understudy, *padded(understudy, twins[2:3] + twins[:1]), twins=True)
    # log sigmoid(x) - log sigmoid(-x) = x
    assert right["told_right"] + wrong["told_right"] == 1.0
    assert (wrong["told"] - right["told"]).abs() > 0.5


# Guidance: 40 rows of speech that speak two rows a letter, from the letter at row 4 on


ROWS, FIRST = 60, 20


@pytest.fixture
def spots() -> torch.Tensor:
    at = torch.arange(ROWS)
    return torch.where(at >= FIRST, (at - FIRST) // 4, -1)[None]


def guided(recipe, spots, strength: float, off: int = 0) -> tuple[float, float]:
    """Loss and hits where both heads look, `strength` strong, at the row they should, or `off` rows past."""
    keys = torch.eye(ROWS)[None, :, None].repeat(1, 1, 2, 1)
    places = spots[0].clamp(min=0)[:, None] + torch.tensor(recipe.model.AHEAD) + off
    queries = strength * torch.eye(ROWS)[places][None]
    loss, hit = recipe.model.guidance(queries, keys, spots)
    return loss.item(), hit.item()


def test_heads_that_look_at_the_letter_are_guided_no_further(recipe, spots):
    loss, hit = guided(recipe, spots, 1000.0)
    assert loss < 1e-4
    assert hit > 0.9999


@pytest.mark.parametrize(("off", "near"), [(3, True), (6, False)])
def test_heads_that_look_beside_the_letter_pay_for_the_distance(recipe, spots, off, near):
    loss, hit = guided(recipe, spots, 1000.0, off)
    assert loss == pytest.approx(off**2 / (2 * recipe.model.SPREAD**2), rel=1e-4)
    assert (hit > 0.9999) == near
    assert (hit < 1e-4) != near


def test_heads_that_look_everywhere_pay_what_a_bump_in_an_even_past_costs(recipe, spots):
    wanted, near = [], []
    for row in range(FIRST, ROWS):
        for ahead in recipe.model.AHEAD:
            centre = int(spots[0, row]) + ahead
            away = [abs(s - centre) for s in range(row + 1)]
            wanted.append(-math.log(sum(math.exp(-(d**2) / 18) for d in away) / (row + 1)))
            near.append(sum(d <= 5 for d in away) / (row + 1))
    loss, hit = guided(recipe, spots, 0.0)
    assert loss == pytest.approx(np.mean(wanted), rel=1e-5)
    assert hit == pytest.approx(np.mean(near), rel=1e-5)


def test_no_head_is_guided_to_what_comes_later(recipe):
    spots = torch.full((1, ROWS), -1)
    spots[0, 5] = 30
    loss, hit = guided(recipe, spots, 1000.0)
    assert loss == pytest.approx(12.0)  # as much as a distance may cost
    assert hit == 0.0
