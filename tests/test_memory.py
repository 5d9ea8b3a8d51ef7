"""Which earlier lines go: the oldest whole ones, pinned ones last, and no more than must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.memory import HISTORY_KEEPS, order_of_going, turns_that_go

TURNS = st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=12)


def left(costs, gone, own) -> int:
    return own + sum(cost for turn, cost in enumerate(costs) if turn not in gone)


@given(TURNS, st.integers(1, 600), st.integers(1, 3000))
def test_turns_go_in_order_and_only_while_there_is_need(turns, own, limit):
    costs, pinned = [cost for cost, _ in turns], [pin for _, pin in turns]
    gone = turns_that_go(costs, pinned, own, limit)
    assert list(gone) == order_of_going(pinned)[: len(gone)]
    if own + sum(costs) <= limit:
        assert gone == ()
        return
    assert left(costs, gone, own) <= limit or len(gone) == len(costs)
    last = gone[-1] if gone else None
    if last is not None:
        before = left(costs, gone[:-1], own)
        assert before > (limit if pinned[last] else HISTORY_KEEPS * limit)


def test_the_oldest_go_until_60_percent_are_used():
    assert turns_that_go([30, 20, 25, 25], [False] * 4, 10, 100) == (0, 1)


def test_a_pinned_turn_stays_though_more_than_60_percent_are_used():
    assert turns_that_go([30, 20, 25, 25], [True, False, True, False], 10, 100) == (1, 3)


def test_pinned_turns_go_where_nothing_else_helps():
    assert turns_that_go([60, 60, 20], [True, True, False], 10, 100) == (2, 0)
