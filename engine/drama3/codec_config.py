"""What a codec checkpoint says about itself: the dims of S2-Pro's codec, read from `codec.json`.

The real repository ships no such file; `CodecConfig.s2_pro()` holds the dims of S2-Pro's published
configuration, and nothing else in the project repeats them. Whatever follows from a tensor's shape
(feed-forward widths, for instance) is left to the file that holds the tensors.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass

from engine.drama3.json_section import ConfigError, Section


@dataclass(frozen=True)
class TransformerConfig:
    """A causal transformer that sees the last `window_size` positions, its own included.

    None means: the tensors say (`intermediate_size`), or as many heads as fit the width (`n_head`).
    """

    head_dim: int
    window_size: int
    rope_base: float
    norm_eps: float
    n_layer: int | None = None
    n_head: int | None = None
    dim: int | None = None
    intermediate_size: int | None = None


@dataclass(frozen=True)
class QuantizerConfig:
    """One semantic codebook and `n_codebooks` residual ones, between two transformers."""

    input_dim: int
    n_codebooks: int
    codebook_size: int
    codebook_dim: int
    semantic_codebook_size: int
    downsample_factor: tuple[int, ...]
    transformer: TransformerConfig


@dataclass(frozen=True)
class CodecConfig:
    """The dims of one codec; immutable, checked once, at the door.

    `encoder_transformer` is None if no encoder block ends in a transformer. The published
    configuration also lists transformers in the decoder, but the model holds none and none is read.
    """

    sample_rate: int  # Hz
    encoder_dim: int
    encoder_rates: tuple[int, ...]
    latent_dim: int
    decoder_dim: int
    decoder_rates: tuple[int, ...]
    encoder_transformer_layers: tuple[int, ...]  # per encoder block
    encoder_transformer: TransformerConfig | None
    quantizer: QuantizerConfig

    @property
    def hop(self) -> int:
        """Samples per code frame."""
        return math.prod(self.encoder_rates) * math.prod(self.quantizer.downsample_factor)

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        return (self.quantizer.semantic_codebook_size,) + (
            self.quantizer.codebook_size,
        ) * self.quantizer.n_codebooks

    @classmethod
    def s2_pro(cls) -> CodecConfig:
        """S2-Pro's published configuration: 44.1 kHz, 2,048 samples a frame, ten codebooks."""
        return cls(
            sample_rate=44_100,
            encoder_dim=64,
            encoder_rates=(2, 4, 8, 8),
            latent_dim=1024,
            decoder_dim=1536,
            decoder_rates=(8, 8, 4, 2),
            encoder_transformer_layers=(0, 0, 0, 4),
            encoder_transformer=TransformerConfig(64, 512, 10_000.0, 1e-5),
            quantizer=QuantizerConfig(
                input_dim=1024,
                n_codebooks=9,
                codebook_size=1024,
                codebook_dim=8,
                semantic_codebook_size=4096,
                downsample_factor=(2, 2),
                transformer=TransformerConfig(64, 128, 10_000.0, 1e-5, 8, 16, 1024, 3072),
            ),
        )

    @classmethod
    def from_json(cls, data: object) -> CodecConfig:
        """The config of a parsed `codec.json`.

        Raises ConfigError with the name of the first key that is missing, has the wrong type, or
        contradicts another key. Unknown keys are ignored.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"codec.json holds {reprlib.repr(data)}; it must be an object.")
        section = Section(data, "codec.json: ")
        rates = section.integers("encoder_rates")
        layers = section.integers("encoder_transformer_layers", least=0)
        config = cls(
            sample_rate=section.integer("sample_rate"),
            encoder_dim=section.integer("encoder_dim"),
            encoder_rates=rates,
            latent_dim=section.integer("latent_dim"),
            decoder_dim=section.integer("decoder_dim"),
            decoder_rates=section.integers("decoder_rates"),
            encoder_transformer_layers=layers,
            encoder_transformer=_transformer(section.section("encoder_transformer")) if any(layers) else None,
            quantizer=_quantizer(section.section("quantizer")),
        )
        _check(config, section)
        return config


def _transformer(section: Section) -> TransformerConfig:
    config = TransformerConfig(
        head_dim=section.integer("head_dim"),
        window_size=section.integer("window_size"),
        rope_base=section.number("rope_base"),
        norm_eps=section.number("norm_eps"),
        n_layer=section.optional("n_layer"),
        n_head=section.optional("n_head"),
        dim=section.optional("dim"),
        intermediate_size=section.optional("intermediate_size"),
    )
    if config.head_dim % 2:
        raise section.fail("head_dim", "even")
    return config


def _quantizer(section: Section) -> QuantizerConfig:
    transformer = section.section("transformer")
    transformer.integer("n_layer")  # optional for an encoder block, where another list counts the layers
    return QuantizerConfig(
        input_dim=section.integer("input_dim"),
        n_codebooks=section.integer("n_codebooks"),
        codebook_size=section.integer("codebook_size"),
        codebook_dim=section.integer("codebook_dim"),
        semantic_codebook_size=section.integer("semantic_codebook_size"),
        downsample_factor=section.integers("downsample_factor"),
        transformer=_transformer(transformer),
    )


def _check_width(transformer: TransformerConfig, width: int, section: Section) -> None:
    """The transformer has no projections around it, so its width is that of its surroundings."""
    if transformer.dim not in (None, width):
        raise section.fail("dim", f"{width}, the width of the layers around it")
    if transformer.n_head is None and width % transformer.head_dim:
        raise section.fail("head_dim", f"a divisor of {width}, the width of the layers around it")


def _check(config: CodecConfig, section: Section) -> None:
    """What must agree between keys."""
    encoder_hop, decoder_hop = math.prod(config.encoder_rates), math.prod(config.decoder_rates)
    if encoder_hop != decoder_hop:
        raise section.fail("decoder_rates", f"numbers that multiply to {encoder_hop}, as encoder_rates do")
    if len(config.encoder_transformer_layers) != len(config.encoder_rates):
        raise section.fail("encoder_transformer_layers", "one number for each of encoder_rates")
    if config.decoder_dim % 2 ** len(config.decoder_rates):
        raise section.fail("decoder_dim", f"a number that can be halved {len(config.decoder_rates)} times")
    quantizer = section.section("quantizer")
    if config.quantizer.input_dim != config.latent_dim:
        raise quantizer.fail("input_dim", f"latent_dim, {config.latent_dim}")
    _check_width(config.quantizer.transformer, config.quantizer.input_dim, quantizer.section("transformer"))
    if section.optional("frame_length") not in (None, config.hop):
        raise section.fail("frame_length", f"{config.hop}, the product of the rates")
    if section.optional("num_codebooks") not in (None, len(config.codebook_sizes)):
        raise section.fail("num_codebooks", f"quantizer.n_codebooks + 1, {len(config.codebook_sizes)}")
    for block, layers in enumerate(config.encoder_transformer_layers, start=1):
        if layers and config.encoder_transformer is not None:
            width = config.encoder_dim * 2**block
            _check_width(config.encoder_transformer, width, section.section("encoder_transformer"))
