"""A remembered prefix changes nothing but time: a take is bit for bit the one that read every row."""

from __future__ import annotations

import numpy as np
import pytest

from engine.drama3.model import TakeState
from engine.engine import Engine
from engine.prefix import PrefixCache
from engine.take import Audio, Character, Done, Reference, Spoken, TakeRequest

RNG = np.random.default_rng(5)


def codes(frames: int) -> np.ndarray:
    return RNG.integers(0, 64, (4, frames))


VOICE = Character(voice=(Reference(codes(30), "I will not go back."),))
TURNS = tuple(Spoken(text, codes(frames)) for text, frames in (("It came.", 12), ("I hid.", 70), ("No.", 9)))


@pytest.fixture
def engine(tiny_family) -> Engine:
    tiny_family.prefixes.clear()
    return Engine(tiny_family)


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """The number of rows of every prefill call."""
    counts, prefill = [], TakeState.prefill

    def counted(self, rows, trace=None):
        counts.append(len(rows))
        prefill(self, rows, trace)

    monkeypatch.setattr(TakeState, "prefill", counted)
    return counts


def perform(engine: Engine, text="Then it was gone.", history=TURNS, seed=3) -> tuple[np.ndarray, np.ndarray]:
    """(pcm, codes) of a take of twelve frames at the most."""
    events = list(engine.perform(TakeRequest(text, VOICE, history, seed=seed, max_frames=12)))
    pcm = [event.pcm for event in events if isinstance(event, Audio)]
    return np.concatenate(pcm), next(event.codes for event in events if isinstance(event, Done))


def assert_same(a: tuple, b: tuple) -> None:
    assert all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


def test_a_hit_is_the_same_take_and_reads_only_the_line(engine, read):
    miss, all_rows = perform(engine), sum(read)
    read.clear()
    assert_same(miss, perform(engine))
    assert 0 < sum(read) < all_rows / 4


@pytest.mark.parametrize("kept", range(len(TURNS) + 1))
def test_a_hit_at_any_border_is_the_same_take(engine, kept):
    miss = perform(engine)
    engine.family.prefixes.clear()
    perform(engine, text="Another line.", history=TURNS[:kept])
    assert_same(miss, perform(engine))


def test_a_take_whose_prefix_is_evicted_half_way_is_the_same(engine):
    whole = perform(engine)
    request = TakeRequest("Then it was gone.", VOICE, TURNS, seed=3, max_frames=12)
    take, events = engine.perform(request), []
    for event in take:
        engine.family.prefixes.clear()
        events.append(event)
    assert_same(whole, (np.concatenate([e.pcm for e in events if isinstance(e, Audio)]), events[-1].codes))


def test_what_a_take_does_after_its_prefix_leaves_the_prefix_as_it_was(engine):
    first = perform(engine, seed=3)
    perform(engine, seed=4)
    perform(engine, text="Something else entirely.", seed=5)
    assert_same(first, perform(engine, seed=3))


def test_one_other_code_in_a_clip_is_another_prefix(engine, read):
    perform(engine)
    rows = sum(read)
    read.clear()
    other = VOICE.voice[0].audio.copy()
    other[3, 29] = (other[3, 29] + 1) % 64
    character = Character(voice=(Reference(other, "I will not go back."),))
    list(engine.perform(TakeRequest("Then it was gone.", character, TURNS, seed=3, max_frames=12)))
    assert sum(read) == rows


def test_the_cache_holds_no_more_than_it_may(engine, tiny_family, monkeypatch):
    perform(engine, history=TURNS[:1])
    one_take = tiny_family.prefixes.num_bytes
    assert one_take > 0
    monkeypatch.setattr(tiny_family, "prefixes", PrefixCache(one_take))
    for turn in range(4):
        perform(engine, history=(*TURNS, Spoken(f"More {turn}.", codes(20))))
        assert tiny_family.prefixes.num_bytes <= one_take


class Moved:
    """A snapshot of so many bytes, and the same in host memory."""

    def __init__(self, num_bytes: int, host: bool = False, full: bool = False) -> None:
        self.num_rows, self.num_bytes, self.host, self.full = 1, num_bytes, host, full

    def to_host(self) -> Moved:
        if self.full:
            raise RuntimeError("no memory")
        return Moved(self.num_bytes, host=True)


def rows_of(number: int) -> np.ndarray:
    return np.full((1, 3), number)


def known(cache: PrefixCache, number: int) -> Moved | None:
    return cache.longest(rows_of(number), (1,))


def test_what_makes_room_moves_to_host_memory_when_nobody_waits():
    """C-23: on a GPU the states of three characters evicted each other."""
    cache = PrefixCache(10, host_bytes=10)
    for number in range(4):
        cache.keep(rows_of(number), Moved(5))
    assert [known(cache, number).host for number in range(4)] == [False] * 4
    cache.settle()
    assert [known(cache, number).host for number in range(4)] == [True, True, False, False]
    assert cache.num_bytes == 20
    cache.keep(rows_of(4), Moved(5))
    cache.settle()
    assert cache.num_bytes == 20
    assert sum(known(cache, number) is not None for number in range(5)) == 4


def test_what_is_known_in_host_memory_is_kept_once():
    cache = PrefixCache(5, host_bytes=10)
    for number in (0, 1, 0):
        cache.keep(rows_of(number), Moved(5))
        cache.settle()
    assert not known(cache, 0).host
    assert cache.num_bytes == 10


@pytest.mark.parametrize("settled", [True, False])
def test_nothing_that_was_forgotten_comes_back_from_the_host(settled):
    cache = PrefixCache(5, host_bytes=50)
    for number in range(3):
        cache.keep(rows_of(number), Moved(5))
    if settled:
        cache.settle()
    cache.drop(rows_of(0))
    assert (known(cache, 0), cache.num_bytes) == (None, 10)
    assert cache.clear() == 2
    cache.settle()
    assert (known(cache, 1), cache.num_bytes) == (None, 0)


def test_a_host_without_room_loses_the_state_and_nothing_else():
    cache = PrefixCache(5, host_bytes=50)
    for number in range(3):
        cache.keep(rows_of(number), Moved(5, full=number == 0))
    cache.settle()
    assert known(cache, 0) is None
    assert known(cache, 1).host


def test_a_take_that_is_stopped_settles_what_it_pushed_out(engine, tiny_family, monkeypatch):
    """A CPU's states are in host memory: they move by changing the list."""
    perform(engine, history=())
    cache = PrefixCache(3 * tiny_family.prefixes.num_bytes // 2, host_bytes=1 << 30)
    monkeypatch.setattr(tiny_family, "prefixes", cache)
    for turn in range(3):
        take = engine.perform(TakeRequest(f"Line {turn}.", VOICE, TURNS[:turn], seed=3, max_frames=12))
        while not isinstance(next(take), Audio):
            pass
        take.close()
        assert not cache._leaving
    assert cache._host.num_bytes > 0


def test_takes_from_states_that_were_moved_are_the_same(engine, tiny_family, monkeypatch):
    one = perform(engine, history=()) and tiny_family.prefixes.num_bytes
    takes = [perform(engine, history=TURNS[:kept]) for kept in range(4)]
    cache = PrefixCache(2 * one, host_bytes=1 << 30)
    monkeypatch.setattr(tiny_family, "prefixes", cache)
    for _ in range(2):
        for kept, take in enumerate(takes):
            assert_same(take, perform(engine, history=TURNS[:kept]))
    assert cache._host.num_bytes > 0
