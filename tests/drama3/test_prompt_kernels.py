"""Every kernel for a prompt's rows beside its twin of plain torch; without a GPU in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from engine.drama3 import prompt_kernels
from engine.drama3.backbone import DeltaNet
from engine.drama3.config import Drama3Config
from engine.drama3.experts import route
from engine.drama3.weights import load_model
from tests.drama3.test_kernels import DEVICE, DTYPES, close, random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "count"), [(5, 1), (5, 2), (6, 5), (4, 4)])
def test_rows_pass_the_delta_net_as_by_the_twin(drama3_tiny, dtype, rows, count):
    """With a memory of rows before them; those that fill up give 0 and leave nothing behind."""
    folder = drama3_tiny / "checkpoint"
    model = load_model(folder, Drama3Config.from_folder(folder), DEVICE, dtype)
    net: DeltaNet = model.backbone.layers[0].mixer
    x, state = (
        random(rows, net.read.shape[1], dtype=dtype),
        random(net.heads, net.key_head_dim, net.value_head_dim),
    )
    conv = random(net.channels, net.conv.shape[-1] - 1, seed=1, dtype=dtype)
    parts = net.conv, net.log_rate, net.dt_bias, net.gain, net.eps
    ours, theirs = (conv.clone(), state.clone()), (conv.clone(), state.clone())
    read, real = torch.nn.functional.linear(x, net.read), torch.tensor([count], device=DEVICE)
    got = prompt_kernels.delta_rows(read, ours[0], *parts, ours[1], real, net.key_heads)
    want = net(x[:count], *theirs, None)
    assert close(torch.nn.functional.linear(got, net.write)[:count], want)
    assert not got[count:].any()
    assert close(ours[0], theirs[0])
    assert close(ours[1], theirs[1]) if dtype == torch.float32 else (ours[1] - theirs[1]).abs().max() < 0.05


def test_a_convolution_over_one_row_needs_no_memory():
    heads, dim, rows = 2, 8, 3
    read, state = random(rows, 4 * heads * dim + 2 * heads), torch.zeros(heads, dim, dim, device=DEVICE)
    weights, plain = random(3 * heads * dim, 1, 1, seed=1), torch.ones(heads, device=DEVICE)
    conv, count = torch.zeros(3 * heads * dim, 0, device=DEVICE), torch.tensor([rows], device=DEVICE)
    out = prompt_kernels.delta_rows(
        read, conv, weights, -plain, plain, torch.ones(dim, device=DEVICE), 1e-6, state, count, heads
    )
    assert out.isfinite().all()
    assert state.abs().sum() > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num", "top"), [(4, 2), (40, 8)])
def test_rows_are_routed_as_by_the_twin(dtype, num, top):
    """Rows that fill up choose nobody."""
    logits = 3 * random(4, num + 5, dtype=dtype)[:, :num]  # rows of a wider matrix
    share, index = prompt_kernels.route(logits, top, torch.tensor([3], device=DEVICE))
    want_share, want_index = route(logits[:3], top)
    ordered = want_share[:, :-1] > want_share[:, 1:]  # equal ones may come in any order
    assert (share[:3] - want_share).abs().max() < 1e-6
    assert torch.equal(index[:3].sort(-1).values.long(), want_index.sort(-1).values) or not ordered.all()
    assert (index[3] == num).all()


@pytest.mark.parametrize("checkpoint", ["checkpoint", "checkpoint_fp8"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "count"), [(5, 5), (5, 3), (37, 37), (7, 0)])
def test_experts_of_many_rows_are_read_once_each(drama3_tiny, checkpoint, dtype, rows, count):
    """37 rows of 2 experts among 4: more pairs of one expert than a tile holds."""
    folder = drama3_tiny / checkpoint
    model = load_model(folder, Drama3Config.from_folder(folder), DEVICE, dtype)
    moe, c = model.backbone.layers[1].experts, model.config.text
    experts, x = moe.experts, random(rows, c.hidden_size, dtype=dtype)
    trace: dict = {}
    moe(x, trace)
    index, share = trace["route_index"][0], trace["route_weight"][0].to(dtype)
    chosen = index.int().index_fill(0, torch.arange(count, rows, device=DEVICE), experts.num)
    out, place = prompt_kernels.experts_grouped(
        x, chosen, experts.gate_up, experts.gate_up_scale, experts.down, experts.down_scale
    )
    place = place.view(rows, -1)
    assert sorted(place[:count].flatten().tolist()) == list(range(place[:count].numel()))
    assert (place[count:] == -1).all()
    got = (out[place[:count].long()].float() * share[:count, :, None].float()).sum(1)
    if count:
        assert close(got.to(dtype), experts._grouped(x[:count], index[:count], share[:count]))
