"""At full size, bfloat16 and FP8: the chain of kernels is as near to float32 as the plain layers are.

All three continue one state by the same given frames with the same experts, those that float32 chooses. The
float32 twin takes all frames through one layer at a time, so that only one layer is held in float32. Its
choice is imposed because a router of near-equal scores turns a rounding into another expert; what the others
would have chosen by themselves is counted.

    pytest tests/drama3/test_full_size.py -m gpu -s

Without a GPU the same functions run on the tiny checkpoint, the kernels in Triton's interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined

from engine.drama3 import kernels
from engine.drama3.backbone import Layer, Rows
from engine.drama3.config import Drama3Config
from engine.drama3.experts import MixtureOfExperts, dequantise
from engine.drama3.fused import FusedStep
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.tower import TowerLayer
from engine.drama3.weights import load_model
from engine.sampling import TakeKnobs

PROMPT_ROWS, FRAMES = 128, 64
ALLOWED = 1.25  # of the plain layers' own error
AGREE = 0.98  # of the rows choose the same experts


@dataclass
class Told:
    """What a run told of each step, float32: `hidden` [steps, H] behind it, `logits` [steps, candidates] and
    `heads` [steps * heads, C] in it, and `chosen`, for each step and layer the experts it would have taken.
    """

    hidden: list[Tensor] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    heads: list[Tensor] = field(default_factory=list)
    chosen: dict[tuple[int, int], set[int]] = field(default_factory=dict)

    def stacked(self) -> dict[str, Tensor]:
        parts = {"hidden": self.hidden, "logits": self.logits, "heads": self.heads}
        return {name: torch.cat([part.float() for part in each]) for name, each in parts.items()}


def best(scores: Tensor, count: int) -> set[int]:
    """The experts a router takes by scores [E]; of equals the first."""
    return set(scores.float().argsort(descending=True, stable=True)[:count].tolist())


# ---------------------------------------------------------------- float32, a layer at a time


def widened(layer: nn.Module, made: nn.Module) -> nn.Module:
    """`made`, a float32 layer of the same shape, with the weights of `layer`."""
    weights = dict(layer.named_parameters())
    with torch.no_grad():
        for name, target in made.named_parameters():
            scale = weights.get(f"{name}_scale")
            source = weights[name]
            target.copy_(source if scale is None else dequantise(source, scale, torch.float32))
    return made


def wide(part: Tensor) -> Tensor:
    """A float32 copy: the twin must leave the state as it is."""
    return part.to(torch.float32, copy=True)


@torch.inference_mode()
def exact(model: Drama3Model, state: TakeState, frames: Tensor) -> tuple[Told, Tensor]:
    """What float32 makes of `frames` behind a state, and the experts it takes [layers, steps, k]."""
    b, c, told = model.backbone, model.config, Told()
    rows, count, device = state.num_rows, len(frames), model.device
    at = Rows.at(torch.arange(rows, rows + count, device=device), rows + count, model.rope)
    mixed = wide(b.embedding[frames[:, 0]])
    heard = b.code_vectors(frames, 1, 1 + b.mixed_codebooks).float().sum(1)
    scale = (1 + b.mixed_codebooks) ** -0.5
    x = torch.where(b.is_semantic(frames)[:, None], (mixed + heard) * scale, mixed)
    chosen, memory, num_full, num_linear = [], state.backbone, 0, 0
    for layer in b.layers:
        with device:
            twin, trace = widened(layer, Layer(c.text, layer.full, quantised=False)), {}
        if layer.full:
            parts = wide(memory.keys[num_full]), wide(memory.values[num_full]), at, None
            num_full += 1
        else:
            parts = wide(memory.conv[num_linear]), wide(memory.recurrent[num_linear]), None
            num_linear += 1
        x = x + twin.mixer(twin.mixer_norm(x), *parts)
        x = x + twin.experts(twin.experts_norm(x), trace)
        chosen.append(trace["route_index"][0])
    hidden = b.norm(x)
    before = torch.cat((state.hidden.float(), hidden[:-1]))
    told.hidden, told.logits = [hidden], [F.linear(before, b.head.float())]
    told.heads = [exact_tower(model, state, before, frames)]
    for number, index in enumerate(chosen):
        for step, experts in enumerate(index.tolist()):
            told.chosen[step, number] = set(experts)
    return told, torch.stack(chosen)


def exact_tower(model: Drama3Model, state: TakeState, hidden: Tensor, frames: Tensor) -> Tensor:
    """The heads' logits [steps * heads, C] behind hidden [steps, H] float32, the codes being given."""
    b, tower, c = model.backbone, model.tower, model.config.tower
    rows, count = state.num_rows, len(frames)
    at = Rows.at(torch.arange(rows - 1, rows - 1 + count, device=model.device), rows - 1 + count, tower.rope)
    known, semantic = torch.cat((state.row, frames[:-1])), b.is_semantic(frames)[:, None]
    first, extra, x, heads = 1 + b.mixed_codebooks, None, hidden, []
    if first < c.num_codebooks:
        extra = b.code_vectors(known, first, c.num_codebooks).float().sum(1) * b.is_semantic(known)[:, None]
    for i, layer in enumerate(tower.layers):
        with model.device:
            twin = widened(layer, TowerLayer(c))
        book, cache = i - tower.num_shared, state.tower[:, i]
        code = frames[:, 1 + max(0, book)]
        x = twin(x, code, semantic, extra if i == 0 else None, wide(cache[0]), wide(cache[1]), at)
        if book >= 0:
            heads.append(F.linear(x, tower.heads[book].float()))
    return torch.stack(heads, 1).flatten(0, 1)


