"""Nothing that runs here reports to anybody: no file outside the app's own folders, no name looked up ."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.privacy import SWITCHES
from web.recogniser import why_deaf

ROOT = Path(__file__).resolve().parent.parent
OWN = Path(".cache") / "tableread"  # where Whisper's parts are joined

# Python's own look-ups and connections, written down from inside; native ones are seen by strace.
WATCH = """
import os, sys
def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        with open(os.environ["WATCHED"], "a") as file:
            print(event, arguments[-1] if event == "socket.connect" else arguments[0], file=file)
sys.addaudithook(watch)
"""
TAKE = (
    "import engine; from engine.__main__ import main; main(['say', 'Hi.', '--model', 'kokoro', '--out', OUT])"
)
DOCTOR = "from engine.__main__ import main; main(['doctor'])"
TRANSCRIPT = (
    "import numpy as np; from web.recogniser import hear; "
    "print(hear(np.sin(np.arange(24000) / 9).astype(np.float32) / 4, 24000, 'en'))"
)
LIBRARY = (
    "from engine.kokoro.family import KokoroFamily; family = KokoroFamily.load(); "
    "import time; time.sleep(HELD)"
)
PAGE = "import app; from web.gpu import open_house; open_house('kokoro')"
LOOPBACK = ("127.", "::1", "localhost", "/")


def strace(log: Path) -> list[str]:
    """The words before a command that write its network calls down; none where strace can't trace."""
    if (
        not shutil.which("strace")
        or subprocess.run(["strace", "-o", os.devnull, "true"], check=False).returncode
    ):
        return []
    return ["strace", "-f", "-e", "trace=connect,sendto,sendmmsg,sendmsg", "-o", str(log)]


def watched(code: str, folder: Path, **names: object) -> tuple[list[Path], list[str]]:
    """Run `code` with an empty home: (the files that it left there, whom it asked but this machine)."""
    home, log, trace = folder / "home", folder / "watched", folder / "trace"
    for each in (home, folder / "site", folder / "tmp"):
        each.mkdir()
    (folder / "site" / "sitecustomize.py").write_text(WATCH)
    log.touch()
    trace.touch()
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in SWITCHES and not name.startswith(("XDG_", "HF_"))
    }
    environment = inherited | {
        "HOME": str(home),
        "TMPDIR": str(folder / "tmp"),
        "WATCHED": str(log),
        "PYTHONPATH": f"{folder / 'site'}:{ROOT}",
    }
    setting = "; ".join(f"{name} = {value!r}" for name, value in names.items()) or "pass"
    words = [*strace(trace), sys.executable, "-c", f"{setting}; {code}"]
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, timeout=300)
    left = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    return left, [*_foreign(log.read_text()), *_traced(trace.read_text())]


def _foreign(log: str) -> list[str]:
    return [line for line in log.splitlines() if not line.split(" ", 1)[1].lstrip("('").startswith(LOOPBACK)]


def _traced(trace: str) -> list[str]:
    """Calls to an address that isn't this machine; a name server that isn't is a look-up."""
    found = re.findall(r'.*(?:sin_addr=inet_addr\("|sin6_addr|inet_pton\(AF_INET6, ")(?!127\.|::1).*', trace)
    return [line for line in found if "AF_INET" in line and '"::1"' not in line]


@pytest.mark.parametrize("code", [TAKE, DOCTOR, LIBRARY, PAGE], ids=["take", "doctor", "library", "page"])
def test_c19_nothing_is_left_at_home_and_nobody_is_asked(code, tmp_path):
    left, asked = watched(code, tmp_path, OUT=str(tmp_path / "take.wav"), HELD=0)
    assert left == []
    assert asked == []


@pytest.mark.skipif(bool(why_deaf()), reason=str(why_deaf()))
def test_c19_a_clip_is_written_down_without_asking_anybody(tmp_path):
    left, asked = watched(TRANSCRIPT, tmp_path)
    assert [path for path in left if not path.is_relative_to(OWN)] == []
    assert asked == []


@pytest.mark.slow
def test_c19_who_keeps_the_stand_in_loaded_is_not_reported_later(tmp_path):
    """onnxruntime asked for its maker's host after 25 s."""
    left, asked = watched(LIBRARY, tmp_path, HELD=40)
    assert (left, asked) == ([], [])


def test_the_watch_sees_files_and_look_ups(tmp_path):
    code = (
        "import os, socket; open(os.path.expanduser('~/here'), 'w').close()\n"
        "try: socket.getaddrinfo('a.invalid', 1)\n"
        "except OSError: pass"
    )
    left, asked = watched(code, tmp_path)
    assert left == [Path("here")]
    assert asked[0] == "socket.getaddrinfo a.invalid"


@pytest.mark.parametrize(
    "module", ["engine", "engine.engine", "engine.kokoro.family", "web.recogniser", "app"]
)
def test_the_switches_are_set_by_whatever_is_imported_first(module):
    code = (
        f"import {module}, json, os; print(json.dumps([os.environ.get(name) for name in {list(SWITCHES)}]))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == list(SWITCHES.values())


def test_what_somebody_has_set_stays():
    code = "import engine, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "0"
