"""The door: everything that touches the model passes here, and only this file knows what ZeroGPU is.

On a hosted GPU `work` runs in a forked worker, which gets the weights that lie on "cuda" when the page is
launched, lives as long as the platform likes and is thrown away at the first exception. So the weights are
placed once, in the main thread, by `open_house`; plain values cross; trouble is a value; and nothing learned
in a worker is relied on. Anywhere else `work` is an ordinary generator, and the same code is a plain call.

    web process   perform(request) -> events, the platform's own failures turned into Trouble
    worker        work -> play -> Engine.perform, every other failure turned into Trouble
"""

from __future__ import annotations

try:
    import spaces  # before torch: on ZeroGPU it stands in for CUDA until a worker has a card
except ImportError:
    spaces = None  # nobody lends a GPU here

# isort: split
import gc
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine.engine import Engine
from engine.family import Family
from engine.models import GIB, free_memory_bytes, load_family
from engine.take import (
    Clip,
    Done,
    Encoded,
    Event,
    RequestError,
    Status,
    TakeFailed,
    TakeRequest,
    Trouble,
)
from prompts.duration import FACTOR, MARGIN_S, expected_seconds

ON_ZEROGPU = os.getenv("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")

UNDERSTUDY = "understudy"
WAKE_S = 5  # fork, CUDA start, first kernels
WEIGHT_BYTES_PER_S = 2e9  # disk -> pinned memory -> card, inside the time that was asked for
CLIP_S = 2  # one clip of 60 s, encoded
TAIL_S = 1  # the last chunk of sound and the way back, inside the time that was asked for
REHEARSAL = TakeRequest("Ready.", seed=0, max_frames=20)

