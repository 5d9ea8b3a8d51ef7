"""A random checkpoint as large as Drama 3, made on the device: for speed, weights needn't mean anything.

Shape: the LIKELY config of the Drama 3 notes with four shared tower layers of width 6,144, routed experts in
block-FP8, all else bfloat16: about 36 GB. Seeded. Small weights keep activations finite and the router's
choice near uniform. Never written to a file.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer

from engine.drama3 import weights
from engine.drama3.codec import Codec
from engine.drama3.codec_config import CodecConfig
from engine.drama3.config import Drama3Config, QuantizationConfig, TextConfig, TowerConfig
from engine.drama3.family import Drama3Family
from engine.drama3.model import Drama3Model

FP8 = torch.float8_e4m3fn
TOKENIZER = Path(__file__).resolve().parent.parent / "assets/understudy/tokenizer.json"  # a byte a token
CONVNEXT = 4  # its inner width over its own


def config(num_layers: int = 40) -> Drama3Config:
    """The LIKELY config, with fewer backbone layers where only some are wanted."""
    kinds = tuple("full_attention" if i % 4 == 3 else "linear_attention" for i in range(num_layers))
    text = TextConfig(
        vocab_size=252_288, hidden_size=2048, num_hidden_layers=num_layers, num_attention_heads=16,
        num_key_value_heads=2, head_dim=256, max_position_embeddings=32_768, num_experts=256,
        num_experts_per_tok=8, moe_intermediate_size=512, shared_expert_intermediate_size=512,
        linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=16,
        linear_num_value_heads=32, rms_norm_eps=1e-6, rope_theta=1e7, partial_rotary_factor=0.25,
        layer_types=kinds,
    )  # fmt: skip
    tower = TowerConfig(
        dim=2048, n_head=16, n_local_heads=2, head_dim=256, shared_enrichment_layers=4,
        intermediate_size=6144, num_codebooks=10, vocab_size=4096, norm_eps=1e-6, rope_base=10_000.0,
        rotary_percent=0.5, vq_feature_placement="backbone_partial", vq_backbone_codebooks=5,
    )  # fmt: skip
    start = 248_190
    return Drama3Config(
        text, tower, QuantizationConfig("bsgemm-moe", (128, 128)), start, start + 4095, 248_046
    )


def outline(num_layers: int = 40) -> Drama3Model:
    """The model without its weights: bfloat16 but for its experts, on no device."""
    return weights.outline(config(num_layers), torch.bfloat16)


def model(device: torch.device, num_layers: int = 40, seed: int = 0) -> Drama3Model:
    """The filled model."""
    made = outline(num_layers).to_empty(device=device)
    draws = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            _fill(name, weight, draws)
        for module in made.modules():
            if hasattr(module, "finish"):
                module.finish()
    return made.eval()


def _fill(name: str, weight: torch.Tensor, draws: torch.Generator) -> None:
    if weight.dtype == FP8:  # any byte but the two that are NaN: exponents up to 2^2
        for part in weight.view(torch.uint8):
            part.random_(0, 0x48, generator=draws)
            part.bitwise_or_((part.clone().random_(0, 2, generator=draws) * 0x80).to(torch.uint8))
    elif name.endswith("_scale"):
        weight.fill_(2048**-0.5)
    elif name.endswith("dt_bias"):
        weight.fill_(-4.0)
    elif name.endswith("mixer.gain"):
        weight.fill_(1.0)
    elif weight.is_floating_point() and weight.dim() == 1:
        weight.zero_()  # gains are kept as 1 + w, log rates as exp(0)
    elif weight.is_floating_point():
        weight.normal_(0.0, weight.shape[-1] ** -0.5, generator=draws)


class RandomTensors:
    """Stands in for a codec's file: every tensor it is asked for, seeded."""

    def __init__(self, seed: int) -> None:
        self.draws = torch.Generator().manual_seed(seed)

    def take(self, name: str, *shape: int | None) -> torch.Tensor:
        """Gains and slopes are 1, biases 0, all else normal with the deviation of its inputs."""
        sizes = [CONVNEXT * shape[-1] if size is None else size for size in shape]
        if name.endswith(("alpha", "gamma", "norm.weight", "_norm.weight")):
            return torch.ones(sizes)
        if name.endswith("bias"):
            return torch.zeros(sizes)
        return self.weight(name, *sizes)

    def weight(self, name: str, *shape: int) -> torch.Tensor:
        inputs = max(1, torch.Size(shape[1:]).numel())
        return torch.empty(shape).normal_(0.0, inputs**-0.5, generator=self.draws)


def codec(device: torch.device, seed: int = 0) -> Codec:
    """S2-Pro's codec with random weights."""
    return Codec(CodecConfig.s2_pro(), RandomTensors(seed)).to(device)


def family(device: torch.device, num_layers: int = 40) -> Drama3Family:
    """All of it as a family that performs takes (of noise)."""
    torch.backends.cudnn.allow_tf32 = False
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    return Drama3Family(
        "random",
        f"{num_layers} layers",
        config(num_layers),
        model(device, num_layers),
        codec(device),
        tokenizer,
    )
