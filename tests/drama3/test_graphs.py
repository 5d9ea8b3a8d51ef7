"""The desks without a GPU, by a double of CUDA graphs: what a graph holds, and when it is made.

On a GPU `test_cuda.py` has the real ones.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.drama3.codec import Codec
from engine.drama3.config import Drama3Config
from engine.drama3.family import Drama3Family
from engine.drama3.graphs import CLIP_FRAMES, CodecDesk, EncoderDesk, FrameDesk, Graphs
from engine.drama3.model import TakeState
from engine.drama3.weights import load_model
from engine.engine import Engine
from engine.noise import NoiseBlocks
from engine.sampling import TakeKnobs
from engine.take import Character, Clip, Reference, Sampling, TakeRequest
from engine.vocoder import EARLY_SCHEDULE, SCHEDULE
from tests.drama3.desks import decoded, follow, performed, piece, scripted, some_codes, stepped
from tests.drama3.graph_double import graph_double  # noqa: F401

pytestmark = [
    pytest.mark.usefixtures("graph_double"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="stands for a GPU, and here is one"),
]
RUNS = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/runs.json").read_text())


@pytest.fixture
def model(drama3_tiny):
    folder = drama3_tiny / "checkpoint"
    return load_model(folder, Drama3Config.from_folder(folder), torch.device("cpu"), torch.float32)


@pytest.fixture
def codec(drama3_tiny) -> Codec:
    return Codec.load(drama3_tiny / "checkpoint")


def stored(drama3_tiny, name: str) -> dict[str, np.ndarray]:
    with np.load(drama3_tiny / f"run_{name}.npz") as run:
        return dict(run)


def alone(model, rows: torch.Tensor, count: int = 0) -> TakeState:
    """What the plain layers leave behind."""
    draws = model.config.tower.num_codebooks + 1
    noise = NoiseBlocks(5, 0, draws, len(model.candidates), "cpu")
    state = TakeState.open(
        model, len(rows) + count, max(count, 1), TakeKnobs.of(1.0, None, 0.9, "cpu"), noise
    )
    state.prefill(rows)
    for _ in range(count):
        state.step()
    return state


def same(state: TakeState, twin: TakeState, rows: int, gate: float, by_kernels: bool = False) -> None:
    """Both remember the same `rows` rows, numbers within `gate`.

    Kernels keep the last row and the inputs of convolutions in buffers of their own.
    """
    for name in ("window", "last", *(() if by_kernels else ("row",))):
        assert torch.equal(getattr(state, name), getattr(twin, name)), name
    assert (state.hidden - twin.hidden).abs().max() < gate
    assert (state.tower[..., : rows - 1, :] - twin.tower[..., : rows - 1, :]).abs().max() < gate
    for name in ("keys", "values", "recurrent", *(() if by_kernels else ("conv",))):
        ours, theirs = getattr(state.backbone, name), getattr(twin.backbone, name)
        ours = ours[:, :, :rows] if name in ("keys", "values") else ours
        assert (ours - theirs).abs().max() < gate, name


def test_work_runs_as_it_comes_then_is_captured_then_replayed():
    x, ran, graphs = torch.zeros(3), [], Graphs()

    def work() -> None:
        ran.append(x.clone())
        x.add_(x.new_ones(3) + torch.arange(3).flip(0)[0])

    for turn in range(1, 5):
        graphs.play("a", work)
        assert x.tolist() == [3.0 * turn] * 3
    assert len(ran) == 2


def test_work_that_failed_runs_as_it_comes_again():
    x, ran, graphs = torch.zeros(1), [], Graphs()

    def work() -> None:
        ran.append(len(ran))
        if len(ran) == 1:
            raise MemoryError
        x.add_(1)

    with pytest.raises(MemoryError):
        graphs.play("a", work)
    for _ in range(3):
        graphs.play("a", work)
    assert (x.item(), len(ran)) == (3.0, 3)


@pytest.mark.parametrize("look", [lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: bool(x[0])])
def test_a_capture_that_looks_at_a_number_fails(look):
    graphs, x = Graphs(), torch.ones(3)
    graphs.play("a", lambda: look(x))
    with pytest.raises(AssertionError, match="looks at a number"):
        graphs.play("a", lambda: look(x))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_a_golden_run_comes_out_of_a_graph_of_plain_layers(model, drama3_tiny, run, monkeypatch):
    golden = stored(drama3_tiny, run["run"])
    sampling = Sampling(run["temperature"], run["top_p"], run["top_k"])
    with closing(FrameDesk(model, 64, fused=False).sit(piece(sampling=sampling))) as take:
        follow(take, scripted(golden), monkeypatch)
        take.prefill(torch.from_numpy(golden["prompt"]))
        told = stepped(take, run["steps"])
    assert np.array_equal(told[:, :-2], golden["frames"])
    assert told[:, -1].all()


@pytest.mark.parametrize(
    ("name", "first", "parts"), [("voice", 60, (8, 7, 3, 8, 1)), ("open", 0, (1, 8, 2)), ("voice", 0, (1, 1))]
)
def test_a_prompt_read_by_graphs_leaves_what_the_plain_layers_leave(
    model, drama3_tiny, name, first, parts, monkeypatch
):
    """The first part runs as it comes, the second is captured, the others are replayed; a row that is a block
    by itself stands behind seven that fill up. Of a take's first row alone the tower hears nothing yet."""
    monkeypatch.setattr("engine.drama3.graphs.BLOCKS", (8,))
    rows = torch.from_numpy(stored(drama3_tiny, name)["prompt"][first : first + sum(parts)])
    twin, desk = alone(model, rows), FrameDesk(model, 64, fused=True)
    with closing(desk.sit(piece())) as take:
        for part in rows.split(parts):
            take.prefill(part)
        assert take.state.num_rows == len(rows)
        same(take.state, twin, len(rows), 5e-4)


