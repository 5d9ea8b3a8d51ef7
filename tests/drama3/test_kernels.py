"""Every kernel beside its twin of plain torch; in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from engine.drama3 import kernels
from engine.drama3.config import Drama3Config
from engine.drama3.layers import ZeroCentredNorm, attend, rotate_halves, rotate_pairs, swiglu
from engine.drama3.weights import load_model
from engine.sampling import Knobs, TakeKnobs, draw, draw_main

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.bfloat16]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.manual_seed(seed)).to(DEVICE, dtype)


def normed(x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
    twin = ZeroCentredNorm(len(gain), eps).to(DEVICE)
    twin.gain.copy_(gain - 1)
    twin.finish()
    return twin(x[None])[0]


def close(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Within a few roundings of the dtype at the largest entry: the twin rounds between its steps."""
    unit = 4e-6 if want.dtype == torch.float32 else 2**-6
    return bool((got.float() - want.float()).abs().max() <= unit * want.float().abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "width"), [(1, 8), (13, 48), (40, 1100)])
class TestMatrix:
    def test_it_multiplies(self, n, width, dtype):
        x, w, y = random(width, dtype=dtype), random(n, width, seed=1, dtype=dtype), random(n, dtype=dtype)
        kernels.gemv(x, w, y)
        assert close(y, F.linear(x, w))

    def test_it_norms_first_and_adds_last(self, n, width, dtype):
        x, w = random(width, dtype=dtype), random(n, width, seed=1, dtype=dtype)
        gain, rest = 1 + random(width, seed=2) / 4, random(n, seed=3, dtype=dtype)
        y = torch.empty_like(rest)
        kernels.gemv(x, w, y, gain, 1e-6, rest)
        assert close(y, rest + F.linear(normed(x, gain, 1e-6), w))

    def test_it_gates(self, n, width, dtype):
        x, w = random(width, dtype=dtype), random(2 * n, width, seed=1, dtype=dtype)
        y = random(n, dtype=dtype)
        kernels.gemv(x, w, y, swiglu=True)
        assert close(y, swiglu(F.linear(x, w)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("pairs", "by_head"), [(True, False), (False, True)])
@pytest.mark.parametrize("position", [0, 1, 40, 70])
def test_attention_reads_the_live_rows_and_writes_the_newest(monkeypatch, dtype, pairs, by_head, position):
    monkeypatch.setattr(kernels, "SPLITS", 2)
    heads, kv_heads, dim, half, capacity = 6, 2, 24, 4, 80
    read = random(2 * (heads + kv_heads) * dim, dtype=dtype)
    q_gain, k_gain = 1 + random(dim, seed=1) / 4, 1 + random(dim, seed=2) / 4
    angles = random(capacity, half, seed=3)
    keys, values = (random(kv_heads, capacity, dim, seed=seed, dtype=dtype) for seed in (4, 5))
    want_keys, want_values, last = keys.clone(), values.clone(), torch.tensor([position], device=DEVICE)
    out = torch.empty(heads * dim, device=DEVICE, dtype=dtype)
    kernels.attention(
        read, q_gain, k_gain, 1e-6, angles.cos(), angles.sin(), keys, values, last, out,
        kernels.AttentionScratch(heads, dim, DEVICE), by_head, pairs,
    )  # fmt: skip

    if by_head:
        q, gate = read[: 2 * heads * dim].view(heads, 2, dim).unbind(1)
    else:
        q, gate = read[: 2 * heads * dim].view(2, heads, dim)
    k, v = read[2 * heads * dim :].view(2, kv_heads, dim)
    rope = angles[[position]].cos(), angles[[position]].sin()
    turn = rotate_pairs if pairs else rotate_halves
    norm_q = torch.stack([normed(each, q_gain, 1e-6) for each in q])[:, None]
    norm_k = torch.stack([normed(each, k_gain, 1e-6) for each in k])[:, None]
    want_keys[:, position], want_values[:, position] = turn(norm_k, rope)[:, 0], v
    visible = torch.arange(capacity, device=DEVICE)[None] <= position
    mixed = attend(turn(norm_q, rope), want_keys, want_values, visible)[0]
    assert close(keys, want_keys)
    assert torch.equal(values, want_values)
    assert close(out, mixed * gate.flatten().sigmoid())


@pytest.mark.parametrize("checkpoint", ["checkpoint", "checkpoint_fp8"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_experts_are_chosen_weighed_and_joined_with_the_shared_one(drama3_tiny, checkpoint, dtype):
    folder = drama3_tiny / checkpoint
    model = load_model(folder, Drama3Config.from_folder(folder), DEVICE, dtype)
    layer, c = model.backbone.layers[0], model.config.text
    moe, norm = layer.experts, layer.experts_norm
    scratch = kernels.ExpertScratch(c.num_experts_per_tok, c.moe_intermediate_size, DEVICE, dtype)
    router = torch.zeros(len(moe.read), device=DEVICE, dtype=dtype)
    for seed in range(3):
        x = random(c.hidden_size, seed=seed, dtype=dtype)
        kernels.gemv(x, moe.read, router, norm.gain, norm.eps)
        experts = moe.experts
        kernels.experts_up(x, norm.gain, norm.eps, router, experts.gate_up, experts.gate_up_scale, scratch)
        y = torch.empty_like(x)
        kernels.experts_down(scratch, experts.down, experts.down_scale, router, moe.shared_down, x, y)
        trace: dict = {}
        want = x + moe(norm(x[None]), trace)[0]
        chosen = dict(zip(scratch.chosen.tolist(), scratch.share.tolist(), strict=True))
        shares = trace["route_weight"][0][0].to(dtype).float().tolist()
        assert chosen == pytest.approx(
            dict(zip(trace["route_index"][0][0].tolist(), shares, strict=True)), 2e-2
        )
        assert close(y, want)


@triton.jit
def choice_kernel(logits, experts, shares, E: tl.constexpr, EP: tl.constexpr, TOP: tl.constexpr):
    slot = tl.program_id(0)
    expert, share = kernels._choice(logits, slot, E, EP, TOP, 4)
    tl.store(experts + slot, expert.to(tl.int32))
    tl.store(shares + slot, share)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "top"), [(4, 2), (40, 8)])
@pytest.mark.parametrize(
    "level", [-5.0, -1.6, 0.0, 3.0]
)  # a score below -2 was once lost behind a chosen one
def test_a_router_chooses_alike_at_every_level_of_its_scores(dtype, count, top, level):
    for seed in range(4):
        logits = (level + random(count, seed=seed)).to(dtype)
        experts = torch.zeros(top, dtype=torch.int32, device=DEVICE)
        shares = torch.zeros(top, device=DEVICE)
        choice_kernel[(top,)](logits, experts, shares, count, triton.next_power_of_2(count), top)
        best = logits.float().sort(dim=-1, descending=True, stable=True)
        assert experts.tolist() == best.indices[:top].tolist()
        assert (shares - best.values[:top].softmax(-1)).abs().max() < 1e-6


def chosen(logits: torch.Tensor, top: int) -> tuple[list[int], torch.Tensor]:
    experts = torch.full((top,), -1, dtype=torch.int32, device=DEVICE)
    shares, count = torch.zeros(top, device=DEVICE), len(logits)
    choice_kernel[(top,)](logits, experts, shares, count, triton.next_power_of_2(count), top)
    return experts.tolist(), shares


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "top"), [(5, 5), (8, 1), (33, 8)])
def test_of_equal_scores_the_first_experts_are_chosen(dtype, count, top):
    for levels in ((0.0,), (-3.0, -2.5), (1.0, -1.0, 0.5)):
        logits = torch.tensor(levels, device=DEVICE).repeat(count)[:count].to(dtype)
        best = logits.float().sort(dim=-1, descending=True, stable=True)
        experts, shares = chosen(logits, top)
        assert experts == best.indices[:top].tolist()
        assert (shares - best.values[:top].softmax(-1)).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_still_name_experts_that_exist(dtype, bad):
    """What comes out then is thrown away, but a matrix is read with it first."""
    some = random(33, dtype=dtype)
    some[4:9] = bad
    for logits in (some, torch.full((33,), bad, device=DEVICE, dtype=dtype)):
        experts, _ = chosen(logits, 8)
        assert len(set(experts)) == 8
        assert all(0 <= expert < 33 for expert in experts)
    some[4:9] = -np.inf
    assert chosen(some, 8)[0] == some.float().sort(descending=True, stable=True).indices[:8].tolist()


