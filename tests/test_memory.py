"""Which earlier lines go: whole ones, the oldest first, pinned ones last, and the same from line to line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.memory import order_of_going, turns_that_go

TURNS = st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=12)


def left(costs, gone, own) -> int:
    return own + sum(cost for turn, cost in enumerate(costs) if turn not in gone)


@given(TURNS, st.integers(1, 600), st.integers(1, 3000))
def test_what_is_left_fits_or_everything_went(turns, own, limit):
    costs, pinned = [cost for cost, _ in turns], [pin for _, pin in turns]
    gone = turns_that_go(costs, pinned, own, limit)
    assert left(costs, gone, own) <= limit or len(gone) == len(costs)
    assert gone == () or own + sum(costs) > limit
    assert list(gone) == order_of_going(pinned)[: len(gone)]


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.lists(st.integers(1, 120), min_size=41))
def test_from_line_to_line_the_same_turns_are_gone_until_the_room_is_used_up(costs, owns):
    """1,000 rows; lines of other lengths than one another, within the same eighth."""
    before: tuple[int, ...] = ()
    for count in range(1, len(costs) + 1):
        if min(owns) + sum(costs[:count]) <= 1000:  # a short line may still have room for all of them
            continue
        gone = turns_that_go(costs[:count], [False] * count, owns[count], 1000)
        assert set(before) <= set(gone)
        if gone != before and before:
            # 125 rows are kept for voice and line: with one more turn they would have passed 1,000.
            assert 125 + sum(costs[len(before) : count]) > 1000
        before = gone


def test_the_oldest_go_until_60_percent_are_used():
    # 13 of 100 for voice and line: the fourth turn makes it 113.
    assert turns_that_go([30, 20, 25, 25], [False] * 4, 10, 100) == (0, 1, 2)


def test_a_pinned_turn_stays_though_more_than_60_percent_are_used():
    assert turns_that_go([30, 20, 25, 25], [True, False, True, False], 10, 100) == (1, 3)


def test_pinned_turns_go_where_nothing_else_helps():
    assert turns_that_go([60, 60, 20], [True, True, False], 10, 100) == (2, 0)


def test_no_room_but_for_voice_and_line_lets_everything_go():
    assert turns_that_go([5, 5], [True, False], 99, 100) == (1, 0)
    assert turns_that_go([5], [True], 120, 100) == (0,)
