"""What a description means."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kokoro.voices import FOLDER, SPEEDS, choose, read_voices, traits


@pytest.fixture(scope="module")
def voices():
    return read_voices()


def test_every_file_of_a_voice_is_listed_whole_and_finite(voices):
    assert {path.stem for path in FOLDER.glob("*.bin")} == {voice.id for voice in voices}
    assert all(voice.styles.shape == (510, 256) and np.isfinite(voice.styles).all() for voice in voices)


def test_there_are_voices_of_both_genders_in_both_accents(voices):
    assert {(voice.gender, voice.accent) for voice in voices} == {
        (gender, accent) for gender in ("female", "male") for accent in ("american", "british")
    }


def test_nobody_described_is_the_first_voice_at_the_usual_pace(voices):
    assert choose(voices, None) == (voices[0], 1.0)


@pytest.mark.parametrize(
    ("description", "gender", "accent"),
    [
        ("A woman from London", "female", "british"),
        ("an American man in his forties", "male", "american"),
        ("a British king", "male", "british"),
        ("A Texan waitress who misses her father", "female", "american"),
    ],
)
def test_gender_and_accent_are_what_the_description_says(voices, description, gender, accent):
    voice, _ = choose(voices, description)

    assert (voice.gender, voice.accent) == (gender, accent)


def test_deep_and_bright_are_the_lowest_and_the_highest_voice_of_the_gender(voices):
    men = [voice.pitch_hz for voice in voices if voice.gender == "male" and voice.manner == "plain"]

    assert choose(voices, "a deep, gruff man")[0].pitch_hz == min(men)
    assert choose(voices, "a bright young man")[0].pitch_hz == max(men)


def test_a_whisperer_is_breathy_and_nobody_else_is(voices):
    assert choose(voices, "a woman who whispers")[0].manner == "breathy"
    assert all(choose(voices, f"woman number {number}")[0].manner == "plain" for number in range(40))


@pytest.mark.parametrize(
    ("description", "speed"),
    [("a tired man", SPEEDS["slow"]), ("a hurried man", SPEEDS["fast"]), ("a man", 1.0)],
)
def test_words_of_pace_are_the_speed(voices, description, speed):
    assert choose(voices, description)[1] == speed


def test_the_first_word_of_a_kind_counts():
    assert traits("A slow woman, her brother fast")["pace"] == "slow"
    assert traits("A slow woman, her brother fast")["gender"] == "female"


@pytest.mark.parametrize("description", ["", "Zorblax", "ein alter Mann", "\N{DRAGON}", "x" * 2000])
def test_an_unknown_description_is_always_the_same_voice(voices, description):
    assert choose(voices, description) == choose(voices, description)


def test_unknown_descriptions_spread_over_the_voices(voices):
    assert len({choose(voices, f"character {number}")[0].id for number in range(40)}) >= 5


def test_the_id_of_a_voice_is_that_voice(voices):
    assert [choose(voices, voice.id) for voice in voices] == [(voice, 1.0) for voice in voices]