def knobs(temperature: float, top_k: int | None, top_p: float) -> Knobs:
    return Knobs.of(temperature, top_k, top_p, DEVICE)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 2.0])
@pytest.mark.parametrize(("top_k", "top_p"), [(30, 0.9), (1, 1.0), (5, 0.3), (30, 1.0)])
def test_a_head_is_drawn_as_by_the_twin(temperature, top_k, top_p):
    frame, code = (
        torch.zeros(1, dtype=torch.int64, device=DEVICE),
        torch.zeros(1, dtype=torch.int64, device=DEVICE),
    )
    verdict = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    wanted = knobs(temperature, top_k, top_p)
    for seed in range(6):
        logits = 3 * random(1, 50, seed=seed)
        logits[0, 7:11] = logits.max()  # ties go to the lower index
        noise = -random(1, 50, seed=100 + seed).sigmoid().log()
        kernels.draw_head(logits[0], noise[None], frame, 0, wanted, code, verdict)
        assert code.item() == draw(logits, noise, wanted, keep_crossing=False).item()
        assert verdict.item() == 1


@pytest.mark.parametrize("knobs", [(1.0, None, 0.9), (0.7, 50, 1.0), (1.3, 30, 0.8), (1.0, 2, 0.01)])
@pytest.mark.parametrize("crossing", [False, True])
def test_one_of_thousands_is_drawn_as_by_the_twin(knobs, crossing):
    wanted = Knobs.of(*knobs, DEVICE)
    index = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    for seed in range(4):
        logits = 2 * random(1, 4097, seed=seed)
        logits[0, ::5] = logits[0, ::5].bfloat16().float()  # many equal ones
        noise = -random(1, 4097, seed=100 + seed).sigmoid().log()
        knob = wanted.temperature, wanted.top_k, wanted.top_p
        drawn_kernel[(1,)](
            logits, noise, index, 4097, *knob, CROSSING=crossing, NP=8192, BARS=4, num_warps=16
        )
        assert index.item() == draw(logits, noise, wanted, keep_crossing=crossing).item()


