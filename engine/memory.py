"""Which earlier lines go when a prompt has no room for all of them.

A recurrent state can't be shortened, so whole turns go: the oldest first, and enough of them that the next
lines needn't drop again. A pinned turn goes only where the prompt can't be read with it.

Nobody remembers what went at the lines before, yet the answer must stay the same from line to line, or every
prompt would begin with another turn and no prefix could be used again. So the whole history is replayed: turn
by turn, as it came to be, with room for voice and line in coarse steps.
"""

from __future__ import annotations

from collections.abc import Sequence

HISTORY_KEEPS = 0.6  # turns that aren't pinned go until this share of the row limit is used
OWN_STEPS = 8  # voice and line count as the next eighth of the limit, whatever the line


def order_of_going(pinned: Sequence[bool]) -> list[int]:
    """Indices of the turns, oldest first as given, in the order in which they would go."""
    return sorted(range(len(pinned)), key=lambda turn: (pinned[turn], turn))


def turns_that_go(costs: Sequence[int], pinned: Sequence[bool], own: int, limit: int) -> tuple[int, ...]:
    """Indices of the turns that go, in their order; () where all fit.

    `costs` are the rows of each turn, oldest first; `own` are those of voice and line. Where `own` alone is
    above `limit`, every turn goes and it still doesn't fit.
    """
    if own + sum(costs) <= limit:
        return ()
    step = -(-limit // OWN_STEPS)
    used, order = max(own, min(-(-own // step) * step, limit)), order_of_going(pinned)
    gone = 0  # of `order`
    for turn, cost in enumerate(costs):
        used += cost
        keep = HISTORY_KEEPS * limit if used > limit else limit
        while used > keep and gone <= turn and order[gone] <= turn and not pinned[order[gone]]:
            used, gone = used - costs[order[gone]], gone + 1
    while used > limit and gone < len(order):  # nothing but pinned ones is left
        used, gone = used - costs[order[gone]], gone + 1
    return tuple(order[:gone])
