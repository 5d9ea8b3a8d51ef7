"""C-22: the code can't be written to and neither can the home; a line is spoken all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile as sf

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534

pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter, as pytest's own are not."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    subprocess.run(["chmod", "-R", "u+w", str(made)], check=True)
    shutil.rmtree(made)


def test_c_22_a_line_is_spoken_from_read_only_code_and_a_home_that_is_none(folder):
    code, out, home = folder / "code", folder / "out", folder / "home"
    for name in ("engine", "prompts", "web"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, code / name, ignore=ignored)
    (code / "assets").mkdir()
    for name in ("understudy", "voices"):
        shutil.copytree(ROOT / "assets" / name, code / "assets" / name)
    out.mkdir()
    out.chmod(0o777)
    home.mkdir()
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(code), str(home)], check=True)
    # For root nothing is read-only, so root lets nobody speak.
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "engine", "say", "Go on.", "--model", "understudy", "--out", "a.wav"],
        cwd=out,
        env=kept | {"HOME": str(home), "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        **who,
    )
    assert done.returncode == 0, done.stderr
    samples, rate = sf.read(out / "a.wav")
    assert len(samples) > rate / 4
    assert not list(home.iterdir())