# ---------------------------------------------------------------- the plain layers, the kernels


def with_experts(moe: MixtureOfExperts, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """`moe` of x [1, H] by given experts `index` [1, k], and the router's scores [E]: the lines of its
    `forward` but for the choice."""
    logits, *shared = F.linear(x, moe.read).split(moe.cuts, -1)
    share = logits.float().softmax(-1).gather(-1, index)
    out = moe.experts(x, index, (share / share.sum(-1, keepdim=True)).to(x.dtype))
    if shared:
        gate, gate_up = shared
        a, b = gate_up.chunk(2, -1)
        out = out + gate.sigmoid() * F.linear(F.silu(a) * b, moe.shared_down)
    return out, logits[0]


@contextmanager
def imposed(model: Drama3Model, chosen: Tensor, told: Told) -> Iterator[None]:
    """The plain layers take the experts `chosen` [layers, steps, k]; what they'd have taken is noted."""
    steps = [0] * len(model.backbone.layers)

    def forward(number: int, moe: MixtureOfExperts, x: Tensor, trace=None) -> Tensor:
        step = steps[number]
        out, scores = with_experts(moe, x, chosen[number, step][None])
        told.chosen[step, number] = best(scores, moe.top_k)
        steps[number] += 1
        return out

    for number, layer in enumerate(model.backbone.layers):
        layer.experts.forward = partial(forward, number, layer.experts)
    try:
        yield
    finally:
        for layer in model.backbone.layers:
            del layer.experts.forward


@torch.inference_mode()
def plain(model: Drama3Model, state: TakeState, frames: Tensor, chosen: Tensor) -> Told:
    """The same by the plain layers, a step at a time."""
    told, b = Told(), model.backbone
    with imposed(model, chosen, told):
        for frame in frames.split(1):
            told.logits.append(b.candidate_logits(state.hidden))

            def pick(book: int, logits: Tensor, frame: Tensor = frame) -> Tensor:
                told.heads.append(logits)
                return frame[:, 2 + book]

            at = Rows.at(state.last, state.num_rows, model.tower.rope)
            extra, semantic = model.shared_in(state.row), b.is_semantic(frame)
            model.tower.step(state.hidden, frame[:, 1], semantic, extra, state.tower, at, pick)
            state.last += 1
            state.num_rows += 1
            state.row.copy_(frame)
            state.hidden.copy_(b(frame, state.backbone, Rows.at(state.last, state.num_rows, model.rope)))
            told.hidden.append(state.hidden.clone())
    return told


class Forced(FusedStep):
    """The chain of kernels with its draws overruled by `given` [1 + codebooks]; it notes every logit."""

    given: Tensor
    told: Told

    def _draw_main(self) -> None:
        super()._draw_main()
        self.told.logits.append(self.logits[None].clone())
        self.frame_row[:2] = self.given[:2]

    def _draw_code(self, book: int, layer: TowerLayer) -> None:
        super()._draw_code(book, layer)
        self.told.heads.append(self.head_logits[None].clone())
        self.frame_row[2 + book] = self.given[2 + book]


@torch.inference_mode()
def fused(model: Drama3Model, state: TakeState, frames: Tensor, chosen: Tensor, patch) -> Told:
    """The same by the kernels: what isn't to be chosen is made the least of the router's scores."""
    num, layers, real, calls = model.config.text.num_experts, len(chosen), kernels.experts_up, [0]
    told = Told()

    def experts_up(x: Tensor, gain: Tensor, eps: float, logits: Tensor, *rest, **named) -> None:
        step, number = divmod(calls[0], layers)
        scores, index = logits[:num], chosen[number, step]
        told.chosen[step, number] = best(scores, len(index))
        scores.copy_(torch.full_like(scores, -1e4).scatter(0, index, scores[index]))
        calls[0] += 1
        real(x, gain, eps, logits, *rest, **named)

    patch.setattr(kernels, "experts_up", experts_up)
    noise = torch.ones(1, 1 + model.config.tower.num_codebooks, len(model.candidates), device=model.device)
    step = Forced(model, state, noise)
    step.told = told
    step.begin()
    for step.given in frames:
        step()
        told.hidden.append(state.hidden.clone())
    assert calls[0] == layers * len(frames)
    return told


# ---------------------------------------------------------------- side by side


def given(config: Drama3Config, num_prompt: int, num_frames: int) -> tuple[Tensor, Tensor]:
    """A prompt of text, then audio, and frames to follow: random, int64 [rows, 1 + codebooks]."""
    draws = torch.Generator().manual_seed(3)
    c = config.tower
    rows = torch.zeros(num_prompt, 1 + c.num_codebooks, dtype=torch.int64)
    rows[:, 0] = torch.randint(0, 200, (num_prompt,), generator=draws)
    frames = torch.randint(
        0, c.vocab_size, (num_prompt // 2 + num_frames, 1 + c.num_codebooks), generator=draws
    )
    frames[:, 0] = config.semantic_start_token_id + frames[:, 1]
    rows[-(num_prompt // 2) :] = frames[: num_prompt // 2]
    return rows, frames[num_prompt // 2 :]


def behind(model: Drama3Model, rows: Tensor, frames: int) -> TakeState:
    """The state that all three start from: the plain layers' prefill."""
    knobs = TakeKnobs.of(1.0, None, 0.9, model.device)
    state = TakeState.open(model, len(rows) + frames, frames, knobs, None)
    state.prefill(rows)
    return state


@dataclass(frozen=True)
class Compared:
    """Errors against float32 by part, [median, 99th percentile], and rows that choose as float32 does."""

    plain: dict[str, list[float]]
    fused: dict[str, list[float]]
    plain_agrees: float
    fused_agrees: float
    fused_as_plain: float

    def show(self) -> None:
        print(f"\n{'error against float32':<24}{'plain':>12}{'kernels':>12}{'ratio':>8}")
        for part, twin in self.plain.items():
            for name, a, b in zip(("median", "99 %"), twin, self.fused[part], strict=True):
                print(f"{part + ', ' + name:<24}{a:>12.3e}{b:>12.3e}{b / a if a else 1.0:>8.3f}")
        print(
            f"rows that choose float32's experts: plain {self.plain_agrees:.4f}, kernels "
            f"{self.fused_agrees:.4f}; kernels those of plain {self.fused_as_plain:.4f}"
        )


def compare(model: Drama3Model, num_prompt: int, num_frames: int, patch) -> Compared:
    rows, frames = given(model.config, num_prompt, num_frames)
    frames = frames.to(model.device)
    truth, chosen = exact(model, behind(model, rows, num_frames), frames)
    twin = plain(model, behind(model, rows, num_frames), frames, chosen)
    ours = fused(model, behind(model, rows, num_frames), frames, chosen, patch)
    want = truth.stacked()
    return Compared(
        errors(twin.stacked(), want),
        errors(ours.stacked(), want),
        agreeing(twin, truth),
        agreeing(ours, truth),
        agreeing(ours, twin),
    )


def errors(got: dict[str, Tensor], want: dict[str, Tensor]) -> dict[str, list[float]]:
    found = {}
    for name, truth in want.items():
        error = (got[name] - truth).abs().flatten().sort().values
        found[name] = [error[round(share * (len(error) - 1))].item() for share in (0.5, 0.99)]
    return found


def agreeing(one: Told, other: Told) -> float:
    """Share of all rows, in all layers, whose sets of experts are equal."""
    assert one.chosen.keys() == other.chosen.keys()
    return sum(one.chosen[at] == other.chosen[at] for at in one.chosen) / len(one.chosen)


@pytest.mark.parametrize(("checkpoint", "num_frames"), [("checkpoint", 2), ("checkpoint_fp8", 1)])
def test_in_float32_all_three_are_one(drama3_tiny, monkeypatch, checkpoint, num_frames):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(kernels, "SPLITS", 2)
    if device.type == "cpu":  # the interpreter's time goes by programs: few large blocks, 2 s instead of 20
        monkeypatch.setattr(kernels, "gemv_blocks", lambda n, width, swiglu: (128, 64, 4))
    folder = drama3_tiny / checkpoint
    model = load_model(folder, Drama3Config.from_folder(folder), device, torch.float32)
    found = compare(model, 10, num_frames, monkeypatch)
    assert max(max(each) for each in (*found.plain.values(), *found.fused.values())) < 5e-4
    assert found.plain_agrees == found.fused_agrees == 1.0


def test_given_experts_are_joined_as_chosen_ones_are(drama3_tiny):
    folder = drama3_tiny / "checkpoint_fp8"
    model = load_model(folder, Drama3Config.from_folder(folder), torch.device("cpu"), torch.float32)
    moe, trace = model.backbone.layers[0].experts, {}
    x = torch.randn(1, model.config.text.hidden_size, generator=torch.manual_seed(1))
    want = moe(x, trace)
    got, scores = with_experts(moe, x, trace["route_index"][0])
    assert torch.equal(got, want)
    assert best(scores, moe.top_k) == set(trace["route_index"][0][0].tolist())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_at_full_size_the_kernels_err_no_more_than_the_plain_layers(monkeypatch):
    from bench import full_size

    model = full_size.model(torch.device("cuda"))
    print(f"\n{torch.cuda.memory_allocated() / 1e9:.1f} GB of weights")
    found = compare(model, PROMPT_ROWS, FRAMES, monkeypatch)
    found.show()
    for part, twin in found.plain.items():
        for allowed, error in zip(twin, found.fused[part], strict=True):
            assert error <= ALLOWED * allowed, part
    assert found.fused_agrees >= min(AGREE, found.plain_agrees - (1 - AGREE))
