"""Steps and prompts in compiled loops give what the plain layers give."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from numba import njit

from engine.drama3.compiled import compiled_loops, why_plain
from engine.drama3.config import Drama3Config
from engine.drama3.host import BLOCK_ROWS, COMPILING, HostStep, HostWeights, host_weights, hostable
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.weights import load_model
from engine.noise import NoiseBlocks
from engine.sampling import Knobs, TakeKnobs, draw

RUNS = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/runs.json").read_text())
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tiny_family) -> Drama3Model:
    return tiny_family.model


@pytest.fixture(scope="module", params=["float32", "float16"])
def weights(request, model) -> HostWeights:
    """The model as it is, which float16 can't hold, and one that it can."""
    if request.param == "float16":
        model = copy.deepcopy(model).half().float()
    made = HostWeights(model, compiled_loops()[0])
    assert made.backbone[0].dtype == dict(float32=np.float32, float16=np.uint16)[request.param]
    return made


def opened(model, rows: torch.Tensor, frames: int, seed: int = 5, **sampling) -> TakeState:
    knobs = TakeKnobs.of(**{"temperature": 1.0, "top_k": None, "top_p": 0.9, **sampling}, device=CPU)
    noise = NoiseBlocks(seed, 0, model.config.tower.num_codebooks + 1, len(model.candidates), CPU)
    state = TakeState.open(model, len(rows) + frames, frames, knobs, noise)
    if len(rows):
        state.prefill(rows)
    return state


def prompt(drama3_tiny, name: str) -> torch.Tensor:
    with np.load(drama3_tiny / f"run_{name}.npz") as run:
        return torch.from_numpy(run["prompt"])


def fast(weights: HostWeights, rows: torch.Tensor, frames: int, cuts=(), **sampling) -> TakeState:
    """Like `opened`, in compiled loops, the prompt read in pieces that end at `cuts`."""
    state = opened(weights.model, rows[:0], len(rows) + frames, **sampling)
    state.chain = HostStep(weights, state)
    for first, last in zip((0, *cuts), (*cuts, len(rows)), strict=True):
        state.prefill(rows[first:last])
    return state


def assert_alike(fast: TakeState, plain: TakeState, tolerance: float = 1e-4) -> None:
    for name in ("row", "window", "last", "frame"):
        assert torch.equal(getattr(fast, name), getattr(plain, name)), name
    rows = plain.num_rows
    for name in ("keys", "values"):
        mine, other = (getattr(state.backbone, name)[:, :, :rows] for state in (fast, plain))
        assert torch.allclose(mine, other, rtol=0, atol=tolerance), name
    for name in ("conv", "recurrent"):
        mine, other = (getattr(state.backbone, name) for state in (fast, plain))
        assert torch.allclose(mine, other, rtol=0, atol=tolerance), name
    assert torch.allclose(fast.hidden, plain.hidden, rtol=0, atol=tolerance)
    # In the tower the plain layers themselves differ by 1.6e-4 between a prompt read whole and row by row.
    mine, other = (state.tower[:, :, :, : rows - 1] for state in (fast, plain))
    assert torch.allclose(mine, other, rtol=0, atol=3 * tolerance)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_a_golden_run_comes_out_frame_by_frame(model, drama3_tiny, run):
    with np.load(drama3_tiny / f"run_{run['run']}.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    keys, steps = ("temperature", "top_k", "top_p"), run["steps"]
    weights = HostWeights(model, compiled_loops()[0])
    state = fast(weights, torch.from_numpy(arrays["prompt"]), steps, **{key: run[key] for key in keys})
    for frame in range(steps):
        noise = np.ones((2 + arrays["head_noise"].shape[1], arrays["first_noise"].shape[1]), np.float32)
        noise[0], noise[1] = arrays["first_noise"][frame], arrays["ras_noise"][frame]
        noise[2:, : arrays["head_noise"].shape[2]] = arrays["head_noise"][frame]
        state.chain.step(noise)
        state.num_rows, state.num_frames = state.num_rows + 1, frame + 1
    assert np.array_equal(state.frames(0, steps).numpy(), arrays["frames"])
    assert state.status(steps - 1) == (run["finish_reason"] == "stop", True)


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.0}, {"top_k": 4}, {"temperature": 1.7, "top_p": 1.0}]
)
def test_it_leaves_every_buffer_as_the_plain_layers_do(weights, drama3_tiny, sampling):
    rows = prompt(drama3_tiny, "voice")
    plain, mine = opened(weights.model, rows, 40, **sampling), fast(weights, rows, 40, **sampling)
    assert_alike(mine, plain)
    for _ in range(40):
        plain.step()
        mine.step()
    assert torch.equal(mine.frames(0, 40), plain.frames(0, 40))
    assert_alike(mine, plain)


