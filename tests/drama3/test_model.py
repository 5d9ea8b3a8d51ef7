"""A take's state: the golden runs, snapshots, rows after steps, numbers that are none."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.drama3.model import Drama3Model, TakeState
from engine.noise import NoiseBlocks
from engine.sampling import TakeKnobs

RUNS = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/runs.json").read_text())
GATE = 5e-4  # of the goldens, for hidden states and caches in float32


class Scripted:
    """The noise that a golden run was drawn with."""

    def __init__(self, run: dict[str, np.ndarray]) -> None:
        main, retry, heads = (torch.from_numpy(run[f"{draw}_noise"]) for draw in ("first", "ras", "head"))
        self.noise = torch.ones(len(main), 2 + heads.shape[1], main.shape[1])
        self.noise[:, 0], self.noise[:, 1], self.noise[:, 2:, : heads.shape[2]] = main, retry, heads

    def frame(self, frame: int) -> torch.Tensor:
        return self.noise[frame]


@pytest.fixture(scope="module")
def model(tiny_family) -> Drama3Model:
    return tiny_family.model


@pytest.fixture(scope="module")
def golden(drama3_tiny):
    def read(name: str) -> dict[str, np.ndarray]:
        with np.load(drama3_tiny / f"run_{name}.npz") as file:
            return {key: file[key] for key in file.files}

    return read


def opened(model, rows: int, frames: int, seed: int = 5) -> TakeState:
    knobs = TakeKnobs.of(1.0, None, 0.9, "cpu")
    noise = NoiseBlocks(seed, 0, model.config.tower.num_codebooks + 1, len(model.candidates), "cpu")
    return TakeState.open(model, rows + frames, frames, knobs, noise)


def ready(model, prompt, frames: int = 20) -> TakeState:
    state = opened(model, len(prompt), frames)
    state.prefill(torch.from_numpy(prompt))
    return state


def stepped(state: TakeState, count: int) -> torch.Tensor:
    """The frames [count, 1 + codebooks] of the next steps."""
    first = state.num_frames
    for _ in range(count):
        state.step()
    return state.frames(first, first + count).clone()


def held(state: TakeState) -> dict[str, torch.Tensor]:
    """Everything that a state holds."""
    own = {name: value for name, value in vars(state).items() if isinstance(value, torch.Tensor)}
    return {**own, **vars(state.backbone)}


def buffers(state: TakeState) -> dict[str, torch.Tensor]:
    """Copies of everything that a state holds."""
    return {name: value.clone() for name, value in held(state).items()}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_a_golden_run_comes_out_frame_by_frame(model, golden, run):
    stored = golden(run["run"])
    rows, steps = torch.from_numpy(stored["prompt"]), run["steps"]
    knobs = TakeKnobs.of(run["temperature"], run["top_k"], run["top_p"], "cpu")
    state = TakeState.open(model, len(rows) + steps, steps, knobs, Scripted(stored))
    state.prefill(rows)
    assert np.array_equal(stepped(state, steps).numpy(), stored["frames"])
    assert np.array_equal(state.codes(0, steps).numpy(), stored["frames"].T[1:])
    ended = [state.status(frame)[0] for frame in range(steps)]
    assert ended == [False] * (steps - 1) + [run["finish_reason"] == "stop"]
    assert all(state.status(frame)[1] for frame in range(steps))


def test_steps_leave_the_state_that_a_prefill_of_their_frames_leaves(model, golden):
    prompt = golden("open")["prompt"]
    stepping = ready(model, prompt)
    frames = stepped(stepping, 12)
    reading = opened(model, len(prompt), 20)
    reading.prefill(torch.cat((torch.from_numpy(prompt), frames)))
    a, b = buffers(stepping), buffers(reading)
    for name in ("keys", "values", "conv", "recurrent", "tower", "hidden"):
        assert (a[name] - b[name]).abs().max() < GATE, name
    for name in ("row", "last", "window"):
        assert torch.equal(a[name], b[name]), name
    assert stepping.num_rows == reading.num_rows == len(prompt) + 12


def test_rows_can_be_read_after_steps(model, golden):
    prompt = torch.from_numpy(golden("voice")["prompt"])
    state, whole = opened(model, len(prompt), 5), opened(model, len(prompt), 5)
    state.prefill(prompt[:60])
    frames = stepped(state, 5)
    state.prefill(prompt[60:])
    whole.prefill(torch.cat((prompt[:60], frames, prompt[60:])))
    assert (state.hidden - whole.hidden).abs().max() < GATE
    assert (state.tower - whole.tower).abs().max() < GATE


def restored(model, snapshot, frames: int = 20, seed: int = 5) -> TakeState:
    state = opened(model, snapshot.num_rows, frames, seed)
    state.restore(snapshot)
    return state


def test_takes_from_one_snapshot_and_its_origin_continue_alike_in_any_order(model, golden):
    prompt = golden("open")["prompt"]
    alone = stepped(ready(model, prompt), 20)
    origin = ready(model, prompt)
    snapshot = origin.snapshot()
    first, second = restored(model, snapshot), restored(model, snapshot)
    parts = [stepped(first, 3), stepped(origin, 20), stepped(second, 20), stepped(first, 17)]
    assert torch.equal(torch.cat((parts[0], parts[3])), alone)
    assert torch.equal(parts[1], alone)
    assert torch.equal(parts[2], alone)


def test_nobody_writes_into_a_snapshot(model, golden):
    prompt = golden("open")["prompt"]
    origin = ready(model, prompt)
    snapshot = origin.snapshot()
    before = {name: part.clone() for name, part in snapshot.parts.items()}
    other = restored(model, snapshot)
    stepped(origin, 4)
    stepped(other, 4)
    other.prefill(torch.from_numpy(prompt[:9]))
    assert all(torch.equal(before[name], part) for name, part in snapshot.parts.items())


def test_a_restored_state_is_the_one_that_was_kept(model, golden):
    origin = ready(model, golden("voice")["prompt"])
    twin = restored(model, origin.snapshot())
    ours, theirs = buffers(origin), buffers(twin)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (twin.num_rows, twin.num_frames) == (origin.num_rows, 0)


@pytest.mark.parametrize("border", [1, 2, 64, 100, 141])
def test_rows_behind_a_snapshot_are_read_as_behind_the_rows_themselves(model, golden, border):
    prompt = torch.from_numpy(golden("greedy")["prompt"])
    whole, begun = opened(model, len(prompt), 5), opened(model, border, 5)
    whole.prefill(prompt[:border])
    begun.prefill(prompt[:border])
    resumed = opened(model, len(prompt), 5)
    resumed.restore(begun.snapshot())
    for state in (whole, resumed):
        state.prefill(prompt[border:])
    assert torch.equal(stepped(resumed, 5), stepped(whole, 5))
    ours, theirs = buffers(resumed), buffers(whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_snapshot_can_be_retaken_with_other_noise(model, golden):
    prompt = golden("open")["prompt"]
    snapshot = ready(model, prompt).snapshot()
    fresh = opened(model, len(prompt), 20, seed=6)
    fresh.prefill(torch.from_numpy(prompt))
    retake = stepped(restored(model, snapshot, seed=6), 10)
    assert torch.equal(retake, stepped(fresh, 10))
    assert not torch.equal(retake, stepped(restored(model, snapshot, seed=5), 10))


def test_a_snapshot_holds_the_rows_it_knows_and_no_room_to_grow(model, golden):
    small, large = (opened(model, 35, frames) for frames in (1, 500))
    for state in (small, large):
        state.prefill(torch.from_numpy(golden("open")["prompt"]))
    assert small.snapshot().num_bytes == large.snapshot().num_bytes


def test_buffers_stay_where_they_are(model, golden):
    state = opened(model, 40, 8)
    where = {name: value.data_ptr() for name, value in held(state).items()}
    state.prefill(torch.from_numpy(golden("open")["prompt"]))
    stepped(state, 8)
    assert {name: value.data_ptr() for name, value in held(state).items()} == where


@pytest.mark.parametrize("matrix", ["backbone.head", "tower.heads", "backbone.embedding"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_no_numbers_are_seen_by_the_host(model, golden, matrix, value):
    prompt = golden("open")["prompt"]
    broken = copy.deepcopy(model)
    weights = broken.get_parameter(matrix)
    weights[int(prompt[-1, 0]) if matrix.endswith("embedding") else -1] = value
    state = ready(broken, prompt)
    stepped(state, 2)
    assert state.status(0)[1] is False
    assert not state.codes(0, 1).lt(0).any()
    assert state.codes(0, 1).max() < 64


def test_a_fault_that_comes_late_is_told_of_its_frame(model, golden):
    state = ready(model, golden("open")["prompt"])
    stepped(state, 3)
    state.hidden.fill_(torch.nan)
    state.step()
    assert [state.status(frame)[1] for frame in range(4)] == [True, True, True, False]
