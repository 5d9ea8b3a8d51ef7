"""Audio files in and out: clips from whatever people have, takes with their card. The one user of soundfile.

In: a header costs a millisecond and a decoded hour a gigabyte, so length, rate and channels are judged before
the first sample is decoded. The content decides what a file is, never its suffix. libsndfile reads WAV, FLAC,
OGG, MP3 and a dozen more; phone and video containers go through ffmpeg where there is one.

Out: 16-bit WAV or FLAC with the take card as JSON in the comment. The bytes depend on samples, rate and
card alone (no clock, no encoder's date). WAV is laid out here because libsndfile cannot read back a comment
of some 2,050 bytes and drops a longer one; the card stands behind the samples, so that the header keeps its
plain 44 bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import secrets
import shutil
import stat
import struct
import subprocess
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile as sf

from engine.references import MAX_CLIP_S, MIN_CLIP_S, check_format, check_length
from engine.take import Clip, RequestError

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 20 * 2**20
FFMPEG_TIMEOUT_S = 30
# More than 61 s of 8 channels at 192 kHz; a container may claim 255 channels.
FFMPEG_MAX_BYTES = 400_000_000
READABLE = "WAV, FLAC, OGG or MP3"
MAX_WAV_BYTES = 2**32 - 100  # sizes in a WAV are 32 bits
CARD_VERSION = 1

# Offset, bytes there, and ffmpeg's name of the container. ffmpeg is told the name instead of guessing: among
# the things it can guess are playlists, which name further files and addresses to open.
CONTAINERS = (
    (4, b"ftyp", "mov"),
    (4, b"moov", "mov"),
    (4, b"mdat", "mov"),
    (4, b"wide", "mov"),
    (0, b"\x1a\x45\xdf\xa3", "matroska"),
    (0, b"\x30\x26\xb2\x75", "asf"),
    (8, b"AVI ", "avi"),
    (0, b"#!AMR", "amr"),
    (0, b"\xff\xf1", "aac"),
    (0, b"\xff\xf9", "aac"),
)


def read_clip(
    path: str | os.PathLike[str],
    min_s: float = MIN_CLIP_S,
    max_s: float = MAX_CLIP_S,
    tell: Callable[[str], object] = log.info,
) -> Clip:
    """The sound in a file: float32 [n] if it is mono, otherwise [channels, n], at the file's own rate.

    `tell` gets a sentence for each thing done to the file that a listener should know. Raises RequestError
    for a path that is no readable file of at most 20 MB, and for a file that isn't `min_s` to `max_s` of
    sound.
    """
    name = shown_name(path)
    size = _check_is_file(path, name)
    if size == 0:
        raise RequestError(f"{name} is empty; give an audio file.")
    if size > MAX_FILE_BYTES:
        raise RequestError(f"{name} is over {MAX_FILE_BYTES // 2**20} MB; cut or compress the clip.")
    with _open_unbuffered(path, name) as source:
        sound = _opened(source.fileno())
        if sound is None:
            sound = _opened(io.BytesIO(_through_ffmpeg(path, name, source, max_s)))
            if sound is None:
                raise RequestError(f"{name} could not be decoded; convert it to {READABLE}.")
            tell(f"The audio track of {name} is used.")
        with sound:
            return Clip(_samples(sound, name, min_s, max_s, tell), sound.samplerate)


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise RequestError unless a take can be written to `path`. Leaves no trace and makes no folder."""
    name = shown_name(path)
    _encoder(path, name)
    target = _real_target(path, name)
    try:
        if not target.parent.is_dir():
            raise RequestError(f"The folder for {name} does not exist; make it first or choose another one.")
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(target.stat().st_mode):
                raise RequestError(f"{name} is a folder; give the name of a file.")
            if not os.access(target, os.W_OK):
                raise RequestError(f"{name} is write-protected; choose another name.")
        trial = _beside(target)
        trial.open("xb").close()
        trial.unlink()
    except OSError as error:
        raise _unwritable(name, error.strerror) from None


