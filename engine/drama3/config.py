"""The sizes and switches of a Drama 3 checkpoint, read from its `config.json` and checked before its weights.

A field has the checkpoint's own name, so that this file can be read beside the json. What can only have one
value (the network computes it that way) is checked and not kept. A switch that is wrong here would load and
speak noise, therefore every check names its key.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.drama3.json_section import ABSENT, ConfigError, Section

MODEL_TYPE = "fish_omni"
TEMPLATE = "reference-bracket-v1"
FISH_TEXT, QWEN_TEXT = "fish_omni_text", "qwen3_5_moe_text"
LINEAR, FULL = "linear_attention", "full_attention"


@dataclass(frozen=True)
class TextConfig:
    """The backbone: a hybrid of linear and full attention over time, with a mixture of experts in each layer.

    `shared_expert_intermediate_size` is 0 without a shared expert.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    linear_conv_kernel_dim: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    rms_norm_eps: float
    rope_theta: float
    partial_rotary_factor: float
    layer_types: tuple[str, ...]

    @property
    def rotary_dim(self) -> int:
        """How many of `head_dim` are rotated."""
        return int(self.head_dim * self.partial_rotary_factor)

    @property
    def linear_layers(self) -> tuple[int, ...]:
        """Indices of the layers with linear attention, rising."""
        return tuple(index for index, kind in enumerate(self.layer_types) if kind == LINEAR)

    @property
    def full_layers(self) -> tuple[int, ...]:
        """Indices of the layers with full attention, rising."""
        return tuple(index for index, kind in enumerate(self.layer_types) if kind == FULL)

    @property
    def key_dim(self) -> int:
        """Width of all keys (and of all queries) of linear attention."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        """Width of all values of linear attention."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the causal convolution: queries, keys and values."""
        return 2 * self.key_dim + self.value_dim


@dataclass(frozen=True)
class TowerConfig:
    """The depth decoder: `num_layers` chained layers, each attending over time, turn a hidden into codes.

    `vocab_size` is the size of every code table and head. `vq_backbone_codebooks` is B: codebooks 1..B go to
    the backbone, the later ones to the tower.
    """

    dim: int
    n_head: int
    n_local_heads: int
    head_dim: int
    shared_enrichment_layers: int
    intermediate_size: int
    num_codebooks: int
    vocab_size: int
    norm_eps: float
    rope_base: float
    rotary_percent: float
    vq_feature_placement: str
    vq_backbone_codebooks: int

    @property
    def num_layers(self) -> int:
        """The shared layers and one for each codebook after the first."""
        return self.shared_enrichment_layers + self.num_codebooks - 1

    @property
    def rotary_dim(self) -> int:
        """How many of `head_dim` are rotated."""
        return int(self.head_dim * self.rotary_percent)


@dataclass(frozen=True)
class QuantizationConfig:
    """Routed experts as float8_e4m3fn with one scale for each block of (rows, columns); all else is bf16."""

    quant_method: str
    weight_block_size: tuple[int, int]


