"""The mix holds every take sample for sample, and loudness is what the standard says it is."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.mix import Part, equal_gains, loudness, mixed
from engine.take import RequestError

RATE = 24_000
PCM = arrays.arrays(np.int16, st.integers(0, 50))


def part(pcm, gap_s: float = 0.0, dual: bool = False, rate: int = RATE) -> Part:
    return Part("Line", np.asarray(pcm, np.int16), rate, gap_s, dual)


def joined(*parts: Part) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int16), *mixed(parts)])


def sine(hz: float, level: float = 1.0, seconds: float = 3.0, rate: int = 48_000) -> np.ndarray:
    return np.round(level * 32_767 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)).astype(
        np.int16
    )


class TestMix:
    @given(st.lists(st.tuples(PCM, st.sampled_from([0.0, 0.25, 1.05])), max_size=6))
    def test_takes_stand_in_a_row_with_their_silence_before_them(self, takes):
        expected = [np.zeros(0, np.int16)]
        for pcm, gap_s in takes:
            expected += [np.zeros(round(gap_s * RATE), np.int16), pcm]
        mix = joined(*(part(pcm, gap_s) for pcm, gap_s in takes))
        assert mix.dtype == np.int16
        assert np.array_equal(mix, np.concatenate(expected))

    def test_lines_spoken_together_start_at_once_and_the_next_waits_for_the_longer(self):
        mix = joined(part([1, 2]), part([10, 20, 30], dual=True), part([7], 2 / RATE))
        assert mix.tolist() == [11, 22, 30, 0, 0, 7]

    @given(PCM, PCM, PCM)
    def test_a_group_keeps_its_shape_and_never_wraps(self, a, b, c):
        mix = joined(part(a), part(b, dual=True), part(c, dual=True)).astype(np.int64)
        total = np.zeros(max(len(a), len(b), len(c)), np.int64)
        for pcm in (a, b, c):
            total[: len(pcm)] += pcm
        gain = min(1.0, 32_767 / max(1, np.abs(total).max(initial=0)))
        assert np.abs(mix - total * gain).max(initial=0) < 1 + 1e-6

    def test_another_rate_is_refused_in_words(self):
        with pytest.raises(RequestError, match="44100 samples a second, the takes before it 24000"):
            joined(part([1]), part([1], rate=44_100))

    def test_a_long_scene_is_never_held_whole(self):
        def takes():
            for _ in range(500):
                yield part(np.ones(RATE), 0.25)

        tracemalloc.start()
        num_samples = sum(map(len, mixed(takes())))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert num_samples == 500 * (RATE + RATE // 4)
        assert peak < 1 << 20


class TestLoudness:
    @pytest.mark.parametrize("rate", [22_050, 24_000, 44_100, 48_000])
    def test_a_full_scale_tone_of_997_hz_is_3_01_lufs_below_zero(self, rate):
        assert loudness(sine(997, rate=rate), rate) == pytest.approx(-3.01, abs=0.04)

    @pytest.mark.parametrize(("hz", "gain"), [(60, -3.59), (100, -1.82), (2_000, 2.38), (10_000, 3.35)])
    def test_other_tones_weigh_what_the_filters_of_the_standard_give_them(self, hz, gain):
        """The figures are |H| at 48 kHz of the coefficients printed in BS.1770-4, against 997 Hz."""
        assert loudness(sine(hz, 0.1), 48_000) - loudness(sine(997, 0.1), 48_000) == pytest.approx(
            gain, abs=0.01
        )

    def test_pauses_do_not_count_and_soft_breath_does_not_either(self):
        tone = sine(997, 0.2)
        pause, breath = np.zeros(4 * 48_000, np.int16), sine(997, 0.002)
        assert loudness(np.concatenate([tone, pause, breath]), 48_000) == pytest.approx(
            loudness(tone, 48_000), abs=0.4
        )

    @pytest.mark.parametrize(
        "pcm", [np.zeros(0, np.int16), np.zeros(9, np.int16), np.zeros(48_000, np.int16)]
    )
    def test_silence_has_none(self, pcm):
        assert loudness(pcm, 48_000) == -math.inf

    def test_a_short_cry_is_measured_too(self):
        assert loudness(sine(997, 0.5, seconds=0.1), 48_000) == pytest.approx(-9.03, abs=0.3)

    def test_gains_make_takes_equally_loud_and_none_louder_than_it_was(self):
        takes = [sine(997, 0.4), sine(300, 0.1), np.zeros(48_000, np.int16)]
        before = [take.copy() for take in takes]
        gains = equal_gains([loudness(take, 48_000) for take in takes])
        assert max(gains) == 1.0
        levels = [
            loudness(np.round(t * g).astype(np.int16), 48_000) for t, g in zip(takes, gains, strict=True)
        ]
        assert levels[0] == pytest.approx(levels[1], abs=0.05)
        assert all(np.array_equal(a, b) for a, b in zip(takes, before, strict=True))

    def test_nothing_to_compare_changes_nothing(self):
        assert equal_gains([]) == ()
        assert equal_gains([-math.inf, -20.0]) == (1.0, 1.0)
