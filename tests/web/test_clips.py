"""The fields of a voice's clips: which are seen, and what of them is given."""

from __future__ import annotations

import pytest

from engine.take import RequestError
from web.clips import clips_with_words, further_clips, no_clips


@pytest.mark.parametrize(
    ("clips", "seen"),
    [
        ((None, None, None, None), [False, False, False]),
        (("a", None, None, None), [True, False, False]),
        (("a", "b", "c", None), [True, True, True]),
        ((None, "b", None, None), [True, True, False]),
    ],
)
def test_a_further_clip_is_seen_behind_a_filled_one_and_while_it_is_filled(clips, seen):
    assert [each["visible"] for each in further_clips(*clips)] == seen


def test_the_filled_fields_are_given_in_order_with_trimmed_words():
    fields = ("a.wav", " One. ", None, "", "c.wav", "Three.", None, "left over")
    assert clips_with_words(fields) == [("a.wav", "One."), ("c.wav", "Three.")]


@pytest.mark.parametrize(
    ("fields", "named"), [(no_clips(), "There is no clip"), (("a.wav", " "), "A clip has no words")]
)
def test_fields_that_give_no_voice_are_a_sentence(fields, named):
    with pytest.raises(RequestError, match=named):
        clips_with_words(fields)