@dataclass(frozen=True)
class Drama3Config:
    """A whole checkpoint. The semantic band is the ids of the first codebook: id = start + code.

    The last seven are ours. `performs_cues`: false says that it would read `[sighs]` or a direction out;
    `performs_cues_alone`, as the former unless given: false says that it needs words beside them. `sounds`,
    if given, are the only cues that it performs behind a line's first word ("laughs", "sighs").
    `characters` are all that it learnt to read, "" for everything; `languages` are codes, none for all.
    `history_rows` are the rows of earlier lines, and `longest_piece_s` the seconds of one piece of a line, up
    to which it was found to keep words and voice.
    """

    text: TextConfig
    tower: TowerConfig
    quantization: QuantizationConfig | None
    semantic_start_token_id: int
    semantic_end_token_id: int
    eos_token_id: int
    performs_cues: bool = True
    performs_cues_alone: bool = True
    sounds: tuple[str, ...] | None = None
    characters: str = ""
    languages: tuple[str, ...] = ()
    history_rows: int = 4096
    longest_piece_s: float = 20.0

    @classmethod
    def from_folder(cls, folder: Path) -> Drama3Config:
        """The config of the checkpoint in `folder`. Raises ConfigError with the file's path in front."""
        path = Path(folder) / "config.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{path} is missing; a checkpoint folder needs it.") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} can't be read as JSON ({error}); download it again.") from None
        try:
            return cls.from_dict(data)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Drama3Config:
        """The config in `data`, a parsed config.json. Raises ConfigError; unknown keys are ignored."""
        if not isinstance(data, Mapping):
            raise ConfigError(f"config.json holds {reprlib.repr(data)}; it must be an object.")
        top = Section(data, "")
        top.one_of("model_type", MODEL_TYPE)
        top.exact("fish_schema_version", 1, default=1)
        top.one_of("speech_template_version", TEMPLATE)
        top.empty("audio_encoder_config", None)
        top.empty("extra_samplable_token_ids", None, [])
        text, tower = _text(top.section("text_config")), _tower(top.section("audio_decoder_config"))
        _check_tower_fits(top, text, tower)
        start, end, eos = _candidates(top, text.vocab_size, tower.vocab_size)
        cues = top.truth("performs_cues", default=True)
        alone = top.truth("performs_cues_alone", default=cues)
        performs = cues, alone, _words(top, "sounds", None)
        reads = _characters(top), _words(top, "languages", ())
        rows = top.integer("history_rows", 0, default=cls.history_rows)
        longest = top.number("longest_piece_s", default=cls.longest_piece_s)
        return cls(text, tower, _quantization(top), start, end, eos, *performs, *reads, rows, longest)

    @property
    def candidate_ids(self) -> list[int]:
        """The vocabulary ids that can be drawn, rising: end of speech and the band."""
        return sorted(
            [self.eos_token_id, *range(self.semantic_start_token_id, self.semantic_end_token_id + 1)]
        )


def _text(section: Section) -> TextConfig:
    kind = section.one_of("model_type", FISH_TEXT, QWEN_TEXT)
    layers = section.integer("num_hidden_layers")
    layer_types = _layer_types(section, layers, kind)
    _check_switches(section, layers, kind)
    theta, factor = _rope(section)
    config = TextConfig(
        vocab_size=section.integer("vocab_size"),
        hidden_size=section.integer("hidden_size"),
        num_hidden_layers=layers,
        num_attention_heads=section.integer("num_attention_heads"),
        num_key_value_heads=section.integer("num_key_value_heads"),
        head_dim=section.integer("head_dim"),
        max_position_embeddings=section.integer("max_position_embeddings"),
        num_experts=section.integer("num_experts"),
        num_experts_per_tok=section.integer("num_experts_per_tok"),
        moe_intermediate_size=section.integer("moe_intermediate_size"),
        shared_expert_intermediate_size=_shared_expert_size(section),
        linear_conv_kernel_dim=section.integer("linear_conv_kernel_dim"),
        linear_key_head_dim=section.integer("linear_key_head_dim"),
        linear_value_head_dim=section.integer("linear_value_head_dim"),
        linear_num_key_heads=section.integer("linear_num_key_heads"),
        linear_num_value_heads=section.integer("linear_num_value_heads"),
        rms_norm_eps=section.number("rms_norm_eps"),
        rope_theta=theta,
        partial_rotary_factor=factor,
        layer_types=layer_types,
    )
    _check_multiple(section, "num_attention_heads", "num_key_value_heads")
    _check_multiple(section, "linear_num_value_heads", "linear_num_key_heads")
    if config.num_experts_per_tok > config.num_experts:
        raise section.fail("num_experts_per_tok", f"at most num_experts, {config.num_experts}")
    if config.rotary_dim < 1 or config.rotary_dim % 2:
        needed = f"such that head_dim x partial_rotary_factor, now {config.rotary_dim}, is even and above 0"
        raise section.fail("rope_parameters", needed)
    return config


