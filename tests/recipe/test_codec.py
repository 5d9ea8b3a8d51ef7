"""The codec that is trained is the codec that the engine performs with."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.models import UNDERSTUDY

GOLDEN = Path(__file__).parents[1] / "data" / "drama3_tiny"
SOUND_GATE = 1e-4  # of full scale: float32 and weight norms computed on the way
RATE, HOP = 24_000, 1024


@pytest.fixture(scope="module")
def codec(recipe):
    return recipe.codec.Codec.load(UNDERSTUDY)


@pytest.fixture(scope="module")
def sound() -> torch.Tensor:
    """A second of a voice that rises from 120 to 180 Hz: six harmonics, some breath."""
    at = torch.arange(RATE) / RATE
    turn = 2 * math.pi * (120 * at + 30 * at.square())
    breath = 0.003 * torch.randn(RATE, generator=torch.Generator().manual_seed(0))
    return sum(0.15 / k * torch.sin(k * turn + k) for k in range(1, 7)) + breath


def test_a_sound_has_the_engines_codes(codec, family, sound):
    with torch.inference_mode():
        mine = codec.encode(sound[None])[0]
    theirs = family.codec.encode(sound)
    assert mine.shape == theirs.shape == (6, math.ceil(RATE / HOP))
    assert (mine == theirs).float().mean() >= 0.95  # a tie may fall the other way
    assert len(theirs[0].unique()) > 3  # the sound moves, and so do the codes


def test_codes_have_the_engines_sound(codec, family):
    codes = torch.randint(0, 1024, (6, 48), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        mine = codec.decode(codes[None])[0]
    theirs = family.codec.decode(codes)
    assert mine.shape == theirs.shape
    assert theirs.abs().max() > 0.05
    assert (mine - theirs).abs().max() <= SOUND_GATE


@torch.inference_mode()
def test_each_code_adds_its_embedding_to_the_sum_of_those_before_it(codec, sound):
    sums, codes, *_ = codec.quantizer.quantise(codec.encoder(sound[None, None, : 12 * HOP]))
    semantic, residual = (
        q.quantizers for q in (codec.quantizer.semantic_quantizer, codec.quantizer.quantizer)
    )
    embedded = [q.out_proj(q.embed(codes[:, i])) for i, q in enumerate((*semantic, *residual))]
    assert len(sums) == len(embedded) == 6
    for n, each in enumerate(sums, 1):
        torch.testing.assert_close(each, torch.stack(embedded[:n]).sum(0), rtol=0, atol=1e-4)


# The golden codec, whose encoder has a transformer that the recipe's lacks


@pytest.fixture(scope="module")
def golden() -> dict[str, torch.Tensor]:
    with np.load(GOLDEN / "codec.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


@pytest.fixture(scope="module")
def gates() -> dict[str, float]:
    every = json.loads((GOLDEN / "gates.json").read_text())["gates"]
    return {
        key.removeprefix("codec.npz:"): gate["abs"]
        for key, gate in every.items()
        if key.startswith("codec") and "abs" in gate
    }


@pytest.fixture(scope="module")
def tiny(recipe):
    made = recipe.codec.Codec(json.loads((GOLDEN / "checkpoint" / "codec.json").read_text()))
    tensors = torch.load(GOLDEN / "checkpoint" / "codec.pth", weights_only=True)
    wrong = made.load_state_dict(tensors, strict=False)
    assert all(key.startswith("encoder.") for key in (*wrong.missing_keys, *wrong.unexpected_keys))
    return made.eval()


@torch.inference_mode()
def test_golden_codes_become_the_golden_sound(tiny, golden, gates):
    codes, quantizer = golden["decode_codes"][None], tiny.quantizer
    latent = quantizer.decode(codes)
    for name, value in {"latent": latent, "audio": tiny.decoder(latent)[:, 0]}.items():
        assert (value[0] - golden[f"decode_{name}"]).abs().max() <= gates[f"decode_{name}"], name


@pytest.mark.parametrize("clip", ["clip0", "clip1"])
@torch.inference_mode()
def test_what_the_golden_encoder_heard_has_the_golden_codes(tiny, golden, gates, clip):
    heard, quantizer = golden[f"{clip}_encoder_output"][None], tiny.quantizer
    before = quantizer.pre_module(quantizer.downsample(heard))[0]
    assert (before - golden[f"{clip}_pre_quantizer"]).abs().max() <= gates[f"{clip}_pre_quantizer"]
    assert torch.equal(quantizer.quantise(heard)[1][0], golden[f"{clip}_codes"])
