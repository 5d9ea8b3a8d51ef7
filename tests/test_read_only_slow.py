"""C-22: the code can't be written to and neither can the home; a line is spoken all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile as sf

ROOT = Path(__file__).resolve().parent.parent
# For root no folder is read-only, but for a mount that is.
MOUNTED = """
for each in "$CODE" "$HOME"
do mount --bind "$each" "$each" && mount -o remount,ro,bind "$each" || exit 77
done
exec "$@"
"""

pytestmark = pytest.mark.slow


def test_c_22_a_line_is_spoken_from_read_only_code_and_a_home_that_is_none(tmp_path):
    code, home = tmp_path / "code", tmp_path / "home"
    home.mkdir()
    for name in ("engine", "prompts", "web", "assets/understudy", "assets/voices"):
        shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("__pycache__", "recipe"))
    subprocess.run(["chmod", "-R", "a-w", str(code), str(home)], check=True)
    words = [sys.executable, "-m", "engine", "say", "Go on.", "--model", "understudy", "--out", "a.wav"]
    if os.geteuid() == 0:
        words = ["unshare", "-m", "sh", "-c", MOUNTED, "sh", *words]
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env=kept | {"CODE": str(code), "HOME": str(home), "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    subprocess.run(["chmod", "-R", "u+w", str(code), str(home)], check=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"root may not mount here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    samples, rate = sf.read(tmp_path / "a.wav")
    assert len(samples) > rate / 4
    assert not list(home.iterdir())
