"""The recogniser's own arithmetic; what it hears is tested where something speaks."""

from __future__ import annotations

import pytest

from tests.recogniser import plain_words, word_errors, words_lost


@pytest.mark.parametrize(
    ("expected", "heard", "errors", "words"),
    [
        ("The door was open.", "the door was OPEN", 0, 4),
        ("I counted seventeen birds.", " Counted 17 birds", 1, 4),
        ("a well-known café — don’t", "A well known cafe, don't.", 0, 5),
        ("one two three", "", 3, 3),
        ("one", "one two", 1, 1),
        ("the cat", "the kettle", 1, 2),
    ],
)
def test_word_errors_count_words_not_spelling(expected, heard, errors, words):
    assert word_errors(expected, heard) == (errors, words)


def test_numbers_are_spelled():
    assert plain_words("42, 1,250 and 300000") == (
        ["forty", "two", "one", "thousand", "two", "hundred", "fifty", "and", "three", "hundred", "thousand"]
    )


def test_words_lost_are_those_without_a_counterpart_but_for_the_first():
    said = "Then he sold bread, paper and candles."
    assert words_lost(said, said) == (0, 6)
    assert words_lost(said, "He sold bread and candles.") == (1, 6)
    assert words_lost(said, "Then he sold red paper and candles there.") == (0, 6)
    assert words_lost(said, "") == (6, 6)
