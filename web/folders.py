"""Temporary folders that go with their process, however it ends.

A folder is locked as long as its process lives, and the system lets the lock go when that is killed. So
whoever comes next knows what was left behind, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX, SUFFIX = "tableread-", ".temporary"
YOUNG_S = 60.0  # between being made and being locked a folder looks abandoned


class TemporaryFolder:
    """A folder of this process beside the system's other temporary ones, until `close`."""

    def __init__(self, name: str) -> None:
        remove_left_behind()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-", suffix=SUFFIX))
        self._lock = _locked(self.path)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_left_behind() -> None:
    """Remove the folders of processes that are gone. Those of others, and what can't be told, stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*{SUFFIX}"):
        lock = _locked(path)
        if lock is None:
            continue
        try:
            if time.time() - os.fstat(lock).st_mtime > YOUNG_S:
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the folder's lock, or None where another process does or it is no folder of
    ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:  # held, or a file system without locks
        pass
    os.close(descriptor)
    return None
