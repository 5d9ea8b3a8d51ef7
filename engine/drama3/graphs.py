"""What one GPU keeps ready for takes: fixed buffers, and prompt, decode step and codec as CUDA graphs.

A graph replays the same kernels on the same addresses, so everything a step touches is made once: the state
of a take with room for the longest one, a block of noise, a pinned log for the host. A take borrows them
(`Desk.open`), and nobody else gets them before its last queued kernel has run. A frame is one replay; its
row is copied into pinned memory behind it, so that the host learns of frame n while frame n + 1 runs.

The codec has a stream and buffers of its own and gets its codes from the host's log: no kernel of one ever
waits for the other's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.drama3.codec import Codec
from engine.drama3.codec_layers import Carries
from engine.drama3.model import Drama3Model, PrefixState, TakeState
from engine.family import Piece, Sound
from engine.noise import BLOCK_FRAMES, exponential, seed_words
from engine.sampling import TakeKnobs

try:
    from engine.drama3.fused import FusedStep
    from engine.drama3.fused_prompt import FusedPrompt
except ImportError:  # a build of torch without Triton, as for CPUs: the plain layers run instead
    FusedStep = None

BUCKETS = (1024, 2048, 4096, 8192)  # cached rows that a graph of plain layers reads, and then all of them
BLOCKS = (32, 64, 128, 256, 512)  # prompt rows that one graph reads; a prompt comes in parts of at most 512
WARM_BUCKETS = BUCKETS[:2]
CLIP_FRAMES = 128  # of a clip are encoded together: 6 s of S2-Pro; fewer leave a large GPU half idle


class Graphs:
    """Work that is captured by its second run. The first one runs as it comes: that is no slower than to
    capture it, and readies what a capture may not (kernels are compiled, libraries take their workspaces).
    """

    def __init__(self, stream: torch.cuda.Stream | None = None) -> None:
        self._stream = stream
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}

    def play(self, key: Hashable, work: Callable[[], None]) -> None:
        """Queue `work`, which does the same on the same buffers whenever it has this key."""
        if key not in self._graphs:
            work()
            self._graphs[key] = None
            return
        if self._graphs[key] is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                work()
            self._graphs[key] = graph
        self._graphs[key].replay()


class FrameDesk:
    """A model's fixed buffers and its captured steps. One take at a time sits at it."""

    def __init__(self, model: Drama3Model, max_frames: int, fused: bool) -> None:
        c, device = model.config, model.device
        draws, candidates = c.tower.num_codebooks + 1, len(model.candidates)
        self.model = model
        self.noise = torch.zeros(BLOCK_FRAMES, draws, candidates, device=device)
        self.seed = torch.zeros(2, dtype=torch.int64, device=device)
        self.piece = torch.zeros((), dtype=torch.int64, device=device)
        self.block = torch.zeros(max(BLOCKS), 1 + c.tower.num_codebooks, dtype=torch.int64, device=device)
        self.count = torch.zeros(1, dtype=torch.int64, device=device)
        knobs = TakeKnobs.of(1.0, None, 1.0, device)
        self.state = TakeState.open(model, model.max_rows, max_frames, knobs, noise=None)
        self.log = torch.zeros(self.state.log.shape, dtype=torch.int64, pin_memory=True)
        self.free = threading.Lock()
        self._fused = FusedStep(model, self.state, self.noise) if fused else None
        self._reader = FusedPrompt(model, self.state, self.block, self.count) if fused else None
        self._graphs = Graphs()

    @torch.inference_mode()
    def warm(self) -> None:
        """Capture what the first takes would wait for: a step, and blocks of every size among few rows."""
        with self.free:
            for window in WARM_BUCKETS * 2:
                self.state.last.fill_(0)  # what is left behind here, the next take forgets
                self.make_noise()
                self.replay(window - 1)
            for size in BLOCKS * 2 if self._reader else ():
                self._read(size, size)
            torch.cuda.current_stream().synchronize()

    def sit(self, piece: Piece) -> DeskTake | None:
        """The piece's take at this desk, or None while another one is at it."""
        return DeskTake(self, piece) if self.free.acquire(blocking=False) else None

    def begin(self) -> None:
        if self._fused:
            self._fused.begin()

    def replay(self, num_rows: int) -> None:
        """Queue a frame behind `num_rows` known rows."""
        if self._fused:  # its attention reads live rows only
            self._graphs.play("step", self._fused)
        else:
            bucket = next((bucket for bucket in BUCKETS if num_rows < bucket), self.model.max_rows)
            bucket = min(bucket, self.model.max_rows - 1)  # the frame itself is one row more
            self._graphs.play(bucket, lambda: self.state.draw_frame(self._noise_of_frame(), bucket))

    def read(self, rows: Tensor) -> None:
        """Queue the reading of prompt rows [rows, 1 + codebooks] on the host, at most a block; the host's
        count of rows is the caller's."""
        if self._reader is None:  # the plain layers look at what their routers choose, which no graph can
            self.state.read_rows(rows)
            return
        count = len(rows)
        self.block[:count].copy_(rows.pin_memory(), non_blocking=True)
        self.block[count:].zero_()
        self._read(next(size for size in BLOCKS if size >= count), count)

    def _read(self, size: int, count: int) -> None:
        self.count.fill_(count)
        self._graphs.play(("read", size), lambda: self._reader(size))

    def make_noise(self) -> None:
        """Queue the noise of the frames from the next one on."""
        self._graphs.play("noise", self._make_noise)

    def _make_noise(self) -> None:
        frames = self.state.frame + torch.arange(BLOCK_FRAMES, device=self.noise.device)
        self.noise.copy_(exponential(self.seed, frames, *self.noise.shape[1:], self.piece))

    def _noise_of_frame(self) -> Tensor:
        return self.noise.index_select(0, self.state.frame % BLOCK_FRAMES)[0]


