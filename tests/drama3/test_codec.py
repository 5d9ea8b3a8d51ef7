"""The codec against the golden vectors, against plain convolutions and attention, and against itself."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from engine.drama3 import codec_layers
from engine.drama3.codec import Codec, CodecConfig, window_ends
from engine.drama3.codec_layers import (
    CausalConv,
    CausalLayer,
    Tensors,
    UpConv,
    WindowTransformer,
    fresh_carries,
)
from engine.drama3.compiled import compiled_loops

GOLDEN = Path(__file__).parents[1] / "data" / "drama3_tiny"
CHECKPOINT = GOLDEN / "checkpoint"
FULL_SCALE_LAW = 1e-5  # streamed against whole, float32


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.load(CHECKPOINT)


@pytest.fixture
def plain_layers(monkeypatch) -> None:
    """As on a CPU without Numba."""
    for place in ("engine.drama3.codec", "engine.drama3.codec_layers"):
        monkeypatch.setattr(f"{place}.compiled_loops", lambda: (None, "none"))


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "codec.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def gates() -> dict[str, dict]:
    every = json.loads((GOLDEN / "gates.json").read_text())["gates"]
    return {key.removeprefix("codec.npz:"): gate for key, gate in every.items() if key.startswith("codec")}


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    """A copy of the codec's files that a test may spoil."""
    for name in ("codec.json", "codec.pth"):
        shutil.copy(CHECKPOINT / name, tmp_path)
    return tmp_path


def random_codes(frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 64, (4, frames), generator=torch.Generator().manual_seed(seed))


def stream_decode(codec: Codec, codes: torch.Tensor, schedule: tuple[int, ...]) -> torch.Tensor:
    """The codes decoded by one stream in pieces of the schedule's sizes, over and over."""
    stream, pieces, at = codec.stream(), [], 0
    while at < codes.shape[1]:
        size = schedule[len(pieces) % len(schedule)]
        pieces.append(stream.decode(codes[:, at : at + size]))
        at += size
    return torch.cat(pieces)


def difference(a, b) -> float:
    assert a.shape == b.shape
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


# Goldens


@pytest.mark.parametrize("clip", ["clip0", "clip1"])
def test_encode_gives_the_golden_codes_and_intermediates(codec, golden, gates, clip):
    trace = {}
    codes = codec.encode(golden[f"{clip}_wave"], trace)
    assert codes.dtype == torch.int64
    np.testing.assert_array_equal(codes, golden[f"{clip}_codes"])
    assert set(trace) == {"encoder_output", "pre_quantizer"}
    for name, value in trace.items():
        assert difference(value, golden[f"{clip}_{name}"]) <= gates[f"{clip}_{name}"]["abs"], name


def decoded_with_trace(codec, golden) -> dict[str, torch.Tensor]:
    trace = {}
    audio = codec.decode(golden["decode_codes"], trace)
    return {"audio": audio, **trace}


def test_decode_gives_the_golden_audio_and_intermediates(codec, golden, gates):
    got = decoded_with_trace(codec, golden)
    assert set(got) == {"z_q", "post_module", "latent", "audio"}
    for name, value in got.items():
        assert value.dtype == torch.float32
        assert difference(value, golden[f"decode_{name}"]) <= gates[f"decode_{name}"]["abs"], name


