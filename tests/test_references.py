"""From clip to prepared samples to codes: refusals, levels, trimming, the cache."""

import builtins
import math
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.references import ReferenceCache, check_codes, prepare
from engine.take import Clip, RequestError


def voice(seconds: float, rate: int = 44_100, rms: float = 0.1, seed: int = 0) -> np.ndarray:
    """Something like speech, float32 [n]: noise that falls with frequency, swelling four times a second."""
    n = round(seconds * rate)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(n))
    spectrum /= 1 + np.fft.rfftfreq(n, 1 / rate) / 500
    sound = np.fft.irfft(spectrum, n) * (1.2 + np.sin(np.arange(n) * (8 * np.pi / rate)))
    return (sound * (rms / sound.std())).astype(np.float32)


def silence(seconds: float, rate: int = 44_100) -> np.ndarray:
    return np.zeros(round(seconds * rate), np.float32)


def rms(samples: np.ndarray) -> float:
    return float(np.sqrt((samples.astype(np.float64) ** 2).mean()))


def test_a_stereo_clip_with_a_silent_side_has_the_length_and_level_of_its_mono_twin():
    left = voice(12.0, 48_000)
    mono = prepare(Clip(left, 48_000), 44_100)
    stereo = prepare(Clip(np.stack([left, np.zeros_like(left)]), 48_000), 44_100)
    assert len(stereo.samples) == 529_200 + 13_230
    assert math.ceil(len(stereo.samples) / 2048) == 265
    assert stereo.key == mono.key
    assert np.array_equal(stereo.samples, mono.samples)


@pytest.mark.parametrize("right_level", [1.0, 0.6, 0.3, 0.05])
def test_a_quieter_side_takes_less_than_2_db_from_the_voice(right_level):
    left = voice(2.0)
    mixed = prepare(Clip(np.stack([left, left * np.float32(right_level)]), 44_100), 44_100)
    assert rms(mixed.samples) > 0.8 * rms(prepare(Clip(left, 44_100), 44_100).samples)


def test_equal_sides_give_the_mono_clip():
    left = voice(2.0)
    mixed = prepare(Clip(np.stack([left, left]), 44_100), 44_100)
    assert np.array_equal(mixed.samples, prepare(Clip(left, 44_100), 44_100).samples)


def test_a_constant_side_weighs_nothing():
    left = voice(2.0)
    mixed = prepare(Clip(np.stack([np.full_like(left, 0.4), left]), 44_100), 44_100)
    assert np.abs(mixed.samples - prepare(Clip(left, 44_100), 44_100).samples).max() < 1e-6


def test_sides_in_opposite_phase_do_not_cancel():
    left = voice(2.0)
    mixed = prepare(Clip(np.stack([left, -left]), 44_100), 44_100)
    assert np.array_equal(mixed.samples, prepare(Clip(left, 44_100), 44_100).samples)


