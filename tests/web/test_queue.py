"""The gate: one take at a time, in turns over sessions, and whoever waits hears how long."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.take import Audio, Done, Status, Timings, Trouble
from web.queue import Gate, GateFull

PATIENCE_S = 20  # only a broken gate waits for it
AUDIO = Audio(np.zeros(4, np.int16), 24_000, 0, 0)
DONE = Done("stop", 1, 3, Timings(total_s=1.0), None)


def take() -> Iterator:
    yield AUDIO
    yield DONE


def passes(gate: Gate, session: str) -> bool:
    """Whether a take passes at once."""
    return [type(event) for event in gate.through(session, 5, take)] == [Audio, Done]


class Caller(threading.Thread):
    """Passes the gate in a thread of its own, then stays behind it until `leave` is set."""

    def __init__(self, gate: Gate, name: str, order: list[str], seconds: float = 10.0) -> None:
        super().__init__(daemon=True)
        self.gate, self.take, self.order, self.seconds = gate, name, order, seconds
        self.waiting, self.inside, self.leave = (threading.Event() for _ in range(3))

    def run(self) -> None:
        with self.gate.pass_(self.take[0], self.seconds) as turn:
            self.waiting.set()
            for _ in turn.wait():
                pass
            self.order.append(self.take)
            self.inside.set()
            assert self.leave.wait(PATIENCE_S)


def queue_up(gate: Gate, names: list[str]) -> tuple[list[Caller], list[str]]:
    """Callers named by session and number, in line in this order; the first of them is behind the gate."""
    order: list[str] = []
    callers = [Caller(gate, name, order) for name in names]
    for caller in callers:
        caller.start()
        assert caller.waiting.wait(PATIENCE_S)
    return callers, order


def let_pass(callers: list[Caller]) -> None:
    for caller in callers:
        caller.leave.set()
    for caller in callers:
        caller.join(PATIENCE_S)
        assert not caller.is_alive()


def test_an_open_gate_is_passed_without_a_word():
    assert passes(Gate(), "a")


def test_sessions_take_turns_however_many_lines_one_has():
    callers, order = queue_up(Gate(), ["a1", "a2", "a3", "b1", "c1", "b2"])
    let_pass(callers)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


@given(st.lists(st.sampled_from("abcd"), max_size=16))
def test_nobody_is_served_twice_while_somebody_who_came_before_waits(sessions):
    gate = Gate(most=20, each=20)
    turns = [gate._join(session, 1) for session in sessions]
    served = []
    while gate._holder:
        served.append(gate._holder)
        gate._leave(gate._holder)
    assert sorted(map(id, served)) == sorted(map(id, turns))
    for session in set(sessions):
        places = [served.index(turn) for turn in turns if turn.session == session]
        assert places == sorted(places)
        for before, after in pairwise(places):
            between = {turn.session for turn in served[before + 1 : after]}
            assert {turn.session for turn in served[after + 1 :]} - {session} <= between


def test_only_one_is_behind_the_gate():
    gate, inside, most = Gate(most=40, each=40), [], []

    def perform():
        inside.append(1)
        most.append(len(inside))
        yield DONE
        inside.pop()

    start = threading.Barrier(8)

    def call(session):
        start.wait(PATIENCE_S)
        for _ in range(5):
            list(gate.through(session, 0.01, perform))

    threads = [threading.Thread(target=call, args=(number % 3,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert most == [1] * 40


def test_who_waits_hears_place_and_time_at_once_and_again():
    gate = Gate()
    (holder,), _ = queue_up(gate, ["a1"])
    with gate.pass_("b", 20), gate.pass_("c", 5) as turn:
        first, second = islice(turn.wait(), 2)
    let_pass([holder])
    assert (first.phase, second.phase) == ("queue", "queue")
    said = re.fullmatch(r"2 lines come before yours; about (\d+) s\.", first.detail)
    assert 20 <= int(said[1]) <= 30  # the next one's 20, and what is left of the holder's 10


def test_the_estimate_learns_how_fast_takes_are():
    gate = Gate()
    for _ in range(20):
        list(gate.through("a", 1000, take))  # expected to take long, and done at once
    with gate.pass_("a", 1000) as holder, gate.pass_("b", 10) as turn:
        list(holder.wait())
        assert gate.place(holder) is None
        ahead, seconds = gate.place(turn)
    assert ahead == 1
    assert seconds < 10


def test_closing_while_waiting_leaves_the_line_at_once():
    gate = Gate()
    (holder,), _ = queue_up(gate, ["a1"])
    stopped = gate.through("b", 5, take)
    assert isinstance(next(stopped), Status)
    with gate.pass_("c", 5) as behind:
        assert gate.place(behind)[0] == 2
        stopped.close()
        assert gate.place(behind)[0] == 1
    let_pass([holder])


def test_who_stopped_before_the_turn_came_never_performs():
    gate, performed = Gate(), []
    (holder,), _ = queue_up(gate, ["a1"])
    stopped = gate.through("b", 5, lambda: performed.append(1) or take())
    next(stopped)
    let_pass([holder])  # the turn has come, but nobody has asked since
    stopped.close()
    assert passes(gate, "c")
    assert performed == []


@pytest.mark.parametrize("end", ["closed", "forgotten", "failed"])
def test_a_holder_who_goes_lets_the_next_one_pass(end):
    gate, ended = Gate(), []

    def perform():
        try:
            yield AUDIO
            raise KeyError(end)
        finally:
            ended.append(end)

    events = gate.through("a", 5, perform)
    assert next(events) is AUDIO
    if end == "closed":
        events.close()
    elif end == "failed":
        with pytest.raises(KeyError):
            next(events)
    del events
    assert ended == [end]
    assert passes(gate, "b")


def test_a_thread_that_dies_behind_the_gate_frees_it():
    gate = Gate()
    died = threading.Thread(target=lambda: [None for _ in gate.through("a", 5, lambda: iter([1 / 0]))])
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        died.start()
        died.join(PATIENCE_S)
    finally:
        threading.excepthook = hook
    assert passes(gate, "b")


def test_the_line_is_bounded_in_all_and_for_each_session():
    gate = Gate(most=3, each=2)
    callers, _ = queue_up(gate, ["a1", "a2", "a3", "b1"])
    (own,) = gate.through("a", 5, take)
    (other,) = gate.through("c", 5, take)
    assert own == Trouble("busy", "2 of your lines are waiting already; let one of them end first.")
    assert other == Trouble("busy", "3 lines are waiting already; try again in a minute.")
    with pytest.raises(GateFull), gate.pass_("c", 5):
        pass
    let_pass(callers)
    assert passes(gate, "c")


def test_done_tells_how_long_the_take_waited():
    gate = Gate()
    callers, _ = queue_up(gate, ["a1"])
    events = gate.through("b", 5, take)
    assert isinstance(next(events), Status)
    let_pass(callers)
    *_, done = events
    assert 0 < done.timings.queue_s < PATIENCE_S
    assert done.timings.total_s == DONE.timings.total_s