def test_windowed_decode_gives_the_golden_windows(codec, golden, gates):
    names = [name for name in golden if name.startswith("windowed_audio_context_")]
    assert names
    for name in names:
        context = int(name.rsplit("_", 1)[1])
        windows = list(codec.decode_windowed(golden["decode_codes"], golden["window_ends"], context))
        assert [len(w) // codec.hop for w in windows] == np.diff(golden["window_ends"], prepend=0).tolist()
        assert difference(torch.cat(windows), golden[name]) <= gates[name]["abs"], name


def float32_rope(positions, head_dim, base):
    angles = torch.outer(positions.float(), base ** -(torch.arange(0, head_dim, 2) / head_dim)).unsqueeze(1)
    return angles.cos(), angles.sin()


def test_golden_gates_catch_a_float32_rope(codec, golden, gates, monkeypatch):
    monkeypatch.setattr(codec_layers, "rope", float32_rope)
    got = decoded_with_trace(codec, golden)
    assert difference(got["post_module"], golden["decode_post_module"]) > gates["decode_post_module"]["abs"]


@pytest.mark.parametrize("off", [-1, 1])
def test_golden_gates_catch_a_window_off_by_one(golden, gates, checkpoint, off):
    data = json.loads((checkpoint / "codec.json").read_text())
    data["quantizer"]["transformer"]["window_size"] += off
    (checkpoint / "codec.json").write_text(json.dumps(data))
    got = decoded_with_trace(Codec.load(checkpoint), golden)
    assert difference(got["post_module"], golden["decode_post_module"]) > gates["decode_post_module"]["abs"]


def test_golden_gates_catch_an_approximate_gelu(plain_layers, golden, gates, monkeypatch):
    exact = F.gelu
    monkeypatch.setattr(codec_layers.F, "gelu", lambda x: exact(x, approximate="tanh"))
    got = decoded_with_trace(Codec.load(CHECKPOINT), golden)
    assert difference(got["audio"], golden["decode_audio"]) > gates["decode_audio"]["abs"]


# Streaming


@pytest.mark.parametrize("schedule", [(1,), (2, 4, 8), (10, 10, 12, 32, 64), (7, 1, 33), (200,)])
def test_chunk_schedule_does_not_change_what_is_heard(codec, schedule):
    codes = random_codes(200)
    assert difference(stream_decode(codec, codes, schedule), codec.decode(codes)) <= FULL_SCALE_LAW


@pytest.mark.parametrize("seed", range(4))
def test_random_schedules_do_not_change_what_is_heard(codec, seed):
    schedule = tuple(np.random.default_rng(seed).integers(1, 40, 30).tolist())
    codes = random_codes(200, seed)
    assert difference(stream_decode(codec, codes, schedule), codec.decode(codes)) <= FULL_SCALE_LAW


def test_schedule_does_not_matter_when_the_ring_wraps_for_1300_frames(codec):
    codes = random_codes(1300)
    assert difference(stream_decode(codec, codes, (5, 3)), codec.decode(codes)) <= FULL_SCALE_LAW


@pytest.mark.parametrize("schedule", [(1,), (3, 11, 2), (64,)])
def test_every_frame_enters_every_convolution_once(plain_layers, schedule):
    codec, seen = Codec.load(CHECKPOINT), {}

    def count(layer, inputs, output):
        seen[layer] = seen.get(layer, 0) + len(inputs[0])

    layers = [m for part in (codec.upsample, codec.decoder) for m in part.modules()]
    hooks = [m.register_forward_hook(count) for m in layers if isinstance(m, CausalLayer)]
    try:
        stream_decode(codec, random_codes(30), schedule)
    finally:
        for hook in hooks:
            hook.remove()
    per_frame = {layer: rows / 30 for layer, rows in seen.items()}
    assert len(per_frame) == len(hooks)
    stages, decoder = codec.upsample.stages, codec.decoder
    assert [per_frame[stage] for stage in stages if isinstance(stage, UpConv)] == [1, 2]
    assert per_frame[decoder.first] == 4
    assert [per_frame[block.up] for block in decoder.blocks] == [4, 32, 256, 1024]
    assert [per_frame[block.units[2].conv] for block in decoder.blocks] == [32, 256, 1024, 2048]
    assert per_frame[decoder.last] == codec.hop


def test_fork_goes_its_own_way(codec):
    codes, other = random_codes(20, 1), random_codes(20, 2)
    stream = codec.stream()
    stream.decode(codes[:, :9])
    fork = stream.fork()
    kept = fork.decode(codes[:, 9:])
    retake = stream.decode(other[:, 9:])
    assert difference(kept, codec.decode(codes)[9 * codec.hop :]) <= FULL_SCALE_LAW
    changed = torch.cat((codes[:, :9], other[:, 9:]), 1)
    assert difference(retake, codec.decode(changed)[9 * codec.hop :]) <= FULL_SCALE_LAW


def test_two_streams_side_by_side_do_not_hear_each_other(codec):
    takes = [random_codes(24, seed) for seed in (3, 4)]
    streams, heard = [codec.stream(), codec.stream()], [[], []]
    for at in range(0, 24, 4):
        for stream, codes, pieces in zip(streams, takes, heard, strict=True):
            pieces.append(stream.decode(codes[:, at : at + 4]))
    for codes, pieces in zip(takes, heard, strict=True):
        assert difference(torch.cat(pieces), codec.decode(codes)) <= FULL_SCALE_LAW


def test_stream_opened_in_inference_mode_goes_on_outside(codec):
    codes = random_codes(6)
    with torch.inference_mode():
        stream = codec.stream()
        first = stream.decode(codes[:, :2]).clone()
    assert difference(torch.cat((first, stream.decode(codes[:, 2:]))), codec.decode(codes)) <= FULL_SCALE_LAW


def test_no_frames_are_no_samples(codec):
    stream = codec.stream()
    assert len(stream.decode(random_codes(0))) == 0 == len(codec.decode(random_codes(0)))


# Slow twins


def plain_transformer(transformer: WindowTransformer, x: torch.Tensor) -> torch.Tensor:
    """The same layers over the whole sequence at once: one banded mask, no ring."""
    at = torch.arange(len(x))
    gap = at[:, None] - at
    mask = (gap >= 0) & (gap < transformer.config.window_size)
    angles = codec_layers.rope(at, transformer.config.head_dim, transformer.config.rope_base)
    for layer in transformer.layers:
        empty = x.new_zeros(layer.heads, len(x), layer.head_dim)
        x = layer(x, angles, at, mask, empty, empty.clone())
    return F.rms_norm(x, x.shape[1:], transformer.norm, transformer.config.norm_eps)


def test_ring_equals_banded_attention_over_1300_positions(codec):
    transformer = copy.deepcopy(codec.upsample.transformer).double()
    x = torch.randn(1300, 64, generator=torch.Generator().manual_seed(0)).double()
    carries = fresh_carries(transformer, 5)
    ringed = torch.cat([transformer(piece, carries) for piece in x.split(5)])
    assert difference(ringed, plain_transformer(transformer, x)) < 1e-9  # float64


def named_tensors(conv: nn.Module) -> Tensors:
    return Tensors({f"x.conv.{key}": value for key, value in conv.state_dict().items()}, "test")


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (1, 9), (4, 1)])
@torch.no_grad()
def test_causal_conv_equals_a_padded_conv1d(stride, dilation):
    conv = weight_norm(nn.Conv1d(6, 10, 8, stride=stride, dilation=dilation))
    conv.parametrizations.weight.original0.mul_(1.7)
    layer = CausalConv(named_tensors(conv), "x", (6, 10), 8, stride, dilation)
    x = torch.randn(48, 6)
    plain = conv(F.pad(x.t(), (7 * dilation + 1 - stride, 0))[None])[0].t()
    carries = fresh_carries(layer, 1)
    pieces = torch.cat([layer(piece, carries) for piece in x.split(4)])
    torch.testing.assert_close(pieces, plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [4, 8, 12])
