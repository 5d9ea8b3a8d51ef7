"""The embedded checkpoint, by the same code as any other: the takes that its seeds stand for."""

from __future__ import annotations

import numpy as np
import pytest

from engine.engine import Engine
from engine.models import default_model, load_family
from engine.take import Audio, Done, TakeRequest
from tests.published import EXACT_FRAMES, EXPECTED, request_of

EQUAL_SHARE = 0.95


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_family("understudy"))


def perform(engine: Engine, request: TakeRequest) -> tuple[np.ndarray, Done]:
    events = list(engine.perform(request))
    return np.concatenate([event.pcm for event in events if isinstance(event, Audio)]), events[-1]


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: str(case["seed"]))
def test_a_seed_stands_for_the_take_that_it_stood_for_when_it_was_trained(engine, case):
    _, done = perform(engine, request_of(case))
    wanted, got = np.array(case["codes"]), done.codes
    frames = min(wanted.shape[1], got.shape[1])
    equal = (wanted[:, :frames] == got[:, :frames]).all(0)
    assert equal[:EXACT_FRAMES].all()
    assert equal.sum() >= EQUAL_SHARE * max(wanted.shape[1], got.shape[1])
    assert (done.finish_reason == "stop") == case["ended"]


def test_it_speaks_at_its_own_rate_and_ends_by_itself(engine):
    pcm, done = perform(engine, TakeRequest("The door was open when I came home.", seed=7))
    assert engine.family.sample_rate == 24_000
    assert done.finish_reason == "stop"
    assert 1.0 < len(pcm) / 24_000 < 5.0


def test_it_is_what_runs_where_nothing_bigger_does(monkeypatch):
    monkeypatch.delenv("TABLEREAD_MODEL", raising=False)
    monkeypatch.setattr("engine.models.local_snapshot", lambda repo, revision: None)
    assert default_model().model == "understudy"
