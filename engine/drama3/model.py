"""One take's state and the two things that move it: prefill of prompt rows, and the decode step.

A step is: candidate logits -> main id (RAS) -> tower with one draw per codebook -> embed -> backbone. It
allocates no host-visible value and reads nothing back, so that it can be captured as one CUDA graph
(`graphs.py`); `status` is where the host looks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from engine.drama3.backbone import Backbone, BackboneState, Rows
from engine.drama3.config import Drama3Config
from engine.drama3.layers import RopeTable, Slots, Trace, note
from engine.drama3.tower import Tower
from engine.sampling import HEAD_TOP_K, RAS_WINDOW, TakeKnobs, draw, draw_main

MAX_ROWS = 16_384  # context the release was served with; a smaller max_position_embeddings wins


class Noise(Protocol):
    def frame(self, frame: int) -> Tensor:
        """[codebooks + 1, candidates] float32: main, retry, then the heads (which use the first C values)."""


class Chain(Protocol):
    """A fast way to do to a state's buffers what the plain layers do, and what they would leave there."""

    def step(self, noise: np.ndarray) -> None:
        """`draw_frame`."""

    def prefill(self, rows: np.ndarray) -> None:
        """Read prompt rows int64 [rows, 1 + codebooks]."""


class Drama3Model(nn.Module):
    """Backbone, tower and rope tables: everything that is the same for every take."""

    def __init__(self, config: Drama3Config) -> None:
        super().__init__()
        self.config = config
        self.max_rows = min(MAX_ROWS, config.text.max_position_embeddings)
        self.backbone = Backbone(config)
        self.tower = Tower(config, self.max_rows)
        self.rope = RopeTable(self.max_rows, config.text.rotary_dim, config.text.rope_theta)
        self.candidates = nn.Parameter(
            torch.empty(len(config.candidate_ids), dtype=torch.int64), requires_grad=False
        )

    def slots(self, fused_experts: bool) -> Slots:
        yield from self.backbone.slots(fused_experts)
        yield from self.tower.slots()

    def finish(self) -> None:
        self.candidates.copy_(torch.tensor(self.config.candidate_ids))

    @property
    def device(self) -> torch.device:
        return self.backbone.head.device

    def first_code(self, main: Tensor) -> Tensor:
        """Code 0 that a main id says; clamped, since end of speech says none."""
        return (main - self.config.semantic_start_token_id).clamp(0, self.config.tower.vocab_size - 1)

    def shared_in(self, rows: Tensor) -> Tensor | None:
        """[rows, H]: unscaled sum of the codes that the backbone doesn't hear; zero where the row isn't
        semantic.
        """
        first, last = 1 + self.backbone.mixed_codebooks, self.config.tower.num_codebooks
        if first == last:
            return None
        vectors = self.backbone.code_vectors(rows, first, last).sum(1)
        return vectors * self.backbone.is_semantic(rows)[:, None]

    def step_bytes(self, num_rows: int) -> dict[str, int]:
        """Bytes that one decode step behind `num_rows` rows must read (the recurrent state: and write), by
        part; every weight once, of the experts only the chosen ones."""
        c, layers = self.config, self.backbone.layers
        routed = [layer.experts.experts for layer in layers]
        chosen = c.text.num_experts_per_tok / c.text.num_experts
        dtype = self.backbone.head.element_size()
        states = BackboneState.fresh(c.text, 1, torch.device("meta"), self.backbone.head.dtype)
        tower_row = 2 * len(self.tower.layers) * c.tower.n_local_heads * c.tower.head_dim * dtype
        tables = sum(layer.table.nbytes for layer in self.tower.layers)
        return {
            "linear attention": _weight_bytes(layer.mixer for layer in layers if not layer.full),
            "full attention": _weight_bytes(layer.mixer for layer in layers if layer.full),
            "routers and shared experts": _weight_bytes(layer.experts for layer in layers)
            - _weight_bytes(routed),
            "chosen experts": round(chosen * _weight_bytes(routed)),
            "recurrent state": 2 * (states.recurrent.nbytes + states.conv.nbytes),
            "keys and values": (states.keys.nbytes + states.values.nbytes + tower_row) * num_rows,
            "candidate head": self.backbone.head.nbytes,
            "tower": _weight_bytes([self.tower]) - tables - _weight_bytes([self.tower.rope]),
        }


def _weight_bytes(modules: Iterable[nn.Module]) -> int:
    return sum(weight.nbytes for module in modules for weight in module.parameters())


