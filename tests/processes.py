"""Programs that a test starts, and may interrupt; ports for servers."""

from __future__ import annotations

import signal
import socket
import subprocess
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start(words: list[str]) -> subprocess.Popen:
    """`words` as a process in the root of the tree, its standard error as text. It can be interrupted, also
    where the tests were started by a shell that ignores SIGINT, which children inherit."""
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heed)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