@torch.no_grad()
def test_up_conv_equals_a_cropped_conv_transpose1d(kernel):
    conv = weight_norm(nn.ConvTranspose1d(6, 10, kernel, stride=4))
    conv.parametrizations.weight.original0.mul_(torch.rand(6, 1, 1) + 0.5)
    layer = UpConv(named_tensors(conv), "x", (6, 10), kernel, 4)
    x = torch.randn(11, 6)
    plain = conv(x.t()[None])[0].t()[: 11 * 4]
    carries = fresh_carries(layer, 1)
    pieces = torch.cat([layer(piece, carries) for piece in x.split(2)])
    torch.testing.assert_close(pieces, plain, atol=1e-5, rtol=0)


# Codes and samples at the door


def test_codes_past_their_book_mean_its_last_entry(codec):
    codes = random_codes(12)
    high = codes.clone()
    high[0, 3], high[1, 5], high[3, :] = 4095, 4095, 77
    last = high.minimum(torch.tensor(codec.codebook_sizes)[:, None] - 1)
    assert torch.equal(codec.decode(high), codec.decode(last))


def test_encode_pads_the_end_to_a_whole_frame(codec, golden):
    wave = golden["clip0_wave"][: codec.hop + 1]
    codes = codec.encode(wave)
    assert codes.shape == (4, 2)
    assert torch.equal(codes, codec.encode(np.pad(wave, (0, codec.hop - 1))))


