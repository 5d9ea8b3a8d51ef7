"""Installs what Tableread needs for the Python that runs this: python install.py requirements.txt

./run and ./test call it before anything is there, so it needs the standard library only. It is done once: a
stamp in the environment holds the hash of all requirement files and the Python they were installed for.
An installation that was interrupted is mended: what has no list of its files was not installed to its end.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import queue
import re
import shlex
import shutil
import site
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PREFIX = Path(sys.prefix)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
RUNNING, TESTS = "requirements.txt", "requirements-dev.txt"
DRIVER = Path("/proc/driver/nvidia")
GB = 1e9
# Gigabytes to fetch, and free while pip unpacks and keeps what it fetched; with torch 2.11 on Debian 13.
CPU_TORCH, CUDA_TORCH, REST = (0.2, 1.2), (2.7, 10.0), (0.3, 2.0)
SCRATCH = "tableread-pip-"
TICK_S = 10  # between two lines where nobody looks at a terminal


class InstallError(Exception):
    """Its sentence tells the user what to change."""


def main(requirements: str) -> int:
    if is_set_up(requirements):
        return 0
    try:
        with only_one():
            if not is_set_up(requirements):
                set_up(requirements)
    except InstallError as error:
        tell(f"{error}")
        return 1
    except KeyboardInterrupt:
        tell("Stopped. The same command goes on from here.")
        return 130
    return 0


def is_set_up(requirements: str) -> bool:
    """Whether a stamp of this state is there. What the tests need includes what running needs."""
    stamps = (PREFIX / f"tableread-{name}.stamp" for name in (requirements, TESTS))
    return any(stamp.is_file() and stamp.read_text() == state() for stamp in stamps)


def state() -> str:
    """What an installation depends on: the requirement files and the Python."""
    files = b"".join(path.read_bytes() for path in sorted(ROOT.glob("requirements*.txt")))
    return f"{hashlib.sha256(files).hexdigest()} {sys.version}\n"


def set_up(requirements: str) -> None:
    begin = time.monotonic()
    tell(f"Setting Tableread up in {PREFIX}, once.")
    forget_halves()
    make_sure_of_pip()
    fetched = 0.0
    if not installed("torch"):
        fetched += install_torch()
    least_room(REST[1])
    tell(f"{requirements}: about {REST[0] * 1000:.0f} MB to fetch")
    wanted = ["-r", str(ROOT / requirements)]
    if requirements == TESTS:
        wanted += interpretable_numpy(installed("triton"))
    fetched += pip_install(wanted)
    (PREFIX / f"tableread-{requirements}.stamp").write_text(state())
    tell(f"Set up in {time.monotonic() - begin:.0f} s, {fetched / GB:.1f} GB fetched.")


def install_torch() -> float:
    """Install torch alone, and return the bytes fetched. Without a GPU, the CPU build where it can be had."""
    wanted = [line for line in (ROOT / RUNNING).read_text().splitlines() if line.startswith("torch")]
    on_linux = sys.platform == "linux"
    if on_linux and not has_gpu():
        if answers(f"{CPU_INDEX}/torch/"):
            least_room(CPU_TORCH[1])
            tell(f"No GPU: the CPU build of torch, about {CPU_TORCH[0] * 1000:.0f} MB to fetch")
            return pip_install(["--index-url", CPU_INDEX, *wanted])
        smaller = [sys.executable, "-m", "pip", "install", "--index-url", CPU_INDEX, "torch<2.12"]
        tell("No GPU, but PyTorch's index of CPU builds doesn't answer. Once it does, this would be smaller:")
        tell(f"  {shlex.join(smaller)}")
    if on_linux:
        least_room(CUDA_TORCH[1])
        tell(f"torch with CUDA: about {CUDA_TORCH[0]:.1f} GB to fetch, 4.5 GB on disk")
    return pip_install(wanted)


def has_gpu() -> bool:
    """Whether a card is there, not only its driver's programs."""
    if any(DRIVER.glob("gpus/*")):
        return True
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return re.search(r"^GPU \d+:", listed, re.MULTILINE) is not None


def interpretable_numpy(triton: str | None) -> list[str]:
    """Triton before 3.9, which CUDA builds of torch bring, interprets kernels with numpy before 2.4 only."""
    if triton and tuple(int(part) for part in triton.split(".")[:2]) < (3, 9):
        return ["numpy<2.4"]
    return []


