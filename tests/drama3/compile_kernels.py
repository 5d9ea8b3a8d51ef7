"""Compiles every kernel, as a step and a prefill of Drama 3's size launch them, for GPUs that aren't here.

    python tests/drama3/compile_kernels.py 90 120

Prints a line of JSON for each: kernel, compute capability, bytes of shared memory. Run apart from the tests
of the kernels' arithmetic: those define them for Triton's interpreter.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import full_size
from engine.drama3 import kernels
from engine.drama3.fused import FusedStep
from engine.drama3.model import Drama3Model, TakeState
from engine.sampling import TakeKnobs

META = torch.device("meta")
TYPES = {
    torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float8_e4m3fn: "*fp8e4nv", torch.int64: "*i64",
    torch.int32: "*i32",
}  # fmt: skip
OPTIONS = ("num_warps", "num_stages")


def type_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


class Compiler:
    """Takes the place of a launch: compiles what would be launched, once for each signature."""

    def __init__(self, capabilities: list[int]) -> None:
        self.capabilities, self.seen = capabilities, set()

    def launch(self, kernel: JITFunction, *args: Any, grid: Any, warmup: bool = False, **named: Any) -> None:
        options = {key: named.pop(key) for key in OPTIONS if key in named}
        given = {**dict(zip(kernel.arg_names, args, strict=False)), **named}
        fixed = {p.name for p in kernel.params if p.is_constexpr}
        signature = {
            name: "constexpr" if name in fixed else type_of(given[name]) for name in kernel.arg_names
        }
        place = {name: (index,) for index, name in enumerate(kernel.arg_names)}
        constants = {place[name]: given[name] for name in fixed}
        aligned = {
            place[name]: [["tt.divisibility", 16]]
            for name, value in given.items()
            if name not in fixed and isinstance(value, torch.Tensor)
        }
        key = kernel.fn.__name__, str(constants), str(signature), str(options)
        if key in self.seen:
            return
        self.seen.add(key)
        for capability in self.capabilities:
            source = ASTSource(kernel, signature, constants, aligned)
            made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
            facts = {"kernel": key[0], "sm": capability, "shared_bytes": made.metadata.shared}
            print(json.dumps(facts), flush=True)


def main() -> None:
    compiler = Compiler([int(word) for word in sys.argv[1:]])
    JITFunction.run = lambda kernel, *args, **named: compiler.launch(kernel, *args, **named)
    torch.cuda.is_available = lambda: True  # else float32 is multiplied, as the interpreter needs it
    torch.set_default_dtype(torch.bfloat16)
    with META:
        model = Drama3Model(full_size.config(4))
    torch.set_default_dtype(torch.float32)
    knobs = TakeKnobs.of(1.0, None, 0.9, META)
    state = TakeState.open(model, model.max_rows, 64, knobs, noise=None)
    FusedStep(model, state, torch.zeros(16, 11, 4097, device=META))()
    experts = model.backbone.layers[0].experts.experts
    x = torch.zeros(60, 2048, dtype=torch.bfloat16, device=META)
    index = torch.zeros(60, 8, dtype=torch.int64, device=META)
    kernels.experts_grouped(
        x, index, x[:, :8], experts.gate_up, experts.gate_up_scale, experts.down, experts.down_scale
    )


if __name__ == "__main__":
    main()
