"""The tree itself: small enough to travel, and no folder knows what it must not know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20


def tracked(*under: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--", *under], capture_output=True, check=True
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def num_bytes(*under: str) -> int:
    return sum(path.stat().st_size for path in tracked(*under))


def test_the_tree_is_small_enough_to_travel():
    assert num_bytes() < 56 * MIB
    assert num_bytes("assets/understudy") - num_bytes("assets/understudy/recipe") <= 40e6
    assert num_bytes("assets/understudy/recipe/resume") < 20 * MIB
    assert num_bytes("tests/data") <= 10e6


def imports(path: Path) -> set[str]:
    """Roots of the modules that a file imports, at its top or late."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            roots.add(node.module.split(".")[0])
    return roots


FORBIDDEN = {
    "prompts": {"torch", "transformers", "gradio", "spaces", "engine", "web"},
    "engine": {"gradio", "spaces", "web"},
}


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_nothing_below_knows_what_is_above_it(folder):
    found = {path.name: imports(path) & FORBIDDEN[folder] for path in (ROOT / folder).rglob("*.py")}
    assert not {name: roots for name, roots in found.items() if roots}
    assert found


def test_the_prompt_layer_loads_no_torch():
    code = "import sys, prompts.drama3, prompts.split; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_engine_needs_only_torch_numpy_safetensors_and_tokenizers():
    hidden = (
        "soundfile",
        "soxr",
        "gradio",
        "spaces",
        "huggingface_hub",
        "onnxruntime",
        "kokoro_onnx",
        "librosa",
        "numba",
        "llvmlite",
    )
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r}))\n"  # None there makes an import fail
        "import engine.engine, engine.models, engine.drama3.family, engine.verify, engine.doctor"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_importing_the_engine_does_no_work():
    code = (
        "import torch; before = torch.get_num_threads()\n"
        "import engine.engine, engine.models, engine.drama3.family\n"
        "assert torch.get_num_threads() == before and not torch.cuda.is_initialized()"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_no_function_on_the_path_of_a_take_is_over_sixty_lines():
    long = []
    for path in (*(ROOT / "engine").rglob("*.py"), *(ROOT / "prompts").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60:
                long.append(f"{path.name}:{node.name}")
    assert long == []


def test_modules_import_each_other_in_one_direction():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for folder in ("engine", "prompts")
        for path in (ROOT / folder).rglob("*.py")
    }
    needs = {name: {each for each in _top_imports(path) if each in modules} for name, path in modules.items()}
    while ready := {name for name, wanted in needs.items() if not wanted & needs.keys()}:
        needs = {name: wanted for name, wanted in needs.items() if name not in ready}
    assert not needs, f"a circle of imports: {sorted(needs)}"


def _top_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_no_loose_ends_are_left_in_the_code():
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    loose = [
        path.name
        for path in tracked("engine", "prompts", "bench")
        if path.suffix == ".py" and marks.search(path.read_text())
    ]
    assert loose == []
