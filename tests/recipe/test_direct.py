"""A directed line: what is written, what is spoken, and which byte of the one is which sound of the other."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

VOCAB = {c: i for i, c in enumerate("IAOQWYiuaɑɒæɔəɜɛɪʊʌᵻᵊ", 100)}
SPACE = 16
TEXT = "We saw a light upon the hill"


@pytest.fixture(scope="module")
def direct(recipe):
    recipe.direct.alphabet(VOCAB)
    return recipe.direct


@pytest.fixture
def score(direct):
    """Every letter is spoken, by a vowel or a consonant; spaces are."""
    phones = [VOCAB["a"] if c in "aeiou" else SPACE if c == " " else 44 for c in TEXT]
    return direct.Score(TEXT.encode(), phones, list(range(len(TEXT))))


def letters(score) -> str:
    return "".join(chr(score.text[i]) for i in score.letter)


def test_a_stressed_word_stands_in_stars_and_is_longer_higher_and_louder(direct, score):
    assert direct.stress(score, random.Random(1))
    a, b = (i for i, c in enumerate(score.text.decode()) if c == "*")
    assert letters(score) == TEXT
    inside = [a < at < b for at in score.letter]
    assert any(inside)
    for changed, stretch, bend, push in zip(inside, score.stretch, score.bend, score.push, strict=True):
        assert (stretch > 1, bend > 0, push > 0) == (changed,) * 3


def test_a_line_of_two_words_has_no_stress(direct):
    short = direct.Score(b"Go on", [44, VOCAB["a"], SPACE, VOCAB["a"], 44], [0, 1, 2, 3, 4])
    assert not direct.stress(short, random.Random(0))
    assert short.text == b"Go on"


@pytest.mark.parametrize("cue", ["laughs", "sighs", "gasps", "hesitates", "pause"])
def test_a_cue_is_spoken_by_its_sound_and_the_words_stay(direct, score, cue):
    for seed in range(8):
        each = direct.Score(score.text, list(score.phones), list(score.letter))
        direct.sound(each, random.Random(seed), cue)
        a, b = each.text.index(b"["), each.text.index(b"]")
        spoken = letters(each)
        outside = "".join(c for c, at in zip(spoken, each.letter, strict=True) if not a <= at <= b)
        assert outside == TEXT
        sounds = [i for i, at in enumerate(each.letter) if a < at < b]
        assert sounds == list(range(sounds[0], sounds[-1] + 1))
        assert all(each.fixed[i] > 0 for i in sounds)
        if cue in ("sighs", "gasps", "pause"):
            assert not any(each.voice[i] for i in sounds)


def test_a_laugh_has_five_to_six_bursts_a_second(direct):
    for seed in range(10):
        notes = direct.laugh(random.Random(seed))[:-1]
        seconds = sum(n.fixed for n in notes) / 40
        assert 4.5 < len(notes) / 2 / seconds < 6.5


def test_who_hesitates_pauses_and_the_letters_stay_in_order(direct, recipe, score):
    manner = recipe.directions.DIRECTIONS["hesitant"].manner
    direct.hesitate(score, random.Random(3), manner)
    rests = [i for i, frames in enumerate(score.fixed) if frames]
    assert rests
    assert letters(score).replace(" ", "")[:0] == ""
    assert score.letter == sorted(score.letter)
    assert score.text.decode() == TEXT
    assert max(score.stretch) > 1


@pytest.mark.parametrize("pauses", [0.14, 0.35, 0.6])
def test_who_hesitates_never_pauses_less_than_the_share_says(direct, recipe, score, pauses):
    for seed in range(20):
        each = direct.Score(score.text, list(score.phones), list(score.letter))
        direct.hesitate(each, random.Random(seed), recipe.directions.Manner(pauses=pauses))
        assert sum(frames > 0 for frames in each.fixed) >= max(1, int(7 * pauses))


def test_a_later_sentence_turns_to_another_direction_and_the_words_stay(direct, recipe):
    text = "We saw a light on the hill. It went out again after dark"
    phones = [VOCAB["a"] if c in "aeiou" else SPACE if c == " " else 44 for c in text]
    for seed in range(20):
        each = direct.Score(text.encode(), list(phones), list(range(len(text))))
        place, then = direct.turn(each, random.Random(seed), 1.3)
        assert place == text.index("It")
        assert letters(each) == text
        assert each.text.startswith(b"We saw a light on the hill. [")
        assert each.text.endswith(b"] It went out again after dark")
        changed = recipe.directions.DIRECTIONS[recipe.directions.NAMES[then]].manner
        assert set(each.stretch[:place]) == {1.0}
        assert (each.stretch[-1] > 1) == (changed.pace < 1)
        assert 1.3 / each.stretch[-1] <= recipe.perform.FASTEST + 1e-9
        assert each.voice[-1] == (not changed.breath)
    single = direct.Score(TEXT.encode(), [44] * len(TEXT), list(range(len(TEXT))))
    assert direct.turn(single, random.Random(0), 1.0) == (0, -1)


def test_neighbours_become_long_lines_with_their_letters(direct):
    plan = SimpleNamespace(
        texts=["One two.", "Three."] * 20,
        start=np.arange(40) * 2,
        count=np.full(40, 2),
        phones=np.tile([44, 45], 40),
        letter=np.tile([0, 4], 40),
    )
    lines = direct.joined(plan, list(range(40)), random.Random(0))
    assert any(" Three. One" in text or ". Three" in text for text, *_ in lines)
    for text, phones, letter in lines:
        assert len(phones) == len(letter)
        assert letter == sorted(letter)
        assert all(text[at] in "OtTe " for at in letter)
    assert " ".join(text for text, *_ in lines) == " ".join(plan.texts)


def test_merged_sessions_share_an_accent_and_leave_those_held_back_alone(direct):
    accents = [("us", "gb")[i % 3 == 0] for i in range(500)]
    speaker = direct.merged(SimpleNamespace(sessions=[dict(accent=a) for a in accents]))
    for s, owner in enumerate(speaker):
        assert accents[s] == accents[owner]
        if s % 61 == 7:
            assert owner == s
            assert (speaker == s).sum() == 1
    assert max(np.bincount(speaker)) == direct.MERGED
