"""From safetensors to a filled model: built on the meta device, allocated once, every tensor read once.

A checkpoint is one safetensors file, or shards (with or without an index). Experts may be stored fused or
one by one; a fused projection of ours is filled through views (see `layers.py`). Of lm_head only the
candidate rows are read: the full head of Drama 3 is 252,288 x 2,048 bf16, 1 GB for logits nobody uses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.drama3.config import Drama3Config
from engine.drama3.model import Drama3Model
from engine.take import RequestError

HEAD = "lm_head.weight"
CODEC = "codec"  # files of this stem are the codec's
FLOATS = {"F32", "F16", "BF16"}


def outline(config: Drama3Config, dtype: torch.dtype) -> Drama3Model:
    """The model without its weights, on the meta device, in `dtype` but for what has a type of its own."""
    with _default_dtype(dtype), torch.device("meta"):
        return Drama3Model(config)


def load_model(folder: Path, config: Drama3Config, device: torch.device, dtype: torch.dtype) -> Drama3Model:
    """The model of `folder`, computing in `dtype` on `device`.

    Raises RequestError naming the file or tensor that is missing, unknown, doubled or of the wrong shape.
    """
    files = _files(folder)
    where = _keys(files)
    fused = any(key.endswith(".mlp.experts.gate_up_proj") for key in where)
    model = outline(config, dtype).to_empty(device=device)
    wanted = dict(model.slots(fused))
    unknown = sorted(where.keys() - wanted.keys() - {HEAD})
    missing = sorted((wanted.keys() | {HEAD}) - where.keys())
    if unknown or missing:
        raise RequestError(_disagreement(folder, missing, unknown))
    with torch.no_grad():
        for file in files:
            _fill(file, [key for key in where if where[key][0] == file], where, wanted, model, config)
        for module in model.modules():
            if hasattr(module, "finish"):
                module.finish()
    return model.eval()


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            names = sorted({str(name) for name in weight_map.values()})
        except (ValueError, KeyError, AttributeError, TypeError):
            raise RequestError(
                f"{index.name} of the checkpoint is not a weight map; fetch it again."
            ) from None
    else:
        names = sorted(path.name for path in folder.glob("*.safetensors") if not path.name.startswith(CODEC))
    if not names:
        raise RequestError(f"The checkpoint {folder.name} has no *.safetensors file; fetch it again.")
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise RequestError(f"The checkpoint {folder.name} misses the file {name}; fetch it again.")
    return [folder / name for name in names]


def _keys(files: list[Path]) -> dict[str, tuple[Path, str]]:
    """Canonical key -> (file, key in that file)."""
    where: dict[str, tuple[Path, str]] = {}
    for file in files:
        with _opened(file) as tensors:
            for key in tensors.keys():  # noqa: SIM118, safetensors handles are no mappings
                name = key.replace(".semantic_embedding.weight", ".codebook_embedding.weight")
                if name in where:
                    raise RequestError(
                        f"The tensor {key} is in the checkpoint twice ({file.name}); fetch it again."
                    )
                where[name] = file, key
    return where


@contextmanager
def _opened(file: Path) -> Iterator:
    try:
        handle = safe_open(file, framework="pt")
    except (SafetensorError, OSError):
        raise RequestError(f"{file.name} of the checkpoint can't be read; fetch it again.") from None
    with handle as tensors:
        yield tensors


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _disagreement(folder: Path, missing: list[str], unknown: list[str]) -> str:
    if missing:
        return f"The checkpoint {folder.name} misses the tensor {missing[0]} ({len(missing)} in all)."
    return f"The checkpoint {folder.name} holds the unknown tensor {unknown[0]} ({len(unknown)} in all)."


def _fill(
    file: Path,
    keys: list[str],
    where: dict,
    wanted: dict[str, Tensor],
    model: Drama3Model,
    config: Drama3Config,
) -> None:
    with _opened(file) as tensors:
        for key in keys:
            source = tensors.get_slice(where[key][1])
            if key == HEAD:
                shape = [config.text.vocab_size, config.text.hidden_size]
                _check(key, source, shape, model.backbone.head)
                model.backbone.head.copy_(_candidate_rows(source, config))
            else:
                _check(key, source, list(wanted[key].shape), wanted[key])
                wanted[key].copy_(source[:])


def _candidate_rows(source, config: Drama3Config) -> Tensor:
    eos, first, last = config.eos_token_id, config.semantic_start_token_id, config.semantic_end_token_id
    parts = [source[eos : eos + 1], source[first : last + 1]]
    return torch.cat(parts if eos < first else parts[::-1])


def _check(key: str, source, shape: list[int], view: Tensor) -> None:
    if source.get_shape() != shape:
        raise RequestError(f"The tensor {key} has the shape {source.get_shape()}, the config needs {shape}.")
    kinds = {"F8_E4M3"} if view.dtype == torch.float8_e4m3fn else FLOATS
    if source.get_dtype() not in kinds:
        raise RequestError(
            f"The tensor {key} is {source.get_dtype()}, the config needs {' or '.join(sorted(kinds))}."
        )
