"""What can be measured in a take of one line: level, tilt, voice, pitch and its trembling, pauses.

Pitch and voice are heard by `judges.Periodicity`, ten times as fast as pYIN; a take is samples [n] at 24 kHz.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from judges import Periodicity

RATE = 24000
FRAME, HOP = 480, 240  # of loudness, 20 and 10 ms
LOUD_DB, SILENT_DB = -25.0, -38.0  # below the loudest frame: what counts as speech, as a pause
PAUSE_S = 0.12
LOW_HZ, HIGH_HZ = (100, 1000), (1000, 5000)
TREMOR_HZ = (4.0, 8.0)
PITCH_HOP = 512


@dataclass(frozen=True)
class Sound:
    """level_db: RMS of loud frames, dB of full scale; tilt_db: 1-5 kHz over 0.1-1 kHz; repeats: peak
    autocorrelation of loud frames, median; voiced: share of loud frames with a voice; pitch_hz: median;
    spread: standard deviation of the pitch in semitones; tremor: RMS of its part between 4 and 8 Hz, in
    semitones; pauses, pause_s: silences within the line; seconds: from the first loud frame to the last."""

    level_db: float
    tilt_db: float
    repeats: float
    voiced: float
    pitch_hz: float
    spread: float
    tremor: float
    pauses: int
    pause_s: float
    seconds: float


@lru_cache(maxsize=1)
def _periodicity() -> Periodicity:
    return Periodicity(RATE)


def loudness_db(audio: np.ndarray) -> np.ndarray:
    """Power of every 20 ms, 10 ms apart, in dB of full scale."""
    audio = np.pad(audio, (0, max(0, FRAME - len(audio))))
    frames = np.lib.stride_tricks.sliding_window_view(audio, FRAME)[::HOP]
    return 10 * np.log10(np.square(frames, dtype=np.float64).mean(-1) + 1e-12)


def sound_of(audio: np.ndarray) -> Sound:
    """All of it."""
    audio = np.asarray(audio, np.float32)
    db = loudness_db(audio)
    loud = db > db.max() + LOUD_DB
    first, last = np.flatnonzero(loud)[[0, -1]]
    pauses = _runs(db[first : last + 1] < db.max() + SILENT_DB, round(PAUSE_S * RATE / HOP))
    hz, voiced, peak, heard = melody(audio)
    semitones = 12 * np.log2(hz / 100.0)
    mid = np.median(semitones[voiced]) if voiced.any() else np.nan
    near = voiced & (np.abs(semitones - mid) < 13)
    return Sound(
        level_db=float(10 * np.log10(np.mean(10 ** (db[loud] / 10)))),
        tilt_db=tilt_db(audio),
        repeats=float(np.median(peak[heard])) if heard.any() else 0.0,
        voiced=float(near.sum() / max(1, heard.sum())),
        pitch_hz=float(np.median(hz[near])) if near.any() else float("nan"),
        spread=float(semitones[near].std()) if near.any() else float("nan"),
        tremor=tremor(semitones, near),
        pauses=len(pauses),
        pause_s=sum(pauses) * HOP / RATE,
        seconds=float((last - first + 2) * HOP / RATE),
    )


def tilt_db(audio: np.ndarray) -> float:
    power = np.abs(np.fft.rfft(audio)) ** 2
    hz = np.fft.rfftfreq(len(audio), 1 / RATE)
    part = lambda low, high: power[(hz >= low) & (hz < high)].sum() + 1e-12  # noqa: E731
    return float(10 * np.log10(part(*HIGH_HZ) / part(*LOW_HZ)))


@torch.no_grad()
def melody(audio: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every 21 ms: pitch in Hz, whether it is voiced, the best autocorrelation of 85 ms, whether it is loud.

    Of noise even the best is above 0: 0.5 within 43 ms, 0.35 within 85."""
    listen, x = _periodicity(), torch.from_numpy(np.pad(audio, (0, max(0, 4096 - len(audio)))))[None]
    hz, voiced = listen.pitch(x)
    curve, power = (y[0, 0] for y in listen.curves(x, 2048))
    heard = power > power.max() * 10 ** (LOUD_DB / 10)
    return hz[0].numpy(), voiced[0].numpy(), curve.amax(-1).numpy(), heard.numpy()


def tremor(semitones: np.ndarray, voiced: np.ndarray) -> float:
    """RMS of the pitch's part between 4 and 8 Hz, gaps bridged by straight lines; 0 for hardly a voice."""
    at = np.flatnonzero(voiced)
    if len(at) < 16:
        return 0.0
    whole = np.interp(np.arange(at[0], at[-1] + 1), at, semitones[at])
    hz = np.fft.rfftfreq(len(whole), PITCH_HOP / RATE)
    bins = np.fft.rfft(whole - whole.mean()) * ((hz >= TREMOR_HZ[0]) & (hz <= TREMOR_HZ[1]))
    return float(np.fft.irfft(bins, len(whole))[at - at[0]].std())