def _layer_types(section: Section, layers: int, kind: str) -> tuple[str, ...]:
    """The kind of each layer: given as a list, or by the interval in the Qwen form of the config."""
    types = section.get("layer_types")
    interval = section.integer("full_attention_interval") if _counts_by_interval(section, kind) else None
    if interval and types in (ABSENT, None):
        types = [FULL if (index + 1) % interval == 0 else LINEAR for index in range(layers)]
        if FULL not in types:
            raise section.fail("full_attention_interval", f"at most num_hidden_layers, {layers}")
    if (
        not isinstance(types, list)
        or len(types) != layers
        or any(each not in (LINEAR, FULL) for each in types)
    ):
        raise section.fail("layer_types", f'a list of "{LINEAR}" or "{FULL}" for each of the {layers} layers')
    if FULL not in types:
        raise section.fail("layer_types", f'a list with at least one "{FULL}"')
    period = types.index(FULL) + 1
    if any((each == FULL) != ((index + 1) % period == 0) for index, each in enumerate(types)):
        raise section.fail(
            "layer_types", f'periodic, with "{FULL}" once in every {period} layers, as its start says'
        )
    if interval not in (None, period):
        raise section.fail("full_attention_interval", f"the period of layer_types, {period}")
    return tuple(types)


def _counts_by_interval(section: Section, kind: str) -> bool:
    return kind == QWEN_TEXT and section.get("full_attention_interval", None) is not None


def _check_switches(section: Section, layers: int, kind: str) -> None:
    """What the network always does must be what the checkpoint was trained with.

    Qwen's own form has no key for zero-centred norms and for experts in every layer: it always has both.
    """
    in_qwen = kind == QWEN_TEXT
    section.exact("rotary_interleaved", False, default=False)
    section.exact("use_qk_norm", True, default=True)
    section.exact("attn_output_gate", True, default=True)
    section.exact("layernorm_zero_centered_gamma", True, default=True if in_qwen else ABSENT)
    section.exact("tie_word_embeddings", False, default=False)
    moe = ["moe"] * layers
    if section.get("mlp_layer_types", moe if in_qwen else ABSENT) != moe:
        raise section.fail("mlp_layer_types", f'"moe" for each of the {layers} layers')


def _shared_expert_size(section: Section) -> int:
    if section.get("shared_expert_intermediate_size", None) is None:
        return 0
    size = section.integer("shared_expert_intermediate_size", least=0)
    if size:
        section.exact("shared_expert_gate", True, default=True)
    return size


def _rope(section: Section) -> tuple[float, float]:
    """(theta, partial rotary factor) of the backbone. Copies of them beside `rope_parameters` must agree."""
    rope = section.section("rope_parameters")
    rope.one_of("rope_type", "default", default="default")
    rope.one_of("type", "default", default="default")
    rope.empty("mrope_section", None)
    theta = rope.number("rope_theta")
    factor = rope.number("partial_rotary_factor", most=1, default=1.0)
    for key, value in (
        ("rope_theta", theta),
        ("partial_rotary_factor", factor),
        ("rope_scaling", dict(rope.data)),
    ):
        if section.get(key, None) not in (None, value):
            raise section.fail(key, f"absent or what rope_parameters says, {value}")
    return theta, factor


def _check_multiple(section: Section, key: str, of: str) -> None:
    if section.integer(key) % section.integer(of):
        raise section.fail(key, f"a multiple of {of}, {section.get(of)}")


def _tower(section: Section) -> TowerConfig:
    section.one_of("model_type", "fish_qwen3_audio_decoder", default="fish_qwen3_audio_decoder")
    section.one_of("decoder_type", "codebook_mtp_shared")
    section.one_of("vq_feature_scope", "all_vq", default="all_vq")
    _check_tower_switches(section)
    codebooks = section.integer("num_codebooks", least=2)
    config = TowerConfig(
        dim=section.integer("dim"),
        n_head=section.integer("n_head"),
        n_local_heads=section.integer("n_local_heads"),
        head_dim=section.integer("head_dim"),
        shared_enrichment_layers=section.integer("shared_enrichment_layers"),
        intermediate_size=section.integer("intermediate_size"),
        num_codebooks=codebooks,
        vocab_size=section.integer("vocab_size"),
        norm_eps=section.number("norm_eps"),
        rope_base=section.number("rope_base"),
        rotary_percent=section.number("rotary_percent", most=1),
        vq_feature_placement=section.one_of("vq_feature_placement", "backbone_partial", "mtp_shared_pre"),
        vq_backbone_codebooks=_backbone_codebooks(section, codebooks),
    )
    section.exact("n_layer", config.shared_enrichment_layers)
    section.exact("text_dim", config.dim)
    section.exact("max_seq_len", codebooks + 1)
    _check_multiple(section, "n_head", "n_local_heads")
    if config.rotary_dim < 1 or config.rotary_dim % 2:
        needed = f"such that head_dim x rotary_percent, now {config.rotary_dim}, is even and above 0"
        raise section.fail("rotary_percent", needed)
    return config