def fusible(device: torch.device) -> bool:
    """Whether the kernels run here: they need Triton, and float8 compute capability 8.9."""
    return not why_plain(device)


def why_plain(device: torch.device) -> str:
    """Why a step on this GPU is a graph of plain layers; empty where it is one of kernels."""
    if FusedStep is None:
        return "this build of torch has no Triton"
    major, minor = torch.cuda.get_device_capability(device)
    return "" if (major, minor) >= (8, 9) else f"sm_{major}{minor} is below sm_89, which float8 needs"


class DeskTake:
    """One piece at the desk; the `FrameState` that stepping drives. `close` gives the desk back."""

    def __init__(self, desk: FrameDesk, piece: Piece) -> None:
        self.desk, self.state = desk, desk.state
        self._told: dict[int, torch.cuda.Event] = {}
        self._begun = False
        sampling = piece.sampling
        self.state.reset(TakeKnobs.of(sampling.temperature, sampling.top_k, sampling.top_p, "cpu"))
        with torch.inference_mode():
            desk.seed.copy_(seed_words(piece.seed))
            desk.piece.fill_(piece.index)

    @torch.inference_mode()
    def prefill(self, rows: Tensor) -> None:
        self.desk.read(rows)
        self.state.num_rows += len(rows)

    def snapshot(self) -> PrefixState:
        return self.state.snapshot()

    def restore(self, prefix: PrefixState) -> None:
        self.state.restore(prefix)

    @torch.inference_mode()
    def step(self) -> None:
        """Queue one frame and the copy of its row to the host."""
        desk, state, frame = self.desk, self.state, self.state.num_frames
        if not self._begun:
            desk.begin()
            self._begun = True
        if frame % BLOCK_FRAMES == 0:
            desk.make_noise()
        desk.replay(state.num_rows)
        desk.log[frame].copy_(state.log[frame], non_blocking=True)
        self._told[frame] = torch.cuda.Event()
        self._told[frame].record()
        state.num_rows, state.num_frames = state.num_rows + 1, frame + 1

    def status(self, frame: int) -> tuple[bool, bool]:
        """(ended, finite) of a queued frame; the host waits here for it, not for the one behind it."""
        if event := self._told.pop(frame, None):
            event.synchronize()
        ended, finite = self.desk.log[frame, -2:].tolist()
        return bool(ended), bool(finite)

    def codes(self, first: int, last: int) -> Tensor:
        """[codebooks, last - first] int64 of frames whose status is known, on the host."""
        return self.desk.log[first:last, 1:-2].T.clone()

    def close(self) -> None:
        """Wait for what is queued: the next take will write where it writes."""
        try:
            torch.cuda.current_stream().synchronize()
        finally:
            self.desk.free.release()


