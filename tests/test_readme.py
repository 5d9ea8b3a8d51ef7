"""What the README promises: its command speaks, its code runs, its table of options exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile as sf

from engine.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_first_command_speaks_into_the_file_it_names(tmp_path):
    (command,) = blocks("bash")
    words = shlex.split(command)
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "TABLEREAD_MODEL": ""}
    done = subprocess.run(
        [ROOT / words[0], *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    samples, rate = sf.read(tmp_path / "take-7.wav")
    assert 1.0 < len(samples) / rate < 6.0
    assert abs(samples).max() > 0.05


def test_the_python_block_runs_as_it_stands(capsys, monkeypatch):
    monkeypatch.delenv("TABLEREAD_MODEL", raising=False)
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert "s of sound" in printed
    assert "stop" in printed


def test_the_scene_is_performed_into_the_folder_it_names(tmp_path, monkeypatch):
    monkeypatch.delenv("TABLEREAD_MODEL", raising=False)
    (command,) = re.findall(r"^\./run (perform .*)$", README, re.MULTILINE)
    words = [str(ROOT / word) if word.startswith("assets/") else word for word in shlex.split(command)]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    samples, rate = sf.read(tmp_path / "two-hander" / "mix.wav")
    assert 30.0 < len(samples) / rate < 80.0
    assert len(list((tmp_path / "two-hander" / "takes").iterdir())) == 12


def test_every_option_in_the_readme_exists(capsys):
    for command in ("say", "perform"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    section = README.split("## Direct it")[1].split("## Which model speaks")[0]
    assert set(re.findall(r"--[a-z][a-z-]*", section)) <= known


def test_every_file_in_the_readme_exists():
    named = set(re.findall(r"`((?:assets|engine|prompts|bench|tests)/[\w/.]+)`", README))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_front_matter_holds_the_tested_gradio():
    version = re.search(r"^sdk_version: (\S+)$", README, re.MULTILINE)[1]
    assert f"gradio>={'.'.join(version.split('.')[:2])}," in (ROOT / "requirements.txt").read_text()
