"""Expected seconds and the frame cap: known speaking rates, and laws."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.duration import character_seconds, expected_seconds, frame_cap

laws = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (
            "The door was open when I came home, and nobody had lit the lamp.",
            4.0,
            5.0,
        ),  # 64 characters, 14 a second
        ("吾輩は猫である", 7 / 4.5 - 0.01, 7 / 4.5 + 0.01),
        ("안녕하세요", 0.99, 1.01),  # five syllables, five a second
        ("1,250.50", 2.5, 4.0),  # "one thousand two hundred fifty point five zero"
        ("", 0.0, 0.0),
    ],
)
def test_seconds_follow_the_script(text, low, high):
    assert low <= expected_seconds(text) <= high


def test_a_cue_has_a_time_of_its_own():
    assert expected_seconds("[sighs]") == pytest.approx(1.5)
    assert expected_seconds("No. (laughs) No.") > expected_seconds("No. No.") + 1.4


def test_marks_joiners_and_pictures_take_no_time():
    assert expected_seconds("cafe\u0301") == expected_seconds("café")
    assert expected_seconds("\u1112\u1161\u11ab") == expected_seconds("한")
    assert expected_seconds("hi👨\u200d👩\u200d👧") == expected_seconds("hi")


def test_a_speaker_tag_is_not_spoken():
    assert expected_seconds("<|speaker:0|>Hello") == expected_seconds("Hello")


def test_the_cap_leaves_room_for_a_slow_actor():
    text = "The door was open when I came home."
    assert frame_cap(text, 20) == math.ceil((1.8 * expected_seconds(text) + 1.5) * 20)


def test_a_short_word_has_two_seconds():
    assert frame_cap("No.", 21.5) == math.ceil(2 * 21.5)
    assert frame_cap("", 21.5) == math.ceil(2 * 21.5)


def test_the_cap_is_never_above_the_most():
    assert frame_cap("word " * 1000, 21.5) == 1200
    assert frame_cap("word " * 1000, 21.5, most=300) == 300


@laws
@given(st.text(max_size=80))
def test_every_text_has_a_time_for_each_character(text):
    seconds = character_seconds(text)
    assert len(seconds) == len(text)
    assert all(0 <= each < math.inf for each in seconds)


@laws
@given(st.text(max_size=60), st.text(max_size=60))
def test_a_longer_text_never_gets_a_smaller_cap(start, rest):
    # A closing bracket can turn what stands before it into a cue, which is never shorter than its words.
    assert frame_cap(f"{start} {rest}", 25) >= frame_cap(start, 25)
