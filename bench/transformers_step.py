"""The backbone of Drama 3 as transformers has it: its Qwen3.5-MoE text model, random weights, in bfloat16.

What `step.py --transformers` measures ours against. The experts are bfloat16 (transformers has no path for
block-FP8 ones at one row), so a step reads twice their bytes; tower, draws and codes are not in it. The model
takes whatever experts implementation and whatever convolution and delta-rule functions are its defaults.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bench.floor import device_ms
from engine.drama3.config import TextConfig


def text_model(c: TextConfig, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    """transformers' text model of our shape, filled on the device."""
    from transformers import Qwen3_5MoeTextConfig, Qwen3_5MoeTextModel  # late: only this variant needs it

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            made = Qwen3_5MoeTextModel(Qwen3_5MoeTextConfig(**_shape(c)))
    finally:
        torch.set_default_dtype(before)
    made.to_empty(device=device)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            _fill(name, weight)
    # Its frequencies are a buffer that no checkpoint holds, so they are computed again off the meta device.
    made.rotary_emb = type(made.rotary_emb)(config=made.config).to(device)
    return made.eval()


def _shape(c: TextConfig) -> dict[str, Any]:
    same = (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "max_position_embeddings", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
        "shared_expert_intermediate_size", "linear_conv_kernel_dim", "linear_key_head_dim",
        "linear_value_head_dim", "linear_num_key_heads", "linear_num_value_heads", "rms_norm_eps",
    )  # fmt: skip
    rope = {
        "rope_type": "default",
        "rope_theta": c.rope_theta,
        "partial_rotary_factor": c.partial_rotary_factor,
    }
    return {name: getattr(c, name) for name in same} | {
        "layer_types": list(c.layer_types),
        "rope_parameters": rope,
    }


def _fill(name: str, weight: torch.Tensor) -> None:
    if name.endswith("dt_bias"):
        weight.fill_(-4.0)
    elif name.endswith("linear_attn.norm.weight"):
        weight.fill_(1.0)
    elif weight.dim() == 1:
        weight.zero_()  # gains are kept as 1 + w, log rates as exp(0)
    else:
        weight.normal_(0.0, weight.shape[-1] ** -0.5)


class Stepper:
    """One row a step behind `rows` prompt rows of noise, with one of transformers' caches."""

    def __init__(self, model: nn.Module, rows: int, room: int, static: bool) -> None:
        from transformers import DynamicCache, StaticCache

        self.model = model
        self.cache = StaticCache(model.config, rows + room) if static else DynamicCache(config=model.config)
        like = model.norm.weight
        self.row = torch.randn(1, 1, len(like), device=like.device, dtype=like.dtype)
        self._read(torch.randn(1, rows, len(like), device=like.device, dtype=like.dtype))

    @torch.inference_mode()
    def _read(self, rows: torch.Tensor) -> torch.Tensor:
        read = self.model(inputs_embeds=rows, past_key_values=self.cache, use_cache=True)
        return read.last_hidden_state

    def step(self) -> torch.Tensor:
        return self._read(self.row)

    def describe(self) -> dict[str, str]:
        """Which cache, its kinds of layers, and which implementations the model runs by default."""
        layers = dict.fromkeys(type(layer).__name__ for layer in self.cache.layers)
        config = self.model.config
        return {
            "cache": f"{type(self.cache).__name__} ({', '.join(layers)})",
            "experts": str(config._experts_implementation),
            "attention": str(config._attn_implementation),
        }


def eager_steps(model: nn.Module, rows: int, count: int) -> tuple[list[float], dict[str, str]]:
    """(milliseconds of each of `count` steps as they come, what ran)."""
    stepper = Stepper(model, rows, count + 4, static=False)
    took = [device_ms(stepper.step) for _ in range(count + 4)][4:]
    return took, stepper.describe()


def graph_steps(model: nn.Module, rows: int, count: int) -> tuple[list[float], dict[str, str]]:
    """The same as one CUDA graph over a static cache; RuntimeError where that can't be captured."""
    stepper = Stepper(model, rows, count + 8, static=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        stepper.step()
        stepper.step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stepper.step()
    took = [device_ms(graph.replay) for _ in range(count + 4)][4:]
    return took, stepper.describe()
