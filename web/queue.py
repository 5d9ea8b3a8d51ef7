"""The gate: one take at a time passes, and whoever waits hears how long.

Page, client and every other caller come through here, a line (take) at a time, so that nobody holds the card
between two lines. Sessions take turns: the next pass goes to the session that has waited longest since its
last one, however many lines another has waiting. It knows sessions by a key and takes by their expected
seconds; what is done behind the gate it doesn't know.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest

from engine.take import Done, Event, Status, Trouble

HEARTBEAT_S = 0.25  # a caller who was stopped leaves the line when it hears from us next
PACE_MEMORY = 0.3  # share of the newest take in the ratio of real to expected seconds


class GateFull(RuntimeError):
    """Nobody else can wait: one sentence for the caller."""


class Turn:
    """One take's place: in line until it is called, then behind the gate. Lives as long as its `pass_`."""

    def __init__(self, gate: Gate, session: Hashable, seconds: float) -> None:
        self.session, self.seconds = session, seconds
        self.joined, self.called_at = time.monotonic(), 0.0
        self.called = threading.Event()
        self._gate = gate

    @property
    def waited_s(self) -> float:
        return self.called_at - self.joined

    def wait(self) -> Iterator[Status]:
        """Return when the turn has come; until then tell the place and the wait, several times a second."""
        while not self.called.is_set():
            if place := self._gate.place(self):
                ahead, seconds = place
                others = "You are next" if ahead == 1 else f"{ahead} lines come before yours"
                yield Status("queue", f"{others}; about {max(1, round(seconds))} s.")
            self.called.wait(HEARTBEAT_S)


class Gate:
    """Lets one take pass at a time, in turns over sessions; `most` wait in all, `each` of one session."""

    def __init__(self, most: int = 24, each: int = 4) -> None:
        self.most, self.each = most, each
        self._lock = threading.Lock()
        self._lines: dict[Hashable, deque[Turn]] = {}  # in the order in which sessions take turns
        self._holder: Turn | None = None
        self._pace = 1.0

    def through(
        self, session: Hashable, seconds: float, perform: Callable[[], Generator[Event, None, None]]
    ) -> Iterator[Event]:
        """The events of waiting, then those of `perform()`, whose Done learns how long the wait was.

        A line that is too long already is Trouble("busy"). Closing it leaves the line or ends the take.
        """
        try:
            with self.pass_(session, seconds) as turn:
                yield from turn.wait()
                with closing(perform()) as events:
                    for event in events:
                        yield self._timed(event, turn) if isinstance(event, Done) else event
        except GateFull as problem:
            yield Trouble("busy", str(problem))

    @contextmanager
    def pass_(self, session: Hashable, seconds: float) -> Iterator[Turn]:
        """A turn for a take of about `seconds`: go on when its `wait` has returned. It ends with the block,
        whatever ends that. Raises GateFull where nobody else can wait."""
        turn = self._join(session, seconds)
        try:
            yield turn
        finally:
            self._leave(turn)

    def place(self, turn: Turn) -> tuple[int, float] | None:
        """(takes before this one, the one behind the gate among them; seconds until its turn), or None
        where it isn't in line."""
        with self._lock:
            order = self._order()
            if turn not in order:
                return None
            before = order[: order.index(turn)]
            holder = self._holder
            left = self._pace * holder.seconds - (time.monotonic() - holder.called_at)
            return len(before) + 1, max(0.0, left) + self._pace * sum(other.seconds for other in before)

    def _join(self, session: Hashable, seconds: float) -> Turn:
        turn = Turn(self, session, seconds)
        with self._lock:
            own = self._lines.get(session, ())
            if len(own) >= self.each:
                raise GateFull(f"{len(own)} of your lines are waiting already; let one of them end first.")
            if sum(map(len, self._lines.values())) >= self.most:
                raise GateFull(f"{self.most} lines are waiting already; try again in a minute.")
            self._lines.setdefault(session, deque()).append(turn)
            if self._holder is None:
                self._call_next()
        return turn

    def _leave(self, turn: Turn) -> None:
        with self._lock:
            if turn is self._holder:
                self._call_next()
            elif line := self._lines.get(turn.session):
                line.remove(turn)
                if not line:
                    del self._lines[turn.session]

    def _timed(self, done: Done, turn: Turn) -> Done:
        """`done` with the wait before it; how long a whole take took teaches the next estimate."""
        took = time.monotonic() - turn.called_at
        with self._lock:
            self._pace += PACE_MEMORY * (took / max(turn.seconds, 1.0) - self._pace)
        return dataclasses.replace(done, timings=dataclasses.replace(done.timings, queue_s=turn.waited_s))

    def _order(self) -> list[Turn]:
        """Who passes when: the first line of every session, then the second ones; the session that is
        behind the gate comes last."""
        lines = dict(self._lines)
        if self._holder and (own := lines.pop(self._holder.session, None)):
            lines[self._holder.session] = own
        rounds = zip_longest(*lines.values())
        return [turn for each_round in rounds for turn in each_round if turn]

    def _call_next(self) -> None:
        order = self._order()
        if self._holder and (line := self._lines.pop(self._holder.session, None)):
            self._lines[self._holder.session] = line  # this session has had its turn
        self._holder = order[0] if order else None
        if self._holder:
            line = self._lines[self._holder.session]
            line.popleft()
            if not line:
                del self._lines[self._holder.session]
            self._holder.called_at = time.monotonic()
            self._holder.called.set()