@pytest.mark.parametrize("cuts", [(1,), (2, 3), (16,), (17, 18), tuple(range(1, 30))])
def test_any_split_of_a_prompt_gives_the_same_state(weights, drama3_tiny, cuts):
    rows = prompt(drama3_tiny, "voice")
    assert len(rows) > max(cuts)
    assert_alike(fast(weights, rows, 1, cuts), fast(weights, rows, 1))


def test_the_tower_beside_the_backbone_leaves_what_block_after_block_does(weights, drama3_tiny):
    rows = prompt(drama3_tiny, "voice")
    assert len(rows) > 2 * BLOCK_ROWS
    cuts = tuple(range(BLOCK_ROWS, len(rows), BLOCK_ROWS))
    assert_alike(fast(weights, rows, 1, cuts), fast(weights, rows, 1), tolerance=0)


def test_a_prompt_leaves_the_same_bits_every_time(weights, drama3_tiny):
    rows = prompt(drama3_tiny, "voice")
    assert_alike(fast(weights, rows, 1, (7,)), fast(weights, rows, 1, (7,)), tolerance=0)


@pytest.mark.parametrize("keep_crossing", [True, False])
@pytest.mark.parametrize(("top_k", "top_p"), [(None, 0.9), (None, 1.0), (5, 0.8), (1, 1.0), (40, 0.01)])
def test_a_race_has_the_winner_that_sorting_finds(keep_crossing, top_k, top_p):
    loops = compiled_loops()[0]

    @njit
    def race(logits, noise, temperature, top_k, top_p, keep_crossing):
        return loops.draw(logits, noise, temperature, top_k, top_p, keep_crossing)

    make = torch.Generator().manual_seed(0)
    knobs = Knobs.of(0.8, top_k, top_p, CPU)
    for spread in (0.0, 0.1, 1.0, 4.0) * 50:  # with few values many odds are equal
        logits = (spread * torch.randn(1, 65, generator=make)).round(decimals=1)
        noise = torch.empty(1, 65).exponential_(generator=make)
        settings = (part.numpy()[0] for part in knobs.parts())
        got = race(logits[0].numpy(), noise[0].numpy(), *settings, np.bool_(keep_crossing))
        assert got == draw(logits, noise, knobs, keep_crossing).item()


def test_a_prompt_of_one_row_is_enough(weights, drama3_tiny):
    rows = prompt(drama3_tiny, "voice")[:1]
    plain, mine = opened(weights.model, rows, 2), fast(weights, rows, 2)
    for state in (plain, mine):
        state.step()
    assert torch.equal(mine.frames(0, 1), plain.frames(0, 1))
    assert_alike(mine, plain)


SHAPES = {
    "without a shared expert": dict(text=dict(shared_expert_intermediate_size=0)),
    "one key head for all": dict(text=dict(num_key_value_heads=1, linear_num_key_heads=1)),
    "all dims turned": dict(text=dict(partial_rotary_factor=1.0), tower=dict(rotary_percent=1.0)),
    "every expert": dict(text=dict(num_experts=3, num_experts_per_tok=3, moe_intermediate_size=20)),
    "all codebooks heard": dict(tower=dict(vq_backbone_codebooks=3, shared_enrichment_layers=0)),
    "odd widths": dict(text=dict(linear_conv_kernel_dim=2, head_dim=24), tower=dict(intermediate_size=33)),
    "full attention only": dict(text=dict(layer_types=("full_attention",) * 4)),
    "delta nets only": dict(text=dict(layer_types=("linear_attention",) * 4)),
}


def random_model(config: Drama3Config) -> Drama3Model:
    torch.manual_seed(3)
    model = Drama3Model(config)
    for part in model.parameters():
        part.data = torch.randn(part.shape) * 0.1 if part.is_floating_point() else torch.zeros_like(part)
    for module in model.modules():
        if hasattr(module, "finish"):
            module.finish()
    return model


@pytest.mark.parametrize("changed", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_that_a_config_allows_is_understood(model, drama3_tiny, changed):
    config = model.config
    changed = {part: dataclasses.replace(getattr(config, part), **new) for part, new in changed.items()}
    other = random_model(dataclasses.replace(config, **changed))
    rows = prompt(drama3_tiny, "voice")[:40]
    weights = HostWeights(copy.deepcopy(other), compiled_loops()[0])
    plain, mine = opened(other, rows, 12), fast(weights, rows, 12)
    for _ in range(12):
        plain.step()
        mine.step()
    assert torch.equal(mine.frames(0, 12), plain.frames(0, 12))
    assert_alike(mine, plain)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**64 - 1])
