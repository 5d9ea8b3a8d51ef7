"""Long lines in pieces: what is never parted, and the laws of joining."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.duration import expected_seconds
from prompts.split import split
from prompts.text import has_something_to_say

laws = settings(max_examples=80, deadline=None)
SCRIPTS = [
    "word",
    "Dr.",
    "你好",
    "。",
    "नमस्ते",
    "ไทย",
    "한국",
    "e\u0301",
    "👨‍👩‍👧",
    "🇩🇪🇫🇷",
    "[sighs]",
    "(",
    "]",
    "...",
    "1,250.50",
    "\n",
    " ",
    "?",
    "—",
    "«",
    "<|speaker:0|>",
]
mixed = st.lists(st.sampled_from(SCRIPTS), max_size=60).map("".join) | st.text(max_size=120)


def parts(text, most_seconds):
    return [piece.text for piece in split(text, most_seconds)]


@laws
@given(mixed, st.sampled_from([0.3, 1.0, 5.0, 20.0]))
def test_pieces_joined_are_the_line(text, most_seconds):
    pieces = split(text, most_seconds)
    assert "".join(piece.text for piece in pieces) == text
    assert pieces[0].begins_sentence


@laws
@given(mixed)
def test_no_piece_is_longer_than_the_limit(text):
    whole = [part for part in parts(text, 5.0) if sum(map(str.isalnum, part)) > 1]
    assert all(expected_seconds(part) <= 5.0 + 1e-6 for part in whole)


@laws
@given(mixed, st.sampled_from([0.3, 2.0]))
def test_no_piece_begins_inside_a_grapheme(text, most_seconds):
    for before, after in zip(parts(text, most_seconds), parts(text, most_seconds)[1:], strict=False):
        assert unicodedata.category(after[0])[0] != "M"
        assert "\u200d" not in (before[-1], after[0])
        assert not ("🇦" <= before[-1] <= "🇿" and "🇦" <= after[0] <= "🇿")


@laws
@given(mixed)
def test_every_piece_of_a_split_line_has_something_to_say(text):
    pieces = parts(text, 1.0)
    assert len(pieces) == 1 or all(has_something_to_say(part) for part in pieces)


def test_a_short_line_is_one_piece_unchanged():
    for text in ("", " ", "No.", "  Dr. Okafor, flat 4B, owes 1,250.50 by 7:05 on 3/11. "):
        assert parts(text, 20) == [text]


def test_sentences_are_preferred_and_the_pause_is_told():
    text = "The lamp has failed again tonight. " * 20
    pieces = split(text, 8)
    assert all(piece.begins_sentence and piece.text.endswith("tonight. ") for piece in pieces)


def test_a_long_sentence_is_cut_at_its_clauses_without_a_pause():
    text = "when the wind came up from the harbour, " * 12
    pieces = split(text.strip(), 8)
    assert all(piece.text.endswith("harbour, ") for piece in pieces[:-1])
    assert not any(piece.begins_sentence for piece in pieces[1:])


@pytest.mark.parametrize(
    "bound",
    [
        "Dr. Okafor",
        "Mrs. Lane",
        "e.g. Mr. Smith",
        "J. K. Rowling",
        "А. С. Пушкин",
        "No. 5",
        "1,250.50",
        "1 250,50",
        "7:05",
        "U.S. Army",
        "[in a low voice]",
        "[sighs] Nobody",
        "Quoi\u00a0!",
        "Quoi !",
    ],
)
def test_what_belongs_together_stays_together(bound):
    text = f"and then {bound} came by the old house " * 15
    joined = parts(text, 4)
    assert len(joined) > 5
    assert sum(part.count(bound) for part in joined) == 15


@pytest.mark.parametrize(
    "pause", ["Wait... what", "Well... I", '"Run!" he', "in short… and", "i was here. then"]
)
def test_a_piece_that_goes_on_inside_a_sentence_has_no_pause(pause):
    before, after = pause.rsplit(" ", 1)
    pieces = split(f"x{'a' * 60} {before} {after} {'b' * 60}", 6)
    assert not any(piece.begins_sentence for piece in pieces[1:])


@pytest.mark.parametrize(
    "text",
    [
        "吾輩は猫である。名前はまだ無い！" * 8,
        "「誰だ？」「私です。」" * 10,
        "क्या हाल है? मैं ठीक हूँ। " * 10,
        "كيف حالك؟ أنا بخير۔ " * 10,
        "Wer ist da? »Ich bin es.« ¡Hola! " * 10,
    ],
)
def test_every_script_is_cut_behind_its_own_sentence_marks(text):
    pieces = split(text, 6)
    assert len(pieces) > 2
    assert all(piece.begins_sentence for piece in pieces)


def test_a_monologue_without_punctuation_is_cut_between_words_in_even_pieces():
    text = ("lantern " * 500)[:4000]
    pieces = parts(text, 20)
    assert "".join(pieces) == text
    assert all(part.endswith("lantern ") for part in pieces[:-1])
    seconds = [expected_seconds(part) for part in pieces]
    assert max(seconds) <= 20
    assert min(seconds) > 15


@pytest.mark.parametrize(
    "text", ["a" * 5000, "我" * 5000, "7" * 5000, "e\u0301" * 2500, "ㅋ" * 5000, "9 " * 2500]
)
def test_a_giant_word_is_cut_all_the_same(text):
    pieces = parts(text, 20)
    assert "".join(pieces) == text
    assert all(expected_seconds(part) <= 20 + 1e-6 for part in pieces)


def test_no_short_rest_is_left_behind():
    text = "the keeper climbed the stairs with a lamp in his hand " * 6 + "at last"
    seconds = [expected_seconds(part) for part in parts(text, expected_seconds(text) - 0.2)]
    assert len(seconds) == 2
    assert min(seconds) > 0.4 * max(seconds)


def test_a_limit_of_nothing_is_a_mistake():
    with pytest.raises(ValueError, match="above 0"):
        split("text", 0)