def write_take(path: str | os.PathLike[str], pcm: np.ndarray, sample_rate: int, card: dict[str, Any]) -> None:
    """Write `pcm` int16 [n] as mono WAV or FLAC, by the suffix, with `card` (JSON data) in its metadata.

    The file appears whole or not at all: it is written beside its place and renamed. Raises RequestError if
    it can't be written.
    """
    name = shown_name(path)
    encode = _encoder(path, name)
    write_file(path, encode(pcm, sample_rate, _comment(card)))


def write_wav(
    path: str | os.PathLike[str], blocks: Iterable[np.ndarray], sample_rate: int, card: dict[str, Any]
) -> int:
    """Write `blocks` int16 [n] as one mono WAV while they come, none of them held; returns how many samples.

    Like a take, the file carries `card` and appears whole or not at all, also when `blocks` raises.
    """
    name, num_samples = shown_name(path), 0

    def put(file: BinaryIO) -> None:
        nonlocal num_samples
        num_samples = _put_wav(file, blocks, sample_rate, _comment(card), name)

    _write_whole(path, put)
    return num_samples


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file that appears whole or not at all. Raises RequestError if it can't be written."""
    _write_whole(path, lambda file: file.write(data))


def safe_name(text: str, most_bytes: int = 60) -> str:
    """`text` as a part of a file's name on any system: letters, marks and digits of every script, joined by
    hyphens, at most `most_bytes` of UTF-8; "unnamed" if nothing is left. Put something before it: on its own
    it may be a name that Windows keeps for itself."""
    kept = (c if unicodedata.category(c)[0] in "LMN" else "-" for c in unicodedata.normalize("NFC", text))
    name = re.sub("-+", "-", "".join(kept)).strip("-")
    while len(name.encode()) > most_bytes:
        name = name[:-1].rstrip("-")
    return name or "unnamed"


