"""How a take is told in the list."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from web.takes import entry


@pytest.mark.parametrize(
    ("reason", "flags", "told"),
    [
        ("stop", [], "1.5 s · seed 7"),
        ("cancelled", [], "1.5 s · cut · seed 7"),
        ("length", ["ran_long"], "1.5 s · ended at its length limit · ran long · seed 7"),
        (
            "stop",
            ["split(3)", "history_dropped(2)"],
            "1.5 s · in 3 pieces · without the 2 oldest lines · seed 7",
        ),
    ],
)
def test_a_take_is_told_in_words(reason, flags, told):
    card = {"text": "Go on.", "finish_reason": reason, "flags": flags, "seed": 7}
    assert entry(SimpleNamespace(card=card, audio_s=1.52)) == {"line": "Go on.", "facts": told}
