"""The plain values that go into a take and come out of it.

Nothing here knows a model, a device or a page. Every value is frozen, picklable and holds only numbers, text,
bytes and numpy arrays, because on a hosted GPU requests and events cross a process border. `to_json` and
`from_json` carry the same values through text.
"""

from __future__ import annotations

import base64
import dataclasses
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MAX_SEED = 2**64 - 1
MAX_REFERENCES = 4
_NUMBERS = re.compile(r"[<>=|]?(?:[iu][1248]|f[248])")  # dtypes of arrays in text


def fresh_seed() -> int:
    """A seed from the operating system, for whoever gives none."""
    return secrets.randbelow(MAX_SEED + 1)


class RequestError(ValueError):
    """The caller can fix this: one sentence that names the thing and the remedy."""


class TakeFailed(RuntimeError):
    """The model let the take down (no frames, logits that are not numbers): the caller did nothing wrong."""


@dataclass(frozen=True, eq=False)
class Clip:
    """Sound as it was recorded: `samples` float32 [n] or [channels, n] in -1..1 at `sample_rate` Hz."""

    samples: np.ndarray
    sample_rate: int


@dataclass(frozen=True, eq=False)
class Reference:
    """A clip that gives a voice and the words spoken in it.

    `audio` is a `Clip`, or codes int64 [codebooks, frames] that the same model made of one earlier.
    """

    audio: Clip | np.ndarray
    transcript: str


@dataclass(frozen=True, eq=False)
class Character:
    """Who speaks: cloned from `voice` or made up from `description` (with an optional `scene`), never both.

    With neither, the model's own voice speaks.
    """

    name: str = ""
    voice: tuple[Reference, ...] | None = None
    description: str | None = None
    scene: str | None = None


@dataclass(frozen=True, eq=False)
class Spoken:
    """An earlier line of this character, kept as `codes` int64 [codebooks, frames] of the same model.

    A `pinned` one stays where history has to make room, as long as the others can go.
    """

    text: str
    codes: np.ndarray
    pinned: bool = False


@dataclass(frozen=True)
class Sampling:
    """How codes are drawn. `None` means the family's own default (Drama 3: no cap on the semantic draw)."""

    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int | None = None


@dataclass(frozen=True, eq=False)
class TakeRequest:
    """One line to perform.

    `seed` 0..2^64-1, or None to have one drawn and reported. `max_frames` caps the whole take. `deadline` is
    in seconds from the start of `perform`; at it the take ends at the next frame and keeps what was made.

    `numbers`: whether numbers and short forms are written out as words; None leaves it to what the family can
    read. The other two make an earlier take again from its card: `performed` are the very words that the
    model got to see, and without `letters` nothing is folded to what it reads, as older takes weren't.
    """

    text: str
    character: Character = field(default_factory=Character)
    history: tuple[Spoken, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None
    max_frames: int | None = None
    deadline: float | None = None
    numbers: bool | None = None
    letters: bool = True
    performed: str | None = None


@dataclass(frozen=True)
class Status:
    """What happens now, in `phase` (one word) and `detail` (one sentence for a person, may be empty)."""

    phase: str
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A reference that had to be encoded: keep `codes` and send them next time; once made they are
    authoritative.

    `key` is the hash of the samples it was made from; `note` says what was done to the clip (may be empty).
    """

    key: str
    codes: np.ndarray
    note: str = ""


@dataclass(frozen=True, eq=False)
class Audio:
    """A chunk of the take: `pcm` int16 [n] mono. `first_frame` is its first frame, `seq` counts from 0."""

    pcm: np.ndarray
    sample_rate: int
    first_frame: int
    seq: int


@dataclass(frozen=True)
class Timings:
    """Where the time went, in seconds since `perform` was called unless a name says otherwise.

    `reference_s`, `prompt_s` and `prefill_s` are spans. `rtf` is compute seconds per second of audio, lower
    is better; the time that the listener took between two events is in `total_s` and not in `rtf`.
    """

    queue_s: float = 0.0
    reference_s: float = 0.0
    prompt_s: float = 0.0
    prefill_s: float = 0.0
    first_codes_s: float = 0.0
    first_pcm_s: float = 0.0
    total_s: float = 0.0
    audio_s: float = 0.0
    frames_per_s: float = 0.0
    rtf: float = 0.0


@dataclass(frozen=True, eq=False)
class Done:
    """The end of a take that made sound.

    `finish_reason` is stop, length (frame cap), deadline or cancelled. `codes` int64 [codebooks, frames] is
    the take as the model wrote it, or None for a family without frames. `flags`: ran_long,
    history_dropped(n), split(n).
    """

    finish_reason: str
    frames: int
    seed: int
    timings: Timings
    codes: np.ndarray | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trouble:
    """A take that could not be performed, told across the door in one sentence.

    `kind` is request (the caller can change it), take (another seed may do better), memory, busy (no place in
    line, no GPU), quota (no GPU time left), lost (the GPU was taken away) or fault (ours; the log tells more
    under `take_id`).
    """

    kind: str
    sentence: str
    take_id: str = ""


Event = Status | Encoded | Audio | Done | Trouble

_VALUES = {
    kind.__name__: kind
    for kind in (
        Clip,
        Reference,
        Character,
        Spoken,
        Sampling,
        TakeRequest,
        Status,
        Encoded,
        Audio,
        Timings,
        Done,
        Trouble,
    )
}


def to_json(value: Any) -> Any:
    """`value` as plain JSON data. Arrays become base64 bytes with shape and dtype; tuples become lists."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"type": "array", "dtype": value.dtype.str, "shape": list(value.shape), "bytes": data}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def from_json(data: Any) -> Any:
    """The value that `to_json` wrote. Raises RequestError for an unknown type or a broken array."""
    if isinstance(data, list):
        return tuple(from_json(item) for item in data)
    if not isinstance(data, dict):
        return data
    kind = data.get("type")
    if kind == "array":
        return _array(data)
    if not isinstance(kind, str) or kind not in _VALUES:
        raise RequestError(f"{kind!r} is not a type of value this program knows.")
    fields = {name: from_json(item) for name, item in data.items() if name != "type"}
    try:
        return _VALUES[kind](**fields)
    except TypeError:
        raise RequestError(f"The fields of this {kind} are {sorted(fields)}, which don't fit.") from None


def _array(data: dict) -> np.ndarray:
    try:
        if not _NUMBERS.fullmatch(str(data["dtype"])):  # np.dtype reads a grammar, and None as float64
            raise ValueError(data["dtype"])
        dtype = np.dtype(data["dtype"])
        return (
            np.frombuffer(base64.b64decode(data["bytes"], validate=True), dtype).reshape(data["shape"]).copy()
        )
    except (KeyError, ValueError, TypeError, OverflowError):
        raise RequestError("An array needs bytes, shape and a numeric dtype that fit each other.") from None
