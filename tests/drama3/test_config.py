"""The config's checks. `config_cases.json` holds the verdicts of code that runs the release."""

import copy
import json
import math
from pathlib import Path

import pytest

from engine.drama3.config import Drama3Config, QuantizationConfig
from engine.drama3.json_section import ConfigError

DATA = Path(__file__).parents[1] / "data/drama3_tiny"
BASE = json.loads((DATA / "checkpoint/config.json").read_text())
CASES = json.loads((DATA / "config_cases.json").read_text())


def changed(set_=None, delete=()):
    """The tiny checkpoint's config with dotted paths set and deleted; "Infinity" stands for inf."""
    data = copy.deepcopy(BASE)
    for path, value in (set_ or {}).items():
        *parents, key = path.split(".")
        _at(data, parents)[key] = math.inf if value == "Infinity" else value
    for path in delete:
        *parents, key = path.split(".")
        del _at(data, parents)[key]
    return data


def _at(data, parents):
    for parent in parents:
        data = data[parent]
    return data


def refusal(data):
    with pytest.raises(ConfigError) as refused:
        Drama3Config.from_dict(data)
    return str(refused.value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_verdict_is_that_of_the_release(case):
    data = changed(case["set"], case["delete"])
    if case["accept"]:
        Drama3Config.from_dict(data)
    else:
        assert refusal(data).endswith(".")


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case["accept"]], ids=lambda case: case["name"]
)
def test_a_refusal_names_a_key_of_the_file(case):
    key = refusal(changed(case["set"], case["delete"])).split(" ")[0]
    touched = [*case["set"], *case["delete"]]
    # A cross check may name the other key of its pair, in the same object.
    assert any(key.startswith(path) or key.rpartition(".")[0] == path.rpartition(".")[0] for path in touched)


def test_sizes_are_derived_as_the_tiny_checkpoint_has_them():
    config = Drama3Config.from_folder(DATA / "checkpoint")
    text, tower = config.text, config.tower
    assert (text.rotary_dim, text.linear_layers, text.full_layers) == (8, (0, 1, 2), (3,))
    assert (text.key_dim, text.value_dim, text.conv_dim) == (32, 128, 192)
    assert (text.max_position_embeddings, text.shared_expert_intermediate_size) == (2048, 48)
    assert (tower.num_layers, tower.rotary_dim, tower.vq_backbone_codebooks) == (5, 16, 2)
    assert config.quantization is None


def test_candidates_are_end_of_speech_and_the_band_in_rising_order():
    before = Drama3Config.from_dict(BASE).candidate_ids
    assert before == [418, *range(439, 503)]
    after = Drama3Config.from_dict(changed({"eos_token_id": 511})).candidate_ids
    assert after == [*range(439, 503), 511]


def test_block_fp8_experts_are_accepted():
    config = Drama3Config.from_folder(DATA / "checkpoint_fp8")
    assert config.quantization == QuantizationConfig("bsgemm-moe", (128, 128))


@pytest.mark.parametrize(
    ("quantization", "key"),
    [
        ({"quant_method": "drama3-int4"}, "quantization_config.quant_method"),
        ({"quant_method": "awq"}, "quantization_config.quant_method"),
        ({}, "quantization_config.quant_method"),
        (
            {"quant_method": "bsgemm-moe", "weight_block_size": [128, 128]},
            "quantization_config.activation_scheme",
        ),
        (
            {"quant_method": "bsgemm-moe", "activation_scheme": "dynamic", "weight_block_size": [64, 64]},
            "quantization_config.weight_block_size",
        ),
        ("fp8", "quantization_config"),
    ],
)
def test_other_quantisation_is_refused_by_key(quantization, key):
    assert refusal(changed({"quantization_config": quantization})).startswith(f"{key} ")


def test_the_four_bit_variant_is_recognised():
    assert "4-bit" in refusal(changed({"quantization_config": {"quant_method": "drama3-int4"}}))


@pytest.mark.parametrize("model_type", ["llama", "fish_qwen3_omni", None, 3])
def test_another_model_is_refused_by_its_type(model_type):
    assert refusal(changed({"model_type": model_type})).startswith(f"model_type is {model_type!r}; ")
    assert refusal(changed(delete=["model_type"])).startswith("model_type is missing; ")