def test_what_comes_later_does_not_change_earlier_codes(codec, golden):
    wave = golden["clip0_wave"]
    np.testing.assert_array_equal(codec.encode(wave[: 11 * codec.hop]), golden["clip0_codes"][:, :11])


@pytest.mark.parametrize(
    ("codes", "what"),
    [
        (np.zeros((3, 5), np.int64), "frames"),
        (np.zeros(4, np.int64), "frames"),
        (np.zeros((4, 5), np.float32), "integers"),
        (np.zeros((4, 5), bool), "integers"),
        (torch.zeros(4, 5), "integers"),
        (torch.zeros(4, 5, dtype=torch.bool), "integers"),
        (np.full((4, 5), -1), "negative"),
    ],
)
def test_codes_that_do_not_fit_are_refused(codec, codes, what):
    for decode in (codec.decode, codec.stream().decode, lambda c: list(codec.decode_windowed(c))):
        with pytest.raises(ValueError, match=what):
            decode(codes)


@pytest.mark.parametrize(
    "samples",
    [np.zeros(0, np.float32), np.zeros((2, 9), np.float32), np.zeros(9, np.int16), np.array([0.0, np.nan])],
)
def test_samples_that_do_not_fit_are_refused(codec, samples):
    with pytest.raises(ValueError, match=r"[Ss]amples"):
        codec.encode(samples)


@pytest.mark.parametrize("ends", [[5], [5, 5, 12], [8, 4, 12], [12, 13], []])
def test_window_ends_that_do_not_rise_to_the_last_frame_are_refused(codec, ends):
    with pytest.raises(ValueError, match="Window ends"):
        list(codec.decode_windowed(random_codes(12), ends))


def test_windows_end_where_the_reference_ends_them():
    assert window_ends(0) == []
    assert window_ends(10) == [10]
    assert window_ends(64) == [10, 20, 32, 64]
    assert window_ends(200) == [10, 20, 32, 64, 128, 192, 200]


# Checkpoints


def test_published_dims_apply_without_a_codec_json(checkpoint):
    config = CodecConfig.s2_pro()
    assert (config.hop, config.sample_rate) == (2048, 44_100)
    assert config.codebook_sizes == (4096,) + (1024,) * 9
    (checkpoint / "codec.json").unlink()
    with pytest.raises(ValueError, match=r"encoder\.block\.0\.conv.*\[4, 1, 7\], expected \[64, 1, 7\]"):
        Codec.load(checkpoint)


class Shapes(Tensors):
    """Accepts every name and counts the elements asked for, so that a codec can be built without a file."""

    def __init__(self) -> None:
        super().__init__({}, "shapes")
        self.elements = 0

    def take(self, name: str, *shape: int | None) -> torch.Tensor:
        tensor = torch.empty(
            [3072 if n is None and "feed" in name else 4096 if n is None else n for n in shape]
        )
        self.elements += tensor.numel()
        return tensor


def test_published_dims_make_the_391_million_parameters_of_s2_pro():
    with torch.device("meta"):
        Codec(CodecConfig.s2_pro(), shapes := Shapes())
    assert round(shapes.elements / 1e6, 1) == 391.4


def test_safetensors_and_pth_are_the_same_codec_and_extra_keys_are_ignored(codec, checkpoint):
    tensors = torch.load(checkpoint / "codec.pth", weights_only=True)
    tensors["decoder.model.1.transformer.extra"] = torch.zeros(3)
    save_file(tensors, checkpoint / "codec.safetensors")
    (checkpoint / "codec.pth").unlink()
    codes = random_codes(3)
    assert torch.equal(Codec.load(checkpoint).decode(codes), codec.decode(codes))


SOME_TENSORS = [
    "encoder.block.2.block.1.block.2.alpha",
    "encoder.block.4.block.4.conv.parametrizations.weight.original0",
    "encoder.block.4.block.5.layers.1.feed_forward.w1.weight",
    "quantizer.downsample.1.0.conv.weight",
    "quantizer.semantic_quantizer.quantizers.0.codebook.weight",
    "quantizer.quantizer.quantizers.2.out_proj.weight_v",
    "quantizer.post_module.norm.weight",
    "quantizer.upsample.0.1.pwconv1.weight",
    "decoder.model.1.block.1.conv.parametrizations.weight.original1",
    "decoder.model.6.conv.bias",
]


