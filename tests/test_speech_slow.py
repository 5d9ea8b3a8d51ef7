"""Can it be understood? Twenty plain lines, spoken and listened to."""

from __future__ import annotations

import numpy as np
import pytest

from engine.engine import Engine
from engine.models import load_family
from engine.take import Audio, TakeRequest
from tests.recogniser import hear, why_deaf, word_errors

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_deaf()), reason=str(why_deaf()))]

LINES = (
    "The door was open when I came home.",
    "Nobody told me that the last train had already gone.",
    "She put the kettle on the stove and waited.",
    "Please bring me the blue folder from the second drawer.",
    "He laughed so hard that he dropped his glass.",
    "Why did you never answer any of my letters?",
    "The storm will reach us before midnight.",
    "Three children were playing by the river this morning.",
    "I counted seventeen birds on the roof of the old church.",
    "If you leave now, you might still catch him at the station.",
    "My brother has never been able to keep a secret.",
    "We should wait until the rain stops.",
    "That is the strangest story I have ever heard.",
    "Turn left after the bridge, then follow the road to the farm.",
    "You promised that you would be here on time.",
    "The soup is too hot to eat.",
    "Close the window, it is getting cold in here.",
    "Somebody has been sleeping in this room.",
    "I would rather walk than take the bus with him.",
    "Thank you for everything, and good night.",
)
MOST_ERRORS = 0.15


@pytest.mark.parametrize("model", ["understudy", "kokoro"])
def test_twenty_lines_are_understood(model, record_property):
    engine = Engine(load_family(model))
    errors = words = 0
    for line in LINES:
        events = list(engine.perform(TakeRequest(line, seed=7)))
        pcm = np.concatenate([event.pcm for event in events if isinstance(event, Audio)])
        wrong, spoken = word_errors(
            line, hear(pcm.astype(np.float32) / 32768, engine.family.sample_rate, "en")
        )
        errors, words = errors + wrong, words + spoken

    record_property("word_errors", f"{errors} of {words}")
    assert errors / words <= MOST_ERRORS, f"{errors} of {words} words misheard"
