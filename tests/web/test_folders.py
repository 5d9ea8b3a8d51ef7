"""E-21: temporary folders go with their process, however it ends."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from tests.processes import free_port, start
from web.folders import YOUNG_S, TemporaryFolder, remove_left_behind
from web.rooms import Rooms
from web.shelf import Shelf

HOLDS = """
import sys
from web.folders import TemporaryFolder
folder = TemporaryFolder("takes")
print(folder.path, file=sys.stderr, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch) -> Path:
    """The system's folder for temporary files, of this test and of what it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def aged(path: Path) -> Path:
    before = time.time() - YOUNG_S - 5
    os.utime(path, (before, before))
    return path


def test_a_closed_folder_is_gone(temporary):
    shelf, rooms = Shelf(), Rooms()
    assert len(list(temporary.iterdir())) == 2
    shelf.close(), rooms.close()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start(temporary):
    process = start([sys.executable, "-c", HOLDS])
    left = Path(process.stderr.readline().strip())
    (left / "take.wav").write_bytes(b"sound")
    aged(left)
    remove_left_behind()
    assert (left / "take.wav").exists()  # its process lives
    process.kill()
    process.wait(30)
    remove_left_behind()
    assert not left.exists()


def test_only_old_folders_of_ours_that_nobody_holds_are_removed(temporary):
    held = TemporaryFolder("takes")
    aged(held.path)
    mine = temporary / "tableread-main"  # a clone of this project, say
    young, linked = temporary / "tableread-takes-young.temporary", temporary / "tableread-x.temporary"
    for each in (mine, young):
        each.mkdir()
    aged(mine)
    linked.symlink_to(mine, target_is_directory=True)
    (temporary / "tableread-file.temporary").write_text("no folder")
    remove_left_behind()
    assert all(each.exists() for each in (held.path, mine, young, linked))
    aged(young)
    remove_left_behind()
    assert not young.exists()


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_a_page_that_is_asked_to_end_leaves_no_folder(drama3_tiny, temporary, monkeypatch, asked):
    port = free_port()
    monkeypatch.setenv("GRADIO_SERVER_PORT", str(port))
    monkeypatch.setenv("TABLEREAD_MODEL", str(drama3_tiny / "checkpoint"))
    process = start([sys.executable, "app.py"])
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/config").is_success:
                break
        except httpx.TransportError:
            time.sleep(0.2)
        assert process.poll() is None, process.stderr.read()
    assert len(list(temporary.glob("tableread-*.temporary"))) == 2
    process.send_signal(asked)
    process.communicate(timeout=60)
    assert list(temporary.glob("tableread-*")) == []
