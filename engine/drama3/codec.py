"""The codec of the Drama 3 family: S2-Pro's causal autoencoder. Waveform -> codes, codes -> waveform.

    encode  samples -> encoder (strided convolutions) -> downsample + transformer -> codebooks
    decode  codebooks -> transformer + upsample -> decoder (transposed convolutions) -> samples

Nothing looks ahead, so a take can be decoded frame by frame and sound exactly like the whole: that is
`CodecStream`, and the whole decode is one fresh stream fed every frame. Long inputs pass in blocks of
frames, which bounds memory whatever the length and keeps activations in the processor's cache.

`decode_windowed` is the slow twin, the way the reference streams: windows decoded from silence after
some left context. It repeats work and is only close to the whole decode: the transformer reaches
back layers x (window - 1) frames, 1,016 in S2-Pro, while 32 frames of context are usual.

`trace`, where a method takes one, is a mapping that receives intermediate values of that very pass,
[channels, positions] float32: encoder_output and pre_quantizer from encode; z_q (the sum of the
projected entries), post_module (after the transformer) and latent (the decoder's input) from decode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.drama3.codec_config import CodecConfig, QuantizerConfig, TransformerConfig
from engine.drama3.codec_layers import Carries, Tensors, Trace, fresh_carries, note
from engine.drama3.codec_networks import Codebooks, Decoder, Downsample, Encoder, Upsample
from engine.drama3.compiled import compiled_loops

__all__ = ["Codec", "CodecConfig", "CodecStream", "QuantizerConfig", "TransformerConfig", "window_ends"]

# Frames that pass through the layers together. On one CPU core a codec of 16 channels at the waveform takes
# 1.36 ms a frame in blocks of 8, 1.2 of 16 and 1.14 of 32; no chunk of a take is larger than 16.
BLOCK_FRAMES = 16


def window_ends(frames: int) -> list[int]:
    """Where the windows of the reference end: after 10, 20, 32, 64 frames, then every 64, then the tail."""
    ends = [end for end in (10, 20, 32) if end < frames]
    return [*ends, *range(64, frames, 64), *([frames] if frames else [])]


def latent_dtype(device: str | torch.device) -> torch.dtype:
    """What codes become latents in: float64, or float32 where compiled loops sum every row alike.

    A library's matrix products round differently for different numbers of rows, and the convolutions behind
    amplify that about tenfold: in float32 the tiny codec's schedules differed by 1.2e-5 of full scale, more
    than the 1e-5 that a listener is promised. With latents that are equal they differ by 1e-6. In float64
    they take a quarter of a decode on a CPU; with the loops a tenth, and no schedule changes a bit.
    """
    on_cpu = torch.device(device).type == "cpu"
    return torch.float32 if on_cpu and compiled_loops()[0] else torch.float64


class Codec(nn.Module):
    """The weights of one codec, float32 but for those of its latents; it holds nothing that a take changes.

    Codes are [num_codebooks, frames] integers, the semantic code first; samples are mono float32 at
    `sample_rate`, `hop` of them a frame. Results lie on the codec's device.
    """

    def __init__(self, config: CodecConfig, tensors: Tensors, latents: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.config = config
        self.sample_rate, self.hop = config.sample_rate, config.hop
        self.codebook_sizes = config.codebook_sizes
        self.num_codebooks = len(self.codebook_sizes)
        self.encoder = Encoder(tensors, config)
        self.downsample = Downsample(tensors, config.quantizer)
        self.codebooks = Codebooks(tensors, config.quantizer, self.codebook_sizes, latents)
        self.latent_dtype = latents
        self.upsample = Upsample(tensors, config.quantizer, latents)
        self.decoder = Decoder(tensors, config)

    @classmethod
    def load(cls, folder: Path, device: str | torch.device = "cpu") -> Codec:
        """The codec of a checkpoint folder: codec.safetensors (one file, or shards with an index) or
        codec.pth, and codec.json if there is one.

        Raises ValueError naming the file, the json key or the tensor that is missing or doesn't fit.
        """
        folder = Path(folder)
        config = _read_config(folder)
        source, tensors = _read_tensors(folder)
        return cls(config, Tensors(tensors, source), latent_dtype(device)).to(device)

    @property
    def device(self) -> torch.device:
        return self.codebooks.table.device

    def encode(self, samples: np.ndarray | Tensor, trace: Trace | None = None) -> Tensor:
        """Codes [num_codebooks, ceil(n / hop)] int64 of samples [n] float at `sample_rate`.

        The end is padded with silence to a whole frame. Raises ValueError for anything but one
        channel of at least one finite sample.
        """
        rows, carries = self.checked_samples(samples), self.encoder_carries(BLOCK_FRAMES)
        with torch.no_grad():
            blocks = rows.split(BLOCK_FRAMES * self.hop)
            return torch.cat([self.encode_block(block, carries, trace) for block in blocks], 1)

    def encoder_carries(self, block_frames: int) -> Carries:
        """What a clip leaves behind between blocks of at most so many frames; fresh, it is silence."""
        return fresh_carries(self.encoder, block_frames) | fresh_carries(self.downsample, block_frames)

    def decoder_carries(self, block_frames: int) -> Carries:
        """What a take leaves behind between blocks of at most so many frames; fresh, it is silence."""
        return fresh_carries(self.upsample, block_frames) | fresh_carries(self.decoder, block_frames)

    def encode_block(self, rows: Tensor, carries: Carries, trace: Trace | None = None) -> Tensor:
        """Codes [num_codebooks, f] int64 of the next samples [f * hop, 1] of a clip."""
        latent = self.encoder(rows, carries)
        note(trace, "encoder_output", latent)
        latent = self.downsample(latent, carries)
        note(trace, "pre_quantizer", latent)
        return self.codebooks.nearest(latent)

    def decode(self, codes: np.ndarray | Tensor, trace: Trace | None = None) -> Tensor:
        """Samples [frames * hop] float32 of codes [num_codebooks, frames]: a fresh stream fed all of them.

        Raises ValueError for codes of the wrong shape or dtype, and for negative ones.
        """
        return self.stream().decode(codes, trace)

    def decode_block(self, codes: Tensor, carries: Carries, trace: Trace | None = None) -> Tensor:
        """Samples [f * hop] of codes [num_codebooks, f] int64, f at most the block that `carries` are for."""
        x = self.codebooks.embed(codes).to(self.latent_dtype)
        note(trace, "z_q", x)
        x = self.upsample(x, carries, trace)
        note(trace, "latent", x)
        return self.decoder(x.float(), carries)

    def stream(self) -> CodecStream:
        """The decoding state of one new take."""
        return CodecStream(self)

    def decode_windowed(
        self, codes: np.ndarray | Tensor, ends: Sequence[int] | None = None, left_context: int = 32
    ) -> Iterator[Tensor]:
        """Samples of each window in turn; window i gives the frames from ends[i-1] to ends[i].

        Each is decoded by itself with `left_context` frames before it, which are then dropped, and
        its first position is 0. `ends` must rise to the number of frames; None means `window_ends`.
        Raises ValueError, as the first window is asked for, if they don't or the codes don't fit.
        """
        codes = self.checked_codes(codes)
        frames = codes.shape[1]
        ends = window_ends(frames) if ends is None else [int(end) for end in ends]
        starts = [0, *ends][: len(ends)]
        if any(end <= start for start, end in zip(starts, ends, strict=True)) or [0, *ends][-1] != frames:
            raise ValueError(f"Window ends must rise to the {frames} frames of the codes, not {ends}.")
        if left_context < 0:
            raise ValueError(f"The left context is {left_context} frames; it can't be negative.")
        for start, end in zip(starts, ends, strict=True):
            context = min(left_context, start)
            yield self.decode(codes[:, start - context : end])[context * self.hop :]

    def checked_samples(self, samples: np.ndarray | Tensor) -> Tensor:
        """Samples as [whole frames * hop, 1] float32 on the codec's device."""
        if not isinstance(samples, Tensor):
            samples = torch.tensor(np.asarray(samples))
        if samples.dim() != 1 or not samples.is_floating_point() or not len(samples):
            raise ValueError(
                f"Samples must be [n] floats of one channel, not {list(samples.shape)} {samples.dtype}."
            )
        if not torch.isfinite(samples).all():
            raise ValueError("The samples hold NaN or infinity; use a clip of finite samples.")
        samples = samples.to(self.device, torch.float32)
        return nn.functional.pad(samples, (0, -len(samples) % self.hop)).unsqueeze(1)

    def checked_codes(self, codes: np.ndarray | Tensor) -> Tensor:
        """Codes [num_codebooks, frames] int64 on the codec's device, or ValueError.

        Codes past the end of their codebook are legal and mean its last entry; negative ones are
        refused where looking costs nothing (on the host: on a GPU it would stop the queue, and they
        mean entry 0).
        """
        if not isinstance(codes, Tensor):
            array = np.asarray(codes)
            if array.dtype.kind not in "iu":
                raise ValueError(f"Codes must be integers, not {array.dtype}.")
            codes = torch.from_numpy(array.astype(np.int64))
        if codes.dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            raise ValueError(f"Codes must be integers, not {codes.dtype}.")
        if codes.dim() != 2 or codes.shape[0] != self.num_codebooks:
            raise ValueError(f"Codes must be [{self.num_codebooks}, frames], not {list(codes.shape)}.")
        if codes.device.type == "cpu" and (codes < 0).any():
            raise ValueError(f"Codes must not be negative, but {int(codes.min())} is among them.")
        return codes.to(self.device, torch.int64)


