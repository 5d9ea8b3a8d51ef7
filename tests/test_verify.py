"""`verify` passes the golden folder and can't be fooled by a spoilt one."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from engine.__main__ import main
from engine.verify import verify


def test_every_golden_array_and_case_passes(drama3_tiny):
    lines = []
    assert verify(drama3_tiny, lines.append)
    assert not [line for line in lines if line.startswith("FAILED")]
    listed = json.loads((drama3_tiny / "arrays.json").read_text())
    assert len(lines) - 1 >= sum(len(arrays) for arrays in listed.values()) + 94  # and every config case
    assert lines[-1] == f"{len(lines) - 1} passed, 0 failed"


def spoilt(name: str, array: np.ndarray) -> np.ndarray:
    """The same shape and dtype with other values, as far as possible those that an input of its kind may
    have.

    At temperature 0 no choice depends on the order of the noise, so noise is spoilt as noise: it is shifted.
    """
    if name.endswith("top_k"):
        return np.ones_like(array)  # one more or less changes no choice
    if name.endswith("noise"):
        return array + np.float32(0.5)
    if array.dtype.kind == "f":
        return array[..., ::-1].copy() if array.shape[-1] > 1 else array + 0.25
    return np.where((array == array.max()) & (array > 0), array - 1, array + 1).astype(array.dtype)


def one_file_folder(golden, tmp_path, name):
    """A golden folder that lists only the arrays of `name`, so that a spoilt one is judged quickly."""
    folder = tmp_path / "golden"
    shutil.copytree(
        golden, folder, ignore=shutil.ignore_patterns("*.npz", "tower.safetensors"), symlinks=True
    )
    for path in (*golden.glob("*.npz"), golden / "checkpoint_fp8" / "tower.safetensors"):
        (folder / path.relative_to(golden)).symlink_to(path)
    listed = json.loads((golden / "arrays.json").read_text())[name]
    gates = json.loads((golden / "gates.json").read_text())["gates"]
    kept = {key: gate for key, gate in gates.items() if key.startswith(f"{name}:")}
    (folder / "arrays.json").write_text(json.dumps({name: listed}))
    (folder / "gates.json").write_text(json.dumps({"gates": kept}))
    return folder


FILES = [
    "prompts",
    "backbone",
    "run_greedy",
    "run_open",
    "run_capped",
    "run_voice",
    "run_wide",
    "sampler",
    "codec",
    "fp8",
]


@pytest.mark.parametrize("stem", FILES)
def test_spoiling_any_one_array_is_noticed(drama3_tiny, tmp_path, stem):
    name = f"{stem}.npz"
    folder = one_file_folder(drama3_tiny, tmp_path, name)
    with np.load(drama3_tiny / name) as file:
        arrays = {key: file[key] for key in file.files}
    (folder / name).unlink()
    unnoticed = []
    for key, array in arrays.items():
        np.savez(folder / name, **{**arrays, key: spoilt(key, array)})
        if verify(folder, lambda line: None):
            unnoticed.append(key)
    assert unnoticed == []


@pytest.mark.parametrize(
    "change", ["missing array", "extra array", "other dtype", "gate without array", "array without gate"]
)
def test_a_folder_that_disagrees_with_its_lists_fails(drama3_tiny, tmp_path, change):
    folder = one_file_folder(drama3_tiny, tmp_path, "sampler.npz")
    with np.load(drama3_tiny / "sampler.npz") as file:
        arrays = {key: file[key] for key in file.files}
    gates = json.loads((folder / "gates.json").read_text())["gates"]
    if change == "missing array":
        arrays.pop("ras_code0")
    elif change == "extra array":
        arrays["surprise"] = np.zeros(3)
    elif change == "other dtype":
        arrays["logits"] = arrays["logits"].astype(np.float64)
    elif change == "gate without array":
        gates["sampler.npz:ghost"] = {"exact": True}
    else:
        gates.pop("sampler.npz:ras_code0")
    (folder / "gates.json").write_text(json.dumps({"gates": gates}))
    (folder / "sampler.npz").unlink()
    np.savez(folder / "sampler.npz", **arrays)
    assert not verify(folder, lambda line: None)


def test_the_console_says_what_is_no_golden_folder(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert "name a golden folder" in capsys.readouterr().err