@triton.jit
def drawn_kernel(
    logits, noise, index, n, temperature, top_k, top_p,
    CROSSING: tl.constexpr, NP: tl.constexpr, BARS: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, NP)
    value = tl.load(logits + i, mask=i < n, other=0.0)
    one = tl.load(noise + i, mask=i < n, other=1.0)
    knobs = tl.load(temperature), tl.load(top_k), tl.load(top_p)
    drawn, _ = kernels._drawn(value, one, n, knobs[0], knobs[1], knobs[2], CROSSING, NP, BARS)
    tl.store(index, drawn)


@pytest.mark.parametrize("bars", [2, 4, 8])
@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize(
    "knobs", [(1.0, None, 1.0), (1.0, None, 0.5), (1.0, 7, 1.0), (0.0, 3, 0.9), (1.0, 1, 0.0)]
)
def test_of_equal_logits_and_of_far_ones_the_twin_s_are_kept(knobs, crossing, bars):
    """All alike, two levels, one far above, powers of ten of both signs: where a search by halves is slow."""
    wanted = Knobs.of(*knobs, DEVICE)
    index = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    powers = 10.0 ** torch.arange(-30, 31, device=DEVICE)
    levels = torch.tensor([0.0, 0.5, 1.0, -2.0], device=DEVICE)
    for seed, logits in enumerate((
        torch.zeros(61, device=DEVICE),
        torch.cat((torch.ones(30, device=DEVICE), torch.zeros(31, device=DEVICE))),
        torch.cat((torch.full((1,), 1e30, device=DEVICE), torch.arange(60, device=DEVICE) / 60)),
        torch.where(torch.arange(61, device=DEVICE) % 2 == 0, powers, -powers),
        levels.repeat(16)[:61],
    )):  # fmt: skip
        noise = -random(1, 61, seed=seed).sigmoid().log()
        knob = wanted.temperature, wanted.top_k, wanted.top_p
        drawn_kernel[(1,)](logits, noise, index, 61, *knob, CROSSING=crossing, NP=64, BARS=bars)
        assert index.item() == draw(logits[None], noise, wanted, keep_crossing=crossing).item(), seed


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_still_give_an_index(bad):
    """What is drawn then is thrown away, but a table is read with it first."""
    wanted, index = Knobs.of(1.0, None, 0.9, DEVICE), torch.full((1,), -1, dtype=torch.int32, device=DEVICE)
    for logits in (
        torch.full((33,), bad, device=DEVICE),
        random(33).index_fill_(0, torch.tensor([9], device=DEVICE), bad),
    ):
        knob = wanted.temperature, wanted.top_k, wanted.top_p
        drawn_kernel[(1,)](
            logits, torch.ones(33, device=DEVICE), index, 33, *knob, CROSSING=True, NP=64, BARS=4
        )
        assert 0 <= index.item() < 33