class CodecStream:
    """One take being decoded: made when the take begins, fed its frames in order, then dropped.

    Whatever the sizes of the pieces, their samples joined are the whole decode, and every frame
    enters every convolution once. Its buffers are allocated here and written only in place.
    """

    def __init__(self, codec: Codec, carries: Carries | None = None) -> None:
        self.codec = codec
        self.carries = codec.decoder_carries(BLOCK_FRAMES) if carries is None else carries

    def fork(self) -> CodecStream:
        """A second stream that continues from here; neither touches the other."""
        with torch.inference_mode(False):
            return CodecStream(self.codec, {layer: carry.clone() for layer, carry in self.carries.items()})

    def decode(self, codes: np.ndarray | Tensor, trace: Trace | None = None) -> Tensor:
        """Samples [f * hop] float32 of the next codes [num_codebooks, f], f >= 0.

        Raises what `Codec.checked_codes` raises, and then has heard nothing.
        """
        codes = self.codec.checked_codes(codes)
        if not codes.shape[1]:
            return self.codec.codebooks.table.new_empty(0)
        with torch.inference_mode():
            blocks = [
                self.codec.decode_block(block, self.carries, trace) for block in codes.split(BLOCK_FRAMES, 1)
            ]
        with torch.no_grad():
            return torch.cat(blocks)


def _read_config(folder: Path) -> CodecConfig:
    path = folder / "codec.json"
    if not path.is_file():
        return CodecConfig.s2_pro()
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not json: {error}.") from error
    return CodecConfig.from_json(data)


def _read_tensors(folder: Path) -> tuple[str, dict[str, Tensor]]:
    """The name of the weights file and its tensors, by the names of S2-Pro's own file."""
    files = sorted(folder.glob("codec*.safetensors"))
    if files:
        return files[0].name, {name: tensor for file in files for name, tensor in _read_shard(file).items()}
    path = folder / "codec.pth"
    if not path.is_file():
        raise ValueError(f"{folder} holds neither codec.safetensors nor codec.pth.")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its unpickler, zip reader or version check does
        raise ValueError(f"{path} can't be read as a dict of tensors: {error}.") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path} must hold a dict of tensors, not a {type(data).__name__}.")
    return path.name, {name: value for name, value in data.items() if isinstance(value, Tensor)}


def _read_shard(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} can't be read: {error}.") from error
