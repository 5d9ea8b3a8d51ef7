"""Setting an environment up: what is chosen, mended and told. No package is fetched here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import install

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("triton", "numpy"),
    [("3.4.0", ["numpy<2.4"]), ("3.7.1", ["numpy<2.4"]), ("3.9.0", []), ("3.10.0", []), (None, [])],
)
def test_an_older_triton_gets_the_numpy_it_interprets_with(triton, numpy):
    assert install.interpretable_numpy(triton) == numpy


def test_a_driver_without_a_card_is_no_gpu(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(install, "DRIVER", tmp_path / "no-driver")
    assert not install.has_gpu()
    program.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    program.chmod(0o755)
    assert not install.has_gpu()
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA RTX PRO 6000 (UUID: GPU-1)'\n")
    assert install.has_gpu()


def test_a_container_that_sees_a_card_without_programs_has_a_gpu(tmp_path, monkeypatch):
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    monkeypatch.setattr(install, "DRIVER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install.has_gpu()


def test_what_an_interrupted_pip_left_is_forgotten_and_the_rest_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "PREFIX", tmp_path)
    (tmp_path / "tableread-pip-x1" / "unpacked").mkdir(parents=True)
    for name in ("whole-1.0.dist-info", "half-1.0.dist-info", "~umpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "METADATA").write_text("Name: some")
    (tmp_path / "whole-1.0.dist-info" / "RECORD").write_text("")
    (tmp_path / "~ile.py").write_text("")
    (tmp_path / "whole.py").write_text("")
    install.forget_halves([str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["whole-1.0.dist-info", "whole.py"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "The disk is full"),
        ("WARNING: Retrying ... NameResolutionError\nERROR: No matching distribution", "can't be reached"),
        ("Collecting a\nERROR: ResolutionImpossible: see the docs", "ERROR: ResolutionImpossible"),
        ("it crashed", "it crashed"),
    ],
)
def test_a_failure_is_told_by_what_would_help(said, sentence):
    assert sentence in install.reason(said)


def test_too_little_room_is_told_with_both_numbers(monkeypatch):
    monkeypatch.setattr(install.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9e9, 8.5e9, 0.5e9))
    with pytest.raises(install.InstallError, match=r"has 0.5 GB free and needs 5.4"):
        install.least_room(5.4)
    install.least_room(0.4)


PIP = """
import sys, time
print("Collecting torch")
print("  Downloading https://x/torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl (500.5 MB)")
for done in (0, 250_000_000, 500_500_000):
    print(f"Progress {done} of 500500000", flush=True)
time.sleep(1.2)
print("  Downloading sympy-1.14.0-py3-none-any.whl.metadata (12 kB)")
print("Installing collected packages: sympy, torch")
sys.exit(3)
"""


def test_progress_is_told_and_what_was_fetched_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(install, "TICK_S", 0)
    process = subprocess.Popen([sys.executable, "-c", PIP], stdout=subprocess.PIPE, text=True)
    said, fetched = install.follow(process)
    told = capsys.readouterr().err
    assert fetched == pytest.approx(500.512e6)
    assert "Progress" not in said
    assert said.endswith("sympy, torch")
    assert "fetching torch (500.5 MB) 49 %" in told
    assert "unpacking 2 packages" in told
    assert process.returncode == 3


def test_pip_without_an_index_ends_in_one_sentence(monkeypatch):
    monkeypatch.setenv("PIP_RETRIES", "1")  # pip tells why with the first retry
    with pytest.raises(install.InstallError, match=r"^The package index can't be reached: .*\.$"):
        install.pip_install(["--index-url", "http://127.0.0.1:9/simple", "no-such-package-of-ours"])
    assert not list(install.PREFIX.glob("tableread-pip-*"))


@pytest.mark.parametrize("rights", [0o755, 0o555])
def test_pip_keeps_no_cache_where_it_can_not(tmp_path, monkeypatch, rights):
    tmp_path.chmod(rights)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none" / "yet"))
    monkeypatch.setattr(install.os, "access", lambda path, _: bool(Path(path).stat().st_mode & 0o200))
    assert install.cache_can_be_written() == (rights == 0o755)
    tmp_path.chmod(0o755)


@pytest.fixture
def tree(tmp_path) -> Path:
    """The run script and install.py in a path with spaces, with requirements that need torch alone, and an
    engine that only says which Python runs it."""
    folder = tmp_path / "my table read"
    (folder / "engine").mkdir(parents=True)
    for name in ("run", "install.py"):
        shutil.copy(ROOT / name, folder)
    for name in (install.RUNNING, install.TESTS):
        (folder / name).write_text("torch>=2.8,<2.14\n" if name == install.RUNNING else "")
    (folder / "engine" / "__main__.py").write_text("import sys; print(sys.executable)")
    return folder


def with_torch(environment: Path) -> None:
    """Make it look as if torch were installed."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    info = environment / "lib" / python / "site-packages" / "torch-2.11.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n")
    (info / "RECORD").write_text("")


def run(tree: Path, **environment: str) -> subprocess.CompletedProcess:
    base = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return subprocess.run(
        [tree / "run", "doctor"], env={**base, **environment}, capture_output=True, text=True, cwd=tree.parent
    )


def test_an_environment_left_half_made_is_made_whole_and_the_second_run_is_quiet(tree):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tree / ".venv"], check=True)
    with_torch(tree / ".venv")
    first = run(tree)
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"{tree / '.venv' / 'bin' / 'python'}\n"
    assert "Set up in" in first.stderr
    second = run(tree)
    assert (second.stdout, second.stderr) == (first.stdout, "")


def test_an_environment_of_a_python_that_is_gone_is_made_anew(tree):
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3.9-that-is-gone")
    (tree / ".venv" / f"tableread-{install.RUNNING}.stamp").write_text("a stamp that would lie")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = run(tree, **nowhere, PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="", PIP_RETRIES="1")
    assert done.returncode == 1
    assert "Making a virtual environment" in done.stderr
    assert "The package index can't be reached" in done.stderr
    assert not (tree / ".venv" / f"tableread-{install.RUNNING}.stamp").exists()


def test_the_active_environment_is_used_and_changed_requirements_are_seen(tree, tmp_path):
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    with_torch(own)
    assert run(tree, VIRTUAL_ENV=str(own)).stdout == f"{own / 'bin' / 'python'}\n"
    assert not (tree / ".venv").exists()
    (tree / install.TESTS).write_text("# another\n")
    assert "Set up in" in run(tree, VIRTUAL_ENV=str(own)).stderr


def test_an_active_environment_that_is_gone_is_named(tree, tmp_path):
    done = run(tree, VIRTUAL_ENV=str(tmp_path / "gone"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "gone" in done.stderr
