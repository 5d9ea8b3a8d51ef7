"""Which earlier lines go when there are more than a family keeps.

A family keeps so many rows of history as it was taught to read; a recurrent state can't be shortened, so
whole turns go, the oldest first. A pinned turn goes only where the prompt can't be read with it.

Nobody remembers what went at the lines before, yet the answer must stay the same from line to line, or every
prompt would begin with another turn and no prefix could be used again. So turns go in steps of half the room,
counted from the first turn of all: what has gone hangs on the turns alone, never on the line to be spoken.
"""

from __future__ import annotations

from collections.abc import Sequence

LINE_ROWS = 512  # room for the words of a line; one that needs more lets further turns go


def order_of_going(pinned: Sequence[bool]) -> list[int]:
    """Indices of the turns, oldest first as given, in the order in which they would go."""
    return sorted(range(len(pinned)), key=lambda turn: (pinned[turn], turn))


def turns_that_go(costs: Sequence[int], pinned: Sequence[bool], room: int, ahead: bool = False) -> list[int]:
    """Indices of the turns that go so that the rest takes at most `room` rows, in their order.

    `costs` are the rows of each turn, oldest first. What is left is more than half of the room, but for the
    turn at the edge. `ahead` tells which will have gone after the next step: the rest of them is what the
    prompts behind it begin with.
    """
    order = order_of_going(pinned)
    held = sum(cost for cost, pin in zip(costs, pinned, strict=True) if pin)
    loose = sum(costs) - held
    excess = loose - max(0, room - held)
    step = max(1, (room - held) // 2)
    target = step * max(0, -(-excess // step)) + step * ahead
    gone, freed = 0, 0
    while gone < len(order) and not pinned[order[gone]] and freed < target:
        freed, gone = freed + costs[order[gone]], gone + 1
    while gone < len(order) and sum(costs) - freed > room:  # nothing but pinned ones is left
        freed, gone = freed + costs[order[gone]], gone + 1
    return order[:gone]
