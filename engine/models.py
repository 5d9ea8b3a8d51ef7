"""Which model runs here, and how it comes to memory. The only place that tells families apart.

A model is named `understudy`, `kokoro`, a hub id (`fishaudio/drama-3`, `owner/name@revision`), a local
folder or an http(s) server. Local files come first; nothing here starts a large download that nobody asked
for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.family import Family
from engine.take import RequestError

ROOT = Path(__file__).resolve().parent.parent
UNDERSTUDY = ROOT / "assets" / "understudy"
DRAMA3 = "fishaudio/drama-3"
OWN = "understudy", "kokoro"  # models that are called by a name of ours, no folder and no hub id
PINNED = {DRAMA3: "e0a9218aa48888270f06ef1ed9ea67622c0e17d2"}
CHECKPOINT_FILES = ["*.json", "*.safetensors", "codec.pth"]
SAMPLES, SAMPLE_BYTES = 16, 4096  # of every file of weights, for a fingerprint
GIB = 1 << 30
HEADROOM_BYTES = 6 * GIB  # caches, codec windows and graphs beside the weights
# Matrices of a model this small are done before a second thread wakes up: it gains 15 % on a quiet machine
# and makes a take 4 to 15 times slower on a busy one (2 cores, 256 wide).
SMALL_BYTES = 256 << 20
FLOAT32_FACTOR = 2  # 16-bit weights are computed in float32 on a CPU


@dataclass(frozen=True)
class Choice:
    """The model that runs when nobody names one, and the reason in a sentence."""

    model: str
    why: str


def default_device() -> torch.device:
    """TABLEREAD_DEVICE where set, else the GPU where there is one."""
    return torch.device(
        os.environ.get("TABLEREAD_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    )


def default_model() -> Choice:
    """TABLEREAD_MODEL where set; else Drama 3 if it is local and fits, else the understudy, else the
    stand-in.
    """
    if named := os.environ.get("TABLEREAD_MODEL"):
        return Choice(named, "TABLEREAD_MODEL names it.")
    folder = local_snapshot(DRAMA3, PINNED[DRAMA3])
    if folder and default_device().type == "cuda":
        need, free = checkpoint_bytes(folder) + HEADROOM_BYTES, torch.cuda.mem_get_info()[0]
        if free >= need:
            return Choice(
                DRAMA3, f"It is on this machine and fits: {free / GIB:.0f} GiB of GPU memory are free."
            )
    if (UNDERSTUDY / "config.json").is_file():
        return Choice("understudy", "The small checkpoint that comes with Tableread runs on any machine.")
    return Choice("kokoro", "The stand-in voice runs on any CPU until a model that clones is at hand.")


def load_family(model: str | None = None, device: torch.device | None = None) -> Family:
    """Load `model`, or the default. Raises RequestError for a model that can't be found, read or held."""
    name, device = model or default_model().model, device or default_device()
    if name.startswith(("http://", "https://")):
        raise RequestError("Performing on a server is not built yet; name a local model instead.")
    if name == "kokoro":
        from engine.kokoro.family import KokoroFamily  # late: onnxruntime is not on every GPU machine

        return KokoroFamily.load()
    folder, revision = find_checkpoint(name)
    load = _loader(folder)
    _check_memory(folder, device)
    if device.type == "cpu" and checkpoint_bytes(folder) < SMALL_BYTES:
        torch.set_num_threads(1)
    return load(folder, Path(name).name if Path(name).is_dir() else name, revision, device)


def find_checkpoint(name: str) -> tuple[Path, str]:
    """(folder, revision) of a named model. Raises RequestError saying what is missing and how to get it."""
    if name == "understudy":
        if not (UNDERSTUDY / "config.json").is_file():
            raise RequestError(
                "This copy of Tableread holds no understudy yet; use --model kokoro or a folder."
            )
        return UNDERSTUDY, fingerprint(UNDERSTUDY)
    path = Path(name).expanduser()
    if name and path.is_dir():
        return path.resolve(), fingerprint(path)
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or "\\" in name:
        raise RequestError(f"{name} is no folder, hub id or known model; see `python -m engine doctor`.")
    repo, revision = _of_hub(name)
    return local_snapshot(repo, revision) or _download(repo, revision), revision