def test_its_noise_is_the_same_bits(weights, seed):
    shape = 1 + weights.model.config.tower.num_codebooks, len(weights.model.candidates)
    for frame in (0, 15, 16, 1199):
        assert torch.equal(
            weights.noise(seed, 3).frame(frame), NoiseBlocks(seed, 3, *shape, CPU).frame(frame)
        )


def test_a_state_without_room_or_a_token_that_is_none_is_refused(weights, drama3_tiny):
    rows = prompt(drama3_tiny, "open")
    state = fast(weights, rows, 1)
    with pytest.raises(IndexError, match="has room for"):
        state.prefill(rows)
    with pytest.raises(IndexError, match="token lies outside"):
        fast(weights, torch.full_like(rows, 512), 1)


def test_the_family_steps_with_it(tiny_family):
    from engine.family import Piece
    from engine.take import Character, Sampling

    piece = Piece("Hi.", 0, Character(), (), Sampling(), 5, 10)
    assert isinstance(tiny_family.open(piece, 60).chain, HostStep)


def test_the_loops_of_the_codec_are_made_ready_as_well(tiny_family, monkeypatch):
    seen = []
    monkeypatch.setattr(tiny_family.codec, "decode", lambda codes: seen.append(codes.shape))
    host_weights(tiny_family.model, tiny_family.codec)
    assert seen == [(tiny_family.num_codebooks, 1)]


def test_a_logit_that_is_no_number_is_told(weights, drama3_tiny):
    state = fast(weights, prompt(drama3_tiny, "open"), 3)
    state.step()
    state.hidden[0, 3] = torch.nan
    state.step()
    assert [state.status(frame)[1] for frame in range(2)] == [True, False]


def test_a_weight_that_is_no_number_is_told(model, drama3_tiny):
    for name in ("read", "shared_down"):
        broken = copy.deepcopy(model)
        getattr(broken.backbone.layers[2].experts, name)[1] = torch.inf
        state = fast(HostWeights(broken, compiled_loops()[0]), prompt(drama3_tiny, "open"), 1)
        state.step()
        assert not state.status(0)[1], name


def test_the_loops_are_compiled_once_for_each_kind_of_weights(weights, drama3_tiny):
    fast(weights, prompt(drama3_tiny, "open"), 3).step()
    for name in ("advance", "tower"):
        kinds = [signature[0].dtype for signature in getattr(weights.loops, name).signatures]
        assert len(kinds) == len(set(kinds)) <= 2


def test_weights_that_float16_cannot_hold_are_kept_once(weights):
    model, block = weights.model, weights.backbone[0]
    shared = np.shares_memory(model.backbone.head.numpy(), block)
    assert shared == (block.dtype == np.float32)


def test_float8_and_16_bit_models_keep_the_plain_layers(drama3_tiny, model):
    folder = drama3_tiny / "checkpoint_fp8"
    config = Drama3Config.from_folder(folder)
    assert hostable(model)
    assert host_weights(load_model(folder, config, CPU, torch.float32)) is None
    folder = drama3_tiny / "checkpoint"
    assert host_weights(load_model(folder, Drama3Config.from_folder(folder), CPU, torch.bfloat16)) is None


def test_without_numba_the_plain_layers_speak(model, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "engine.drama3.loops", None)
    monkeypatch.delattr("engine.drama3.loops", raising=False)
    compiled_loops.cache_clear()
    try:
        assert host_weights(model) is None
        assert "Numba can't be used" in why_plain()
        assert "plain layers" in caplog.text
    finally:
        compiled_loops.cache_clear()


def test_where_no_cache_can_be_written_the_loops_are_compiled_all_the_same(tmp_path):
    (tmp_path / "__pycache__").write_text("not a folder")
    (tmp_path / "loops.py").write_text(Path(compiled_loops()[0].__file__).read_text())
    code = "import loops, numpy as np; print(loops.entry(loops.largest.py_func)(np.ones(3)))"
    home = dict(HOME="/dev/null", XDG_CACHE_HOME="/dev/null/cache", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **home}, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("1.0\n", 0), done.stderr


@pytest.mark.parametrize(("patience", "told"), [(0.0, True), (60.0, False)])
def test_a_wait_for_the_compiler_is_told_while_it_lasts(model, monkeypatch, patience, told):
    seen = threading.Event()
    monkeypatch.setattr("engine.drama3.host.PATIENCE_S", patience)
    monkeypatch.setattr("engine.drama3.host.log.warning", lambda text: text == COMPILING and seen.set())
    monkeypatch.setattr(HostWeights, "warm_up", lambda self: seen.wait(5.0 if told else 0.0))
    assert host_weights(model)
    assert seen.is_set() == told
