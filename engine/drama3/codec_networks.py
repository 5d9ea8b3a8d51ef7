"""The codec's networks, put together from its layers: encoder, downsample, codebooks, upsample, decoder.

Structure and tensor names are those of the Drama 3 notes, section 9. As in the layers, activations are
[positions, channels] and a take's memory comes in as `carries`.
"""

from __future__ import annotations

from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.drama3.codec_config import CodecConfig, QuantizerConfig, TransformerConfig
from engine.drama3.codec_layers import (
    Carries,
    CausalConv,
    ConvNeXt,
    Panels,
    ResidualUnit,
    Snake,
    Tensors,
    Trace,
    UpConv,
    WindowTransformer,
    convolved,
    in_panels,
    loops_for,
    note,
    pointwise,
)


class EncoderBlock(nn.Module):
    """Three residual units, a strided convolution that doubles the channels, perhaps a transformer."""

    def __init__(
        self,
        tensors: Tensors,
        name: str,
        channels: int,
        rate: int,
        layers: int,
        transformer: TransformerConfig | None,
        positions_per_frame: int,
    ) -> None:
        super().__init__()
        self.units = nn.ModuleList(
            ResidualUnit(tensors, f"{name}.block.{i}", channels, dilation)
            for i, dilation in enumerate((1, 3, 9))
        )
        self.snake = Snake(tensors, f"{name}.block.3", channels)
        self.down = CausalConv(tensors, f"{name}.block.4", (channels, 2 * channels), 2 * rate, stride=rate)
        self.transformer = None
        if layers and transformer is not None:
            self.transformer = WindowTransformer(
                tensors, f"{name}.block.5", 2 * channels, layers, transformer, positions_per_frame
            )

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        for unit in self.units:
            x = unit(x, carries)
        x = self.down(x, carries, self.snake)
        return x if self.transformer is None else self.transformer(x, carries)


class Encoder(nn.Module):
    """Samples [n, 1] -> latent [n / prod(encoder_rates), latent_dim]."""

    def __init__(self, tensors: Tensors, config: CodecConfig) -> None:
        super().__init__()
        self.first = CausalConv(tensors, "encoder.block.0", (1, config.encoder_dim), 7)
        self.blocks = nn.ModuleList()
        per_frame = config.hop
        for i, rate in enumerate(config.encoder_rates):
            per_frame //= rate
            self.blocks.append(
                EncoderBlock(
                    tensors,
                    f"encoder.block.{i + 1}",
                    config.encoder_dim * 2**i,
                    rate,
                    config.encoder_transformer_layers[i],
                    config.encoder_transformer,
                    per_frame,
                )
            )
        end, channels = len(self.blocks) + 1, config.encoder_dim * 2 ** len(self.blocks)
        self.snake = Snake(tensors, f"encoder.block.{end}", channels)
        self.last = CausalConv(tensors, f"encoder.block.{end + 1}", (channels, config.latent_dim), 3)

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        x = self.first(x, carries)
        for block in self.blocks:
            x = block(x, carries)
        return self.last(x, carries, self.snake)


