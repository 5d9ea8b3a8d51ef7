"""Sounds whose level, pitch and pauses are known are measured as what they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

RATE = 24000
TIME = np.arange(2 * RATE) / RATE


def tone(hz: np.ndarray | float, level: float = 0.07) -> np.ndarray:
    """Ten harmonics, each half as strong as the one below."""
    phase = 2 * np.pi * np.cumsum(np.broadcast_to(hz, TIME.shape)) / RATE
    wave = sum(0.5**k * np.sin((k + 1) * phase) for k in range(10))
    return (wave * level / np.sqrt(np.mean(wave**2))).astype(np.float32)


@pytest.fixture
def sound_of(recipe):
    return recipe.measures.sound_of


def test_a_steady_tone_has_its_pitch_and_level_and_no_tremor(sound_of):
    sound = sound_of(tone(150.0))
    assert sound.pitch_hz == pytest.approx(150, rel=0.02)
    assert sound.level_db == pytest.approx(20 * np.log10(0.07), abs=0.3)
    assert sound.repeats > 0.9
    assert sound.voiced > 0.95
    assert sound.spread < 0.2
    assert sound.tremor < 0.1
    assert sound.pauses == 0


def test_a_trembling_tone_trembles_and_a_slow_glide_does_not(sound_of):
    swing = sound_of(tone(150 * (1 + 0.1 * np.sin(2 * np.pi * 5.5 * TIME))))
    glide = sound_of(tone(150 * (1 + 0.1 * np.sin(2 * np.pi * 0.8 * TIME))))
    assert swing.tremor > 0.8  # 1.7 semitones to either side, less what 85 ms blur
    assert glide.tremor < 0.3
    assert glide.spread > 1.0


def test_noise_repeats_itself_half_as_well_as_a_voice(sound_of):
    noise = np.random.default_rng(0).normal(0, 0.07, 2 * RATE).astype(np.float32)
    assert sound_of(noise).repeats < 0.6 * sound_of(tone(150.0)).repeats


def test_a_pause_is_counted_and_timed_and_the_ends_are_none(sound_of):
    wave = tone(150.0)
    wave[: RATE // 4] = wave[RATE : RATE + RATE // 2] = 0
    sound = sound_of(wave)
    assert sound.pauses == 1
    assert sound.pause_s == pytest.approx(0.5, abs=0.05)
    assert sound.seconds == pytest.approx(1.75, abs=0.05)


def test_a_tilt_is_heard_and_a_level_is_not_taken_for_one(recipe, sound_of):
    wave = tone(150.0)
    tilted = recipe.perform.tilted(torch.from_numpy(wave)[None], torch.tensor([6.0]))[0].numpy()
    # less than the shelf's 6 dB: the strongest harmonics of either side lie where it turns
    assert 3 < sound_of(tilted).tilt_db - sound_of(wave).tilt_db < 6
    assert sound_of(0.3 * wave).tilt_db == pytest.approx(sound_of(wave).tilt_db, abs=0.01)


def test_bursts_are_counted(recipe):
    laugh = tone(200.0) * (0.5 + 0.5 * np.sin(2 * np.pi * 5 * TIME))
    assert recipe.measures.beats_hz(laugh.astype(np.float32)) == pytest.approx(5, abs=0.6)


def test_strengths_lie_in_order_only_if_all_three_do(recipe, sound_of):
    quiet, middle, loud = (sound_of(tone(150.0, level)) for level in (0.03, 0.07, 0.12))
    assert recipe.measures.in_order("loud", quiet, middle, loud)
    assert not recipe.measures.in_order("loud", middle, quiet, loud)
    assert recipe.measures.in_order("soft", loud, middle, quiet)
    assert recipe.measures.obeyed("soft", quiet, middle)
    assert not recipe.measures.obeyed("soft", middle, middle)


def test_a_line_turns_to_another_level_where_it_is_told_to(recipe):
    wave = torch.sin(torch.arange(48_000) * (2 * torch.pi * 300 / 24_000)).repeat(2, 1) * 0.2
    valid, start = torch.tensor([48_000, 40_000]), torch.tensor([24_000, 0])
    out = recipe.perform.turned(wave, valid, start, torch.zeros(2), torch.tensor([-8.0, -8.0]))
    torch.testing.assert_close(out[0, :24_000], wave[0, :24_000])
    before, after = out[0, :24_000], out[0, 26_000:]
    assert 20 * torch.log10(after.std() / before.std()).item() == pytest.approx(-8.0, abs=0.1)
    torch.testing.assert_close(out[1, :40_000], wave[1, :40_000])