@pytest.mark.parametrize("rate", [24_000, 44_100])
def test_exactly_0_3_s_of_silence_is_appended(rate):
    clip = voice(3.0, rate)
    samples = prepare(Clip(clip, rate), rate).samples
    assert samples.dtype == np.float32
    assert len(samples) == 3 * rate + round(0.3 * rate)
    assert not samples[3 * rate :].any()
    assert samples[3 * rate - rate // 50 : 3 * rate].any()


def test_leading_silence_is_cut_and_an_end_inside_a_word_stays():
    speech = voice(4.0)
    noise_floor = np.random.default_rng(1).standard_normal(round(3.5 * 44_100)).astype(np.float32) * 2e-4
    late = prepare(Clip(np.concatenate([noise_floor, speech]), 44_100), 44_100)
    # At most one frame of 20 ms and the rest of another stay before the speech.
    kept = len(late.samples) - 13_230 - len(speech)
    assert 0 <= kept <= 2 * 882
    assert np.array_equal(late.samples[kept:-13_230], speech)
    assert "3.5 s of silence" in late.notes[0]


def test_silence_inside_a_clip_stays():
    clip = np.concatenate([voice(1.0), silence(2.0), voice(1.0)])
    assert len(prepare(Clip(clip, 44_100), 44_100).samples) == len(clip) + 13_230


def test_a_very_quiet_clip_is_raised_with_a_note():
    prepared = prepare(Clip(voice(4.0, rms=0.002), 44_100), 44_100)
    assert rms(prepared.samples[:-13_230]) == pytest.approx(0.05, rel=1e-3)
    assert prepared.notes == ("Reference 1 was very quiet and was raised from RMS 0.002 to 0.05.",)


def test_a_quiet_clip_with_a_loud_click_is_not_driven_into_clipping():
    clip = voice(4.0, rms=0.01)
    clip[50_000] = 0.5
    prepared = prepare(Clip(clip, 44_100), 44_100)
    assert np.abs(prepared.samples).max() == pytest.approx(0.99, abs=1e-3)


def test_a_clip_of_ordinary_level_keeps_every_sample():
    clip = voice(4.0, rms=0.1)
    prepared = prepare(Clip(clip, 44_100), 44_100)
    assert np.array_equal(prepared.samples[:-13_230], clip)
    assert prepared.notes == ()


def test_samples_above_full_scale_are_clamped():
    prepared = prepare(Clip(voice(2.0, rms=0.6), 44_100), 44_100)
    assert np.abs(prepared.samples).max() == 1.0


def test_a_low_rate_is_noted_as_narrow_band():
    prepared = prepare(Clip(voice(6.0, 8_000), 8_000), 44_100, "reference 2")
    assert len(prepared.samples) == 6 * 44_100 + 13_230
    assert prepared.notes == ("Reference 2 is a narrow-band recording; a fuller one gives a clearer voice.",)


def test_a_telephone_recording_saved_at_a_high_rate_is_noted_as_narrow_band():
    from_telephone = prepare(Clip(voice(6.0, 8_000), 8_000), 48_000).samples[: 6 * 48_000]
    hiss = np.random.default_rng(2).standard_normal(len(from_telephone)).astype(np.float32) * 2e-5
    assert "narrow-band" in prepare(Clip(from_telephone + hiss, 48_000), 44_100).notes[0]


def test_a_pure_tone_is_not_taken_for_a_telephone():
    tone = 0.2 * np.sin(np.arange(2 * 44_100) * (2 * np.pi * 220 / 44_100))
    assert prepare(Clip(tone.astype(np.float32), 44_100), 44_100).notes == ()


@pytest.mark.parametrize(
    ("samples", "rate", "reason"),
    [
        (silence(0.4), 44_100, "is 0.4 s long; use 1 to 60 seconds"),
        (silence(1.0)[:-1], 44_100, "is 0.99 s long; use 1 to 60 seconds"),
        (silence(95.0, 8_000), 8_000, "is longer than 60 s; use 1 to 60 seconds"),
        (silence(2.0), 44_100, "is silent"),
        (silence(2.0) + np.float32(1e-5) * voice(2.0), 44_100, "is silent"),
        (silence(2.0) + np.float32(0.4), 44_100, "holds the constant value 0.4"),
        (np.stack([silence(2.0), silence(2.0)]), 44_100, "is silent"),
        (np.append(voice(2.0), np.float32(np.nan)), 44_100, "not numbers"),
        (np.append(voice(2.0), np.float32(-np.inf)), 44_100, "not numbers"),
        (voice(2.0) * np.float32(32_768), 44_100, "scale them to -1..1"),
        (np.zeros(0, np.float32), 44_100, "is empty"),
        (np.zeros((2, 0), np.float32), 44_100, "is empty"),
        (np.zeros(44_100, np.int16), 44_100, "type int16; give float32"),
        (np.zeros(44_100, bool), 44_100, "type bool; give float32"),
        ([0.1] * 44_100, 44_100, "type list; give float32"),
        (np.ones((), np.float32), 44_100, "shape ()"),
        (np.zeros((1, 2, 44_100), np.float32), 44_100, "shape (1, 2, 44100)"),
        (np.zeros((44_100, 2), np.float32), 44_100, "give [n] or [channels, n]"),
        (np.zeros((12, 44_100), np.float32), 44_100, "has 12 channels"),
        (voice(2.0), 0, "sample rate of 0 Hz"),
        (voice(2.0), 1_000_000, "sample rate of 1000000 Hz"),
        (voice(2.0), 44_100.0, "whole number of Hz"),
        (voice(2.0), True, "whole number of Hz"),
        (voice(2.0), float("nan"), "whole number of Hz"),
        (np.concatenate([silence(2.0), voice(0.3), silence(2.0)]), 44_100, "of sound, the rest is silence"),
    ],
)
def test_each_fault_of_a_clip_has_its_own_sentence(samples, rate, reason):
    with pytest.raises(RequestError) as refusal:
        prepare(Clip(samples, rate), 44_100)
    sentence = str(refusal.value)
    assert reason in sentence
    assert "eference 1" in sentence
    assert sentence.endswith(".")


def test_the_limits_themselves_are_accepted():
    for seconds in (1.0, 60.0):
        prepared = prepare(Clip(voice(seconds, 8_000), 8_000), 8_000)
        assert len(prepared.samples) == round((seconds + 0.3) * 8_000)


def test_the_key_tells_sounds_and_rates_apart_and_nothing_else():
    clip = voice(2.0, 24_000)
    keys = {prepare(Clip(clip, 24_000), rate).key for rate in (24_000, 44_100)}
    keys.add(prepare(Clip(clip * np.float32(0.9), 24_000), 24_000).key)
    assert len(keys) == 3
    assert prepare(Clip(clip.copy(), 24_000), 24_000, "reference 4").key in keys


def test_without_soxr_a_clip_at_the_models_rate_works_and_another_rate_is_explained(monkeypatch):
    real_import = builtins.__import__

    def without_soxr(name, *args, **kwargs):
        if name == "soxr":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "soxr", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_soxr)
    assert len(prepare(Clip(voice(1.0), 44_100), 44_100).samples) == 44_100 + 13_230
    with pytest.raises(RequestError, match="pip install soxr"):
        prepare(Clip(voice(1.0), 44_100), 24_000)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64])