def test_the_chain_of_kernels_steps_as_the_plain_layers_do(model, drama3_tiny, monkeypatch):
    """The first frame stands behind a row of text and runs as it comes, the second behind one of audio and is
    replayed."""
    monkeypatch.setattr("engine.drama3.kernels.SPLITS", 2)
    # An interpreter takes its time for every program, so there are few.
    monkeypatch.setattr("engine.drama3.kernels.gemv_blocks", lambda n, width, swiglu: (64, 256, 1))
    rows = torch.from_numpy(stored(drama3_tiny, "open")["prompt"])
    twin, desk, end = alone(model, rows, 2), FrameDesk(model, 64, fused=True), len(rows) + 2
    with closing(desk.sit(piece(sampling=Sampling(1.0, 0.9, None)))) as take:
        take.state.prefill(rows)
        told, state = stepped(take, 2), take.state
    assert np.array_equal(told, twin.log.numpy())
    assert torch.equal(state.frame, twin.frame)
    same(state, twin, end, 5e-5, by_kernels=True)


def test_warming_up_changes_no_take_and_leaves_nothing_to_capture(model, drama3_tiny, monkeypatch):
    rows, desk = torch.from_numpy(stored(drama3_tiny, "open")["prompt"]), FrameDesk(model, 60, fused=False)
    captures, graph = [], torch.cuda.graph
    monkeypatch.setattr(torch.cuda, "graph", lambda *a, **k: captures.append(a) or graph(*a, **k))
    told = []
    for warm in (False, True):
        if warm:
            desk = FrameDesk(model, 60, fused=False)
            desk.warm()
            captures.clear()
        with closing(desk.sit(piece())) as take:
            take.prefill(rows)
            told.append(stepped(take, 20))
        assert bool(captures) != warm
    assert np.array_equal(*told)


def test_a_take_goes_on_to_the_last_row_there_is_room_for(model):
    """The largest bucket ends where the buffers do."""
    desk = FrameDesk(model, 60, fused=False)
    with closing(desk.sit(piece())) as take:
        take.prefill(torch.zeros(2, take.state.row.shape[1], dtype=torch.int64))
        take.state.num_rows = model.max_rows - 3
        take.state.last.fill_(model.max_rows - 4)
        assert len(stepped(take, 3)) == 3
        assert take.state.num_rows == model.max_rows


