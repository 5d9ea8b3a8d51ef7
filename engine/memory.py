"""Which earlier lines go when a prompt has no room for all of them.

A recurrent state can't be shortened, so whole turns go: the oldest first, and enough of them that the next
lines needn't drop again. A pinned turn goes only where the prompt can't be read with it.
"""

from __future__ import annotations

from collections.abc import Sequence

HISTORY_KEEPS = 0.6  # turns that aren't pinned go until this share of the row limit is used


def order_of_going(pinned: Sequence[bool]) -> list[int]:
    """Indices of the turns, oldest first as given, in the order in which they would go."""
    return sorted(range(len(pinned)), key=lambda turn: (pinned[turn], turn))


def turns_that_go(costs: Sequence[int], pinned: Sequence[bool], own: int, limit: int) -> tuple[int, ...]:
    """Indices of the turns that go, in their order; () where all fit.

    `costs` are the rows of each turn, oldest first; `own` are those of voice and line. Where `own` alone is
    above `limit`, every turn goes and it still doesn't fit.
    """
    used = own + sum(costs)
    if used <= limit:
        return ()
    gone = []
    for turn in order_of_going(pinned):
        if used <= (limit if pinned[turn] else HISTORY_KEEPS * limit):
            break
        used -= costs[turn]
        gone.append(turn)
    return tuple(gone)