def _backbone_codebooks(section: Section, codebooks: int) -> int:
    number = section.integer("vq_backbone_codebooks", least=0, default=0)
    if section.get("vq_feature_placement") == "backbone_partial" and not 1 <= number <= codebooks - 1:
        raise section.fail("vq_backbone_codebooks", f"1 to {codebooks - 1} with backbone_partial")
    if section.get("vq_feature_placement") == "mtp_shared_pre" and number:
        raise section.fail("vq_backbone_codebooks", "0 with mtp_shared_pre")
    return number


def _check_tower_switches(section: Section) -> None:
    """`rotary_interleaved` and `attention_qk_norm` are in the file too; nothing that runs it reads them."""
    section.exact("attention_output_gate", True)
    section.exact("layernorm_zero_centered_gamma", True)
    for key in ("use_moe", "mtp_use_swa", "attention_qkv_bias", "attention_o_bias"):
        section.empty(key, False, None)
    for key in ("window_size", "window_attn_skip_freq", "window_rotary_base"):
        section.empty(key, None)
    section.empty("dropout", 0.0, 0)
    if section.get("mtp_spec", None) is None:
        return
    spec = section.section("mtp_spec")
    spec.one_of("attention_variant", FULL, default=FULL)
    for key in spec.data:
        if key in ("num_experts", "num_experts_per_tok") or key.startswith("moe_"):
            raise spec.fail(key, "absent, the tower has no experts")


def _check_tower_fits(top: Section, text: TextConfig, tower: TowerConfig) -> None:
    if tower.dim != text.hidden_size:
        decoder = top.section("audio_decoder_config")
        raise decoder.fail("dim", f"text_config.hidden_size, {text.hidden_size}")
    top.section("text_config").exact("tower_layer_count", tower.num_layers, default=tower.num_layers)


def _candidates(top: Section, vocab_size: int, codebook_size: int) -> tuple[int, int, int]:
    """(first id of the band, last id, end of speech)."""
    start = top.integer("semantic_start_token_id", least=0)
    end = top.integer("semantic_end_token_id", least=start)
    eos = top.integer("eos_token_id", least=0)
    if end >= vocab_size:
        raise top.fail("semantic_end_token_id", f"below text_config.vocab_size, {vocab_size}")
    if end - start + 1 != codebook_size:
        needed = f"{start + codebook_size - 1}, so that the band has audio_decoder_config.vocab_size ids"
        raise top.fail("semantic_end_token_id", needed)
    if eos >= vocab_size:
        raise top.fail("eos_token_id", f"below text_config.vocab_size, {vocab_size}")
    if start <= eos <= end:
        raise top.fail("eos_token_id", f"outside the semantic band {start} to {end}")
    return start, end, eos


def _characters(top: Section) -> str:
    characters = top.get("characters", "")
    if not isinstance(characters, str) or (characters and not {" ", "a"}.issubset(characters)):
        raise top.fail("characters", "a text of all characters that the model reads, or absent")
    return characters


def _words(top: Section, key: str, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
    words = top.get(key, None)
    if words is None:
        return default
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise top.fail(key, "a list of words in small letters, or absent")
    return tuple(words)


def _quantization(top: Section) -> QuantizationConfig | None:
    if top.get("quantization_config", None) is None:
        return None
    section = top.section("quantization_config")
    if section.get("quant_method") == "drama3-int4":
        raise section.fail(
            "quant_method", '"bsgemm-moe" or absent: the 4-bit variant is known, but can\'t be run yet'
        )
    method = section.one_of("quant_method", "bsgemm-moe")
    section.one_of("activation_scheme", "dynamic")
    section.exact("weight_block_size", [128, 128])
    return QuantizationConfig(method, (128, 128))