@pytest.mark.parametrize("count", [0, 1, 2, 7, 20])
def test_a_take_cancelled_at_any_frame_leaves_no_trace(model, drama3_tiny, count):
    rows, desk = torch.from_numpy(stored(drama3_tiny, "voice")["prompt"]), FrameDesk(model, 60, fused=False)

    def whole() -> np.ndarray:
        with closing(desk.sit(piece(seed=9))) as take:
            take.prefill(rows)
            return stepped(take, 24)

    first = whole()
    with closing(desk.sit(piece(seed=count))) as take:
        take.prefill(rows[: 20 + count])
        for _ in range(count):
            take.step()
    assert np.array_equal(whole(), first)


def test_a_desk_seats_one_take(model):
    desk = FrameDesk(model, 60, fused=False)
    with closing(desk.sit(piece())):
        assert desk.sit(piece()) is None
    with closing(desk.sit(piece())) as take:
        assert take is not None


def test_a_codec_desk_gives_the_whole_decode_in_chunks_of_any_size(codec):
    codes, desk = some_codes(codec, 150), CodecDesk(codec, SCHEDULE)
    whole = codec.decode(codes).numpy()
    for _ in range(3):
        pcm = decoded(desk, codes, (*SCHEDULE, *[max(SCHEDULE)] * 6, 5))
        assert pcm.shape == whole.shape
        assert np.abs(pcm / 32767 - whole).max() <= 1e-5 + 1 / 32767


def test_only_the_first_chunk_of_a_piece_is_waited_for(codec, monkeypatch):
    """The listener waits for it; those behind it are heard when they are there."""
    desk, waited = CodecDesk(codec, EARLY_SCHEDULE), []

    class Late:
        def query(self) -> bool:
            return False

        def synchronize(self) -> None:
            waited.append(self)

    monkeypatch.setattr(desk, "decode", lambda codes, pcm: Late())
    for _ in range(2):
        waited.clear()
        with closing(desk.sit()) as vocoder:
            heard = []
            for frames in vocoder.schedule[:3]:
                vocoder.queue(some_codes(codec, frames))
                heard.append([sound.frames for sound in vocoder.heard(wait=False)])
            assert (heard, len(waited)) == ([[1], [], []], 1)
            assert [sound.frames for sound in vocoder.heard(wait=True)] == [2, 4]


@pytest.mark.parametrize("frames", [0.4, CLIP_FRAMES, 2 * CLIP_FRAMES + 9.5])
def test_an_encoder_desk_gives_the_codes_of_the_plain_encoder(codec, frames):
    """Its first clip runs as it comes, the others are replayed; each is behind silence again."""
    desk, draws = EncoderDesk(codec), np.random.default_rng(2)
    for _ in range(3):
        samples = draws.normal(0, 0.2, int(frames * codec.hop)).astype(np.float32)
        got, want = desk.encode(samples), codec.encode(samples).numpy()
        assert got.shape == want.shape
        assert (got == want).mean() > 0.99


def test_an_encoder_desk_refuses_what_the_encoder_refuses(codec):
    with pytest.raises(ValueError, match="NaN or infinity"):
        EncoderDesk(codec).encode(np.full(5000, np.nan, np.float32))


def test_a_take_with_a_clip_is_performed_at_the_desks_as_on_a_cpu(drama3_tiny, tiny_family, monkeypatch):
    """Several times, from launches one by one to graphs alone, and with the desks warm from the start."""
    time = np.arange(60_000) / 44_100
    clip = Clip((0.3 * np.sin(700 * time) * (1 + np.sin(20 * time)) / 2).astype(np.float32), 44_100)
    wanted = TakeRequest("Hello there.", Character(voice=(Reference(clip, "Hello."),)), seed=3, max_frames=40)
    want, twin = performed(Engine(tiny_family), wanted)
    monkeypatch.setattr(Drama3Family, "on_gpu", True)
    monkeypatch.setattr("engine.drama3.graphs.fusible", lambda device: False)
    for warm in (False, True):
        family = Drama3Family.load(drama3_tiny / "checkpoint", "tiny", "local", torch.device("cpu"))
        family.lookahead = 1
        if warm:
            family.warm()
        for _ in range(3):
            pcm, done = performed(Engine(family), wanted)
            assert np.array_equal(done.codes, twin.codes)
            assert (done.finish_reason, done.frames) == (twin.finish_reason, twin.frames)
            assert np.abs(pcm.astype(int) - want).max() <= 1