def drawn_main(logits, noise, window, candidates, wanted: TakeKnobs, eos: int) -> tuple[int, int, int]:
    """(main, code 0, verdict) by the kernel."""
    whole = dict(dtype=torch.int64, device=DEVICE)
    row, verdict = torch.zeros(2, **whole), torch.zeros(1, dtype=torch.int32, device=DEVICE)
    kernels.draw_main(
        logits[0], noise[None], torch.zeros(1, **whole), window, candidates, wanted.main, wanted.retry, row,
        verdict, eos, eos + 1, logits.shape[-1] - 1,
    )  # fmt: skip
    return (*row.tolist(), verdict.item())


@pytest.mark.parametrize("top_k", [None, 3])
def test_the_main_id_is_drawn_as_by_the_twin_and_again_if_it_was_there(top_k):
    candidates = torch.arange(300, 365, device=DEVICE)
    wanted, repeats = TakeKnobs.of(1.0, top_k, 0.9, DEVICE), 0
    for seed in range(8):
        logits = 4 * random(1, 65, seed=seed)
        noise = -random(2, 65, seed=50 + seed).sigmoid().log()
        window = torch.full((16,), -1, dtype=torch.int64, device=DEVICE)
        window[3] = candidates[logits.argmax()]
        first, main = draw_main(logits, noise, window, candidates, 300, wanted)
        got = drawn_main(logits, noise, window, candidates, wanted, 300)
        assert got == (main.item(), min(max(main.item() - 301, 0), 63), 1)
        repeats += int(first.item() == window[3].item())
    assert repeats


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_logit_that_is_no_number_is_told(bad):
    logits = random(1, 65)
    logits[0, 40] = bad
    window = torch.full((16,), -1, dtype=torch.int64, device=DEVICE)
    noise = torch.ones(2, 65, device=DEVICE)
    candidates = torch.arange(300, 365, device=DEVICE)
    assert drawn_main(logits, noise, window, candidates, TakeKnobs.of(1.0, None, 0.9, DEVICE), 300)[2] == 0
