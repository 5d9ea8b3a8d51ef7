"""On a GPU: graphs and kernels give what the plain layers give, a desk passes from take to take unharmed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.drama3.codec import Codec
from engine.drama3.config import Drama3Config
from engine.drama3.family import Drama3Family, load_tokenizer
from engine.drama3.model import TakeState
from engine.drama3.weights import load_model
from engine.engine import Engine
from engine.noise import BLOCK_FRAMES, NoiseBlocks
from engine.sampling import TakeKnobs
from engine.take import Audio, Done, Sampling, TakeRequest
from tests.drama3.desks import decoded, follow, performed, piece, scripted, some_codes, stepped

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
RUNS = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/runs.json").read_text())
CUDA = torch.device("cuda")


def loaded(folder: Path, dtype: torch.dtype, device: torch.device = CUDA) -> Drama3Family:
    config = Drama3Config.from_folder(folder)
    torch.backends.cudnn.allow_tf32 = False
    model = load_model(folder, config, device, dtype)
    codec = Codec.load(folder, device) if (folder / "codec.json").is_file() else None
    return Drama3Family("tiny", "local", config, model, codec, load_tokenizer(folder, config))


@pytest.fixture(scope="module")
def family(drama3_tiny) -> Drama3Family:
    """The tiny checkpoint in float32 on the GPU."""
    return loaded(drama3_tiny / "checkpoint", torch.float32)


@pytest.fixture(scope="module", params=["plain", "fused"])
def desk(request, family):
    from engine.drama3.graphs import FrameDesk, fusible

    fused = request.param == "fused"
    if fused and not fusible(CUDA):
        pytest.skip("this GPU can't run the kernels")
    return FrameDesk(family.model, 256, fused)


def prompt(drama3_tiny, name: str) -> torch.Tensor:
    with np.load(drama3_tiny / f"run_{name}.npz") as run:
        return torch.from_numpy(run["prompt"])


def eager(family, rows: torch.Tensor, count: int, seed: int = 5) -> TakeState:
    knobs = TakeKnobs.of(1.0, None, 0.9, CUDA)
    candidates = len(family.model.candidates)
    noise = NoiseBlocks(seed, 0, family.num_codebooks + 1, candidates, CUDA)
    state = TakeState.open(family.model, len(rows) + count, count, knobs, noise)
    state.prefill(rows)
    for _ in range(count):
        state.step()
    return state


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_a_golden_run_comes_out_of_the_plain_layers(family, drama3_tiny, run):
    with np.load(drama3_tiny / f"run_{run['run']}.npz") as stored:
        rows, frames, noise = torch.from_numpy(stored["prompt"]), stored["frames"], scripted(stored).to(CUDA)
    knobs = TakeKnobs.of(run["temperature"], run["top_k"], run["top_p"], CUDA)
    state = TakeState.open(family.model, len(rows) + run["steps"], run["steps"], knobs, None)
    state.prefill(rows)
    for frame in range(run["steps"]):
        state.draw_frame(noise[frame], state.num_rows)
        state.num_rows += 1
    assert np.array_equal(state.frames(0, run["steps"]).numpy(), frames)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_a_golden_run_comes_out_of_a_desk(desk, drama3_tiny, run, monkeypatch):
    with np.load(drama3_tiny / f"run_{run['run']}.npz") as stored:
        rows, frames, noise = torch.from_numpy(stored["prompt"]), stored["frames"], scripted(stored)
    sampling = Sampling(run["temperature"], run["top_p"], run["top_k"])
    with closing(desk.sit(piece(sampling=sampling))) as take:
        follow(take, noise, monkeypatch)
        take.prefill(rows)
        told = stepped(take, run["steps"])
    assert np.array_equal(told[:, :-2], frames)
    assert told[:, -1].all()
    assert told[:, -2].tolist() == [0] * (run["steps"] - 1) + [int(run["finish_reason"] == "stop")]


def test_200_free_frames_of_a_desk_are_those_of_the_plain_layers(family, desk, drama3_tiny):
    rows = prompt(drama3_tiny, "open")
    alone = eager(family, rows, 200)
    with closing(desk.sit(piece())) as take:
        take.prefill(rows)
        told = stepped(take, 200)
        hidden = take.state.hidden.clone()
    assert np.array_equal(told, alone.log.cpu().numpy())
    assert (hidden - alone.hidden).abs().max() < 5e-4


@pytest.mark.parametrize("cuts", [(), (64,), (30, 31, 160)])
def test_a_prompt_read_by_graphs_leaves_what_the_plain_layers_leave(family, desk, drama3_tiny, cuts):
    rows = prompt(drama3_tiny, "voice")
    alone = eager(family, rows, 0)
    with closing(desk.sit(piece())) as take:
        for start, end in zip((0, *cuts), (*cuts, len(rows)), strict=True):
            take.prefill(rows[start:end])
        state, end = take.state, len(rows)
        for name in ("conv", "recurrent"):
            assert (getattr(state.backbone, name) - getattr(alone.backbone, name)).abs().max() < 5e-4, name
        for name in ("keys", "values"):
            mine, other = (getattr(each.backbone, name)[:, :, :end] for each in (state, alone))
            assert (mine - other).abs().max() < 5e-4, name
        mine, other = (each.tower[:, :, :, : end - 1] for each in (state, alone))
        assert (mine - other).abs().max() < 5e-4
        assert (state.hidden - alone.hidden).abs().max() < 5e-4
        assert torch.equal(state.window, alone.window)
        assert torch.equal(state.row, alone.row)


def test_warming_up_changes_no_take(family, desk, drama3_tiny):
    rows = prompt(drama3_tiny, "open")
    told = []
    for warm in (False, True):
        if warm:
            desk.warm()
        with closing(desk.sit(piece())) as take:
            take.prefill(rows)
            told.append(stepped(take, 20))
    assert np.array_equal(*told)


def test_a_take_cancelled_at_any_frame_leaves_no_trace(desk, drama3_tiny):
    rows = prompt(drama3_tiny, "voice")

    def whole() -> np.ndarray:
        with closing(desk.sit(piece(seed=9))) as take:
            take.prefill(rows)
            return stepped(take, 24)

    first = whole()
    for count in range(41):
        with closing(desk.sit(piece(seed=count))) as take:
            take.prefill(rows[: 20 + count])
            for _ in range(count):
                take.step()
        assert np.array_equal(whole(), first), count


def test_a_state_that_lay_in_host_memory_is_the_same_bit_for_bit(desk, drama3_tiny):
    """C-23: moved while the next take goes on, and put back at once."""
    rows = prompt(drama3_tiny, "voice")
    with closing(desk.sit(piece(seed=9))) as take:
        take.prefill(rows)
        there = take.snapshot()
        first = stepped(take, 24)
        moved = there.to_host()
    assert {part.device.type for part in moved.parts.values()} == {"cpu"}
    assert all(part.is_pinned() for part in moved.parts.values() if part.numel())
    assert moved.num_bytes >= there.num_bytes
    for state in (there, moved, moved.to_host()):
        with closing(desk.sit(piece(seed=9))) as take:
            take.restore(state)
            assert np.array_equal(stepped(take, 24), first)
    assert all(torch.equal(moved.parts[name], part.cpu()) for name, part in there.parts.items())


def test_a_desk_seats_one_take(desk):
    with closing(desk.sit(piece())):
        assert desk.sit(piece()) is None
    with closing(desk.sit(piece())) as take:
        assert take is not None


def test_the_host_never_waits_inside_the_loop(desk, drama3_tiny):
    """No allocation and no synchronisation between two steps, once the graph is there."""
    with closing(desk.sit(piece())) as take:
        take.prefill(prompt(drama3_tiny, "open"))
        stepped(take, 2)
        torch.cuda.set_sync_debug_mode("error")
        try:
            before = torch.cuda.memory_stats()["allocation.all.allocated"]
            for _ in range(BLOCK_FRAMES - 3):
                take.step()
            assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
        finally:
            torch.cuda.set_sync_debug_mode("default")


def forced(model, rows: torch.Tensor, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(hidden [1, H], tower KV) on the host after prompt `rows` and given `frames`, by the kernels."""
    from engine.drama3.fused import FusedStep

    class Forced(FusedStep):
        given: torch.Tensor

        def _draw_main(self) -> None:
            self.frame_row[:2] = self.given[:2]
            self.verdicts.fill_(1)

        def _draw_code(self, book, layer) -> None:
            self.frame_row[2 + book] = self.given[2 + book]

    knobs = TakeKnobs.of(1.0, None, 0.9, CUDA)
    state = TakeState.open(model, len(rows) + len(frames), len(frames), knobs, None)
    noise = torch.ones(1, 2 + frames.shape[1], len(model.candidates), device=CUDA)
    state.prefill(rows)
    step = Forced(model, state, noise)
    with torch.inference_mode():
        step.begin()
        for step.given in frames.to(CUDA):
            step()
    return state.hidden.float().cpu(), state.tower[:, :, :, : len(rows) + len(frames) - 1].float().cpu()


