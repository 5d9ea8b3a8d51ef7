"""A cache bounded in bytes keeps what was used last and never more than it may."""

from __future__ import annotations

import pytest

from engine.cache import BoundedCache


@pytest.fixture
def cache() -> BoundedCache[str]:
    return BoundedCache(max_bytes=10)


def test_the_longest_unused_makes_room(cache):
    for key in "abc":
        cache.put(key, key.upper(), 3)
    assert cache.get("a") == "A"
    cache.put("d", "D", 3)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert cache.num_bytes == 9


def test_one_large_value_may_push_out_several(cache):
    for key in "abc":
        cache.put(key, key, 3)
    cache.put("d", "d", 8)
    assert [cache.get(key) for key in "abcd"] == [None, None, None, "d"]
    assert cache.num_bytes == 8


def test_what_is_larger_than_the_cache_is_not_kept_and_pushes_nothing_out(cache):
    cache.put("a", "a", 4)
    cache.put("b", "b", 11)
    assert (cache.get("a"), cache.get("b"), cache.num_bytes) == ("a", None, 4)


def test_a_value_that_grew_too_large_under_its_key_is_gone(cache):
    cache.put("a", "small", 4)
    cache.put("a", "large", 11)
    assert (cache.get("a"), cache.num_bytes) == (None, 0)


def test_a_replaced_value_is_counted_once(cache):
    cache.put("a", "old", 6)
    cache.put("a", "new", 5)
    assert (cache.get("a"), cache.num_bytes) == ("new", 5)


def test_forgetting_and_clearing_give_the_bytes_back(cache):
    cache.put("a", "a", 4)
    cache.put("b", "b", 4)
    cache.forget("a")
    cache.forget("never there")
    assert (cache.get("a"), cache.num_bytes) == (None, 4)
    cache.clear()
    assert (cache.get("b"), cache.num_bytes) == (None, 0)


def test_who_makes_room_is_told_of_and_who_is_forgotten_is_not():
    told = []
    cache = BoundedCache(10, lambda key, value: told.append((key, value)))
    for key in "abc":
        cache.put(key, key.upper(), 4)
    cache.forget("b")
    cache.put("d", "D", 4)
    assert told == [("a", "A")]
    cache.clear()
    assert told == [("a", "A")]
