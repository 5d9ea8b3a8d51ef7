"""What happened at the door when the real worker code of `spaces` stood behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240  # 15 s on an idle core


@pytest.fixture(scope="session")
def zerogpu(drama3_tiny, tmp_path_factory) -> dict:
    """The report of `zerogpu.py`: by scene, what a visitor and the platform saw."""
    if sys.platform != "linux":
        pytest.skip("ZeroGPU forks, and reads /proc; it runs on Linux.")
    folder = tmp_path_factory.mktemp("zerogpu")
    command = [sys.executable, Path(__file__).with_name("zerogpu.py")]
    folders = [drama3_tiny / "checkpoint", drama3_tiny / "checkpoint_fp8", folder]
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen(
            [*command, *folders],
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers outlive a parent that is killed
        log.seek(0)
        assert code == 0, log.read()[-4000:]
    return {**json.loads((folder / "report.json").read_text()), "log": (folder / "log").read_text()}