def read(model, rows: torch.Tensor, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by the plain layers, as a prefill."""
    knobs = TakeKnobs.of(1.0, None, 0.9, model.device)
    count = len(rows) + len(frames)
    state = TakeState.open(model, count, 1, knobs, None)
    for part in (rows, *frames.split(1)):
        state.prefill(part)
    return state.hidden.float().cpu(), state.tower[:, :, :, : count - 1].float().cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("checkpoint", ["checkpoint", "checkpoint_fp8"])
def test_kernels_are_as_near_to_float32_as_the_plain_layers(drama3_tiny, checkpoint, dtype):
    from engine.drama3.graphs import fusible

    if not fusible(CUDA):
        pytest.skip("this GPU can't run the kernels")
    folder = drama3_tiny / checkpoint
    config = Drama3Config.from_folder(folder)
    model = load_model(folder, config, CUDA, dtype)
    exact = load_model(folder, config, torch.device("cpu"), torch.float32)
    draws = torch.manual_seed(3)
    rows = torch.zeros(40, 1 + config.tower.num_codebooks, dtype=torch.int64)
    rows[:, 0] = torch.randint(0, 200, (40,), generator=draws)
    frames = torch.randint(0, config.tower.vocab_size, (12, rows.shape[1]), generator=draws)
    frames[:, 0] = config.semantic_start_token_id + frames[:, 1]
    truth, ours, plain = (
        read(exact, rows, frames), forced(model, rows, frames), read(model, rows, frames),
    )  # fmt: skip
    for want, got, twin in zip(truth, ours, plain, strict=True):
        error, allowed = (got - want).abs(), (twin - want).abs()
        if dtype == torch.float32:
            assert error.max() < 5e-4
        else:
            assert error.mean() <= 1.25 * allowed.mean()


def test_a_codec_desk_gives_the_whole_decode_of_a_cpu(family, drama3_tiny):
    codec = Codec.load(drama3_tiny / "checkpoint", "cpu")
    codes = some_codes(codec, 150)
    whole = codec.decode(codes).numpy()
    for _ in range(2):
        pcm = decoded(family.desks().codec, codes, (1, 2, 4, 8, *[16] * 8, 7))
        assert pcm.shape == whole.shape
        assert np.abs(pcm / 32767 - whole).max() <= 1e-4 + 1 / 32767


def test_an_encoder_desk_gives_the_codes_of_the_plain_encoder(family, drama3_tiny):
    """Its first clip runs as it comes, the second is captured; the plain encoder takes other blocks."""
    plain, draws = Codec.load(drama3_tiny / "checkpoint", CUDA), np.random.default_rng(2)
    for _ in range(3):
        samples = draws.normal(0, 0.2, 150_000).astype(np.float32)
        got, want = family.encode(samples), plain.encode(samples).cpu().numpy()
        assert got.shape == want.shape
        assert (got == want).mean() > 0.99


def heard(engine: Engine, **fields) -> tuple[np.ndarray, Done]:
    return performed(engine, TakeRequest(**{"text": "Hello there.", "seed": 3, **fields}))


def test_takes_are_alike_whether_the_desk_is_free_or_not(family):
    engine = Engine(family)
    pcm, done = heard(engine)
    again, _ = heard(engine)
    assert np.array_equal(pcm, again)
    with closing(engine.perform(TakeRequest("Somebody else speaks.", seed=4))) as other:
        while not isinstance(next(other), Audio):
            pass
        beside, done_beside = heard(engine)
    assert np.array_equal(done.codes, done_beside.codes)
    assert np.abs(pcm.astype(int) - beside).max() <= 4  # plain codec beside graphs: rounding


def test_a_take_in_bfloat16_is_performed_and_ends(drama3_tiny):
    family = Drama3Family.load(drama3_tiny / "checkpoint", "tiny", "local", CUDA)
    assert family.model.backbone.head.dtype == torch.bfloat16
    pcm, done = heard(Engine(family), text="One more.", max_frames=60)
    assert len(pcm) == done.frames * family.hop
    assert np.array_equal(done.codes, heard(Engine(family), text="One more.", max_frames=60)[1].codes)