def read_card(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The card that `write_take` put into the file. Raises RequestError if it holds none."""
    name = shown_name(path)
    _check_is_file(path, name)
    with _open_unbuffered(path, name) as file:
        comment = _wav_comment(file) if file.read(4) == b"RIFF" else _other_comment(file)
    try:
        card = json.loads(comment)
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict) or card.pop("take_card", None) != CARD_VERSION:
        raise RequestError(f"{name} holds no take card; only a take saved by Tableread carries one.")
    return card


def shown_name(path: str | os.PathLike[str]) -> str:
    """The file's name for a sentence: no folders, no control characters, at most 80 characters."""
    name = "".join(c if c.isprintable() else "?" for c in os.path.basename(os.fspath(path).rstrip("/\\")))
    return name if len(name) <= 80 else f"{name[:50]}...{name[-27:]}"


# Reading.


def _check_is_file(path: str | os.PathLike[str], name: str) -> int:
    """The size in bytes of the ordinary file at `path`, else RequestError."""
    text = os.fspath(path)
    if re.match(r"[a-z][a-z0-9+.-]*://|data:", text, re.IGNORECASE):
        raise RequestError(
            "A clip must be a file on this machine, not a web address; download it and give the file."
        )
    if not text:
        raise RequestError("The path of the clip is empty; give the path of an audio file.")
    try:
        status = os.stat(text)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise RequestError(f"{name} does not exist; check the path.") from None
    except OSError as error:
        raise RequestError(f"{name} cannot be read ({error.strerror}); check the path.") from None
    if stat.S_ISDIR(status.st_mode):
        raise RequestError(f"{name} is a folder; give one audio file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise RequestError(f"{name} is not an ordinary file; give an audio file.")
    return status.st_size


def _open_unbuffered(path: str | os.PathLike[str], name: str) -> io.FileIO:
    """The file, unbuffered: libsndfile shares the descriptor and starts at the position it finds there."""
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise RequestError(f"{name} cannot be read ({error.strerror}); check its permissions.") from None


def _opened(source: int | io.BytesIO) -> sf.SoundFile | None:
    """What libsndfile makes of a descriptor or of bytes, header only; None if it knows no such file.

    A descriptor, because soundfile judges a path by its suffix (`.raw`), and prints a traceback when a
    damaged header has it seek to nowhere in a file object.
    """
    try:
        return sf.SoundFile(source, closefd=False)
    except sf.LibsndfileError:
        return None


def _samples(
    file: sf.SoundFile, name: str, min_s: float, max_s: float, tell: Callable[[str], object]
) -> np.ndarray:
    """Samples float32 [n] or [channels, n], after the header has been judged."""
    if file.frames == 0:
        raise RequestError(f"{name} holds no sound; record or export it again.")
    # libsndfile's way to say that the header of a streamed file leaves the length open; it then can't seek.
    if file.frames == 2**63 - 1:
        raise RequestError(f"{name} does not say how long it is; convert it to WAV.")
    check_format(file.samplerate, file.channels, name)
    check_length(file.frames / file.samplerate, name, min_s, max_s)
    try:
        samples = file.read(file.frames, dtype="float32", always_2d=True)
    except sf.LibsndfileError:
        raise RequestError(f"{name} is damaged and cannot be decoded; export it again.") from None
    if len(samples) < file.frames:
        heard_s, stated_s = len(samples) / file.samplerate, file.frames / file.samplerate
        check_length(heard_s, name, min_s, max_s)
        if stated_s - heard_s > 0.1:  # less is an encoder's padding
            tell(f"{name} breaks off: {heard_s:.1f} of its {stated_s:.1f} s are used.")
    return samples[:, 0].copy() if file.channels == 1 else np.ascontiguousarray(samples.T)


def _through_ffmpeg(path: str | os.PathLike[str], name: str, source: io.FileIO, max_s: float) -> bytes:
    """The audio track as a WAV file of float32, at most a second above `max_s`, rate and channels kept."""
    container = _container(source)
    if container is None:
        raise RequestError(f"{name} is damaged or not an audio file; give a clip as {READABLE}.")
    program = shutil.which("ffmpeg")
    if program is None:
        raise RequestError(
            f"{name} needs ffmpeg to be read; install ffmpeg, or convert the clip to {READABLE}."
        )
    command = [program, *_ffmpeg_arguments(path, container, max_s)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=FFMPEG_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise RequestError(f"{name} took too long to decode; convert it to {READABLE}.") from None
    except OSError as error:
        raise RequestError(
            f"{name} needs ffmpeg, which could not be started ({error.strerror}); convert it to {READABLE}."
        ) from None
    if b"does not contain any stream" in done.stderr:
        raise RequestError(f"{name} has no sound track; give a clip in which somebody speaks.")
    if done.returncode != 0:
        raise RequestError(f"{name} is damaged and ffmpeg cannot decode it; convert it to {READABLE}.")
    return done.stdout


def _container(source: io.FileIO) -> str | None:
    source.seek(0)
    start = source.read(16)
    return next((kind for at, magic, kind in CONTAINERS if start[at:].startswith(magic)), None)


def _ffmpeg_arguments(path: str | os.PathLike[str], container: str, max_s: float) -> list[str]:
    """Out comes WAV and not bare f32le, because the header tells the track's own rate and channels."""
    # `file:` before a full path: a name can be neither an option nor an address.
    source = ["-protocol_whitelist", "file", "-f", container, "-i", f"file:{os.path.abspath(path)}"]
    track = ["-t", f"{max_s + 1:g}", "-vn", "-map_metadata", "-1", "-fs", str(FFMPEG_MAX_BYTES)]
    return ["-nostdin", "-v", "error", *source, *track, "-c:a", "pcm_f32le", "-f", "wav", "pipe:1"]


def _wav_comment(file: io.FileIO) -> str:
    """The ICMT text of a RIFF file, whatever its length, or "".

    A chunk is four letters, a size, and content padded to even; LIST/INFO holds chunks of its own.
    """
    file.seek(12)
    while len(head := file.read(8)) == 8:
        kind, size = struct.unpack("<4sI", head)
        if kind == b"LIST" and (text := _info_comment(file.read(min(size, MAX_FILE_BYTES)))):
            return text
        file.seek(size % 2 if kind == b"LIST" else size + size % 2, os.SEEK_CUR)
    return ""


def _info_comment(chunk: bytes) -> str:
    at = 4
    while chunk.startswith(b"INFO") and at + 8 <= len(chunk):
        kind, size = struct.unpack_from("<4sI", chunk, at)
        if kind == b"ICMT":
            return chunk[at + 8 : at + 8 + size].rstrip(b"\0").decode("utf-8", "replace")
        at += 8 + size + size % 2
    return ""


def _other_comment(file: io.FileIO) -> str:
    file.seek(0)
    sound = _opened(file.fileno())
    if sound is None:
        return ""
    with sound:
        return sound.comment


# Writing.


def _encoder(path: str | os.PathLike[str], name: str) -> Callable[[np.ndarray, int, str], bytes]:
    suffix = Path(path).suffix.lower()
    if suffix not in ENCODERS:
        raise RequestError(
            f"{name or 'The target'} does not end in .wav or .flac; a take is saved as one of them."
        )
    return ENCODERS[suffix]


def _comment(card: dict[str, Any]) -> str:
    return json.dumps({**card, "take_card": CARD_VERSION}, sort_keys=True, allow_nan=False)


def _wav_bytes(pcm: np.ndarray, sample_rate: int, comment: str) -> bytes:
    whole = io.BytesIO()
    _put_wav(whole, (pcm,), sample_rate, comment, "The take")
    return whole.getvalue()


def _put_wav(file: BinaryIO, blocks: Iterable[np.ndarray], sample_rate: int, comment: str, name: str) -> int:
    """A WAV file: format, samples, and LIST/INFO with the comment, all of even length. The sizes in its head
    are known last. Returns the number of samples."""
    text = comment.encode() + b"\0"
    text += b"\0" * (len(text) % 2)
    info = b"INFOICMT" + struct.pack("<I", len(text)) + text
    info = b"LIST" + struct.pack("<I", len(info)) + info
    file.write(_wav_head(sample_rate, 0, 0))
    num_bytes = 0
    for pcm in blocks:
        num_bytes += file.write(pcm.astype("<i2", casting="equiv").tobytes())
        if num_bytes + len(info) > MAX_WAV_BYTES:
            raise RequestError(f"{name} would be over 4 GB, more than WAV can hold; split the scene.")
    file.write(info)
    file.seek(0)
    file.write(_wav_head(sample_rate, num_bytes, len(info)))
    return num_bytes // 2


def _wav_head(sample_rate: int, num_bytes: int, info_bytes: int) -> bytes:
    """The 44 bytes before the samples."""
    form = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", num_bytes)
    return b"RIFF" + struct.pack("<I", len(body) + num_bytes + info_bytes) + body


def _flac_bytes(pcm: np.ndarray, sample_rate: int, comment: str) -> bytes:
    """A FLAC file with the comment as a vorbis comment (libsndfile kept 350 kB of it)."""
    whole = io.BytesIO()
    with sf.SoundFile(whole, "w", sample_rate, 1, "PCM_16", format="FLAC") as file:
        file.comment = comment
        file.write(pcm.astype(np.int16, casting="equiv"))
    return whole.getvalue()


ENCODERS = {".wav": _wav_bytes, ".flac": _flac_bytes}


def _real_target(path: str | os.PathLike[str], name: str) -> Path:
    """Where the bytes go: behind a link, not in its place."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a NUL character
        raise _unwritable(name, "not a valid path") from None


def _beside(target: Path) -> Path:
    """A new short name in the target's folder: renaming is atomic only within one file system."""
    return target.with_name(f".take-{secrets.token_hex(6)}.part")


def _write_whole(path: str | os.PathLike[str], put: Callable[[BinaryIO], object]) -> None:
    """Have `put` write the file beside its place, then rename it. Raises RequestError where that fails."""
    name = shown_name(path)
    target = _real_target(path, name)
    part = _beside(target)
    try:
        with part.open("xb") as file:
            put(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise _unwritable(name, error.strerror) from None
    finally:
        part.unlink(missing_ok=True)


def _unwritable(name: str, reason: str | None) -> RequestError:
    return RequestError(f"{name} cannot be written ({reason}); choose another place.")
