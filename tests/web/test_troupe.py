"""What a troupe does with a clip: encodes it once, keeps its codes, refuses in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from engine.take import Clip, Encoded, RequestError, Status, Trouble
from web.queue import Gate
from web.troupe import Troupe

CLIP = Clip(np.ones(8, np.float32), 8)
CODES = np.arange(6).reshape(2, 3)


def troupe(*events) -> tuple[Troupe, list[Clip]]:
    """A troupe whose door answers a clip with `events`, and the clips that came to it."""
    asked: list[Clip] = []

    def encode(clip: Clip):
        asked.append(clip)
        yield from events

    return Troupe(None, Gate(), None, encode), asked


def test_a_clip_is_encoded_once_and_then_known_by_its_content():
    company, asked = troupe(Status("encode", "one moment"), Encoded("key", CODES, "trimmed"))
    *before, first = company.encoded("a", CLIP)
    (again,) = company.encoded("b", Clip(CLIP.samples.copy(), CLIP.sample_rate))
    assert [type(each) for each in before] == [Status]
    assert again is first
    assert len(asked) == 1
    assert np.array_equal(company.known(CLIP), CODES)


def test_a_clip_that_was_not_encoded_is_a_sentence_and_stays_unknown():
    company, _ = troupe(Trouble("request", "The clip is too short."))
    with pytest.raises(RequestError, match="too short"):
        list(company.encoded("a", CLIP))
    assert company.known(CLIP) is CLIP