@dataclass(frozen=True, eq=False)
class PrefixState:
    """A take's state after `num_rows` prompt rows, without capacity to grow. Never written again.

    `moved`: in host memory, once this event of the copying stream is past.
    """

    num_rows: int
    parts: dict[str, Tensor]
    moved: torch.cuda.Event | None = None

    @property
    def num_bytes(self) -> int:
        """Page-locked memory comes in powers of two."""
        sizes = [part.nbytes for part in self.parts.values()]
        return sum(1 << (size - 1).bit_length() for size in sizes if size) if self.moved else sum(sizes)

    def to_host(self) -> PrefixState:
        """The same in page-locked host memory. The copy has a stream of its own: no step waits for it."""
        device = self.parts["hidden"].device
        if device.type != "cuda":
            return self
        stream = _copying_stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            parts = {}
            for name, part in self.parts.items():
                parts[name] = torch.empty(part.shape, dtype=part.dtype, pin_memory=True)
                parts[name].copy_(part, non_blocking=True)
                part.record_stream(stream)  # its memory stays until the copy has been made
            return PrefixState(self.num_rows, parts, stream.record_event())


@functools.cache
def _copying_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@dataclass(eq=False)
class TakeState:
    """Everything one piece of a take changes. A value: `snapshot` it, `restore` it, drop it to end it.

    Buffers are made once and written only in place, so that a graph may hold their addresses: `hidden` [1,
    H] and `row` [1, 1 + codebooks] belong to the last known row, whose tower caches the next step fills;
    `last` [1] int64 is that row's position and `frame` [1] int64 the number of the next frame; `window` [16]
    the last main ids; `log` [max_frames, 3 + codebooks] int64 is what the host reads of each frame: its row,
    whether the take ended with it, whether all its logits were numbers. `num_rows` and `num_frames` are the
    host's own count of rows known and frames queued.
    """

    model: Drama3Model
    backbone: BackboneState
    tower: Tensor
    knobs: TakeKnobs
    noise: Noise
    hidden: Tensor
    row: Tensor
    last: Tensor
    frame: Tensor
    window: Tensor
    log: Tensor
    num_rows: int = 0
    num_frames: int = 0
    chain: Chain | None = None  # on a CPU that has one

    @classmethod
    def open(
        cls, model: Drama3Model, capacity: int, max_frames: int, knobs: TakeKnobs, noise: Noise
    ) -> TakeState:
        """A fresh state with room for `capacity` rows, prompt and frames together."""
        c, device, dtype = model.config, model.device, model.backbone.head.dtype
        width = 1 + c.tower.num_codebooks
        whole = dict(dtype=torch.int64, device=device)
        return cls(
            model,
            BackboneState.fresh(c.text, capacity, device, dtype),
            model.tower.fresh_cache(c.tower, capacity, device, dtype),
            knobs,
            noise,
            hidden=torch.zeros(1, c.text.hidden_size, dtype=dtype, device=device),
            row=torch.zeros(1, width, **whole),
            last=torch.full((1,), -1, **whole),
            frame=torch.zeros(1, **whole),
            window=torch.full((RAS_WINDOW,), -1, **whole),
            log=torch.zeros(max_frames, width + 2, **whole),
        )

    @torch.inference_mode()
    def reset(self, knobs: TakeKnobs) -> None:
        """A fresh state in the same buffers, with the sampler of the next take."""
        memory = self.backbone
        for part in (memory.keys, memory.values, memory.conv, memory.recurrent, self.tower, self.frame):
            part.zero_()
        self.last.fill_(-1)
        self.window.fill_(-1)
        for mine, other in zip(self.knobs.parts(), knobs.parts(), strict=True):
            mine.copy_(other)
        self.num_rows = self.num_frames = 0

    def snapshot(self) -> PrefixState:
        """What the rows so far have left behind, as a value that any later state can start from."""
        parts = self._parts(self.num_rows)
        return PrefixState(self.num_rows, {name: part.clone() for name, part in parts.items()})

    def _parts(self, rows: int) -> dict[str, Tensor]:
        """Views of what the first `rows` rows leave behind."""
        memory = self.backbone
        return {
            "keys": memory.keys[:, :, :rows],
            "values": memory.values[:, :, :rows],
            "conv": memory.conv,
            "recurrent": memory.recurrent,
            "tower": self.tower[:, :, :, : rows - 1],
            "hidden": self.hidden,
            "row": self.row,
            "window": self.window,
        }

    def restore(self, prefix: PrefixState) -> None:
        """Put a fresh state behind the rows of `prefix`; its sampler and its noise stay its own."""
        if prefix.moved:
            torch.cuda.current_stream().wait_event(prefix.moved)
        for name, mine in self._parts(prefix.num_rows).items():
            mine.copy_(prefix.parts[name], non_blocking=True)
        self.last.fill_(prefix.num_rows - 1)
        self.num_rows = prefix.num_rows

    @torch.inference_mode()
    def prefill(self, rows: Tensor, trace: Trace | None = None) -> None:
        """Read prompt rows int64 [rows, 1 + codebooks]; any split of a prompt gives the same state."""
        if self.chain is not None and trace is None:
            self.chain.prefill(rows.numpy())
        else:
            self.read_rows(rows, trace)
        self.num_rows += len(rows)

    def read_rows(self, rows: Tensor, trace: Trace | None = None) -> None:
        """`prefill` by the plain layers; the host's count of rows is left to it."""
        model, start, end = self.model, self.num_rows, self.num_rows + len(rows)
        rows = rows.to(model.device)
        positions = torch.arange(start, end, device=model.device)
        hidden = model.backbone(rows, self.backbone, Rows.at(positions, end, model.rope), trace)
        known, heard = rows, hidden
        if start:
            known, heard = torch.cat((self.row, rows)), torch.cat((self.hidden, hidden))
        if len(known) > 1:
            at = Rows.at(
                torch.arange(end - len(known), end - 1, device=model.device), end - 1, model.tower.rope
            )
            labels, semantic = known[1:, 1:], model.backbone.is_semantic(known[1:])
            model.tower.fill(heard[:-1], labels, semantic, model.shared_in(known[:-1]), self.tower, at, trace)
        self.hidden.copy_(hidden[-1:])
        self.row.copy_(rows[-1:])
        self.window.copy_(torch.cat((self.window, rows[:, 0]))[-RAS_WINDOW:])
        self.last += len(rows)

    @torch.inference_mode()
    def step(self, trace: Trace | None = None) -> None:
        """Queue one frame; nothing is read back, `status` is for that."""
        noise = self.noise.frame(self.num_frames)
        if self.chain is not None and trace is None:
            self.chain.step(noise.numpy())
        else:
            self.draw_frame(noise, self.num_rows, trace)
        self.num_rows, self.num_frames = self.num_rows + 1, self.num_frames + 1

    def draw_frame(self, noise: Tensor, window: int, trace: Trace | None = None) -> None:
        """Draw the next frame and advance the backbone by it.

        `noise` as `Noise.frame` gives it; `window` is at least the number of known rows, and how many cached
        rows attention reads. All else comes from the buffers.
        """
        model, c = self.model, self.model.config
        logits = model.backbone.candidate_logits(self.hidden)
        _, main = draw_main(logits, noise[:2], self.window, model.candidates, c.eos_token_id, self.knobs)
        verdicts = [logits.isfinite().all()]

        def pick(book: int, head_logits: Tensor) -> Tensor:
            verdicts.append(head_logits.isfinite().all())
            chance = noise[2 + book : 3 + book, : head_logits.shape[-1]]
            return draw(head_logits, chance, self.knobs.heads, keep_crossing=False, ranks=HEAD_TOP_K)

        code = model.first_code(main)
        semantic, extra = main != c.eos_token_id, model.shared_in(self.row)
        at = Rows.at(self.last, window, model.tower.rope)
        codes = model.tower.step(self.hidden, code, semantic, extra, self.tower, at, pick, trace)
        note(trace, "step_hidden", self.hidden)
        note(trace, "step_logits", logits)
        self.row.copy_(torch.stack([main, *codes], -1))
        told = torch.stack((~semantic, torch.stack(verdicts).all()[None]), -1)
        self.log.index_copy_(0, self.frame, torch.cat((self.row, told.long()), -1))
        self.window.copy_(torch.cat((self.window[1:], main)))
        self.last += 1
        self.frame += 1
        self.hidden.copy_(model.backbone(self.row, self.backbone, Rows.at(self.last, window + 1, model.rope)))

    def status(self, frame: int) -> tuple[bool, bool]:
        """(ended, finite) of a queued frame; the host waits here for it."""
        ended, finite = self.log[frame, -2:].tolist()
        return bool(ended), bool(finite)

    def frames(self, first: int, last: int) -> Tensor:
        """Rows [last - first, 1 + codebooks] int64 of frames first..last-1, on the host."""
        return self.log[first:last, :-2].cpu()

    def codes(self, first: int, last: int) -> Tensor:
        """[codebooks, last - first] int64 of frames first..last-1, on the host."""
        return self.frames(first, last)[:, 1:].T

    def close(self) -> None:
        """End the take: its chain holds this state, and memory must be free when a take is closed."""
        self.chain = None