class DecoderBlock(nn.Module):
    """A transposed convolution that halves the channels, then three residual units."""

    def __init__(self, tensors: Tensors, name: str, channels: int, rate: int) -> None:
        super().__init__()
        self.snake = Snake(tensors, f"{name}.block.0", channels)
        self.up = UpConv(tensors, f"{name}.block.1", (channels, channels // 2), 2 * rate, rate)
        self.units = nn.ModuleList(
            ResidualUnit(tensors, f"{name}.block.{i}", channels // 2, dilation)
            for i, dilation in enumerate((1, 3, 9), start=2)
        )

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        x = self.up(x, carries, self.snake)
        for unit in self.units:
            x = unit(x, carries)
        return x


class Decoder(nn.Module):
    """Latent [n, latent_dim] -> samples [n * prod(decoder_rates)] within -1..1."""

    def __init__(self, tensors: Tensors, config: CodecConfig) -> None:
        super().__init__()
        channels, count = config.decoder_dim, len(config.decoder_rates)
        self.first = CausalConv(tensors, "decoder.model.0", (config.latent_dim, channels), 7)
        self.blocks = nn.ModuleList(
            DecoderBlock(tensors, f"decoder.model.{i + 1}", channels // 2**i, rate)
            for i, rate in enumerate(config.decoder_rates)
        )
        channels //= 2**count
        self.snake = Snake(tensors, f"decoder.model.{count + 1}", channels)
        self.last = CausalConv(tensors, f"decoder.model.{count + 2}", (channels, 1), 7)

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        x = self.first(x, carries)
        for block in self.blocks:
            x = block(x, carries)
        return self.last(x, carries, self.snake).squeeze(1).tanh_()


class Codebooks(nn.Module):
    """The residual vector quantizer: the semantic codebook first, then the residual ones.

    Entries of all books lie in one table; `offsets` says where each begins.
    """

    def __init__(
        self, tensors: Tensors, config: QuantizerConfig, sizes: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        super().__init__()
        width, inner = config.input_dim, config.codebook_dim
        names = ["quantizer.semantic_quantizer.quantizers.0"]
        names += [f"quantizer.quantizer.quantizers.{i}" for i in range(config.n_codebooks)]
        table = [tensors.take(f"{n}.codebook.weight", s, inner) for n, s in zip(names, sizes, strict=True)]
        self.register_buffer("table", torch.cat(table))  # [sum(sizes), codebook_dim]
        self.sizes, self.inner = sizes, inner
        offsets = torch.tensor([sum(sizes[:i]) for i in range(len(sizes))])
        self.register_buffer("offsets", offsets)
        self.register_buffer("last_codes", torch.tensor(sizes) - 1)
        in_weight = [tensors.weight(f"{n}.in_proj", inner, width, 1)[..., 0].t() for n in names]
        self.register_buffer("in_weight", torch.stack(in_weight))  # [books, width, codebook_dim]
        in_bias = [tensors.take(f"{n}.in_proj.bias", inner) for n in names]
        self.register_buffer("in_bias", torch.stack(in_bias))
        out_weight = [tensors.weight(f"{n}.out_proj", width, inner, 1)[..., 0].t() for n in names]
        self.register_buffer("out_weight", torch.stack(out_weight))  # [books, codebook_dim, width]
        out_bias = [tensors.take(f"{n}.out_proj.bias", width) for n in names]
        self.register_buffer("out_bias", torch.stack(out_bias))
        self.register_buffer("sum_weight", self.out_weight.flatten(0, 1).to(dtype))
        self.register_buffer("sum_bias", self.out_bias.sum(0).to(dtype))

    def nearest(self, x: Tensor) -> Tensor:
        """Rows [n, width] -> codes [books, n] int64: by cosine, each book on what the ones before left."""
        codes = []
        for book, entries in enumerate(self.table.split(self.sizes)):
            z = F.normalize(pointwise(x, self.in_weight[book], self.in_bias[book]), dim=-1)
            code = (z @ F.normalize(entries, dim=-1).t()).argmax(-1)
            codes.append(code)
            x = x - pointwise(entries[code], self.out_weight[book], self.out_bias[book])
        return torch.stack(codes)

    def embed(self, codes: Tensor) -> Tensor:
        """Codes [books, n] int64 -> the sum of their projected entries [n, width], in `dtype`.

        Codes past the end of their book become its last entry: the model's heads can emit up to the
        size of the largest book (Drama 3 notes, section 9.3).
        """
        index = codes.t().clamp(min=0).minimum(self.last_codes) + self.offsets
        entries = F.embedding(index, self.table).flatten(1)  # [n, books * codebook_dim]
        entries = entries.to(self.sum_weight.dtype)
        if loops := loops_for(entries):
            return convolved(loops, entries, self.panels, len(self.sum_bias))
        return pointwise(entries, self.sum_weight, self.sum_bias)

    @cached_property
    def panels(self) -> Panels:
        return in_panels(self.sum_weight, self.sum_bias), 1, 0


class Downsample(nn.Module):
    """Encoder latents [n, width] -> what the codebooks see [n / prod(downsample_factor), width]."""

    def __init__(self, tensors: Tensors, config: QuantizerConfig) -> None:
        super().__init__()
        width, transformer = config.input_dim, config.transformer
        self.stages = nn.ModuleList()
        for i, factor in enumerate(config.downsample_factor):
            name = f"quantizer.downsample.{i}"
            self.stages.append(CausalConv(tensors, f"{name}.0", (width, width), factor, stride=factor))
            self.stages.append(ConvNeXt(tensors, f"{name}.1", width))
        layers = transformer.n_layer or 0
        name = "quantizer.pre_module"
        self.transformer = WindowTransformer(tensors, name, width, layers, transformer, 1)

    def forward(self, x: Tensor, carries: Carries) -> Tensor:
        for stage in self.stages:
            x = stage(x, carries)
        return self.transformer(x, carries)


class Upsample(nn.Module):
    """Embedded code frames [n, width] -> decoder latents [n * prod(downsample_factor), width]."""

    def __init__(self, tensors: Tensors, config: QuantizerConfig, dtype: torch.dtype) -> None:
        super().__init__()
        width, transformer = config.input_dim, config.transformer
        layers = transformer.n_layer or 0
        name = "quantizer.post_module"
        self.transformer = WindowTransformer(tensors, name, width, layers, transformer, 1).to(dtype)
        self.stages = nn.ModuleList()
        for i, factor in enumerate(reversed(config.downsample_factor)):
            name = f"quantizer.upsample.{i}"
            self.stages.append(UpConv(tensors, f"{name}.0", (width, width), factor, factor).to(dtype))
            self.stages.append(ConvNeXt(tensors, f"{name}.1", width).to(dtype))

    def forward(self, x: Tensor, carries: Carries, trace: Trace | None) -> Tensor:
        x = self.transformer(x, carries)
        note(trace, "post_module", x)
        for stage in self.stages:
            x = stage(x, carries)
        return x