@pytest.mark.parametrize("key", SOME_TENSORS)
@pytest.mark.parametrize("spoil", ["missing", "shape"])
def test_a_tensor_that_is_missing_or_does_not_fit_is_named(checkpoint, key, spoil):
    tensors = torch.load(checkpoint / "codec.pth", weights_only=True)
    tensor = tensors.pop(key)
    if spoil == "shape":
        tensors[key] = tensor.new_zeros(tensor.shape[0], 5, 5, 5)
    torch.save(tensors, checkpoint / "codec.pth")
    with pytest.raises(ValueError, match=f"{key} (is missing|has shape)"):
        Codec.load(checkpoint)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sample_rate", None),
        ("sample_rate", 44_100.0),
        ("encoder_dim", True),
        ("encoder_rates", [2, 4, 8, 0]),
        ("encoder_rates", "2488"),
        ("decoder_rates", [8, 8, 4]),
        ("decoder_dim", 60),
        ("latent_dim", -64),
        ("encoder_transformer_layers", [0, 0, 2]),
        ("encoder_transformer", None),
        ("encoder_transformer.head_dim", 33),
        ("encoder_transformer.window_size", 0),
        ("quantizer", None),
        ("quantizer.input_dim", 32),
        ("quantizer.n_codebooks", None),
        ("quantizer.codebook_size", "16"),
        ("quantizer.downsample_factor", []),
        ("quantizer.transformer.n_layer", None),
        ("quantizer.transformer.dim", 128),
        ("quantizer.transformer.norm_eps", float("nan")),
        ("quantizer.transformer.rope_base", None),
        ("frame_length", 1024),
        ("num_codebooks", 5),
    ],
)
def test_a_codec_json_key_that_is_missing_or_wrong_is_named(key, value):
    data = copy.deepcopy(json.loads((CHECKPOINT / "codec.json").read_text()))
    *path, last = key.split(".")
    section = data
    for part in path:
        section = section[part]
    if value is None:
        del section[last]
    else:
        section[last] = value
    with pytest.raises(ValueError, match=rf"\b{key}\b"):
        CodecConfig.from_json(data)


