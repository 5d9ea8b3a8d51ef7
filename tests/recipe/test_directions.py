"""Directions have words to be trained with, others to be examined with, and a manner that grows with them."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def directions(recipe):
    return recipe.directions


def test_no_phrase_of_the_examination_is_trained_on(directions):
    known = {w.lower() for each in directions.DIRECTIONS.values() for w in each.trained}
    new = {w.lower() for each in directions.DIRECTIONS.values() for w in each.held_out}
    assert not known & new
    assert not set(directions.SOUNDLESS) & set(directions.SOUNDLESS_HELD_OUT)
    assert all(len(each.held_out) >= 3 for each in directions.DIRECTIONS.values())


def test_no_phrase_means_two_directions(directions):
    words = [w.lower() for d in directions.DIRECTIONS.values() for w in d.trained + d.held_out]
    assert len(words) == len(set(words))
    assert not set(words) & {w.lower() for w in directions.SOUNDLESS + directions.SOUNDLESS_HELD_OUT}


def test_every_direction_has_stems_in_frames(directions):
    assert "in an angry voice" in directions.DIRECTIONS["angry"].framed
    assert "with tenderness" in directions.DIRECTIONS["soft"].framed
    assert all(len(each.trained) > 100 for each in directions.DIRECTIONS.values())
    assert not any("  " in w or "{" in w for each in directions.DIRECTIONS.values() for w in each.trained)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_phrase_has_the_words_of_what_was_asked_and_of_nothing_else(directions, held_out):
    rng = random.Random(0)
    for name, each in directions.DIRECTIONS.items():
        for _ in range(20):
            words = directions.phrase(rng, directions.Asked((name,)), held_out).lower().rstrip(".")
            own = each.held_out if held_out else each.trained
            assert any(w.lower() in words for w in own), words
            assert not set("[]\n") & set(words)


def test_a_strength_is_told_by_its_words(directions):
    rng = random.Random(0)
    for strength, forms in ((1, directions.LITTLE), (2, directions.VERY)):
        for _ in range(20):
            words = directions.phrase(rng, directions.Asked(("slow",), strength)).lower()
            wanted = {f.format(g) for f in forms for g in directions.DIRECTIONS["slow"].graded}
            assert any(w in words for w in wanted), words


def test_a_little_is_less_and_very_is_more_than_the_plain_word(directions):
    plain, little, very = (directions.Asked(("loud",), s).manner() for s in (0, 1, 2))
    assert 0 < little.level_db < plain.level_db < very.level_db
    assert 1 < little.pitch < plain.pitch < very.pitch


def test_a_direction_without_melody_has_degrees_too(directions):
    plain, little, very = (directions.Asked(("flat",), s).manner().melody for s in (0, 1, 2))
    assert 0 <= very <= plain < 0.05 < little < 0.5


def test_no_manner_goes_beyond_what_the_teacher_can_say(directions):
    asked = [directions.Asked((n,), s) for (n,) in directions.GRADED for s in (0, 1, 2)]
    for each in (*asked, *map(directions.Asked, directions.PAIRS)):
        for name, (low, high) in directions.LIMITS.items():
            assert low <= getattr(each.manner(), name) <= high


def test_contours_are_drawn_twice_as_often_and_set_against_plain_half_of_the_time(directions):
    rng = random.Random(0)
    single = [a.names[0] for a in (directions.draw(rng) for _ in range(20000)) if len(a.names) == 1]
    share = {n: single.count(n) / len(single) for n in ("sad", "flat", "trembling")}
    assert all(1.8 < share[n] / share["sad"] < 2.2 for n in ("flat", "trembling"))
    against = [directions.contrary(rng, directions.Asked(("flat",))) for _ in range(2000)]
    assert 0.46 < sum(not a.names for a in against) / 2000 < 0.54


def test_two_directions_work_together(directions):
    manner = directions.Asked(("whispering", "slow")).manner()
    assert manner.breath
    assert manner.pace < directions.DIRECTIONS["slow"].manner.pace


def test_what_contradicts_itself_is_never_asked_for(directions):
    for a, b in directions.PAIRS:
        assert frozenset((a, b)) not in directions.APART
        assert directions.DIRECTIONS[a].kind != directions.DIRECTIONS[b].kind


def test_the_contrary_of_a_direction_is_another_one_none_or_another_strength(directions):
    rng = random.Random(0)
    for _ in range(300):
        asked = directions.draw(rng)
        other = directions.contrary(rng, asked)
        assert other != asked
        if other.names == asked.names:
            assert {other.strength, asked.strength} == {1, 2}
        else:
            assert not set(other.names) & set(asked.names)
    assert directions.contrary(rng, directions.Asked()).names
