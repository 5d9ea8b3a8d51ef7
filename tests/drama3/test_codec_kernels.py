"""The codec's kernels beside the plain layers; without a GPU in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
import triton

from engine.drama3 import codec_kernels, codec_layers
from engine.drama3.codec import Codec
from engine.drama3.codec_kernels import Tiles
from engine.drama3.codec_layers import CausalConv, ResidualUnit, Snake, Tensors, UpConv, fresh_carries
from tests.drama3.desks import some_codes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NEAR = 1e-5


@pytest.fixture
def plain(monkeypatch) -> None:
    """Neither loops nor kernels."""
    monkeypatch.setattr(codec_layers, "compiled_loops", lambda: (None, "none"))
    monkeypatch.setattr("engine.drama3.codec.compiled_loops", lambda: (None, "none"))
    monkeypatch.setattr(codec_layers, "kernels_for", lambda x: None)


@pytest.fixture
def by_kernels(plain, monkeypatch):
    """From its call on, layers go by the kernels."""

    def switch() -> None:
        wanted = {torch.float32: codec_kernels}
        monkeypatch.setattr(codec_layers, "kernels_for", lambda x: wanted.get(x.dtype))

    return switch


def tensors(**shapes: tuple[int, ...]) -> Tensors:
    make = torch.Generator().manual_seed(0)
    drawn = {name.replace("__", "."): torch.randn(shape, generator=make) for name, shape in shapes.items()}
    return Tensors(drawn, "test")


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def snake(channels: int) -> Snake:
    return Snake(tensors(s__alpha=(1, channels, 1)), "s", channels).to(DEVICE)


def causal(inputs: int, outputs: int, kernel: int, stride: int = 1, dilation: int = 1) -> CausalConv:
    made = tensors(c__conv__weight=(outputs, inputs, kernel), c__conv__bias=(outputs,))
    return CausalConv(made, "c", (inputs, outputs), kernel, stride, dilation).to(DEVICE)


def up(inputs: int, outputs: int, stride: int) -> UpConv:
    made = tensors(c__conv__weight=(inputs, outputs, 2 * stride), c__conv__bias=(outputs,))
    return UpConv(made, "c", (inputs, outputs), 2 * stride, stride).to(DEVICE)


def unit(channels: int, dilation: int) -> ResidualUnit:
    made = tensors(
        u__block__0__alpha=(1, channels, 1),
        u__block__1__conv__weight=(channels, channels, 7),
        u__block__1__conv__bias=(channels,),
        u__block__2__alpha=(1, channels, 1),
        u__block__3__conv__weight=(channels, channels, 1),
        u__block__3__conv__bias=(channels,),
    )
    return ResidualUnit(made, "u", channels, dilation).to(DEVICE)


def spoken(layer, x: torch.Tensor, sizes: tuple[int, ...], *behind: Snake):
    """What the layer makes of x in pieces, and the carry it leaves."""
    carries = fresh_carries(layer, 1)
    said = torch.cat([layer(piece.clone(), carries, *behind) for piece in x.split(sizes)])
    return said, next(iter(carries.values()))


def alike(got: torch.Tensor, want: torch.Tensor) -> bool:
    return got.shape == want.shape and bool((got - want).abs().max() <= NEAR * want.abs().max())


LAYERS = [
    (lambda: causal(24, 40, 7), 24, (3, 1, 5, 40, 2)),
    (lambda: causal(24, 1, 7), 24, (3, 60, 1)),  # one output
    (lambda: causal(3, 5, 7, dilation=9), 3, (1, 60, 20, 100)),
    (lambda: causal(96, 96, 7, dilation=3), 96, (2, 70, 1)),
    (lambda: causal(6, 12, 8, stride=4), 6, (4, 8, 128)),
    (lambda: causal(130, 70, 2, stride=2), 130, (2, 30)),  # no carry
    (lambda: up(48, 6, 8), 48, (1, 4, 70)),
    (lambda: up(5, 3, 2), 5, (1, 2, 40)),
]


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(("make", "inputs", "sizes"), LAYERS)
def test_a_convolution_hears_pieces_as_by_the_twin(by_kernels, make, inputs, sizes, behind):
    """Pieces shorter and longer than the carry."""
    layer, snakes = make(), (snake(inputs),) if behind else ()
    x = random(sum(sizes), inputs)
    want, kept = spoken(layer, x, sizes, *snakes)
    by_kernels()
    got, held = spoken(layer, x, sizes, *snakes)
    assert alike(got, want)
    assert torch.equal(held, kept) or alike(held, kept)


@pytest.mark.parametrize(("channels", "dilation"), [(4, 1), (20, 3), (64, 9)])
def test_a_residual_unit_hears_pieces_as_by_the_twin(by_kernels, channels, dilation):
    layer, sizes = unit(channels, dilation), (1, 2, 60, 9, 130)
    x = random(sum(sizes), channels)
    want, kept = spoken(layer, x, sizes)
    by_kernels()
    got, held = spoken(layer, x, sizes)
    assert alike(got, want)
    assert alike(held, kept)


def test_a_tile_shared_by_programs_is_what_one_gives(monkeypatch):
    x, weight, bias = random(9, 200), random(5, 200, 40, seed=2), random(40, seed=3)
    rest, last = random(5, 40, seed=4), (random(40, seed=5), random(40, seed=6))
    shared = codec_kernels.tiles_of(5, 200, 40, 5)
    assert shared.splits > 1
    got = codec_kernels.convolve(x, weight, bias, snake=last, rest=rest)
    monkeypatch.setattr(codec_kernels, "tiles_of", lambda *_: shared._replace(splits=1))
    assert alike(codec_kernels.convolve(x, weight, bias, snake=last, rest=rest), got)


@pytest.mark.parametrize("rows", [1, 53, 54, 55, 200])
def test_a_carry_moves_on_by_any_number_of_rows(plain, rows):
    x, held, behind = random(rows, 40), random(54, 40, seed=2), snake(40)
    want = torch.cat((held, behind(x)))
    got = codec_kernels.heard(x, held, behind.parts)
    assert alike(got, want)
    assert alike(held, want[-54:])


@pytest.fixture
def large_tiles(monkeypatch) -> None:
    """A program costs the interpreter a hundredth of a second, however much it has to do."""

    def tiles_of(*sizes: int) -> Tiles:
        rows, inputs, outputs = (max(16, triton.next_power_of_2(size)) for size in sizes[:3])
        return Tiles(min(rows, 8192), outputs, inputs, 1, 1, 1)

    monkeypatch.setattr(codec_kernels, "tiles_of", tiles_of)
    monkeypatch.setattr(codec_kernels, "HEARD", (512, 64, 1))


def test_a_codec_decodes_chunks_by_kernels_as_the_whole_by_its_twin(by_kernels, large_tiles, drama3_tiny):
    codec = Codec.load(drama3_tiny / "checkpoint", DEVICE)
    codes = some_codes(codec, 5)
    want = codec.decode(codes)
    by_kernels()
    stream = codec.stream()
    got = torch.cat([stream.decode(piece) for piece in codes.split((1, 2, 1, 1), 1)])
    assert (got - want).abs().max() <= NEAR


def test_a_codec_encodes_by_kernels_as_by_its_twin(by_kernels, large_tiles, monkeypatch, drama3_tiny):
    monkeypatch.setattr("engine.drama3.codec.BLOCK_FRAMES", 2)
    codec = Codec.load(drama3_tiny / "checkpoint", DEVICE)
    samples = 0.2 * random(3 * codec.hop)
    want = codec.encode(samples)
    by_kernels()
    assert torch.equal(codec.encode(samples), want)
