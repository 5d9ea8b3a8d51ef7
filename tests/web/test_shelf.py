"""Takes are kept for their session, a few of them, with both files and their card."""

from __future__ import annotations

import numpy as np
import pytest

from engine.audio_files import read_card
from web.shelf import KEPT_S, SESSIONS, TAKES_PER_SESSION, Shelf

PCM = np.arange(480, dtype=np.int16)


@pytest.fixture
def shelf():
    shelf = Shelf()
    yield shelf
    shelf.close()


def keep(shelf, session, number):
    return shelf.keep(session, f"{session}-{number}", PCM, 24_000, {"seed": number})


def test_a_take_has_two_files_with_the_same_card(shelf):
    take = keep(shelf, "a", 7)
    assert (take.wav.name, take.flac.name) == ("take-7.wav", "take-7.flac")
    assert read_card(take.wav) == read_card(take.flac) == {"seed": 7}
    assert take.audio_s == pytest.approx(0.02)


def test_every_session_sees_its_own_takes_newest_first(shelf):
    for session, number in (("a", 1), ("b", 2), ("a", 3)):
        keep(shelf, session, number)
    assert [take.card["seed"] for take in shelf.takes("a")] == [3, 1]
    assert [take.card["seed"] for take in shelf.takes("b")] == [2]
    assert shelf.takes("nobody") == ()


def test_the_oldest_takes_of_a_session_make_room_on_disk_too(shelf):
    takes = [keep(shelf, "a", number) for number in range(TAKES_PER_SESSION + 3)]
    assert len(shelf.takes("a")) == TAKES_PER_SESSION
    assert [take.wav.exists() for take in takes] == [False] * 3 + [True] * TAKES_PER_SESSION


def test_the_longest_idle_session_makes_room(shelf):
    first = keep(shelf, "first", 0)
    for number in range(SESSIONS):
        keep(shelf, f"s{number}", number)
    assert shelf.takes("first") == ()
    assert not first.wav.exists()


def test_a_session_that_leaves_takes_everything_with_it(shelf):
    mine, other = keep(shelf, "a", 1), keep(shelf, "b", 2)
    shelf.forget("a")
    shelf.forget("never here")
    assert not mine.wav.parent.exists()
    assert other.wav.exists()
    shelf.close()
    assert not other.wav.exists()


def test_whoever_stays_away_for_long_is_forgotten(shelf):
    first = keep(shelf, "a", 1)
    shelf._visited["a"] -= KEPT_S + 1
    keep(shelf, "b", 2)
    assert shelf.takes("a") == ()
    assert not first.wav.exists()
    assert shelf.takes("b")
