"""The kernels compile for the GPUs that Spaces and servers have, and fit them; no GPU is needed for that."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED_BYTES = {90: 227 << 10, 120: 99 << 10}  # what one program may have: H200, RTX PRO 6000


def test_every_kernel_compiles_for_hopper_and_blackwell_and_fits_their_shared_memory():
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = [sys.executable, "tests/drama3/compile_kernels.py", *map(str, SHARED_BYTES)]
    done = subprocess.run(script, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made = [json.loads(line) for line in done.stdout.splitlines()]
    sources = [source.read_text() for source in ROOT.glob("engine/drama3/*.py")]
    wanted = set(re.findall(r"^def (_\w+_kernel)\(", "".join(sources), re.MULTILINE))
    for capability, limit in SHARED_BYTES.items():
        here = [each for each in made if each["sm"] == capability]
        assert {each["kernel"] for each in here} == wanted
        assert max(each["shared_bytes"] for each in here) <= limit