class CodecDesk:
    """A codec's fixed buffers, one graph for each size of chunk, and the stream they run on."""

    def __init__(self, codec: Codec, schedule: tuple[int, ...]) -> None:
        self.codec, self.schedule = codec, schedule
        self.stream = torch.cuda.Stream(codec.device)
        longest = max(schedule)
        self.carries = codec.decoder_carries(longest)
        self.free = threading.Lock()
        self._codes = torch.zeros(longest, codec.num_codebooks, dtype=torch.int64, device=codec.device)
        self._pcm = torch.zeros(longest * codec.hop, dtype=torch.int16, device=codec.device)
        self._graphs = Graphs(self.stream)

    @torch.inference_mode()
    def warm(self) -> None:
        """Capture every size of chunk."""
        with self.free, torch.cuda.stream(self.stream):
            for size in self.schedule * 2:
                self._graphs.play(size, lambda size=size: self._decode(size))
            self.stream.synchronize()

    def sit(self) -> SideVocoder | None:
        """A piece's vocoder at this desk, or None while another one is at it."""
        return SideVocoder(self) if self.free.acquire(blocking=False) else None

    def begin(self) -> None:
        with torch.cuda.stream(self.stream), torch.inference_mode():
            self._graphs.play("silence", lambda: _silence(self.carries))

    @torch.inference_mode()
    def decode(self, codes: Tensor, pcm: Tensor) -> torch.cuda.Event:
        """Queue the decoding of pinned codes [frames, codebooks] into pinned pcm int16; an event ends it.

        Fewer frames than any graph takes are the end of a piece: silence behind them changes nothing before.
        """
        frames = len(codes)
        size = next(size for size in sorted(self.schedule) if size >= frames)
        with torch.cuda.stream(self.stream):
            self._codes[:frames].copy_(codes, non_blocking=True)
            self._graphs.play(size, lambda: self._decode(size))
            pcm.copy_(self._pcm[: len(pcm)], non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        return event

    def _decode(self, size: int) -> None:
        samples = self.codec.decode_block(self._codes[:size].T, self.carries)
        self._pcm[: len(samples)].copy_(samples.clamp(-1.0, 1.0).mul_(32767.0))


def _silence(carries: Carries) -> None:
    for carry in carries.values():
        carry.zero_()


class EncoderDesk:
    """A codec's encoder as one graph over a fixed block of samples. Safe to use from several threads."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.carries = codec.encoder_carries(CLIP_FRAMES)
        self._samples = torch.zeros(CLIP_FRAMES * codec.hop, 1, device=codec.device)
        self._codes = torch.zeros(codec.num_codebooks, CLIP_FRAMES, dtype=torch.int64, device=codec.device)
        self._graphs = Graphs()
        self._free = threading.Lock()

    def warm(self) -> None:
        self.encode(np.zeros(2 * len(self._samples), np.float32))

    @torch.inference_mode()
    def encode(self, samples: np.ndarray) -> np.ndarray:
        """`Codec.encode` [codebooks, frames] int64, on the host; silence behind the end changes no code.

        Raises ValueError as that does.
        """
        rows, parts = self.codec.checked_samples(samples), []
        with self._free:
            self._graphs.play("silence", lambda: _silence(self.carries))
            for block in rows.split(len(self._samples)):
                self._samples[: len(block)].copy_(block)
                self._samples[len(block) :].zero_()
                self._graphs.play("block", self._encode)
                parts.append(self._codes[:, : len(block) // self.codec.hop].clone())
            return torch.cat(parts, 1).cpu().numpy()

    def _encode(self) -> None:
        self._codes.copy_(self.codec.encode_block(self._samples, self.carries))


class Desks(NamedTuple):
    """All of one model."""

    frames: FrameDesk
    codec: CodecDesk
    encoder: EncoderDesk


class SideVocoder:
    """One piece at the codec's desk; a `Vocoder` that makes the decode loop wait for its first chunk only.

    A listener waits for that one, and meanwhile a step is queued; looked for behind the next step, it would
    come that step later.
    """

    def __init__(self, desk: CodecDesk) -> None:
        self.desk, self.schedule = desk, desk.schedule
        self._began = False
        self._queued: list[tuple[torch.cuda.Event, Tensor, int, Tensor]] = []
        desk.begin()

    def queue(self, codes: Tensor) -> None:
        frames = codes.shape[1]
        rows = codes.T.contiguous().pin_memory()
        pcm = torch.empty(frames * self.desk.codec.hop, dtype=torch.int16, pin_memory=True)
        self._queued.append((self.desk.decode(rows, pcm), pcm, frames, rows))

    def heard(self, wait: bool) -> Iterator[Sound]:
        while self._queued:
            event, pcm, frames, _ = self._queued[0]
            if wait or not self._began:
                event.synchronize()
                self._began = True
            elif not event.query():
                return
            self._queued.pop(0)
            yield Sound(pcm.numpy(), frames)

    def close(self) -> None:
        """Wait for the chunk in flight: the next piece will write where it writes."""
        self._queued.clear()
        try:
            self.desk.stream.synchronize()
        finally:
            self.desk.free.release()