def installed(name: str) -> str | None:
    """The version of a package in this environment."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def forget_halves(folders: list[str] | None = None) -> None:
    """Remove what an interrupted pip left, so that it is installed anew: pip writes a package's RECORD last,
    and calls a package ~... while it takes it away. What it had fetched may be gigabytes."""
    for scratch in PREFIX.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch, ignore_errors=True)
    for folder in map(Path, folders or site.getsitepackages()):
        for half in folder.glob("*.dist-info"):
            if not (half / "RECORD").exists():
                shutil.rmtree(half)
        for half in folder.glob("~*"):
            shutil.rmtree(half) if half.is_dir() else half.unlink()


def make_sure_of_pip() -> None:
    """An environment may have been left without pip: by an interrupted venv, or by a tool that needs none."""
    if not runs("-m", "pip", "--version") and not runs("-m", "ensurepip"):
        raise InstallError(f"There is no pip in {PREFIX}; install it there, or remove that folder.")


def runs(*arguments: str) -> bool:
    return subprocess.run([sys.executable, *arguments], capture_output=True).returncode == 0


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except (OSError, ValueError):
        return False


def least_room(gigabytes: float) -> None:
    free = shutil.disk_usage(PREFIX).free / GB
    if free < gigabytes:
        raise InstallError(
            f"{PREFIX} has {free:.1f} GB free and needs {gigabytes:.1f}; free some, then run this again."
        )


class only_one:
    """Of two calls at once one installs, and the other waits for it."""

    def __enter__(self) -> None:
        try:
            self.file = open(PREFIX / "tableread.lock", "w")
        except OSError as error:
            raise InstallError(f"{PREFIX} can't be written to ({error.strerror}).") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("Another call is installing; waiting for it.")
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_) -> None:
        self.file.close()


def pip_install(arguments: list[str]) -> float:
    """Install by pip, telling how far it is, and return the bytes that were fetched.

    Raises InstallError, with a sentence for a full disk and for no network, and else with what pip said.
    """
    # pip unpacks where temporary files go, which on many systems is memory.
    with tempfile.TemporaryDirectory(dir=PREFIX, prefix=SCRATCH) as scratch:
        command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        command += ["--progress-bar", "raw" if knows_raw_progress() else "off"]
        command += [] if cache_can_be_written() else ["--no-cache-dir"]
        environment = {**os.environ, "TMPDIR": scratch, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [*command, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        try:
            said, fetched = follow(process)
        finally:
            process.terminate()
            process.wait()
    if process.returncode:
        raise InstallError(reason(said))
    return fetched


def knows_raw_progress() -> bool:
    return tuple(int(part) for part in installed("pip").split(".")[:2]) >= (24, 1)


def cache_can_be_written() -> bool:
    """As pip asks before it warns: whether the first folder there is on the way to its cache is ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pip"
    return os.access(next(path for path in (cache, *cache.parents) if path.exists()), os.W_OK)


def follow(process: subprocess.Popen) -> tuple[str, float]:
    """Read pip's output to its end, telling what it does: (its words without the progress, bytes fetched)."""
    said, doing, fetched, begin = [], "looking at what is needed", 0.0, time.monotonic()
    row = Row()
    for line in rows_of(process):
        progress = line and re.match(r"Progress (\d+) of (\d+)", line)
        download = line and re.match(r"\s*Downloading (\S+).* \(([\d.]+) (kB|MB|GB)\)", line)
        if progress:
            done, whole = int(progress[1]), int(progress[2])
            row.part = f" {done * 100 // whole} %" if whole else ""
        elif line is not None:
            said.append(line)
        if download:
            size = float(download[2]) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[download[3]]
            name = download[1].rpartition("/")[2].split("-")[0]
            doing, fetched, row.part = f"fetching {name} ({download[2]} {download[3]})", fetched + size, ""
        elif line and line.startswith("Installing collected packages"):
            doing, row.part = f"unpacking {line.count(',') + 1} packages", ""
        row.show(f"  {time.monotonic() - begin:.0f} s, {fetched / 1e6:.0f} MB: {doing}")
    row.clear()
    return "\n".join(said), fetched


def rows_of(process: subprocess.Popen) -> Iterator[str | None]:
    """The process's rows of output as they come, and None after every second without one."""
    lines: queue.Queue = queue.Queue()

    def read() -> None:
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(process)  # the end

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            line = None
        if line is process:
            process.wait()
            return
        yield line


class Row:
    """One row that tells how far something is: rewritten on a terminal, else a new one every some seconds."""

    def __init__(self):
        self.part, self._told, self._terminal = "", time.monotonic(), sys.stderr.isatty()

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now - self._told < (0.2 if self._terminal else TICK_S):
            return
        self._told = now
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{(text + self.part)[:width]}", end="", file=sys.stderr, flush=True)
        else:
            tell(text + self.part)

    def clear(self) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def reason(said: str) -> str:
    """Why pip failed, in a sentence, from all that it said."""
    if re.search(r"No space left on device|Errno 28|Disk quota exceeded", said):
        return f"The disk is full: free some space where {PREFIX} lies, then run this again."
    if re.search(
        r"NewConnectionError|NameResolutionError|name resolution|Max retries exceeded|ReadTimeoutError"
        r"|ConnectTimeoutError|Connection (broken|reset|refused|aborted)|Network is unreachable|ProxyError"
        r"|IncompleteRead",
        said,
    ):
        return "The package index can't be reached: look at the network or the proxy, then run this again."
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.splitlines()[-5:]
    return "pip couldn't install what is needed:\n" + "\n".join(errors)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
