"""Which frames become sound together, and what becomes of a sample."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.vocoder import EARLY_SCHEDULE, SCHEDULE, Schedule, ThreadVocoder, pcm16


def chunks(schedule: Schedule, num_frames: int) -> list[tuple[int, int]]:
    """The chunks of a piece whose frames come one by one."""
    due = [schedule.due(frames) for frames in range(1, num_frames + 1)]
    return [chunk for chunk in [*due, schedule.due(num_frames, last=True)] if chunk]


def test_sizes_follow_the_schedule_and_the_last_repeats():
    assert SCHEDULE == (3, 4, 6, 8, 12, 16)
    ends = [3, 7, 13, 21, 33, 49, 65, 81, 97, 113, 129, 140]
    assert chunks(Schedule(SCHEDULE), 140) == list(zip([0, *ends], ends, strict=False))


def test_no_chunk_is_more_than_half_as_long_again_as_the_one_before():
    assert all(b <= 1.5 * a for a, b in itertools.pairwise(SCHEDULE))


@pytest.mark.parametrize(("schedule", "pace"), [(SCHEDULE, 0.6), (EARLY_SCHEDULE, 0.4)])
def test_no_chunk_comes_later_than_those_before_it_last(schedule, pace):
    """A frame takes `pace` of its own length: the sound handed over until then covers it, also at the end."""
    sizes = [*schedule, schedule[-1]]
    for number, size in enumerate(sizes[1:], 1):
        assert size * pace <= sum(sizes[:number]) - pace * sum(sizes[1:number])


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), num_frames=st.integers(0, 80))
def test_every_frame_is_handed_over_once_and_in_order(sizes, num_frames):
    made = chunks(Schedule(tuple(sizes)), num_frames)
    assert [frame for first, end in made for frame in range(first, end)] == list(range(num_frames))
    wanted = [*sizes, *[sizes[-1]] * len(made)]
    assert [end - first for first, end in made][:-1] == wanted[: len(made) - 1] if made else num_frames == 0


def test_no_chunk_is_due_before_its_last_frame():
    schedule = Schedule((3,))
    assert [schedule.due(frames) for frames in (1, 2, 3, 4, 5, 6)] == [None, None, (0, 3), None, None, (3, 6)]


def test_the_rest_is_due_at_the_end_and_only_once():
    schedule = Schedule((3,))
    assert schedule.due(2, last=True) == (0, 2)
    assert schedule.due(2, last=True) is None
    assert Schedule((3,)).due(0, last=True) is None


def test_frames_that_come_together_leave_together():
    schedule = Schedule((2, 4))
    assert schedule.due(5) == (0, 5)
    assert schedule.due(8) is None
    assert schedule.due(9) == (5, 9)


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        (0.0, 0),
        (1.0, 32767),
        (-1.0, -32767),
        (1.5, 32767),
        (-7.0, -32767),
        (np.inf, 32767),
        (0.99 / 32767, 0),
        (-0.99 / 32767, 0),
        (1.5 / 32767, 1),
        (-1.5 / 32767, -1),
        (0.5, 16383),  # 16383.5
        (-0.5, -16383),
    ],
)
def test_samples_are_clamped_and_truncated_toward_zero(sample, value):
    pcm = pcm16(np.array([sample], np.float32))
    assert pcm.dtype == np.int16
    assert pcm.tolist() == [value]


def test_no_samples_are_no_pcm():
    assert pcm16(np.zeros(0, np.float32)).shape == (0,)


class Slow:
    """A codec stream that decodes all but its first chunk when it is told to: a code becomes one sample."""

    def __init__(self) -> None:
        self.go, self.decoding = threading.Event(), threading.Event()
        self.pieces = 0

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        if self.pieces:
            self.decoding.set()
            self.go.wait(10)
        self.pieces += 1
        return codes[0].float() / 10


class TestThread:
    codes = torch.arange(8)[None]

    def test_it_gives_sound_in_order_and_nothing_before_it_is_ready(self):
        stream = Slow()
        with closing(ThreadVocoder(stream)) as vocoder:
            vocoder.queue(self.codes[:, :2])
            first = list(vocoder.heard(wait=False))
            vocoder.queue(self.codes[:, 2:5])
            vocoder.queue(self.codes[:, 5:])
            assert list(vocoder.heard(wait=False)) == []
            stream.go.set()
            sounds = first + list(vocoder.heard(wait=True))
        assert [sound.frames for sound in first] == [2]
        assert [sound.frames for sound in sounds] == [2, 3, 3]
        assert np.array_equal(np.concatenate([sound.pcm for sound in sounds]), pcm16(np.arange(8) / 10))

    def test_closing_waits_for_the_chunk_in_flight_and_drops_the_others(self):
        stream = Slow()
        vocoder = ThreadVocoder(stream)
        for _ in range(4):
            vocoder.queue(self.codes)
        stream.decoding.wait(10)
        threading.Timer(0.05, stream.go.set).start()
        vocoder.close()
        assert stream.pieces == 2

    def test_what_breaks_while_decoding_is_raised_where_sound_is_fetched(self):
        class Broken(Slow):
            def decode(self, codes: torch.Tensor) -> torch.Tensor:
                raise MemoryError("none left")

        with closing(ThreadVocoder(Broken())) as vocoder:
            vocoder.queue(self.codes)
            with pytest.raises(MemoryError):
                list(vocoder.heard(wait=True))
