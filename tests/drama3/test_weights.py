"""However a checkpoint is cut into files and tensors, it fills the same model; what doesn't fit is named."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.drama3.config import Drama3Config
from engine.drama3.model import Drama3Model
from engine.drama3.weights import load_model
from engine.take import RequestError

LAYER = "model.language_model.layers.1"
TABLE = "audio_decoder_mtp.layers.0.codebook_embedding.weight"


@pytest.fixture
def tensors(drama3_tiny) -> dict[str, torch.Tensor]:
    return load_file(drama3_tiny / "checkpoint/model.safetensors")


@pytest.fixture
def folder(drama3_tiny, tmp_path) -> Path:
    """A checkpoint folder that has a config and no weights yet."""
    shutil.copy(drama3_tiny / "checkpoint/config.json", tmp_path)
    return tmp_path


def loaded(folder: Path) -> Drama3Model:
    config = Drama3Config.from_folder(folder)
    return load_model(folder, config, torch.device("cpu"), torch.float32)


def write(folder: Path, tensors: dict, name: str = "model.safetensors") -> None:
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / name)


def refusal(folder: Path) -> str:
    with pytest.raises(RequestError) as refused:
        loaded(folder)
    return str(refused.value)


def assert_same_model(a: Drama3Model, b: Drama3Model) -> None:
    ours, theirs = dict(a.named_parameters()), dict(b.named_parameters())
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype, name
        as_bytes = [each.contiguous().view(torch.uint8) for each in (value, theirs[name])]
        assert torch.equal(*as_bytes), name


def split_experts(tensors: dict) -> dict:
    """Fused gate_up_proj [E, 2I, H] and down_proj [E, H, I] as three matrices for each expert."""
    out = dict(tensors)
    for key in [key for key in tensors if key.endswith(".experts.gate_up_proj")]:
        place = key.removesuffix(".gate_up_proj")
        gate_up, down = out.pop(key), out.pop(f"{place}.down_proj")
        for e in range(len(down)):
            gate, up = gate_up[e].chunk(2)
            parts = {"gate_proj": gate, "up_proj": up, "down_proj": down[e]}
            out |= {f"{place}.{e}.{part}.weight": value.clone() for part, value in parts.items()}
    return out


def fused_experts(tensors: dict) -> dict:
    """The other way, scales of block-FP8 included."""
    out = {key: value for key, value in tensors.items() if not re.search(r"\.experts\.\d+\.", key)}
    places = {key.rpartition(".0.gate_proj.weight")[0] for key in tensors if ".0.gate_proj.weight" in key}
    for place in places:
        count = len(
            [key for key in tensors if key.startswith(f"{place}.") and key.endswith("down_proj.weight")]
        )
        for old, new in (("weight", ""), ("weight_scale_inv", "_scale_inv")):
            part = {
                name: [tensors[f"{place}.{e}.{name}_proj.{old}"] for e in range(count)]
                for name in ("gate", "up", "down")
            }
            pairs = zip(part["gate"], part["up"], strict=True)
            out[f"{place}.gate_up_proj{new}"] = torch.stack([torch.cat(pair) for pair in pairs])
            out[f"{place}.down_proj{new}"] = torch.stack(part["down"])
    return out


def test_split_experts_fill_the_model_that_fused_ones_fill(folder, tensors, tiny_family):
    parted = split_experts(tensors)
    assert f"{LAYER}.mlp.experts.3.up_proj.weight" in parted
    write(folder, parted)
    assert_same_model(loaded(folder), tiny_family.model)


def test_fused_fp8_experts_fill_the_model_that_split_ones_fill(drama3_tiny, tmp_path):
    source = drama3_tiny / "checkpoint_fp8"
    tensors = {key: value for file in source.glob("*.safetensors") for key, value in load_file(file).items()}
    joined = fused_experts(tensors)
    shutil.copy(source / "config.json", tmp_path)
    write(tmp_path, joined)
    assert joined["model.language_model.layers.0.mlp.experts.gate_up_proj"].dtype == torch.float8_e4m3fn
    assert_same_model(loaded(tmp_path), loaded(source))


def shards(tensors: dict, count: int = 3) -> dict[str, dict]:
    names = sorted(tensors)
    return {f"part-{i}.safetensors": {name: tensors[name] for name in names[i::count]} for i in range(count)}


@pytest.mark.parametrize("indexed", [True, False])
def test_shards_fill_the_model_with_an_index_and_without(folder, tensors, tiny_family, indexed):
    for name, part in shards(tensors).items():
        write(folder, part, name)
    if indexed:
        weight_map = {key: name for name, part in shards(tensors).items() for key in part}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        write(folder, {"leftover": torch.zeros(1)}, "old.safetensors")  # not in the index: not read
    assert_same_model(loaded(folder), tiny_family.model)


def test_a_codec_in_the_folder_is_not_taken_for_a_shard(folder, tensors, tiny_family):
    write(folder, tensors)
    write(folder, {"decoder.weight": torch.zeros(2)}, "codec.safetensors")
    assert_same_model(loaded(folder), tiny_family.model)


def test_both_spellings_of_a_tower_table_are_the_same_tensor(folder, tensors, tiny_family):
    def other(key: str) -> str:
        if ".codebook_embedding.weight" in key:
            return key.replace(".codebook_embedding.", ".semantic_embedding.")
        return key.replace(".semantic_embedding.", ".codebook_embedding.")

    renamed = {other(key): value for key, value in tensors.items()}
    assert len(renamed.keys() - tensors.keys()) == 5  # a table for each tower layer
    write(folder, renamed)
    assert_same_model(loaded(folder), tiny_family.model)


def test_a_model_can_be_filled_in_bfloat16(drama3_tiny, tensors):
    path = drama3_tiny / "checkpoint"
    model = load_model(path, Drama3Config.from_folder(path), torch.device("cpu"), torch.bfloat16)
    assert model.backbone.embedding.dtype == torch.bfloat16
    assert torch.equal(model.backbone.embedding, tensors["model.language_model.embed_tokens.weight"])
    rate = model.backbone.layers[1].mixer.log_rate
    assert rate.dtype == torch.float32
    assert torch.equal(rate, -tensors[f"{LAYER}.linear_attn.A_log"].float().exp())
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(("eos", "rows"), [(418, [418, *range(439, 503)]), (511, [*range(439, 503), 511])])
def test_only_candidate_rows_of_the_head_are_kept_in_rising_order(folder, tensors, eos, rows):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": eos}))
    write(folder, tensors)
    model = loaded(folder)
    assert model.candidates.tolist() == rows
    assert torch.equal(model.backbone.head, tensors["lm_head.weight"][rows].float())


@pytest.mark.parametrize(
    "key",
    [
        f"{LAYER}.linear_attn.A_log",
        f"{LAYER}.mlp.experts.down_proj",
        "lm_head.weight",
        "audio_decoder_mtp.heads.2.weight",
        TABLE,
    ],
)
def test_a_missing_tensor_is_named(folder, tensors, key):
    del tensors[key]
    write(folder, tensors)
    assert refusal(folder) == f"The checkpoint {folder.name} misses the tensor {key} (1 in all)."


@pytest.mark.parametrize(
    "key", ["visual.patch_embed.weight", "model.language_model.layers.4.input_layernorm.weight"]
)
def test_an_unknown_tensor_is_named(folder, tensors, key):
    write(folder, {**tensors, key: torch.zeros(64)})
    assert refusal(folder) == f"The checkpoint {folder.name} holds the unknown tensor {key} (1 in all)."


def test_a_tensor_in_two_shards_is_named(folder, tensors):
    write(folder, tensors)
    write(folder, {"lm_head.weight": tensors["lm_head.weight"]}, "more.safetensors")
    assert refusal(folder).startswith(
        "The tensor lm_head.weight is in the checkpoint twice (more.safetensors)"
    )


def test_a_tower_table_in_both_spellings_is_a_double(folder, tensors):
    name = TABLE if TABLE in tensors else TABLE.replace("codebook_embedding", "semantic_embedding")
    other = {"semantic": "codebook", "codebook": "semantic"}[name.split(".")[3].partition("_")[0]]
    again = f"audio_decoder_mtp.layers.0.{other}_embedding.weight"
    write(folder, {**tensors, again: tensors[name].clone()})
    assert "is in the checkpoint twice" in refusal(folder)


def test_experts_stored_fused_and_split_at_once_are_refused(folder, tensors):
    write(folder, {**split_experts(tensors), **tensors})
    assert f"holds the unknown tensor {LAYER[:-1]}0.mlp.experts.0.down_proj.weight" in refusal(folder)


@pytest.mark.parametrize(
    "key",
    [f"{LAYER}.linear_attn.conv1d.weight", "lm_head.weight", "audio_decoder.codebook_embeddings.weight"],
)
def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder, tensors, key):
    shape = list(tensors[key].shape)
    tensors[key] = tensors[key][:-1]
    write(folder, tensors)
    found = [shape[0] - 1, *shape[1:]]
    assert refusal(folder) == f"The tensor {key} has the shape {found}, the config needs {shape}."


@pytest.mark.parametrize(
    ("dtype", "told"), [(torch.int32, "I32"), (torch.float8_e4m3fn, "F8_E4M3"), (torch.float64, "F64")]
)
@pytest.mark.parametrize("key", [f"{LAYER}.mlp.experts.down_proj", "lm_head.weight"])
def test_a_tensor_of_another_dtype_is_named(folder, tensors, key, dtype, told):
    tensors[key] = tensors[key].to(dtype)
    write(folder, tensors)
    assert refusal(folder) == f"The tensor {key} is {told}, the config needs BF16 or F16 or F32."


def test_fp8_experts_must_be_fp8(drama3_tiny, tmp_path):
    shutil.copytree(drama3_tiny / "checkpoint_fp8", tmp_path / "fp8")
    key = "model.language_model.layers.0.mlp.experts.2.up_proj.weight"
    file = (
        tmp_path
        / "fp8"
        / json.loads((tmp_path / "fp8/model.safetensors.index.json").read_text())["weight_map"][key]
    )
    tensors = load_file(file)
    write(tmp_path / "fp8", {**tensors, key: tensors[key].to(torch.bfloat16)}, file.name)
    assert refusal(tmp_path / "fp8") == f"The tensor {key} is BF16, the config needs F8_E4M3."


def test_a_missing_shard_is_named(folder, tensors):
    for name, part in shards(tensors).items():
        write(folder, part, name)
    weight_map = {key: name for name, part in shards(tensors).items() for key in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "part-1.safetensors").unlink()
    assert (
        refusal(folder) == f"The checkpoint {folder.name} misses the file part-1.safetensors; fetch it again."
    )


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/hostname", ""])
def test_an_index_does_not_lead_out_of_the_folder(folder, tensors, name):
    write(folder, tensors)
    (folder.parent / "secret.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert refusal(folder) == f"The checkpoint {folder.name} misses the file {name}; fetch it again."


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": null}', '{"weight_map": {"a": ["b"], "c": 1}}'],
)
def test_a_broken_index_is_refused_in_a_sentence(folder, tensors, text):
    write(folder, tensors)
    (folder / "model.safetensors.index.json").write_text(text)
    assert refusal(folder).endswith("fetch it again.")


@pytest.mark.parametrize("keep", [0, 5, 1000, -1000])
def test_a_truncated_file_is_named(folder, tensors, keep):
    write(folder, tensors)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert refusal(folder) == "model.safetensors of the checkpoint can't be read; fetch it again."


def test_a_folder_without_weights_says_so(folder):
    assert refusal(folder) == f"The checkpoint {folder.name} has no *.safetensors file; fetch it again."
