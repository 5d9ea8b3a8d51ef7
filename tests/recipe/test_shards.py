"""A checkpoint in small files is the same checkpoint."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

HEADER_BYTES = 2_000  # names, shapes and places of the tensors, in front of them


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    """About 60 kB in tensors of 2 to 8,000 bytes."""
    make = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 4_000, (15,), generator=make).tolist()
    return {f"layer.{i}.weight": torch.randn(n, generator=make).half() for i, n in enumerate(sizes)}


@pytest.fixture
def split(recipe, monkeypatch, tmp_path, tensors):
    """The folder in which they lie in shards of at most 10 kB."""
    monkeypatch.setattr(recipe.shards, "LIMIT_BYTES", 10_000)
    (tmp_path / "out").mkdir()
    save_file(tensors, tmp_path / "out" / "model.safetensors")
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "out" / name).write_text(f'"{name}"')
    recipe.shards.main(tmp_path / "out", tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_shards_read_back_are_the_tensors_that_were_split(recipe, split, tensors):
    got = recipe.shards.read(split, "model")
    assert got.keys() == tensors.keys()
    assert all(value.dtype == torch.float32 and torch.equal(value, tensors[k]) for k, value in got.items())
    assert [(split / name).read_text() for name in ("config.json", "tokenizer.json")] == [
        '"config.json"',
        '"tokenizer.json"',
    ]


def test_no_shard_is_larger_than_allowed_and_none_could_be_left_out(split):
    sizes = [path.stat().st_size for path in sorted(split.glob("model-*-of-*.safetensors"))]
    assert all(size <= 10_000 + HEADER_BYTES for size in sizes)
    assert all(a + b > 10_000 for a, b in itertools.pairwise(sizes))


def test_the_index_names_the_shard_of_every_tensor(split, tensors):
    index = json.loads((split / "model.safetensors.index.json").read_text())
    files = {path.name: load_file(path) for path in split.glob("*.safetensors")}
    assert index["weight_map"] == {key: name for name, part in files.items() for key in part}
    assert index["weight_map"].keys() == tensors.keys()
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in tensors.values())
