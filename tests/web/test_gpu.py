"""The door: what comes out is the engine's own, or trouble in one sentence; never an exception."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import pickle
import subprocess
import sys
import time
import weakref
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from engine.drama3.codec import Codec
from engine.drama3.config import Drama3Config
from engine.drama3.family import Drama3Family, load_tokenizer
from engine.drama3.weights import load_model
from engine.engine import Engine
from engine.family import Sound
from engine.take import Audio, Character, Clip, Done, Encoded, Reference, TakeFailed, TakeRequest, Trouble
from web import gpu

SHORT = Clip(np.zeros(4_000, np.float32), 44_100)
TONE = Clip(np.sin(np.arange(50_000, dtype=np.float32) / 20) / 2, 44_100)


@pytest.fixture
def engine(tiny_family, monkeypatch) -> Engine:
    engine = Engine(tiny_family)
    monkeypatch.setattr(gpu, "_house", gpu.House(engine, gpu_bytes=1))
    return engine


def request(text: str = "Hello there.", **fields) -> TakeRequest:
    return TakeRequest(text, **{"seed": 3, "max_frames": 12, **fields})


def with_clip(clip: Clip) -> TakeRequest:
    return request(character=Character(voice=(Reference(clip, "Good evening."),)))


def heard(events) -> tuple[list[np.ndarray], np.ndarray]:
    """The chunks and the codes of a take that went well."""
    *before, done = events
    assert isinstance(done, Done), done
    return [event.pcm for event in before if isinstance(event, Audio)], done.codes


def assert_same(a, b) -> None:
    (chunks, codes), (other_chunks, other_codes) = heard(a), heard(b)
    assert np.array_equal(codes, other_codes)
    assert len(chunks) == len(other_chunks)
    assert all(map(np.array_equal, chunks, other_chunks))


def failing(monkeypatch, family, problem: Exception) -> None:
    """Let every take fail with `problem` after its first sound."""

    def speak(piece):
        yield next(unit for unit in Drama3Family.speak(family, piece) if isinstance(unit, Sound))
        raise problem

    monkeypatch.setattr(family, "speak", speak)


def trouble_of(events) -> Trouble:
    """The one trouble, last of all events."""
    *before, last = events
    assert isinstance(last, Trouble)
    assert not any(isinstance(event, Trouble | Done) for event in before)
    assert last.sentence.endswith(".")
    return last


def test_a_take_through_the_door_is_the_engines_own(engine):
    assert_same(gpu.perform(request()), engine.perform(request()))


def test_a_clip_is_encoded_to_the_engines_codes(engine):
    *_, encoded = gpu.encode(TONE)
    assert isinstance(encoded, Encoded)
    assert np.array_equal(encoded.codes, engine.encode(TONE).codes)


@pytest.mark.parametrize(
    "events",
    [
        lambda: gpu.perform(request("")),
        lambda: gpu.perform(request(max_frames=0)),
        lambda: gpu.perform(with_clip(SHORT)),
        lambda: gpu.encode(SHORT),
    ],
    ids=["no words", "no frames", "a short clip", "a short clip alone"],
)
def test_what_the_caller_can_fix_arrives_as_trouble_and_the_next_take_is_whole(engine, events):
    assert trouble_of(events()).kind == "request"
    assert_same(gpu.perform(request()), engine.perform(request()))


@pytest.mark.parametrize(
    "problem",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        MemoryError(),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes."),
    ],
    ids=["GPU", "Python", "CUDA itself", "CPU"],
)
def test_out_of_memory_frees_the_take_and_the_next_one_is_whole(engine, monkeypatch, problem):
    states = []
    monkeypatch.setattr(
        engine.family,
        "open",
        lambda *a: states.append(state := Drama3Family.open(engine.family, *a)) or state,
    )
    with monkeypatch.context() as accident:
        failing(accident, engine.family, problem)
        events = gpu.perform(request())
        trouble = next(event for event in events if isinstance(event, Trouble))
    problem.with_traceback(None)  # this test holds the exception, and with it the frames
    states[:] = map(weakref.ref, states)
    assert [state() for state in states] == [None]
    assert (trouble.kind, list(events)) == ("memory", [])
    assert "shorter" in trouble.sentence
    assert_same(gpu.perform(request()), engine.perform(request()))


def test_a_take_that_the_model_let_down_names_its_remedy(engine, monkeypatch):
    failing(monkeypatch, engine.family, TakeFailed("No sound came; try another seed."))
    trouble = trouble_of(gpu.perform(request()))
    assert (trouble.kind, trouble.sentence) == ("take", "No sound came; try another seed.")


def test_our_own_fault_is_told_by_its_number_and_logged_with_its_traceback(engine, monkeypatch, caplog):
    failing(monkeypatch, engine.family, KeyError("private words"))
    trouble = trouble_of(gpu.perform(request()))
    assert trouble.kind == "fault"
    assert trouble.take_id in trouble.sentence
    assert "private" not in trouble.sentence
    (record,) = (record for record in caplog.records if record.exc_info)
    assert trouble.take_id in record.getMessage()


def test_a_lost_cuda_context_is_told_and_then_ends_the_worker(engine, monkeypatch):
    failing(monkeypatch, engine.family, torch.AcceleratorError("CUDA error: an illegal memory access"))
    events = gpu.work("perform", request())
    assert next(event for event in events if isinstance(event, Trouble)).kind == "fault"
    with pytest.raises(RuntimeError, match="context"):
        next(events)
    assert trouble_of(gpu.perform(request())).kind == "fault"


def test_closing_the_door_ends_the_take_behind_it(engine, monkeypatch):
    ended = []

    def speak(piece):
        try:
            yield from Drama3Family.speak(engine.family, piece)
        finally:
            ended.append(True)

    monkeypatch.setattr(engine.family, "speak", speak)
    events = gpu.perform(request(max_frames=80))
    next(event for event in events if isinstance(event, Audio))
    events.close()
    assert ended == [True]
    assert list(events) == []


def test_all_that_crosses_survives_pickling_and_holds_no_tensor(engine):
    wanted = with_clip(TONE)
    crossing = [wanted, *gpu.perform(wanted), *gpu.encode(TONE), *gpu.perform(request(""))]
    for value in crossing:
        data = pickle.dumps(value)
        assert b"torch" not in data
        assert type(pickle.loads(data)) is type(value)


def test_a_new_process_says_that_it_wakes_up_once(engine, monkeypatch):
    monkeypatch.setattr(gpu, "_awake_in", 0)
    phases = [[event.phase for event in gpu.perform(request()) if hasattr(event, "phase")] for _ in "ab"]
    assert [each.count("waking") for each in phases] == [1, 0]


def test_opening_the_house_plays_a_take_and_says_how_fast_in_one_line(drama3_tiny, monkeypatch, caplog):
    monkeypatch.setattr(gpu, "_house", None)
    monkeypatch.setenv("TABLEREAD_DEVICE", "cpu")
    with caplog.at_level(logging.INFO, "web.gpu"):
        engine = gpu.open_house(str(drama3_tiny / "checkpoint"))
    assert engine is gpu._house.engine
    (line,) = (text for text in caplog.messages if "plays on" in text)
    assert "the CPU" in line
    assert "ms a step" in line


def test_longer_lines_clips_and_heavier_weights_ask_for_more_seconds(engine, monkeypatch):
    seconds = [
        gpu.seconds_for("perform", wanted)
        for wanted in (request(), with_clip(TONE), request("Hello there. " * 50), request("x" * 5000))
    ]
    assert seconds == sorted(set(seconds))
    light = gpu.seconds_for("encode", TONE)
    monkeypatch.setattr(gpu, "_house", gpu.House(engine, gpu_bytes=40 * 10**9))
    assert light + 19 <= gpu.seconds_for("encode", TONE) <= light + 20  # at 2 GB a second


@pytest.mark.parametrize(("own", "deadline"), [(None, 7.0), (3.0, 3.0), (60.0, 7.0)])
def test_a_take_on_a_lent_gpu_has_to_end_before_the_time_is_up(engine, monkeypatch, own, deadline):
    played = []
    monkeypatch.setattr(gpu, "ON_ZEROGPU", True)
    monkeypatch.setattr(gpu, "seconds_left", lambda wanted: 7.0)
    monkeypatch.setattr(gpu, "play", lambda task, value: played.append(value) or [])
    list(gpu.work("perform", request(deadline=own)))
    list(gpu.work("encode", TONE))
    assert played[0].deadline == deadline
    assert played[1] is TONE


def test_a_new_worker_counts_the_time_since_its_fork(engine, monkeypatch):
    wanted = request()
    monkeypatch.setattr(gpu, "_awake_in", os.getpid())
    warm = gpu.seconds_left(wanted)
    assert warm == gpu.seconds_for("perform", wanted) - gpu.TAIL_S
    monkeypatch.setattr(gpu, "_awake_in", 0)
    assert gpu.seconds_left(wanted) == gpu.TAIL_S or gpu.seconds_left(wanted) < warm
    monkeypatch.setattr(gpu, "process_age", lambda: 2.5)
    assert gpu.seconds_left(wanted) == warm - 2.5
    monkeypatch.setattr(gpu, "process_age", lambda: 1e6)
    assert gpu.seconds_left(wanted) == gpu.TAIL_S


def test_a_process_knows_its_age():
    script = "import time; time.sleep(0.3); from web.gpu import process_age; print(process_age())"
    began = time.monotonic()
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert 0.29 <= float(told) <= time.monotonic() - began + 0.02


class PlatformError(Exception):
    """As gradio.Error: a title for the failure, a message for people."""

    def __init__(self, title: str, message: str) -> None:
        self.title, self.message = title, message


@pytest.mark.parametrize(
    ("problem", "kind", "word"),
    [
        (PlatformError("ZeroGPU quota exceeded", "You have ... Try again in 3:12:11. "), "quota", "3:12:11"),
        (PlatformError("ZeroGPU quota exceeded", "Space app has reached its GPU limit."), "quota", "later"),
        (PlatformError("ZeroGPU quota exceeded", "No GPU was available after 60s. Try"), "busy", "minute"),
        (PlatformError("ZeroGPU pending credits exceeded", "You have too many"), "quota", "end first"),
        (PlatformError("ZeroGPU illegal duration", "The requested GPU duration"), "request", "split"),
        (PlatformError("ZeroGPU queue timeout", "No GPU was available after 60s Retry"), "busy", "minute"),
        (PlatformError("ZeroGPU worker error", "GPU task aborted"), "lost", "try again"),
        (PlatformError("ZeroGPU worker error", "PicklingError"), "fault", "log"),
        (PlatformError("ZeroGPU client error", "Expired ZeroGPU proxy token"), "busy", "reload"),
        (httpx.ConnectError("Connection refused"), "busy", "minute"),
        (RuntimeError("ZeroGPU API /schedule error: 500"), "busy", "minute"),
        (ValueError("anything"), "fault", "log"),
    ],
    ids=lambda value: getattr(value, "title", None),
)
def test_a_failure_of_the_platform_is_one_helpful_sentence(engine, monkeypatch, problem, kind, word):
    def work(task, value):
        raise problem
        yield

    monkeypatch.setattr(gpu, "work", work)
    trouble = trouble_of(gpu.perform(request()))
    assert (trouble.kind, word in trouble.sentence) == (kind, True), trouble


def test_a_worker_that_leaves_in_silence_is_a_lost_take_and_not_a_short_one(engine, monkeypatch):
    monkeypatch.setattr(gpu, "work", lambda *task: (event for event in list(gpu.play(*task))[:4]))
    assert trouble_of(gpu.perform(request())).kind == "lost"


def test_what_breaks_after_the_last_event_is_not_the_listeners_trouble(engine, monkeypatch):
    def work(*task):
        yield from gpu.play(*task)
        raise PlatformError("ZeroGPU worker error", "GPU task aborted")

    monkeypatch.setattr(gpu, "work", work)
    assert_same(gpu.perform(request()), engine.perform(request()))


def test_a_model_without_weights_on_a_gpu_asks_for_none(engine, monkeypatch):
    monkeypatch.setattr(gpu, "_house", gpu.House(engine, gpu_bytes=0))
    monkeypatch.setattr(gpu, "ON_ZEROGPU", True)
    monkeypatch.setattr(gpu, "work", None)
    assert_same(gpu.perform(request()), engine.perform(request()))


def test_the_door_opens_without_the_package_that_lends_gpus(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, "spaces", None)
    spec = importlib.util.spec_from_file_location("door_without_spaces", Path(gpu.__file__))
    door = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, door)
    spec.loader.exec_module(door)
    door._house = gpu.House(engine, gpu_bytes=1)
    assert_same(door.perform(request()), engine.perform(request()))
    assert not torch.cuda.is_initialized()


# From here on, the real worker code of `spaces` stands behind the door.


@pytest.fixture(scope="module")
def bfloat16(drama3_tiny) -> Drama3Family:
    """The tiny checkpoint as a GPU would hold it, here on the CPU."""
    folder, cpu = drama3_tiny / "checkpoint", torch.device("cpu")
    config = Drama3Config.from_folder(folder)
    model = load_model(folder, config, cpu, torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.drama3.codec.latent_dtype", lambda device: torch.float64)
        codec = Codec.load(folder)
    return Drama3Family("tiny", "local", config, model, codec, load_tokenizer(folder, config))


def test_a_take_streams_out_of_a_worker(zerogpu, bfloat16):
    chunks, codes = heard(Engine(bfloat16).perform(request()))
    assert zerogpu["first"]["codes"] == codes.tolist()
    assert zerogpu["first"]["chunks"] == [len(pcm) for pcm in chunks]
    assert zerogpu["first"]["pcm"] == np.concatenate(chunks).tolist()
    assert zerogpu["first"]["phases"][:3] == ["gpu", "waking", "preparing"]
    assert zerogpu["second"]["phases"][:2] == ["gpu", "preparing"]


@pytest.mark.parametrize("scene", ["second", "after_stop", "after_memory", "after_killed", "after_all"])
def test_the_same_seed_is_the_same_take_whatever_happened_before(zerogpu, scene):
    assert zerogpu[scene]["codes"] == zerogpu["first"]["codes"]
    assert zerogpu[scene]["pcm"] == zerogpu["first"]["pcm"]


def test_stop_and_trouble_keep_the_worker(zerogpu):
    scenes = ("first", "second", "stopped", "after_stop", "bad_request", "clip", "bad_clip", "memory")
    pids = {zerogpu[scene]["pid"] for scene in (*scenes, "after_memory")}
    assert len(pids) == 1
    assert zerogpu["stopped"]["heard"] > 0


@pytest.mark.parametrize(
    ("scene", "kind"),
    [
        ("bad_request", "request"),
        ("bad_clip", "request"),
        ("memory", "memory"),
        ("killed", "lost"),
        ("context", "fault"),
        ("quota", "quota"),
        ("illegal", "request"),
        ("queue", "busy"),
        ("none_free", "busy"),
        ("broken", "busy"),
    ],
)
def test_trouble_crosses_as_the_last_event_and_one_sentence(zerogpu, scene, kind):
    ((found, sentence),) = zerogpu[scene]["trouble"]
    assert (found, zerogpu[scene]["events"][-1]) == (kind, "Trouble")
    assert sentence.endswith(".")


def test_a_request_that_cant_be_performed_asks_for_no_gpu(zerogpu):
    assert zerogpu["bad_request"]["events"] == ["Trouble"]


def test_a_dead_worker_and_a_lost_context_are_replaced(zerogpu):
    pids = [zerogpu[scene]["pid"] for scene in ("after_memory", "after_killed", "after_context")]
    assert len(set(pids)) == 3
    assert zerogpu["after_killed"]["phases"][1] == zerogpu["after_context"]["phases"][1] == "waking"


def test_no_tensor_leaves_a_worker(zerogpu):
    assert not any(
        scene["tensors"] for scene in zerogpu.values() if isinstance(scene, dict) and "pcm" in scene
    )


def test_every_weight_is_packed_and_comes_back_byte_for_byte(zerogpu, bfloat16, drama3_tiny):
    folder = drama3_tiny / "checkpoint_fp8"
    fp8 = load_model(folder, Drama3Config.from_folder(folder), torch.device("cpu"), torch.bfloat16)
    for name, module in (("model", bfloat16.model), ("codec", bfloat16.codec), ("fp8", fp8)):
        assert zerogpu["weights"][name] == {
            key: [str(tensor.dtype), list(tensor.shape), digest(tensor)]
            for key, tensor in (*module.named_parameters(), *module.named_buffers())
        }
    assert any(dtype == "torch.float8_e4m3fn" for dtype, *_ in zerogpu["weights"]["fp8"].values())
    assert (zerogpu["startup_reports"], zerogpu["unpacked_bytes"]) == (1, 0)


def digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest()
