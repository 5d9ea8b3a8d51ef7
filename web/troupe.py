"""A model that plays and the way to it: its door, its gate, the clips it has encoded, how fast it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.cache import BoundedCache
from engine.engine import Engine
from engine.family import Family
from engine.take import Clip, Encoded, Event, RequestError, TakeRequest, Trouble
from web.queue import Gate

CODES_BYTES = 32 << 20
ENCODE_S = 2.0  # what the gate is told of a clip
USUAL_RTF = 0.5  # until a take has been heard


@dataclass
class Troupe:
    """One model for all who visit: Line, Scene and endpoints. Lives as long as the page.

    `clips` are those it has encoded, by content: a worker may have forgotten their codes.
    """

    engine: Engine
    gate: Gate
    perform: Callable[[TakeRequest], Iterator[Event]]
    encode: Callable[[Clip], Iterator[Event]]
    clips: BoundedCache[Encoded] = field(default_factory=lambda: BoundedCache(CODES_BYTES))
    rtf: float = USUAL_RTF

    @property
    def family(self) -> Family:
        return self.engine.family

    @property
    def model(self) -> tuple[str, str]:
        return self.family.name, self.family.revision

    def encoded(self, session: str, clip: Clip) -> Generator[Event, None, None]:
        """The events of encoding a clip, the last one Encoded. Raises RequestError if it can't be used."""
        if (known := self.clips.get(fingerprint(clip))) is not None:
            yield known
            return
        for event in self.gate.through(session, ENCODE_S, lambda: self.encode(clip)):
            if isinstance(event, Trouble):
                raise RequestError(event.sentence)
            if isinstance(event, Encoded):
                self.keep(clip, event)
            yield event

    def keep(self, clip: Clip, encoded: Encoded) -> None:
        """Remember a clip that was encoded on the way to a take."""
        self.clips.put(fingerprint(clip), encoded, encoded.codes.nbytes)

    def known(self, clip: Clip) -> Clip | np.ndarray:
        """The clip's codes, if this process has heard it before."""
        encoded = self.clips.get(fingerprint(clip))
        return clip if encoded is None else encoded.codes


def fingerprint(clip: Clip) -> str:
    """The hash of a clip's samples and rate."""
    digest = hashlib.sha256(f"{clip.sample_rate} {clip.samples.shape}".encode())
    digest.update(np.ascontiguousarray(clip.samples).tobytes())
    return digest.hexdigest()
