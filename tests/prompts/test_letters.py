"""What a model never learnt to read becomes what it can read, or goes and is named."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prompts.changes import changed
from prompts.letters import before_numbers, fold, plain_spaces
from prompts.spoken import spoken

SMALL = " !',-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz—"
ASCII = "".join(map(chr, range(32, 127)))
laws = settings(max_examples=150, deadline=None)
REAL = [
    "can", "t", "’", "‘", "ʼ", "“", "”", "–", "—", "‑", "--", "…", "é", "e\u0301", "ß", "ﬁ", "Ａ", "&", " ",
    "№", "  ", "\u00a0", "\u2009", "\u00ad", "\u200b", "\ufeff", "日本", "привет", "5", "½", "$", "%", "(",
    ")", "[", "]", "!", ".", ",", "🏃🏽\u200d♂️", "क्", "\n", "*", "_", "\u202e", "<|speaker:0|>", "²", "𝐇",
]  # fmt: skip
texts = st.lists(st.sampled_from(REAL), max_size=16).map("".join) | st.text(max_size=40)


@laws
@given(texts, st.sampled_from([SMALL, ASCII, " abc"]))
@example("You can’t", SMALL)
def test_what_comes_out_can_be_read(text, characters):
    folded = fold(text, characters)
    assert set(folded.text.replace("<|speaker:0|>", "")) <= set(characters)
    assert fold(folded.text, characters).text == folded.text
    assert changed(text, folded.changes) == folded.text
    assert all(text[each.start : each.end] == each.was for each in folded.changes)


@laws
@given(texts)
def test_every_letter_and_digit_is_said_or_named(text):
    """Nothing that is voiced goes without a word: it is left, changed into something, or told as unread."""
    folded = fold(text, SMALL)
    for change in folded.changes:
        voiced = [each for each in change.was if unicodedata.category(each)[0] in "LN"]
        assert not voiced or change.now or change.was in folded.unread


@laws
@given(texts, st.booleans())
def test_after_all_steps_it_can_be_read_whatever_is_switched_on(text, numbers):
    said = spoken(text, numbers=numbers, characters=SMALL, cues=False)
    assert set(said.text.replace("<|speaker:0|>", "")) <= set(SMALL)
    if numbers:
        assert not any(each.isascii() and each.isdigit() for part in said.unread for each in part)


@laws
@given(st.text(SMALL.replace("-", ""), max_size=60))
def test_what_can_be_read_stays_as_it_is(text):
    assert fold(text, SMALL).changes == ()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("You can’t leave the boat here.", "You can't leave the boat here."),  # C-01
        ("We didn’t open the letter.", "We didn't open the letter."),
        ("It wasn’t my fault, and you won’t tell him.", "It wasn't my fault, and you won't tell him."),
        ("don‘t don＇t donʼt don`t don´t don′t don‛t", "don't don't don't don't don't don't don't"),
        ("Her fiancé sat in the café.", "Her fiance sat in the cafe."),  # C-13
        ("I want tea & bread.", "I want tea and bread."),
        ("R&B, AT&T, salt ＆ pepper", "R and B, AT and T, salt and pepper"),
        ("“Stop,” she said. „Nein.“ «Non.»", "Stop, she said. Nein. Non."),
        ("wait – no ― yes − well‑known ‐ x", "wait — no — yes - well-known - x"),
        ("He ran--fast--and fell.", "He ran—fast—and fell."),
        ("Well… no", "Well... no"),
        ("soft\u00adly, zero\u200bwidth\ufeff, \u2066left\u2069", "softly, zerowidth, left"),
        ("a\u00a0b\u2009c\u202fd\u3000e\tf\ng", "a b c d e f g"),
        ("the ﬁne ﬂag, Ｈｅｌｌｏ！ 𝐇ello", "the fine flag, Hello! Hello"),
        (
            "Łódź, Straße, smørrebrød, Ærø, œuvre, Þór, naïve",
            "Lodz, Strasse, smorrebrod, Aero, oeuvre, Thor, naive",
        ),
        ("cafe\u0301", "cafe"),
        (
            "He left (I think) early. (Aside) Never. (Really?) Yes.",
            "He left, I think, early. Aside, Never. Really? Yes.",
        ),
        ("either/or, snake_case, *loud*", "either or, snake case, loud"),
        ("Say 日本 now. 日本.", "Say now."),
        ("Call him, 日本!", "Call him!"),
        ("你好， world。", "world."),
        ("“...and then”", "...and then"),
    ],
)
def test_letters_become_those_that_are_read(written, read):
    assert fold(written, SMALL).text == read


def test_what_has_no_like_is_named_as_it_was_written():
    assert fold("Say 日本 and привет, ok 🏃?", SMALL).unread == ("日本", "привет", "🏃")
    assert fold("You can’t — “now” (please).", SMALL).unread == ()


def test_accents_stay_where_they_are_read():
    assert fold("cafe\u0301, naïve, Łódź", SMALL + "éï").text == "café, naïve, Lodz"


def test_digits_and_money_wait_for_the_number_reader():
    assert before_numbers("the ’80s, ５ km, ＄5, 20\u00a0%", SMALL).text == "the '80s, 5 km, $5, 20 %"
    said = spoken("the ’80s, ５ km, ＄5, 20\u00a0%", numbers=True, characters=SMALL)
    assert said.text == "the eighties, five kilometres, five dollars, twenty percent"


def test_what_the_number_reader_leaves_whole_is_spelled_rather_than_lost():
    said = spoken("Wait...5 men, a 1,2,3 and x86_64.", numbers=True, characters=SMALL)
    assert said.text == "Wait...five men, a one,two,three and x eight six six four."


def test_numbers_that_stay_are_named_where_they_cannot_be_read():
    assert spoken("I owe you 20 dollars.", characters=SMALL).unread == ("20",)  # C-03 with the switch off


def test_cues_go_with_the_space_around_them():
    said = spoken("[softly] I know [sighs]. Go [x] on.", cues=False)
    assert said.text == "I know. Go on."
    assert {change.step for change in said.changes} == {"cues"}


def test_a_model_that_reads_everything_gets_ordinary_spaces():  # E-24
    assert plain_spaces("a\u00a0b\u2009c\u202fd").text == "a b c d"
    assert spoken("日本\u00a0“x” é", clean=False, characters="").text == "日本 “x” é"


@pytest.mark.parametrize("hostile", ["’", "é", "(a) ", "日", "日 ", "--", "e\u0301", "[", "& "])
def test_long_rows_come_back(hostile):
    spoken(hostile * (20_000 // len(hostile)), numbers=True, characters=SMALL, cues=False)
