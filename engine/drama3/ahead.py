"""Compiles a checkpoint's kernels before a GPU is there: a hosted one counts its seconds.

    python -m engine.drama3.ahead CHECKPOINT 120

for compute capability 12.0. What it makes lies in Triton's cache, where the process that gets the GPU finds
it: Triton is asked as for a launch, with tensors that have shapes and no memory. Prints a line of JSON for
each kernel. Runs in a process of its own, because Triton is told of a GPU that isn't there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from engine.drama3 import codec_kernels, codec_layers, kernels
from engine.drama3.codec import Codec
from engine.drama3.config import Drama3Config
from engine.drama3.fused import FusedStep
from engine.drama3.fused_prompt import FusedPrompt
from engine.drama3.graphs import BLOCKS, CLIP_FRAMES
from engine.drama3.model import TakeState
from engine.drama3.weights import outline
from engine.noise import BLOCK_FRAMES
from engine.sampling import TakeKnobs
from engine.vocoder import EARLY_SCHEDULE

META = torch.device("meta")


class AbsentGpu:
    """What Triton asks of a driver before it launches anything."""

    def __init__(self, capability: int) -> None:
        self.capability, self.target = capability, GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return self.capability  # Triton remembers what it made for each device

    def get_current_stream(self, device: int) -> int:
        return 0


def launch_all(config: Drama3Config, codec: Codec, max_frames: int) -> None:
    """Every launch that the desks make, in bfloat16; `codec` without memory."""
    model = outline(config, torch.bfloat16)
    draws, candidates = config.tower.num_codebooks + 1, len(config.candidate_ids)
    knobs = TakeKnobs.of(1.0, None, 1.0, META)
    state = TakeState.open(model, model.max_rows, max_frames, knobs, noise=None)
    FusedStep(model, state, torch.zeros(BLOCK_FRAMES, draws, candidates, device=META))()
    block = torch.zeros(max(BLOCKS), draws, dtype=torch.int64, device=META)
    reader = FusedPrompt(model, state, block, torch.zeros(1, dtype=torch.int64, device=META))
    for size in BLOCKS:
        reader(size)
    carries = codec.decoder_carries(max(EARLY_SCHEDULE)) | codec.encoder_carries(CLIP_FRAMES)
    for size in EARLY_SCHEDULE:
        codec.decode_block(torch.zeros(codec.num_codebooks, size, dtype=torch.int64, device=META), carries)
    codec.encode_block(torch.zeros(CLIP_FRAMES * codec.hop, 1, device=META), carries)


def compile_ahead(
    config: Drama3Config, codec: Codec, max_frames: int, capability: int
) -> list[dict[str, Any]]:
    """Compile everything for one compute capability; name and bytes of shared memory of each kernel.

    Leaves the process unable to launch a kernel.
    """
    made, run = {}, JITFunction.run

    def compile_alone(kernel: JITFunction, *args: Any, warmup: bool = True, **named: Any) -> None:
        compiled = run(kernel, *args, warmup=True, **named)
        made[compiled.hash] = {
            "kernel": compiled.metadata.name, "sm": capability, "shared_bytes": compiled.metadata.shared
        }  # fmt: skip

    triton.runtime.driver.set_active(AbsentGpu(capability))
    kernels.overlapping.cache_clear()
    JITFunction.run, kernels_for = compile_alone, codec_layers.kernels_for
    codec_layers.kernels_for = lambda x: codec_kernels if x.dtype == torch.float32 else None
    try:
        launch_all(config, codec, max_frames)
    finally:
        JITFunction.run, codec_layers.kernels_for = run, kernels_for
    return list(made.values())


def main() -> None:
    folder, *capabilities = sys.argv[1:]
    config, codec = Drama3Config.from_folder(Path(folder)), Codec.load(Path(folder)).to(META)
    for capability in capabilities:
        for made in compile_ahead(config, codec, 64, int(capability)):
            print(json.dumps(made), flush=True)


if __name__ == "__main__":
    main()
