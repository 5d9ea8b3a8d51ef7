"""Compiles every kernel at Drama 3's size, for GPUs that aren't here: a line of JSON for each.

    python tests/drama3/compile_kernels.py 90 120

Run apart from the tests of the kernels' arithmetic: those define them for Triton's interpreter.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from bench import full_size
from engine.drama3.ahead import compile_ahead

codec = full_size.codec(torch.device("meta"))
for capability in sys.argv[1:]:
    for made in compile_ahead(full_size.config(4), codec, 64, int(capability)):
        print(json.dumps(made), flush=True)