def test_files_that_can_not_be_read_are_named(checkpoint):
    (checkpoint / "codec.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match=r"codec\.pth"):
        Codec.load(checkpoint)
    (checkpoint / "codec.pth").unlink()
    with pytest.raises(ValueError, match=r"neither codec\.safetensors nor codec\.pth"):
        Codec.load(checkpoint)
    (checkpoint / "codec.safetensors").write_bytes(b"not a checkpoint either")
    with pytest.raises(ValueError, match=r"codec\.safetensors"):
        Codec.load(checkpoint)
    (checkpoint / "codec.json").write_text("{")
    with pytest.raises(ValueError, match=r"codec\.json"):
        Codec.load(checkpoint)
    (checkpoint / "codec.json").write_text("[]")
    with pytest.raises(ValueError, match=r"codec\.json"):
        Codec.load(checkpoint)


def test_a_codec_in_shards_is_the_same_codec(codec, tmp_path):
    tensors = list(torch.load(CHECKPOINT / "codec.pth", weights_only=True).items())
    shutil.copy(CHECKPOINT / "codec.json", tmp_path)
    names = ["codec-00001-of-00002.safetensors", "codec-00002-of-00002.safetensors"]
    parts = dict(zip(names, (tensors[::2], tensors[1::2]), strict=True))
    for name, part in parts.items():
        save_file({key: value.clone() for key, value in part}, tmp_path / name)
    again, codes = Codec.load(tmp_path), torch.zeros(4, 3, dtype=torch.int64)
    assert torch.equal(again.decode(codes), codec.decode(codes))
    (tmp_path / names[1]).unlink()
    with pytest.raises(ValueError, match=r"tensor .* is missing"):
        Codec.load(tmp_path)


# Compiled loops


@pytest.mark.parametrize("schedule", [(1,), (2, 4, 8), (7, 1, 33), (3, 4, 6, 8, 12, 16)])
def test_with_compiled_loops_a_schedule_changes_no_bit(codec, schedule):
    codes = random_codes(100)
    assert torch.equal(stream_decode(codec, codes, schedule), codec.decode(codes))


def test_without_compiled_loops_it_sounds_the_same(codec, plain_layers, monkeypatch):
    codes, plain = random_codes(40), Codec.load(CHECKPOINT)
    assert (codec.latent_dtype, plain.latent_dtype) == (torch.float32, torch.float64)
    heard = plain.decode(codes)
    monkeypatch.undo()
    # The convolutions amplify the rounding of float32 latents tenfold.
    assert difference(heard, codec.decode(codes)) <= 3e-5


def test_without_compiled_loops_a_clip_has_the_same_codes(codec, golden, plain_layers):
    assert torch.equal(
        Codec.load(CHECKPOINT).encode(golden["clip0_wave"]), torch.tensor(golden["clip0_codes"])
    )


@pytest.fixture(params=[(1, 1), (3, 5), (70, 16), (16, 1), (40, 33)], ids=str)
def rows(request) -> tuple[torch.Tensor, int]:
    """Rows [n, 24] and how many columns are wanted of them."""
    n, columns = request.param
    return torch.randn(n, 24, generator=torch.Generator().manual_seed(n)), columns


def test_panels_give_the_product_that_they_were_made_of(rows):
    x, columns = rows
    make = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(24, columns, generator=make), torch.randn(columns, generator=make)
    panels = codec_layers.in_panels(weight, bias)
    got = codec_layers.convolved(compiled_loops()[0], x, (panels, 1, 0), columns)
    torch.testing.assert_close(got, x @ weight + bias, atol=1e-5, rtol=0)


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 16])
def test_a_row_of_a_product_does_not_depend_on_the_others(count):
    make = torch.Generator().manual_seed(0)
    panels = (
        codec_layers.in_panels(torch.randn(24, 40, generator=make), torch.randn(40, generator=make)),
        1,
        0,
    )
    x, loops = torch.randn(20, 24, generator=make), compiled_loops()[0]
    whole = codec_layers.convolved(loops, x, panels, 40)
    assert torch.equal(codec_layers.convolved(loops, x[:count], panels, 40), whole[:count])


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_compiled_snake_is_the_plain_one(codec, scale):
    snake = codec.decoder.blocks[0].snake
    width = len(snake.alpha)
    x = scale * torch.randn(70, width, generator=torch.Generator().manual_seed(0))
    as_it_is = codec_layers.in_panels(torch.eye(width)), 1, 0

    def compiled() -> torch.Tensor:
        return codec_layers.convolved(compiled_loops()[0], x, as_it_is, width, snake=snake)

    assert (compiled() - snake(x)).abs().max() <= 1e-6 * scale + 1e-5
    x.fill_(torch.nan)
    assert compiled().isnan().all()


@pytest.mark.parametrize("part", ["transformer", "unit", "conv_next", "encoder_block"])
@torch.no_grad()
def test_a_compiled_layer_is_the_plain_one(codec, part, monkeypatch):
    layer, positions = {
        "transformer": (codec.upsample.transformer, 16),
        "unit": (codec.decoder.blocks[1].units[2], 64),
        "conv_next": (codec.upsample.stages[1], 32),
        "encoder_block": (codec.encoder.blocks[1], 64),
    }[part]
    width = (
        next(m.inputs for m in layer.modules() if isinstance(m, CausalLayer)) if part != "transformer" else 64
    )
    x = torch.randn(3 * positions, width, generator=torch.Generator().manual_seed(0))
    carries = fresh_carries(layer, 16)
    compiled = torch.cat([layer(piece.clone(), carries) for piece in x.split(positions)])
    monkeypatch.setattr(codec_layers, "compiled_loops", lambda: (None, "none"))
    carries = fresh_carries(layer, 16)
    plain = torch.cat([layer(piece.clone(), carries) for piece in x.split(positions)])
    torch.testing.assert_close(compiled, plain, atol=1e-5, rtol=1e-5)