_QUOTA = "Your free GPU time is used up; sign in to Hugging Face, {when}, or duplicate this Space."
_NO_GPU = "No GPU is free at the moment; try again in a minute."
_DOWN = "The service that lends GPUs doesn't answer; try again in a minute."
_GONE = "The GPU was taken away before this was done; try again."
# The platform's failures as (title, part of the message, kind, sentence); the first that fits is told.
_PLATFORM = (
    ("ZeroGPU quota exceeded", "No GPU was available", "busy", _NO_GPU),
    ("ZeroGPU quota exceeded", "", "quota", _QUOTA),
    (
        "ZeroGPU pending credits exceeded",
        "",
        "quota",
        "Your running takes use all of your GPU time; let one of them end first.",
    ),
    (
        "ZeroGPU illegal duration",
        "",
        "request",
        "This line needs a GPU for longer than the platform lends one; split it into shorter lines.",
    ),
    ("ZeroGPU queue timeout", "", "busy", _NO_GPU),
    ("ZeroGPU worker error", "GPU task aborted", "lost", _GONE),
    ("ZeroGPU client error", "No GPU was available", "busy", _NO_GPU),
    (
        "ZeroGPU client error",
        "Expired",
        "busy",
        "This page has been open for too long; reload it and try again.",
    ),
    ("", "ZeroGPU API", "busy", _DOWN),
    ("", "Unexpected end of stream", "busy", _DOWN),
    ("", "queue disconnect", "busy", _DOWN),
    ("", "Connection closed by visitor", "lost", "The page was left while it waited for a GPU."),
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class House:
    """The model that plays here, how many bytes of its weights lie on a GPU, and who rehearses for it on the
    CPU, if somebody does."""

    engine: Engine
    gpu_bytes: int
    understudy: Engine | None = None


_house: House | None = None
_awake_in = 0  # the process in which a take has been performed; a fork of it has still to warm up


def open_house(model: str | None = None) -> Engine:
    """Load `model`, or the default, for all takes to come, and warm it up where that can be done.

    Call it once, at module level of the app: on ZeroGPU only what the main thread puts on "cuda" before
    `Blocks.launch` travels to the workers. Raises RequestError for a model that can't run here.
    """
    global _house
    family = load_family(model)
    _house = House(Engine(family), _gpu_bytes(family))
    if ON_ZEROGPU and _house.gpu_bytes:
        family.prepare(*torch.cuda.get_device_capability())
        log.info("%s waits for GPUs with %.1f GiB of weights", family.name, _house.gpu_bytes / GIB)
    else:
        _rehearse()
    return _house.engine


def hire_understudy() -> Engine | None:
    """The small model that comes along, on the CPU, to read what the main one will perform; None where it is
    the main one itself, or missing, or doesn't fit. Call it after `open_house`."""
    global _house
    if _house.engine.family.name == UNDERSTUDY:
        return None
    threads = torch.get_num_threads()
    try:
        family = load_family(UNDERSTUDY, torch.device("cpu"))
    except RequestError as problem:
        log.info("nobody rehearses here: %s", problem)
        return None
    if not _house.gpu_bytes:
        torch.set_num_threads(threads)  # as the main model, on the same CPU, wants them
    _house = replace(_house, understudy=Engine(family))
    return _house.understudy


def perform(request: TakeRequest) -> Iterator[Event]:
    """The events of a take, the last one Done or Trouble. Never raises; closing it stops the take."""
    return _through("perform", request)


def rehearse(request: TakeRequest) -> Iterator[Event]:
    """As `perform`, by the understudy."""
    return _through("perform", request, _house.understudy)


def encode(clip: Clip) -> Iterator[Event]:
    """The events of encoding a clip, the last one Encoded or Trouble. Never raises; closing it stops it."""
    return _through("encode", clip)


def encode_for_rehearsal(clip: Clip) -> Iterator[Event]:
    """As `encode`, in the understudy's codes."""
    return _through("encode", clip, _house.understudy)


def seconds_for(task: str, value: TakeRequest | Clip) -> int:
    """Seconds of GPU to ask for: waking up with the weights, then the longest take at real time."""
    seconds = WAKE_S + _house.gpu_bytes / WEIGHT_BYTES_PER_S
    if task == "encode":
        return math.ceil(seconds + CLIP_S)
    clips = sum(isinstance(reference.audio, Clip) for reference in value.character.voice or ())
    return math.ceil(seconds + CLIP_S * clips + FACTOR * expected_seconds(value.text) + MARGIN_S)


def _on_gpu(task: Callable[..., Iterator[Event]]) -> Callable[..., Iterator[Event]]:
    return spaces.GPU(duration=seconds_for)(task) if spaces else task


@_on_gpu
def work(task: str, value: TakeRequest | Clip) -> Iterator[Event]:
    """Do `task` ("perform" a request, "encode" a clip) where the GPU is. The one entrance for both: each
    decorated function has its own worker and its own copy of the weights."""
    if ON_ZEROGPU and task == "perform":
        left = seconds_left(value)
        value = replace(value, deadline=left if value.deadline is None else min(left, value.deadline))
    yield from play(task, value)


def seconds_left(request: TakeRequest) -> float:
    """Of what was asked for `request`: a new worker has spent some of it on fork and weights. A take that
    would need more ends with what it has, before the platform takes the GPU away."""
    age = 0 if _awake_in == os.getpid() else process_age()
    return max(TAIL_S, seconds_for("perform", request) - age - TAIL_S)


def process_age() -> float:
    """Seconds since this process was forked, by Linux's own record (proc(5), field 22 of stat)."""
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


def play(task: str, value: TakeRequest | Clip, understudy: Engine | None = None) -> Iterator[Event]:
    """The events of `task`, by the understudy where one is given; whatever goes wrong is the last of them,
    with the memory of the take free again.

    Raises only after the Trouble of a CUDA context that can't be used any more, for a worker to be dropped.
    """
    global _awake_in
    if _awake_in != os.getpid() and not understudy:
        _awake_in = os.getpid()
        if ON_ZEROGPU:
            log.info("worker %d plays on %s", _awake_in, _machine())
        yield Status("waking", "The model wakes up; this take starts some seconds later than the next ones.")
    engine, take_id, trouble, broken = understudy or _house.engine, secrets.token_hex(4), None, False
    try:
        if task == "encode":
            yield Status("reference", "Listening to the clip.")
            yield engine.encode(value)
        else:
            yield from engine.perform(value)
    except Exception as problem:
        trouble = _told(problem, take_id)
        broken = trouble.kind == "fault" and isinstance(problem, torch.AcceleratorError)
    # Only here, with the exception and the frames that it held gone, can the take's memory be freed.
    if trouble and trouble.kind == "memory":
        engine.forget()
        gc.collect()
        torch.cuda.empty_cache()
    if trouble:
        yield trouble
    if broken:
        raise RuntimeError("The CUDA context of this process is lost.")


def _told(problem: Exception, take_id: str) -> Trouble:
    """What a person hears of `problem`; the log has the rest under `take_id`."""
    if isinstance(problem, RequestError):
        return Trouble("request", str(problem), take_id)
    if isinstance(problem, TakeFailed):
        log.warning("take %s: %s", take_id, problem)
        return Trouble("take", str(problem), take_id)
    if _out_of_memory(problem):
        log.warning("take %s ran out of memory: %s", take_id, problem)
        return Trouble(
            "memory",
            "There is not enough memory for this take; use a shorter line, fewer or shorter clips, "
            "or less history.",
            take_id,
        )
    log.error("take %s failed", take_id, exc_info=problem)
    return _fault(take_id)


def _out_of_memory(problem: Exception) -> bool:
    # Only the caching allocator has a class for it; the CPU's allocator, cuBLAS and CUDA itself say it in
    # the words of a RuntimeError.
    words = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(problem, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(problem, RuntimeError) and any(each in str(problem) for each in words)
    )


def _fault(take_id: str) -> Trouble:
    return Trouble("fault", f"Something broke on our side; the log tells more under take {take_id}.", take_id)


def _through(task: str, value: TakeRequest | Clip, understudy: Engine | None = None) -> Iterator[Event]:
    """The web process's side of the door. A request that can't be performed costs no GPU; a family that has
    no weights on one asks for none."""
    last, trouble, ends = None, None, (Done if task == "perform" else Encoded, Trouble)
    lent = _house.gpu_bytes and not understudy
    try:
        if task == "perform":
            (understudy or _house.engine).check(value)
        if ON_ZEROGPU and lent:
            yield Status("gpu", "Asking for a GPU.")
        with closing(work(task, value) if lent else play(task, value, understudy)) as events:
            for last in events:
                yield last
    except Exception as problem:
        if not isinstance(last, ends):  # else all is said, and the rest concerns the worker only
            trouble = _platform_trouble(problem)
    if not isinstance(last, ends):
        yield trouble or Trouble("lost", _GONE)  # a worker that is told to go may end without an exception


def _platform_trouble(problem: Exception) -> Trouble:
    """What the platform refused or broke, in a sentence. It names its failures by the title of a gr.Error."""
    take_id = secrets.token_hex(4)
    if isinstance(problem, RequestError):
        return Trouble("request", str(problem), take_id)
    title, message = str(getattr(problem, "title", "")), str(getattr(problem, "message", problem))
    if type(problem).__module__.partition(".")[0] in ("httpx", "httpcore"):
        message = f"ZeroGPU API: {message}"
    for known, part, kind, sentence in _PLATFORM:
        if title == known and part in message:
            log.warning("take %s: %s: %s", take_id, title, message)
            again = re.search(r"Try again in (.+?)\.", message)
            when = f"try again in {again[1]}" if again else "come back later"
            return Trouble(kind, sentence.format(when=when), take_id)
    log.error("take %s failed at the door: %s %s", take_id, title, message, exc_info=problem)
    return _fault(take_id)


def _rehearse() -> None:
    """Two short takes, the first to warm up; then one line about the machine in the log."""
    _house.engine.family.warm()
    for _ in range(2):
        *_, last = play("perform", REHEARSAL)
    name = _house.engine.family.name
    if isinstance(last, Done):
        step = "" if last.codes is None else f"{1000 / last.timings.frames_per_s:.1f} ms a step, "
        log.info(
            "%s plays on %s: %sfirst sound after %.2f s", name, _machine(), step, last.timings.first_pcm_s
        )
    else:
        log.warning("%s plays on %s, but its warm-up take failed: %s", name, _machine(), last.sentence)


def _machine() -> str:
    if _house.gpu_bytes and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        card, peak = torch.cuda.get_device_properties(), torch.cuda.max_memory_allocated()
        return (
            f"{card.name} ({card.multi_processor_count} multiprocessors, torch {torch.__version__}) with "
            f"{free / GIB:.1f} of {total / GIB:.1f} GiB of memory free, {peak / GIB:.1f} GiB used at most"
        )
    free = free_memory_bytes()
    return "the CPU" if free is None else f"the CPU with {free / GIB:.1f} GiB of memory free"


def _gpu_bytes(family: Family) -> int:
    parts = [part for part in vars(family).values() if isinstance(part, torch.nn.Module)]
    tensors = [tensor for part in parts for tensor in (*part.parameters(), *part.buffers())]
    return sum(tensor.nbytes for tensor in tensors if tensor.device.type == "cuda")