def is_here(name: str) -> bool:
    """Whether a model can be loaded by this name, which is no folder's, without asking any network."""
    return name in OWN or (name.count("/") == 1 and local_snapshot(*_of_hub(name)) is not None)


def _of_hub(name: str) -> tuple[str, str]:
    """(repository, revision) of a hub id, which may say its revision behind an @."""
    repo, _, revision = name.partition("@")
    return repo, revision or PINNED.get(repo, "main")


def fingerprint(folder: Path) -> str:
    """12 hex digits that stand for a folder's weights: codes, voices and seeds of others mean nothing to it.

    Names, sizes and `SAMPLES` places of every file are read, so that 41 GB take no longer than 40 MB. Raises
    RequestError for a file that can't be read.
    """
    digest = hashlib.blake2b(digest_size=6)
    try:
        for path in sorted(_weights(folder)):
            size = path.stat().st_size
            digest.update(f"{path.name} {size}\n".encode())
            with path.open("rb") as file:
                for number in range(SAMPLES):
                    file.seek(size * number // SAMPLES)
                    digest.update(file.read(SAMPLE_BYTES))
    except OSError:
        raise RequestError(
            f"A file of weights in {folder.name} can't be read; mend its permissions or copy it again."
        ) from None
    return digest.hexdigest()


def local_snapshot(repo: str, revision: str) -> Path | None:
    """The folder of a hub checkpoint that is already whole on this machine, without asking any network."""
    from huggingface_hub import snapshot_download  # late: half a second that a local folder doesn't need
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(
            snapshot_download(repo, revision=revision, allow_patterns=CHECKPOINT_FILES, local_files_only=True)
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    whole = (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
    return folder if whole else None


def _download(repo: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
    from huggingface_hub.utils import logging as hub_logging

    hub_logging.set_verbosity_error()  # its retries would print a warning each; our sentence says it once
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=CHECKPOINT_FILES))
    except GatedRepoError:
        raise RequestError(
            f"{repo} is gated: ask {repo.split('/')[0]} for access on its model page, then set HF_TOKEN."
        ) from None
    except RepositoryNotFoundError:
        raise RequestError(
            f"The hub has no model {repo} that this account can see; check the name."
        ) from None
    except (HfHubHTTPError, OSError, ValueError):
        raise RequestError(
            f"{repo} is not on this machine and the hub can't be reached; connect it or name a local folder."
        ) from None


def checkpoint_bytes(folder: Path) -> int:
    """Bytes of all weights of a checkpoint folder."""
    return sum(path.stat().st_size for path in _weights(folder))


def _weights(folder: Path) -> list[Path]:
    return [path for pattern in ("*.safetensors", "*.pth") for path in folder.glob(pattern)]


def _check_memory(folder: Path, device: torch.device) -> None:
    """Refuse before loading what would not fit, saying both numbers."""
    if device.type == "cuda":
        need, free, what = checkpoint_bytes(folder), torch.cuda.mem_get_info(device)[0], "GPU memory"
    else:
        need, free, what = checkpoint_bytes(folder) * FLOAT32_FACTOR, free_memory_bytes(), "memory"
    if free is not None and need > free:
        raise RequestError(
            f"{folder.name} needs about {need / GIB:.0f} GiB of {what} and {free / GIB:.0f} GiB are free; "
            "use a smaller model, such as --model kokoro."
        )


def free_memory_bytes() -> int | None:
    """Memory that Linux calls available; None on other systems."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _loader(folder: Path) -> Callable[[Path, str, str, torch.device], Family]:
    """The loader for the model_type that a folder's config.json names."""
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except FileNotFoundError:
        raise RequestError(
            f"The folder {folder.name} has no config.json; name a checkpoint folder."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise RequestError(
            f"config.json of {folder.name} names no model_type; fetch the checkpoint again."
        ) from None
    if kind == "fish_omni":
        from engine.drama3.family import Drama3Family  # late: only the family that runs is imported

        return Drama3Family.load
    raise RequestError(f"config.json of {folder.name} has the model_type {kind!r}; known: 'fish_omni'.")
