"""Which earlier lines go: whole ones, the oldest first, pinned ones last, whatever the line to be spoken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.memory import order_of_going, turns_that_go

TURNS = st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=12)


def left(costs, gone) -> int:
    return sum(cost for turn, cost in enumerate(costs) if turn not in gone)


@given(TURNS, st.integers(0, 3000))
def test_what_is_left_fits_and_goes_in_order(turns, room):
    costs, pinned = [cost for cost, _ in turns], [pin for _, pin in turns]
    gone = turns_that_go(costs, pinned, room)
    assert left(costs, gone) <= room
    assert gone == order_of_going(pinned)[: len(gone)]
    assert gone == [] or sum(costs) > room


@given(st.lists(st.integers(1, 90), min_size=1, max_size=60))
def test_from_line_to_line_the_same_turns_are_gone_until_the_room_is_used_up(costs):
    before: list[int] = []
    for count in range(1, len(costs) + 1):
        gone = turns_that_go(costs[:count], [False] * count, 400)
        assert set(before) <= set(gone)
        if gone != before:
            assert left(costs[:count], before) > 400 - 90
            assert left(costs[:count], gone) > 200 - 90
        before = gone


@given(st.lists(st.integers(1, 90), min_size=1, max_size=60), st.sets(st.integers(0, 4)))
def test_what_is_foretold_is_what_has_gone_once_the_next_turns_go(costs, pins):
    pinned = [turn in pins for turn in range(len(costs))]
    foretold, now = [], []
    for count in range(1, len(costs) + 1):
        gone = turns_that_go(costs[:count], pinned[:count], 800)
        if gone != now and now:
            assert gone == foretold
        now, foretold = gone, turns_that_go(costs[:count], pinned[:count], 800, ahead=True)


def test_half_of_the_room_is_used_when_turns_went():
    assert turns_that_go([30, 20, 25, 25], [False] * 4, 100) == []
    assert turns_that_go([30, 20, 25, 25, 10], [False] * 5, 100) == [0, 1]


def test_a_pinned_turn_stays_and_takes_of_the_room():
    assert turns_that_go([30, 20, 25, 25, 10], [True, False, True, False, False], 100) == [1, 3]


def test_pinned_turns_go_where_nothing_else_helps():
    assert turns_that_go([60, 60, 20], [True, True, False], 100) == [2, 0]
    assert turns_that_go([5], [True], 0) == [0]
