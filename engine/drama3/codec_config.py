"""What a codec checkpoint says about itself: the dims of S2-Pro's codec, read from `codec.json`.

The real repository ships no such file; `CodecConfig.s2_pro()` holds the dims of S2-Pro's published
configuration, and nothing else in the project repeats them. Whatever follows from a tensor's shape
(feed-forward widths, for instance) is left to the file that holds the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


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

        Raises ValueError with the name of the first key that is missing, has the wrong type, or
        contradicts another key. Unknown keys are ignored.
        """
        fields = _Fields(data, "codec.json", "")
        rates = fields.integers("encoder_rates")
        layers = fields.integers("encoder_transformer_layers", low=0)
        config = cls(
            sample_rate=fields.integer("sample_rate"),
            encoder_dim=fields.integer("encoder_dim"),
            encoder_rates=rates,
            latent_dim=fields.integer("latent_dim"),
            decoder_dim=fields.integer("decoder_dim"),
            decoder_rates=fields.integers("decoder_rates"),
            encoder_transformer_layers=layers,
            encoder_transformer=_transformer(fields.section("encoder_transformer")) if any(layers) else None,
            quantizer=_quantizer(fields.section("quantizer")),
        )
        _check(config, fields)
        return config


class _Fields:
    """Typed reads from one json object; every complaint names the dotted key."""

    def __init__(self, data: object, key: str, prefix: str) -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"codec.json: {key} must be an object, not {data!r}.")
        self.data, self.prefix = data, prefix

    def fail(self, key: str, what: str) -> ValueError:
        return ValueError(f"codec.json: {self.prefix}{key} {what}.")

    def _get(self, key: str) -> object:
        if key not in self.data:
            raise self.fail(key, "is missing")
        return self.data[key]

    def section(self, key: str) -> _Fields:
        return _Fields(self._get(key), self.prefix + key, f"{self.prefix}{key}.")

    def integer(self, key: str) -> int:
        value = self._get(key)
        if type(value) is not int or value < 1:
            raise self.fail(key, f"must be a positive integer, not {value!r}")
        return value

    def optional(self, key: str) -> int | None:
        return self.integer(key) if key in self.data else None

    def positive(self, key: str) -> float:
        value = self._get(key)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self.fail(key, f"must be a positive number, not {value!r}")
        return float(value)

    def integers(self, key: str, low: int = 1) -> tuple[int, ...]:
        value = self._get(key)
        if not isinstance(value, list) or not value or any(type(n) is not int or n < low for n in value):
            raise self.fail(key, f"must be a list of integers of at least {low}, not {value!r}")
        return tuple(value)


def _transformer(fields: _Fields) -> TransformerConfig:
    config = TransformerConfig(
        head_dim=fields.integer("head_dim"),
        window_size=fields.integer("window_size"),
        rope_base=fields.positive("rope_base"),
        norm_eps=fields.positive("norm_eps"),
        n_layer=fields.optional("n_layer"),
        n_head=fields.optional("n_head"),
        dim=fields.optional("dim"),
        intermediate_size=fields.optional("intermediate_size"),
    )
    if config.head_dim % 2:
        raise fields.fail("head_dim", f"must be even, not {config.head_dim}")
    return config


def _quantizer(fields: _Fields) -> QuantizerConfig:
    section = fields.section("transformer")
    section.integer("n_layer")  # optional for an encoder block, where another list counts the layers
    return QuantizerConfig(
        input_dim=fields.integer("input_dim"),
        n_codebooks=fields.integer("n_codebooks"),
        codebook_size=fields.integer("codebook_size"),
        codebook_dim=fields.integer("codebook_dim"),
        semantic_codebook_size=fields.integer("semantic_codebook_size"),
        downsample_factor=fields.integers("downsample_factor"),
        transformer=_transformer(section),
    )


def _check_width(transformer: TransformerConfig, width: int, fields: _Fields) -> None:
    """The transformer has no projections around it, so its width is that of its surroundings."""
    if transformer.dim not in (None, width):
        raise fields.fail("dim", f"is {transformer.dim}, but the layers around it are {width} wide")
    if transformer.n_head is None and width % transformer.head_dim:
        raise fields.fail("head_dim", f"is {transformer.head_dim}, which does not divide {width}")


def _check(config: CodecConfig, fields: _Fields) -> None:
    """What must agree between keys."""
    encoder_hop, decoder_hop = math.prod(config.encoder_rates), math.prod(config.decoder_rates)
    if encoder_hop != decoder_hop:
        raise fields.fail("decoder_rates", f"multiply to {decoder_hop}, encoder_rates to {encoder_hop}")
    if len(config.encoder_transformer_layers) != len(config.encoder_rates):
        raise fields.fail("encoder_transformer_layers", "needs one entry for each of encoder_rates")
    if config.decoder_dim % 2 ** len(config.decoder_rates):
        raise fields.fail("decoder_dim", f"can't be halved {len(config.decoder_rates)} times")
    if config.quantizer.input_dim != config.latent_dim:
        raise fields.fail("quantizer.input_dim", f"must equal latent_dim, {config.latent_dim}")
    quantizer = fields.section("quantizer")
    _check_width(config.quantizer.transformer, config.quantizer.input_dim, quantizer.section("transformer"))
    if fields.optional("frame_length") not in (None, config.hop):
        raise fields.fail("frame_length", f"must be {config.hop}, the product of the rates")
    if fields.optional("num_codebooks") not in (None, len(config.codebook_sizes)):
        raise fields.fail("num_codebooks", f"must be quantizer.n_codebooks + 1, {len(config.codebook_sizes)}")
    for block, layers in enumerate(config.encoder_transformer_layers, start=1):
        if layers and config.encoder_transformer is not None:
            width = config.encoder_dim * 2**block
            _check_width(config.encoder_transformer, width, fields.section("encoder_transformer"))
