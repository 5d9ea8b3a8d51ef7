"""What of a line is read, and in which pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kokoro.phrases import CLAUSE_PAUSE_S, MAX_PHONEMES, SENTENCE_PAUSE_S, phrases, sentences, spoken


def test_each_sentence_is_a_phrase_and_a_pause_stands_between_them():
    found = phrases("The door was open. Who was there? Nobody!", "american")

    assert [phrase.phonemes[-1] for phrase in found] == [".", "?", "!"]
    assert [phrase.pause_s for phrase in found] == [0.0, SENTENCE_PAUSE_S, SENTENCE_PAUSE_S]


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Okafor, flat 4B, owes 1,250.50 by 7:05 on 3/11.",
        "The U.S. Army met J. Smith at 7 a.m. on Monday.",
        "Wait... what is that?",
        '"Run!" he said.',
    ],
)
def test_a_sentence_with_dots_inside_stays_whole(text):
    assert len(phrases(text, "american")) == 1


def test_a_quotation_that_ends_a_sentence_ends_it_behind_the_quotation_mark():
    assert sentences("He said “stop.” Then he left.") == ["He said “stop.”", "Then he left."]


def test_the_dots_of_an_abbreviation_make_no_pause_inside_a_sentence():
    (phrase,) = phrases("The U.S. Army is here.", "american")

    assert phrase.phonemes.count(".") == 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I know [sighs].", "I know."),
        ("[whispers] Come here.", "Come here."),
        ("Now \N{RUNNER}\N{ZERO WIDTH JOINER}\N{MALE SIGN}\N{VARIATION SELECTOR-16} run", "Now run"),
        ("<|speaker:0|> Hello.", "Hello."),
        ("Capt. Hale  owes\n$5.50.", "Captain Hale owes five dollars and fifty cents."),
        ("It cost £1.", "It cost one pound."),
        ("At 7:00 or 7:05 or 7:15.", "At seven o'clock or seven oh five or seven fifteen."),
        ("We won $2 million.", "We won two million dollars."),
        ("It cost $1.5 million.", "It cost one point five million dollars."),
        ("King Henry VIII, flat No. 5, 24/7", "King Henry the eighth, flat number five, twenty-four seven"),
        ("Don`t, don＇t, donʼt.", "Don't, don't, don't."),
        ("Zoë’s café", "Zoë’s café"),
    ],
)
def test_cues_and_pictures_are_dropped_and_signs_become_words(text, read):
    assert spoken(text) == read


@pytest.mark.parametrize("text", ["[sighs]", "...", "- ", "[a] [b]!"])
def test_a_line_without_words_has_no_phrases(text):
    assert phrases(text, "american") == []


def test_a_very_long_sentence_is_parted_at_its_clauses():
    found = phrases("over the hill and far away, " * 60 + "home.", "american")

    assert len(found) > 1
    assert max(len(phrase.phonemes) for phrase in found) <= MAX_PHONEMES
    assert {phrase.pause_s for phrase in found[1:]} == {CLAUSE_PAUSE_S}


def test_accents_are_heard_in_the_phonemes():
    american, british = (phrases("It is far.", accent)[0].phonemes for accent in ("american", "british"))

    assert "ɹ" in american
    assert "ɹ" not in british


@given(st.text(max_size=200))
def test_any_text_becomes_phrases_within_the_limit(text):
    assert all(0 < len(phrase.phonemes) <= MAX_PHONEMES for phrase in phrases(text, "british"))


@pytest.mark.parametrize(
    "text", ["Mmm.", "Hm.", "Hmmm", "Shh!", "Sssh", "Psst!", "Pfft", "Brr", "Grr", "Hmph", "Mhm", "Zzz"]
)
def test_a_sound_is_one_syllable_and_not_spelled(text):  # C-12
    (phrase,) = phrases(text, "british")
    assert not any(name in phrase.phonemes for name in ("ɛm", "ɛs", "eɪtʃ", "iː", "ɛd", "ɑː"))
    assert phrase.phonemes.count("ˈ") == 1


@pytest.mark.parametrize(
    ("text", "begins", "goes_on"),
    [
        ("W-what do you mean?", "wə ", "wˌʌt"),  # C-12
        ("B-but I was here.", "bə ", "bˌʌt"),
        ("Th-that is it.", "ðə ", "ðˈæt"),
        ("N-n-no.", "nə nə ", "nˈoʊ"),
        ("St-stop.", "stə ", "stˈɑːp"),
        ("K-knock.", "nə ", "nˈɑːk"),
        ("Ch-children.", "tʃə ", "tʃˈɪldɹən"),
    ],
)
def test_a_stammer_is_the_sound_that_its_word_begins_with(text, begins, goes_on):
    (phrase,) = phrases(text, "american")
    assert phrase.phonemes.startswith(begins + goes_on)


@pytest.mark.parametrize("text", ["re-read", "T-shirt", "X-ray", "no-no", "co-owner", "I-I", "mm-hm's"])
def test_words_with_a_hyphen_are_no_stammers(text):
    assert "ə " not in phrases(text, "american")[0].phonemes