def test_good_codes_become_int64_of_their_own(dtype):
    codes = np.array([[0, 9], [3, 1]], dtype)
    checked = check_codes(codes, 2, 10)
    assert checked.dtype == np.int64
    assert np.array_equal(checked, codes)
    assert not np.shares_memory(checked, codes)


@pytest.mark.parametrize(
    ("codes", "reason"),
    [
        (np.zeros((2, 3), np.float32), "float32; give integers"),
        (np.zeros((2, 3), bool), "bool; give integers"),
        ([[1, 2], [3, 4]], "list; give integers"),
        (np.zeros(3, np.int64), "shape [3]"),
        (np.zeros((3, 2), np.int64), "needs [2, 1 or more]"),
        (np.zeros((2, 0), np.int64), "shape [2, 0]"),
        (np.zeros((1, 2, 3), np.int64), "shape [1, 2, 3]"),
        (np.array([[0, 10], [0, 0]]), "10 in codebook 0, whose codes are 0 to 9"),
        (np.array([[0, 0], [0, -1]]), "-1 in codebook 1"),
        (np.array([[0, 0], [0, 2**64 - 1]], np.uint64), "18446744073709551615 in codebook 1"),
    ],
)
def test_each_fault_of_codes_has_its_own_sentence(codes, reason):
    with pytest.raises(RequestError) as refusal:
        check_codes(codes, 2, 10, "reference 3")
    assert reason in str(refusal.value)
    assert "reference 3" in str(refusal.value)


def test_codebooks_of_different_sizes_are_checked_each_by_its_own():
    codes = np.array([[63], [15], [15]])
    assert np.array_equal(check_codes(codes, 3, (64, 16, 16)), codes)
    with pytest.raises(RequestError, match="16 in codebook 1, whose codes are 0 to 15"):
        check_codes(np.array([[63], [16], [15]]), 3, (64, 16, 16))


def codes_of(value: int, frames: int = 10) -> np.ndarray:
    return np.full((2, frames), value, np.int64)


def test_a_full_cache_drops_what_was_not_used_longest():
    cache = ReferenceCache(3 * codes_of(0).nbytes)
    for value, key in enumerate("abc"):
        cache.put(key, codes_of(value))
    assert cache.get("a") is not None
    cache.put("d", codes_of(3))
    assert cache.get("b") is None
    assert [int(cache.get(key)[0, 0]) for key in "acd"] == [0, 2, 3]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 30)), max_size=40))
def test_a_cache_never_holds_more_than_its_limit(puts):
    cache = ReferenceCache(500)
    held = {}
    for key, frames in puts:
        cache.put(key, codes_of(1, frames))
        held = {k: cache.get(k) for k in "abcdef"}
        assert cache.num_bytes == sum(c.nbytes for c in held.values() if c is not None) <= 500


def test_codes_larger_than_the_cache_are_not_kept_and_push_nothing_out():
    cache = ReferenceCache(codes_of(0).nbytes)
    cache.put("small", codes_of(1))
    cache.put("large", codes_of(2, 11))
    assert cache.get("large") is None
    assert cache.get("small") is not None


def test_what_is_forgotten_is_gone():
    cache = ReferenceCache(1_000)
    cache.put("a", codes_of(1))
    cache.put("b", codes_of(2))
    cache.forget("a")
    cache.forget("never there")
    assert cache.get("a") is None
    assert cache.num_bytes == codes_of(2).nbytes
    cache.clear()
    assert cache.get("b") is None
    assert cache.num_bytes == 0


def test_nobody_can_change_codes_inside_the_cache():
    cache = ReferenceCache(1_000)
    given_codes = codes_of(1)
    cache.put("a", given_codes)
    given_codes[:] = 7
    cache.get("a")[:] = 8
    assert np.array_equal(cache.get("a"), codes_of(1))


def test_threads_share_a_cache():
    cache = ReferenceCache(5 * codes_of(0).nbytes)
    wrong = []

    def visit(seed: int) -> None:
        for step in np.random.default_rng(seed).integers(0, 9, 300):
            cache.put(str(step), codes_of(int(step)))
            found = cache.get(str((step + seed) % 9))
            if found is not None and found[0, 0] != (step + seed) % 9:
                wrong.append(found)

    threads = [threading.Thread(target=visit, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.num_bytes == 5 * codes_of(0).nbytes