INTEGERS = [
    *(f"text_config.{key}" for key in ("vocab_size", "head_dim", "max_position_embeddings", "num_experts")),
    *(
        f"text_config.{key}"
        for key in ("linear_conv_kernel_dim", "linear_num_key_heads", "moe_intermediate_size")
    ),
    *(
        f"audio_decoder_config.{key}"
        for key in ("n_head", "num_codebooks", "vocab_size", "intermediate_size")
    ),
    *("semantic_start_token_id", "semantic_end_token_id", "eos_token_id"),
]


@pytest.mark.parametrize("path", INTEGERS)
@pytest.mark.parametrize("value", [True, 4.0, "4", None, [4], -4])
def test_an_integer_is_no_boolean_no_float_and_not_negative(path, value):
    assert refusal(changed({path: value})).startswith(f"{path} is ")


FLOATS = [
    "text_config.rms_norm_eps",
    "text_config.rope_parameters.rope_theta",
    "text_config.rope_parameters.partial_rotary_factor",
    "audio_decoder_config.norm_eps",
    "audio_decoder_config.rope_base",
    "audio_decoder_config.rotary_percent",
]


@pytest.mark.parametrize("path", FLOATS)
@pytest.mark.parametrize("value", [True, math.nan, math.inf, 0.0, -1.0, "1.0", None, 10**400])
def test_a_float_is_finite_and_above_zero(path, value):
    assert refusal(changed({path: value})).startswith(f"{path} is ")


@pytest.mark.parametrize("path", FLOATS)
def test_an_integer_will_do_where_a_float_is_expected(path):
    Drama3Config.from_dict(changed({path: 1}))


@pytest.mark.parametrize(
    "path",
    [
        "text_config.layernorm_zero_centered_gamma",
        "text_config.use_qk_norm",
        "audio_decoder_config.attention_output_gate",
    ],
)
def test_one_is_not_true(path):
    assert refusal(changed({path: 1})) == f"{path} is 1; it must be true."


def test_tied_embeddings_are_refused():
    assert refusal(changed({"text_config.tie_word_embeddings": True})).startswith(
        "text_config.tie_word_embeddings "
    )


def qwen(set_=None, delete=()):
    own = ("mlp_layer_types", "layernorm_zero_centered_gamma")
    gone = [*(f"text_config.{key}" for key in own), *delete]
    return changed({"text_config.model_type": "qwen3_5_moe_text", **(set_ or {})}, gone)


def test_the_qwen_form_may_count_full_layers_by_interval():
    given = qwen({"text_config.full_attention_interval": 2}, ["text_config.layer_types"])
    assert Drama3Config.from_dict(given).text.full_layers == (1, 3)
    assert Drama3Config.from_dict(qwen()).text.full_layers == (3,)


@pytest.mark.parametrize("interval", [5, 0, True, 2.0])
def test_an_interval_that_leaves_no_full_layer_is_refused(interval):
    given = qwen({"text_config.full_attention_interval": interval}, ["text_config.layer_types"])
    assert refusal(given).startswith(f"text_config.full_attention_interval is {interval!r}; ")


def test_an_interval_must_agree_with_the_list():
    assert "text_config.full_attention_interval is 2; " in refusal(
        qwen({"text_config.full_attention_interval": 2})
    )


def test_the_fish_form_needs_the_list():
    given = changed({"text_config.full_attention_interval": 4}, ["text_config.layer_types"])
    assert refusal(given).startswith("text_config.layer_types is missing; ")


def test_the_qwen_form_may_not_contradict_what_it_leaves_out():
    given = changed(
        {"text_config.model_type": "qwen3_5_moe_text", "text_config.layernorm_zero_centered_gamma": False}
    )
    assert refusal(given).startswith("text_config.layernorm_zero_centered_gamma is False; ")


@pytest.mark.parametrize("data", [[], None, "text", 3])
def test_a_config_that_is_no_object_is_refused(data):
    assert refusal(data).startswith("config.json holds ")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        Drama3Config.from_folder(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""])
def test_a_broken_file_is_named(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json can't be read as JSON"):
        Drama3Config.from_folder(tmp_path)


def test_a_refusal_from_a_folder_names_the_file_and_the_key(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(changed({"text_config.num_experts": 0})))
    with pytest.raises(ConfigError, match=r"config\.json: text_config\.num_experts is 0; "):
        Drama3Config.from_folder(tmp_path)
