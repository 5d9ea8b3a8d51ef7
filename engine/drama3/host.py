"""The decode step on a CPU, for models so small that the work between two matrices costs more than they do.

A step of the plain layers is some 1,300 torch operations of 2 to 10 us: of the 14.5 ms that a model of 14 M
parameters takes on one core, more than half. Here it is two calls of compiled loops (`loops.py`) over the
same buffers (`Tensor.numpy()` shares memory): 1.4 ms, most of it for reading the weights. This is the CPU's
counterpart of `fused.py`; the twins are `TakeState.draw_frame` and `read_rows`.
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from concurrent import futures
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from engine.drama3.codec import Codec
from engine.drama3.compiled import compiled_loops
from engine.drama3.model import Drama3Model, TakeState
from engine.noise import BLOCK_FRAMES, WORD, NoiseBlocks
from engine.sampling import TakeKnobs

BLOCK_ROWS = 16  # rows of a prompt that read the weights together
PATIENCE_S = 2.0  # loops that are fetched from a cache are there by then
COMPILING = "compiling the loops of this CPU; that takes about 20 s, the first time only"
ALIGNED = 32  # numbers: where a matrix may begin, whole cache lines of float32 and float16

Array = np.ndarray

log = logging.getLogger(__name__)


def hostable(model: Drama3Model) -> bool:
    """Whether the model lies on a CPU in float32, experts and all."""
    return model.device.type == "cpu" and all(
        weight.dtype == torch.float32 for weight in model.parameters() if weight.is_floating_point()
    )


def host_weights(model: Drama3Model, codec: Codec | None = None) -> HostWeights | None:
    """The weights with the loops ready to run, those of the codec too, or None where the plain layers must
    do."""
    if not hostable(model):
        return None
    loops, why = compiled_loops()
    if loops is None:
        log.warning("a decode step on this CPU is one of plain layers, nine times slower, because %s", why)
        return None
    began, weights = time.perf_counter(), HostWeights(model, loops)
    told = threading.Timer(PATIENCE_S, log.warning, [COMPILING])
    told.daemon = True
    told.start()
    try:
        weights.warm_up()
        if codec:
            codec.decode(torch.zeros(codec.num_codebooks, 1, dtype=torch.int64))
    finally:
        told.cancel()
    log.info("a decode step on this CPU is compiled; ready after %.1f s", time.perf_counter() - began)
    return weights


class HostNoise(NoiseBlocks):
    """The same bits from a compiled loop, in a seventh of the time."""

    def __init__(self, loops: ModuleType, seed: int, piece: int, num_draws: int, count: int) -> None:
        super().__init__(seed, piece, num_draws, count, "cpu")
        self.loops, self.key, self.piece = loops, (seed & WORD, seed >> 32), piece

    def made(self, first: int) -> Tensor:
        block = np.empty((BLOCK_FRAMES, *self._shape), np.float32)
        self.loops.uniform(*self.key, first, self.piece, block)
        noise = torch.from_numpy(block)
        for frame in noise:  # torch shares a whole block out to every core, and one of them has the codec
            frame.log_().neg_()
        return noise


class HostWeights:
    """A model's weights as the loops read them, in the order of a step. Lives as long as the model.

    Weights that float16 holds exactly, as a checkpoint of that type has them, are kept as its bits: reading
    is what a step costs, and 9.3 M weights take 0.52 ms as halves, 1.46 ms as float32. Others move into one
    block, where the plain layers find them as well.
    """

    def __init__(self, model: Drama3Model, loops: ModuleType) -> None:
        self.model, self.loops = model, loops
        self._matrices, self._vectors = _Block(), _Block()
        shapes, tower_layers, layers = self._shape(), self._tower_layers(), self._layers()
        shapes = np.array([tuple(shapes[name] for name in self.loops.SHAPE.names)], self.loops.SHAPE)
        tables = model.rope.cos, model.rope.sin, model.tower.rope.cos, model.tower.rope.sin
        halves = _reads_halves() and self._matrices.fits_halves()
        weights = self._matrices.as_halves() if halves else self._matrices.moved()
        both = weights, self._vectors.moved(), shapes
        cos, sin, tower_cos, tower_sin = map(Tensor.numpy, tables)
        self.backbone, self.tower = (*both, layers, cos, sin), (*both, tower_layers, tower_cos, tower_sin)

    def warm_up(self) -> None:
        """Have the loops compiled, or fetched from where an earlier process left them."""
        knobs = TakeKnobs.of(1.0, None, 1.0, self.model.device)
        state = TakeState.open(self.model, 3, 1, knobs, self.noise(0, 0))
        state.chain = HostStep(self, state)
        state.prefill(torch.zeros(2, state.row.shape[1], dtype=torch.int64))
        state.step()

    def noise(self, seed: int, piece: int) -> HostNoise:
        draws = 1 + self.model.config.tower.num_codebooks
        return HostNoise(self.loops, seed, piece, draws, len(self.model.candidates))

    def _shape(self) -> dict[str, float]:
        model, c, matrix = self.model, self.model.config, self._matrices.add
        text, tower = c.text, c.tower
        return dict(
            head=matrix(model.backbone.head),
            embedding=matrix(model.backbone.embedding),
            codes=matrix(model.backbone.code_embedding),
            norm=self._vectors.add(model.backbone.norm.gain),
            hidden=text.hidden_size,
            codebooks=tower.num_codebooks,
            code_size=tower.vocab_size,
            mixed=tower.vq_backbone_codebooks,
            eos=c.eos_token_id,
            first_semantic=c.semantic_start_token_id,
            last_semantic=c.semantic_end_token_id,
            candidates=len(model.candidates),
            heads=text.num_attention_heads,
            kv_heads=text.num_key_value_heads,
            dim=text.head_dim,
            key_heads=text.linear_num_key_heads,
            value_heads=text.linear_num_value_heads,
            key_dim=text.linear_key_head_dim,
            value_dim=text.linear_value_head_dim,
            kernel=text.linear_conv_kernel_dim,
            experts=text.num_experts,
            top_k=text.num_experts_per_tok,
            expert_width=text.moe_intermediate_size,
            shared_width=text.shared_expert_intermediate_size,
            tower_shared=tower.shared_enrichment_layers,
            tower_heads=tower.n_head,
            tower_kv_heads=tower.n_local_heads,
            tower_dim=tower.head_dim,
            tower_width=tower.intermediate_size,
            eps=text.rms_norm_eps,
            tower_eps=tower.norm_eps,
        )

    def _tower_layers(self) -> Array:
        tower, matrix, vector = self.model.tower, self._matrices.add, self._vectors.add
        heads, size = matrix(tower.heads), tower.heads[0].numel() if len(tower.heads) else 0
        rows = []
        for index, layer in enumerate(tower.layers):
            net = layer.attention
            rows.append(
                dict(
                    table=matrix(layer.table),
                    merge=matrix(layer.merge),
                    code_norm=vector(layer.code_norm.gain),
                    hidden_norm=vector(layer.hidden_norm.gain),
                    attention_norm=vector(layer.attention_norm.gain),
                    read=matrix(net.read),
                    q_norm=vector(net.q_norm.gain),
                    k_norm=vector(net.k_norm.gain),
                    write=matrix(net.write),
                    ffn_norm=vector(layer.ffn_norm.gain),
                    gate_up=matrix(layer.gate_up),
                    down=matrix(layer.down),
                    out_norm=vector(layer.out_norm.gain),
                    head=heads + max(0, index - tower.num_shared) * size,
                )
            )
        return _table(rows, self.loops.TOWER_LAYER)

    def _layers(self) -> Array:
        matrix, vector, rows, places = self._matrices.add, self._vectors.add, [], [0, 0]
        for layer in self.model.backbone.layers:
            net, moe = layer.mixer, layer.experts
            row = dict(full=layer.full, place=places[layer.full], norm=vector(layer.mixer_norm.gain))
            places[layer.full] += 1
            row |= dict(read=matrix(net.read), write=matrix(net.write))
            if layer.full:
                row |= dict(q_norm=vector(net.q_norm.gain), k_norm=vector(net.k_norm.gain))
            else:
                row |= dict(conv=vector(net.conv), log_rate=vector(net.log_rate))
                row |= dict(dt_bias=vector(net.dt_bias), gain=vector(net.gain))
            row |= dict(experts_norm=vector(layer.experts_norm.gain), route=matrix(moe.read))
            row |= dict(gate_up=matrix(moe.experts.gate_up), down=matrix(moe.experts.down))
            if moe.shared_down is not None:
                row |= dict(shared_down=matrix(moe.shared_down))
            rows.append(row)
        return _table(rows, self.loops.LAYER)


class _Block:
    """Tensors to be laid one behind the other; `add` says where one will begin."""

    def __init__(self) -> None:
        self.parts: list[Tensor] = []
        self._starts: list[int] = []
        self._size = 0

    def add(self, part: Tensor) -> int:
        self.parts.append(part)
        self._starts.append(self._size)
        self._size += -(-part.numel() // ALIGNED) * ALIGNED
        return self._starts[-1]

    def fits_halves(self) -> bool:
        return all(torch.equal(part.half().float(), part) for part in self.parts)

    def as_halves(self) -> Array:
        """A copy, as the bits of float16."""
        block = np.zeros(self._size, np.uint16)
        for part, start in zip(self.parts, self._starts, strict=True):
            block[start : start + part.numel()] = part.half().flatten().numpy().view(np.uint16)
        return block

    def moved(self) -> Array:
        """The tensors themselves: they lie in the block from now on."""
        block = np.zeros(self._size, np.float32)
        for part, start in zip(self.parts, self._starts, strict=True):
            place = torch.from_numpy(block[start : start + part.numel()]).view(part.shape)
            place.copy_(part)
            part.data = place
        return block


def _table(rows: list[dict[str, int]], kind: np.dtype) -> Array:
    return np.array([tuple(row.get(name, 0) for name in kind.names) for row in rows], kind)


def _reads_halves() -> bool:
    """Whether the processor widens float16 itself: every one of 64 bits does, but x86 before 2012."""
    from llvmlite.binding import get_host_cpu_features  # late: it comes with Numba

    features = get_host_cpu_features()
    return features.get("f16c", platform.machine() not in ("x86_64", "AMD64"))


class HostStep:
    """Steps and prompts over one state's buffers. Lives as long as the state."""

    def __init__(self, weights: HostWeights, state: TakeState) -> None:
        memory, knobs = state.backbone, (state.knobs.main, state.knobs.retry, state.knobs.heads)
        self.config, self.loops, self.state = weights.model.config, weights.loops, state
        self.hidden, self.row, self.window = state.hidden.numpy(), state.row.numpy(), state.window.numpy()
        self.log, self.candidates = state.log.numpy(), weights.model.candidates.numpy()
        parts = memory.keys, memory.values, memory.conv, memory.recurrent
        self._backbone = *weights.backbone, *map(Tensor.numpy, parts)
        self._tower = *weights.tower, *state.tower.numpy()
        samplers = (torch.cat(parts).numpy() for parts in zip(*(knob.parts() for knob in knobs), strict=True))
        self._drawing = self.candidates, *samplers, self.window
        self._quiet = np.empty((0, 0), np.float32)
        self.capacity = memory.keys.shape[2]

    def step(self, noise: Array) -> None:
        """Draw the next frame with `noise` [codebooks + 1, candidates] and advance the backbone by it."""
        position, row, frame = self.state.num_rows, np.empty_like(self.row), self.state.num_frames
        finite = self._label(self.hidden, self.row, row, position - 1, noise)
        self.log[frame, :-2] = self.row[:] = row
        self.log[frame, -2:] = row[0, 0] == self.config.eos_token_id, finite
        self._known(row)
        self.state.frame += 1
        self.hidden[:] = self._advanced(row, position)

    def prefill(self, rows: Array) -> None:
        """Read prompt rows int64 [rows, 1 + codebooks]. The tower, a third of the work, reads a block on a
        thread of its own while the backbone reads the next.
        """
        start, jobs = self.state.num_rows, []
        with futures.ThreadPoolExecutor(1, thread_name_prefix="tower") as tower:
            for first in range(0, len(rows), BLOCK_ROWS):
                block, at = rows[first : first + BLOCK_ROWS], start + first
                hidden = self._advanced(block, at)
                x, parents = (
                    np.concatenate((self.hidden, hidden[:-1])),
                    np.concatenate((self.row, block[:-1])),
                )
                if at:
                    jobs.append(tower.submit(self._label, x, parents, block, at - 1))
                elif len(block) > 1:
                    jobs.append(tower.submit(self._label, x[1:], parents[1:], block[1:], 0))
                self.hidden[:], self.row[:] = hidden[-1:], block[-1:]
                self._known(block)
        for job in jobs:
            job.result()

    def _advanced(self, rows: Array, start: int) -> Array:
        """The backbone's final hidden of rows; checks what the loops don't: that they stay within arrays."""
        if start + len(rows) > self.capacity:
            raise IndexError(f"The state has room for {self.capacity} rows, not {start + len(rows)}.")
        if rows[:, 0].min() < 0 or rows[:, 0].max() >= self.config.text.vocab_size:
            raise IndexError(f"A row's token lies outside of 0..{self.config.text.vocab_size - 1}.")
        return self.loops.advance(*self._backbone, rows, start)

    def _label(self, x: Array, parents: Array, labels: Array, start: int, noise: Array | None = None) -> bool:
        """Fill the tower's caches for rows with their labels, or with `noise` draw the label of one."""
        drawing = noise is not None
        given = labels if drawing else np.ascontiguousarray(labels)
        return self.loops.tower(
            *self._tower, x, parents, given, start, drawing, *self._drawing, noise if drawing else self._quiet
        )

    def _known(self, rows: Array) -> None:
        window = np.concatenate((self.window, rows[:, 0]))
        self.window[:] = window[-len(self.window) :]
        self.state.last += len(rows)
