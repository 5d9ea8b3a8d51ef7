"""Can both requirement files be installed on a stranger's machine? python tests/install/resolve.py

Resolves them for every Python that is supported, with each build of torch that install.py may find or fetch,
from the package index alone, whatever pip or uv is told on this machine. Nothing is installed. Packages
without a wheel count as missing: nobody's machine has to have a compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from install import RUNNING, TESTS, interpretable_numpy  # noqa: E402

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PLATFORM = "x86_64-manylinux_2_28"
# The index alone. Its answers are good for ten minutes, whatever it says of them: all ask the same.
INDEX = """
[[index]]
url = "https://pypi.org/simple"
default = true
cache-control = { api = "max-age=600", files = "max-age=31536000, immutable" }
"""
# What every build of torch needs; the CPU build, which is on PyTorch's own index only, needs nothing else.
CPU_NEEDS = ("filelock", "typing-extensions>=4.10.0", "sympy>=1.13.3", "networkx>=2.5.1", "jinja2", "fsspec")
BUILDS = {"CUDA": [], "oldest CUDA": ["torch==2.8.0"], "CPU": []}


def main() -> int:
    cases = list(product(PYTHONS, BUILDS, (RUNNING, TESTS)))
    failed = 0
    for python, build, requirements in cases:
        found, said = resolve(python, build, requirements)
        versions = " ".join(f"{name} {found[name]}" for name in ("torch", "triton", "numpy") if name in found)
        print(f"Python {python}, {build} build, {requirements}: {versions or said}", flush=True)
        failed += not found
    print(f"{len(cases) - failed} resolved, {failed} failed")
    return bool(failed)


def resolve(python: str, build: str, requirements: str) -> tuple[dict[str, str], str]:
    """What would be installed, name to version, and what the resolver said; as install.py asks for it:
    with a numpy for the triton that torch brings."""
    wanted = [f"-r {ROOT / requirements}", *BUILDS[build]]
    found, said = ask(python, build, wanted)
    more = interpretable_numpy(found.get("triton")) if requirements == TESTS else []
    return ask(python, build, wanted + more) if more else (found, said)


def ask(python: str, build: str, wanted: list[str]) -> tuple[dict[str, str], str]:
    metadata = f'[[dependency-metadata]]\nname = "torch"\nrequires-dist = {json.dumps(CPU_NEEDS)}\n'
    with tempfile.TemporaryDirectory() as scratch:
        asked, told = Path(scratch, "wanted.txt"), Path(scratch, "uv.toml")
        asked.write_text("\n".join(wanted) + "\n")
        told.write_text(INDEX + (metadata if build == "CPU" else ""))
        uv = shutil.which("uv", path=sysconfig.get_path("scripts"))
        command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:"]
        command += ["--config-file", told, "--python", sys.executable]
        command += ["--python-version", python, "--python-platform", PLATFORM, asked]
        done = subprocess.run(command, capture_output=True, text=True, env=plain())
    pairs = (line.split(" ")[0].split("==") for line in done.stdout.splitlines() if "==" in line)
    return ({} if done.returncode else dict(pairs)), done.stderr.strip()


def plain() -> dict[str, str]:
    """The environment without what points pip or uv elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}


if __name__ == "__main__":
    sys.exit(main())