def _runs(flags: np.ndarray, least: int) -> list[int]:
    """Lengths of the runs of True of at least ``least``."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    lengths = edges[1::2] - edges[::2]
    return [int(n) for n in lengths if n >= least]


def beats_hz(audio: np.ndarray) -> float:
    """How often a second the loudness swells, between 2 and 10 Hz: where its spectrum is highest."""
    level = np.sqrt(10 ** (loudness_db(audio) / 10))
    first, last = np.flatnonzero(level > 0.05 * level.max())[[0, -1]]
    level = level[first : last + 1]
    if len(level) < 20:
        return 0.0
    power = np.abs(np.fft.rfft((level - level.mean()) * np.hanning(len(level)), 1024)) ** 2
    hz = np.fft.rfftfreq(1024, HOP / RATE)
    inside = (hz >= 2) & (hz <= 10)
    return float(hz[inside][power[inside].argmax()])


def obeyed(name: str, take: Sound, plain: Sound) -> bool:
    """Whether a take does what a direction asks, against the same line by the same voice with none."""
    slower, louder = take.seconds / plain.seconds, take.level_db - plain.level_db
    tests = {
        "whispering": take.repeats <= 0.6 * plain.repeats,
        "soft": louder < -3,
        "loud": louder > 1.5,
        "shouting": louder > 1.5 and take.pitch_hz > 1.05 * plain.pitch_hz,
        "slow": slower > 1.15,
        "quick": slower < 0.87,
        "flat": take.spread < 0.6 * plain.spread,
        "excited": take.spread > 1.15 * plain.spread,
        "sad": slower > 1.05 and take.pitch_hz < plain.pitch_hz,
        "angry": slower < 1 and louder > 1.5,
        "trembling": take.tremor > 1.1 * plain.tremor,
        "hesitant": slower > 1.08 and take.pause_s > plain.pause_s + 0.1,
        "urgent": slower < 0.93,
        "laughing": slower > 1.05,
    }
    return bool(tests[name])


# By what "a little", the plain word and "very" of a direction can be told apart, and which way it grows.
GRADES = {
    "soft": ("level_db", -1),
    "loud": ("level_db", 1),
    "slow": ("seconds", 1),
    "quick": ("seconds", -1),
    "flat": ("spread", -1),
    "excited": ("spread", 1),
    "sad": ("seconds", 1),
    "angry": ("level_db", 1),
    "trembling": ("tremor", 1),
    "hesitant": ("pause_s", 1),
    "urgent": ("seconds", -1),
}


def in_order(name: str, little: Sound, plain_word: Sound, very: Sound) -> bool:
    """Whether three strengths of a direction lie as they should."""
    what, sign = GRADES[name]
    a, b, c = (sign * getattr(sound, what) for sound in (little, plain_word, very))
    return a < b < c


def pair_figures(sounds: dict[str, list[Sound | None]]) -> dict[str, float]:
    """Shares of pairs that differ as the table of the directions asks; sounds of one line have one place in
    every list, None where there is no take."""

    def share(test, *names: str) -> float:
        rows = [row for row in zip(*(sounds[n] for n in names), strict=True) if all(row)]
        return float(np.mean([bool(test(*row)) for row in rows])) if rows else float("nan")

    level = lambda db: lambda a, b: a.level_db - b.level_db >= db  # noqa: E731
    tilt = lambda db: lambda a, b: a.tilt_db - b.tilt_db >= db  # noqa: E731
    pace = lambda x: lambda a, b: b.seconds / a.seconds >= x  # noqa: E731
    spread = lambda x: lambda a, b: a.spread >= x * b.spread  # noqa: E731
    rows = {
        "whispering_unvoiced": (lambda a, b: a.repeats <= 0.6 * b.repeats, "whispering", "plain"),
        "loud_over_soft_level": (level(5), "loud", "soft"),
        "loud_over_soft_level_aim": (level(8), "loud", "soft"),
        "loud_over_soft_tilt": (tilt(3), "loud", "soft"),
        "loud_over_soft_tilt_aim": (tilt(5), "loud", "soft"),
        "quick_over_slow": (pace(1.35), "quick", "slow"),
        "quick_over_slow_aim": (pace(1.5), "quick", "slow"),
        "excited_over_flat": (spread(1.8), "excited", "flat"),
        "excited_over_flat_aim": (spread(2.5), "excited", "flat"),
        "sad_below_excited": (
            lambda a, b: a.pitch_hz < b.pitch_hz and a.seconds > b.seconds, "sad", "excited",
        ),
        "angry_above_plain": (
            lambda a, b: a.level_db > b.level_db and a.seconds < b.seconds, "angry", "plain",
        ),
        "trembling_above_plain": (lambda a, b: a.tremor > b.tremor, "trembling", "plain"),
        "hesitant_above_plain": (
            lambda a, b: a.pause_s > b.pause_s and a.seconds > b.seconds, "hesitant", "plain",
        ),
    }  # fmt: skip
    return {k: share(*row) for k, row in rows.items() if all(name in sounds for name in row[1:])}
