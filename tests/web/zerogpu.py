"""The door through the real worker code of `spaces`, on a machine without a GPU: FOLDER/report.json.

    python tests/web/zerogpu.py CHECKPOINT FP8_CHECKPOINT FOLDER

Scheduling, fork, packing, pipes, cancel and the failures are the package's own. Ours are the controller that
lends a GPU (`Controller`) and, in `fill_in`, the CUDA calls that a CPU build of torch lacks: a worker's
"GPU" is its own memory. Runs in a process of its own, because `spaces` replaces parts of torch for good.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import pickle
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

CHECKPOINT, FP8_CHECKPOINT, FOLDER = (Path(argument) for argument in sys.argv[1:])


class Controller:
    """Lends one GPU over HTTP, as the platform does. `refusal` is (status, headers, body) of the next
    schedule instead; `workers` are the processes that were let in, `asked` the seconds asked for."""

    def __init__(self) -> None:
        self.workers, self.asked, self.reports = [], [], 0
        self.refusal, self.idle = None, False
        controller = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                url = urlsplit(self.path)
                query = {key: value for key, (value,) in parse_qs(url.query).items()}
                status, headers, body = controller.answer(url.path, query)
                self.send_response(status)
                for key, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], str]:
        if path == "/schedule":
            self.asked.append(int(query["durationSeconds"]))
            if self.refusal:
                refusal, self.refusal = self.refusal, None
                return refusal
            lent = {"idle": self.idle, "nvidiaIndex": 0, "nvidiaUUID": "none", "allowToken": "t"}
            return 200, {}, json.dumps(lent)
        if path == "/allow":
            self.workers.append(int(query["pid"]))
        elif path == "/release":
            self.idle = query["fail"] == "false"
        elif path == "/startup-report":
            self.reports += 1
        return 200, {}, "{}"


def fill_in() -> None:
    """The CUDA calls of a CPU build of torch that `spaces` reaches. Before it is imported: it keeps the
    originals, and puts them back in a worker."""
    import torch

    def _is_in_bad_fork() -> bool:
        return False

    _is_in_bad_fork.__module__, _is_in_bad_fork.__qualname__ = "torch.cuda", "_is_in_bad_fork"
    torch.cuda._is_in_bad_fork = _is_in_bad_fork  # a lambda, and it has to be pickled
    torch.version.cuda = "12.8"
    torch._C._cuda_init = lambda: None
    torch.cuda.synchronize = lambda *_: None
    torch.Tensor.cuda = lambda tensor, non_blocking=False: tensor.clone()
    # Pinned memory is aligned to pages, which direct reads need; what is pinned here is empty buffers.
    torch.Tensor.pin_memory = lambda buffer: torch.frombuffer(mmap.mmap(-1, len(buffer)), dtype=torch.uint8)


def fill_in_packing() -> None:
    """`torch.tensor(..., device="cuda")` of the code that takes packed weights to the card."""
    import torch
    from spaces.zero.torch import packing

    class OnCpu:
        def __getattr__(self, name: str):
            return getattr(torch, name)

        def tensor(self, data, dtype, device):
            return torch.tensor(data, dtype=dtype)

    packing.torch = OnCpu()


controller = Controller()
os.environ |= {
    "SPACES_ZERO_GPU": "true",
    "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{controller.server.server_port}",
    "ZEROGPU_OFFLOAD_DIR": str(FOLDER / "tensors"),
    "GRADIO_ANALYTICS_ENABLED": "False",
}
fill_in()

import numpy as np  # noqa: E402
import spaces  # noqa: E402
import torch  # noqa: E402

from engine.drama3.config import Drama3Config  # noqa: E402
from engine.drama3.weights import load_model  # noqa: E402
from engine.family import Sound  # noqa: E402
from engine.take import Audio, Clip, Done, Encoded, TakeRequest, Trouble  # noqa: E402
from web import gpu  # noqa: E402

fill_in_packing()
torch.set_num_threads(1)
CLIP = Clip(np.sin(np.arange(50_000, dtype=np.float32) / 20) / 2, 44_100)
MODULES: dict[
    str, torch.nn.Module
] = {}  # the family's, and a float8 model of which only the bytes are looked at


def request(text: str = "Hello there.", max_frames: int = 12) -> TakeRequest:
    return TakeRequest(text, seed=3, max_frames=max_frames)


def open_the_house() -> None:
    """As app.py and its launch do; afterwards the checkpoint is gone."""
    checkpoint = FOLDER / "checkpoint"
    shutil.copytree(CHECKPOINT, checkpoint)
    family = gpu.open_house(str(checkpoint)).family
    family.speak = accident_prone(family.speak)
    config = Drama3Config.from_folder(FP8_CHECKPOINT)
    fp8 = load_model(FP8_CHECKPOINT, config, torch.device("cuda"), torch.bfloat16)
    MODULES.update(model=family.model, codec=family.codec, fp8=fp8)
    spaces.zero.startup()
    shutil.rmtree(checkpoint)


def accident_prone(speak):
    """`speak`, with an accident after the first sound of a line that asks for one."""
    accidents = {
        "Memory": torch.OutOfMemoryError("CUDA out of memory."),
        "Context": torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    }

    def perform(piece):
        accident, speech = accidents.get(piece.text.partition(" ")[0]), speak(piece)
        while True:
            try:
                unit = next(speech)
            except StopIteration as end:
                return end.value
            yield unit
            if accident and isinstance(unit, Sound):
                raise accident

    return perform


@spaces.GPU
def fingerprint(name: str):
    """Of every weight of a module, as a worker has it: dtype, shape and a digest of its bytes."""
    yield digests(MODULES[name])


def digests(module: torch.nn.Module) -> dict[str, list]:
    return {
        key: [str(tensor.dtype), list(tensor.shape), digest(tensor)]
        for key, tensor in (*module.named_parameters(), *module.named_buffers())
    }


def digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest()


def seen(events) -> dict:
    """What a take was, in plain data."""
    events = list(events)
    sound = [event.pcm for event in events if isinstance(event, Audio)]
    codes = [event.codes for event in events if isinstance(event, (Done, Encoded))]
    return {
        "events": [type(event).__name__ for event in events],
        "chunks": [len(pcm) for pcm in sound],
        "pcm": np.concatenate(sound).tolist() if sound else [],
        "codes": codes[-1].tolist() if codes else None,
        "trouble": [[event.kind, event.sentence] for event in events if isinstance(event, Trouble)],
        "phases": [event.phase for event in events if hasattr(event, "phase")],
        "tensors": any(b"torch" in pickle.dumps(event) for event in events),
        "pid": controller.workers[-1] if controller.workers else None,
        "asked": controller.asked[-1] if controller.asked else None,
    }


def stopped() -> dict:
    take = gpu.perform(request("A long line that nobody hears to its end, because it is stopped.", 90))
    first = next(event for event in take if isinstance(event, Audio))
    take.close()
    return {**seen([]), "heard": len(first.pcm)}


def killed() -> dict:
    take = gpu.perform(request("Another long line, and in the middle of it the card is taken away.", 90))
    events = [next(take)]
    while not isinstance(events[-1], Audio):
        events.append(next(take))
    os.kill(controller.workers[-1], signal.SIGKILL)
    return seen([*events, *take])


def refused(status: int, headers: dict[str, str], body) -> dict:
    text = body if isinstance(body, str) else json.dumps(body)
    controller.refusal = status, headers, text
    return seen(gpu.perform(request()))


def play() -> dict:
    """Every scene, in a thread that isn't the main one, as Gradio calls handlers."""
    over = {"X-Approve-Result": "quota-exceeded"}
    return {
        "first": seen(gpu.perform(request())),
        "second": seen(gpu.perform(request())),
        "stopped": stopped(),
        "after_stop": seen(gpu.perform(request())),
        "bad_request": seen(gpu.perform(request(""))),
        "clip": seen(gpu.encode(CLIP)),
        "bad_clip": seen(gpu.encode(Clip(CLIP.samples[:9000], 44_100))),
        "memory": seen(gpu.perform(request("Memory ends here."))),
        "after_memory": seen(gpu.perform(request())),
        "killed": killed(),
        "after_killed": seen(gpu.perform(request())),
        "context": seen(gpu.perform(request("Context lost."))),
        "after_context": seen(gpu.perform(request())),
        "quota": refused(429, over, {"left": 0, "wait": 3600}),
        "illegal": refused(429, {"X-Approve-Result": "illegal-duration"}, {"left": 0, "wait": -1}),
        "queue": refused(200, {"content-type": "text/event-stream"}, "event: failed\n\n"),
        "none_free": refused(503, {}, ""),
        "broken": refused(500, {}, ""),
        "after_all": seen(gpu.perform(request())),
        "weights": {name: next(iter(list(fingerprint(name)))) for name in MODULES},
    }


def main() -> None:
    open_the_house()
    with ThreadPoolExecutor(1) as gradio:
        report = gradio.submit(play).result()
    report["startup_reports"] = controller.reports
    report["unpacked_bytes"] = spaces.zero.torch.patching._total_unpacked_size()
    (FOLDER / "report.json").write_text(json.dumps(report))
    for pid in set(controller.workers):  # on the platform the scheduler ends them
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
