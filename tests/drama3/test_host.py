"""The step in numpy gives what the plain layers give."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.drama3.config import Drama3Config
from engine.drama3.host import HostStep, hostable
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.weights import load_model
from engine.noise import NoiseBlocks
from engine.sampling import TakeKnobs

RUNS = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/runs.json").read_text())
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tiny_family) -> Drama3Model:
    return tiny_family.model


def opened(model, rows: torch.Tensor, frames: int, seed: int = 5, **sampling) -> TakeState:
    knobs = TakeKnobs.of(**{"temperature": 1.0, "top_k": None, "top_p": 0.9, **sampling}, device=CPU)
    noise = NoiseBlocks(seed, 0, model.config.tower.num_codebooks + 1, len(model.candidates), CPU)
    state = TakeState.open(model, len(rows) + frames, frames, knobs, noise)
    state.prefill(rows)
    return state


def prompt(drama3_tiny, name: str) -> torch.Tensor:
    with np.load(drama3_tiny / f"run_{name}.npz") as run:
        return torch.from_numpy(run["prompt"])


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_a_golden_run_comes_out_frame_by_frame(model, drama3_tiny, run):
    with np.load(drama3_tiny / f"run_{run['run']}.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    keys, steps = ("temperature", "top_k", "top_p"), run["steps"]
    state = opened(model, torch.from_numpy(arrays["prompt"]), steps, **{key: run[key] for key in keys})
    step = HostStep(model, state)
    for frame in range(steps):
        noise = np.ones((2 + arrays["head_noise"].shape[1], arrays["first_noise"].shape[1]), np.float32)
        noise[0], noise[1] = arrays["first_noise"][frame], arrays["ras_noise"][frame]
        noise[2:, : arrays["head_noise"].shape[2]] = arrays["head_noise"][frame]
        step(noise)
        state.num_rows, state.num_frames = state.num_rows + 1, frame + 1
    assert np.array_equal(state.frames(0, steps).numpy(), arrays["frames"])
    assert state.status(steps - 1) == (run["finish_reason"] == "stop", True)


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.0}, {"top_k": 4}, {"temperature": 1.7, "top_p": 1.0}]
)
def test_it_leaves_every_buffer_as_the_plain_layers_do(model, drama3_tiny, sampling):
    rows = prompt(drama3_tiny, "voice")
    plain, fast = opened(model, rows, 40, **sampling), opened(model, rows, 40, **sampling)
    fast.chain = HostStep(model, fast)
    for _ in range(40):
        plain.step()
        fast.step()
    for name in ("log", "row", "window", "last", "frame"):
        assert torch.equal(getattr(fast, name), getattr(plain, name)), name
    for name in ("keys", "values", "conv", "recurrent"):
        assert (getattr(fast.backbone, name) - getattr(plain.backbone, name)).abs().max() < 1e-4, name
    assert (fast.hidden - plain.hidden).abs().max() < 1e-4
    assert (fast.tower - plain.tower).abs().max() < 1e-4


def test_the_family_steps_with_it(tiny_family):
    from engine.family import Piece
    from engine.take import Character, Sampling

    piece = Piece("Hi.", 0, Character(), (), Sampling(), 5, 10)
    assert isinstance(tiny_family.open(piece, 60).chain, HostStep)


def test_a_logit_that_is_no_number_is_told(model, drama3_tiny):
    state = opened(model, prompt(drama3_tiny, "open"), 3)
    state.chain = HostStep(model, state)
    state.step()
    state.hidden[0, 3] = torch.nan
    state.step()
    assert [state.status(frame)[1] for frame in range(2)] == [True, False]


def test_float8_and_16_bit_models_keep_the_plain_layers(drama3_tiny, model):
    folder = drama3_tiny / "checkpoint_fp8"
    config = Drama3Config.from_folder(folder)
    assert hostable(model)
    assert not hostable(load_model(folder, config, CPU, torch.float32))
    folder = drama3_tiny / "checkpoint"
    assert not hostable(load_model(folder, Drama3Config.from_folder(folder), CPU, torch.bfloat16))
