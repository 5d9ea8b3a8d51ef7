"""From a clip to the samples a voice is taken from, and the codes that were made of them.

A reference reaches the model in one fixed form: mono, silence cut from both ends, loud enough, at the
model's rate, within -1..1, and with 0.3 s of silence behind it, so that the model hears the voice end instead
of being cut off. The order matters: faults are named before anything is changed, trimming and levels are
measured at the clip's own rate, and a mono clip of ordinary level that is already at the model's rate keeps
every sample bit for bit. The hash of the result names the reference: two files with one sound are one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from engine.cache import BoundedCache
from engine.take import Clip, RequestError

MIN_CLIP_S, MAX_CLIP_S = 1.0, 60.0
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
MAX_CHANNELS = 8
# What must remain between the silences: two or three syllables, the least that tells a voice.
MIN_SOUND_S = 0.5
APPENDED_SILENCE_S = 0.3

# Float files may run a little over full scale and are clamped; beyond 18 dB over it they hold integers.
MAX_PEAK = 8.0
# -80 dBFS: below the hiss of any recorded room, three steps of a 16-bit file.
SILENCE_RMS = 1e-4
# A clip under -34 dBFS is raised to -26 dBFS, the nominal level of active speech (ITU-T P.56 practice).
QUIET_RMS, TARGET_RMS = 0.02, 0.05
PEAK_AFTER_RAISE = 0.99

FRAME_S = 0.02
# Soft final consonants lie 30 to 40 dB under a speaker's loudest frame, a quiet room's noise 45 and more.
TRIM_BELOW = 10 ** (-40 / 20)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A reference ready to encode: `samples` float32 [n] in -1..1 at the model's rate, 0.3 s of silence last.

    `key` is the sha256 hex of samples and rate. `notes` are sentences about what was done or noticed.
    """

    samples: np.ndarray
    key: str
    notes: tuple[str, ...]


def prepare(clip: Clip, sample_rate: int, which: str = "reference 1") -> Prepared:
    """`clip` as the model at `sample_rate` Hz wants to hear it; `which` names it in sentences.

    Accepts floating samples [n] or [channels, n]. Raises RequestError, each with its own reason, for samples
    that aren't 1 to 60 s of sound: wrong dtype, shape or rate, NaN, silence, a constant, too little sound.
    """
    _check_recording(clip, which)
    rate = int(clip.sample_rate)
    whole = _mono(clip.samples)
    loudness = _frame_rms(whole, round(FRAME_S * rate))
    _check_sound(whole, loudness, which)
    voice = _without_outer_silence(whole, loudness, round(FRAME_S * rate))
    if len(voice) < MIN_SOUND_S * rate:
        raise RequestError(
            f"{_start(which)} holds only {len(voice) / rate:.1f} s of sound, the rest is silence; "
            f"use a clip with at least {MIN_CLIP_S:g} s of speech."
        )
    notes = []
    if len(whole) - len(voice) >= 0.5 * rate:
        cut_s = (len(whole) - len(voice)) / rate
        notes.append(f"{_start(which)}: {cut_s:.1f} s of silence at its ends were left out.")
    if _is_narrow(voice, rate):
        notes.append(f"{_start(which)} is a narrow-band recording; a fuller one gives a clearer voice.")
    raised = _raised(voice)
    if raised is not voice:
        notes.append(
            f"{_start(which)} was very quiet and was raised from RMS {_rms(voice):.2g} to {_rms(raised):.2g}."
        )
    voice = _resampled(raised, rate, sample_rate, which)
    tail = np.zeros(round(APPENDED_SILENCE_S * sample_rate), np.float32)
    samples = np.concatenate([np.clip(voice, -1.0, 1.0), tail])
    return Prepared(samples, _key(samples, sample_rate), tuple(notes))


def check_length(seconds: float, name: str, min_s: float = MIN_CLIP_S, max_s: float = MAX_CLIP_S) -> None:
    """Raise RequestError unless a clip of `seconds` lies within the limits, both included."""
    advice = f"use {min_s:g} to {max_s:g} seconds of one voice."
    if seconds > max_s:
        raise RequestError(f"{name} is longer than {max_s:g} s; {advice}")
    if seconds < min_s:
        # Rounded down, so that 0.999 s isn't called "1 s long; use 1 to 60".
        raise RequestError(f"{name} is {math.floor(seconds * 100) / 100:g} s long; {advice}")


def check_format(rate: int, channels: int, name: str) -> None:
    """Raise RequestError for a sample rate in Hz or a channel count no recording of a voice has."""
    if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
        raise RequestError(
            f"{name} has a sample rate of {rate} Hz; use one from {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz."
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise RequestError(f"{name} has {channels} channels; use mono or stereo.")


def check_codes(
    codes: np.ndarray, num_codebooks: int, codebook_size: int | Sequence[int], which: str = "reference 1"
) -> np.ndarray:
    """`codes` as int64 [num_codebooks, frames], frames >= 1, a copy of the caller's.

    `codebook_size` is one size for all codebooks or one for each. Raises RequestError for another dtype (bool
    and float included), shape or range.
    """
    name = f"The codes of {which}"
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu":
        kind = codes.dtype if isinstance(codes, np.ndarray) else type(codes).__name__
        raise RequestError(f"{name} are {kind}; give integers.")
    if codes.ndim != 2 or codes.shape[0] != num_codebooks or codes.shape[1] < 1:
        raise RequestError(
            f"{name} have shape {list(codes.shape)}; this model needs [{num_codebooks}, 1 or more]."
        )
    sizes = np.broadcast_to(codebook_size, num_codebooks)
    if codes.min() < 0 or (codes.max(1) >= sizes).any():
        index, frame = np.argwhere((codes < 0) | (codes >= sizes[:, None]))[0]
        raise RequestError(
            f"{name} hold {codes[index, frame]} in codebook {index}, whose codes are 0 to "
            f"{sizes[index] - 1}; use codes that this same model made."
        )
    return codes.astype(np.int64)


class ReferenceCache:
    """Codes of references by the key of their samples, bounded in bytes, the latest used kept.

    A hit saves the codec's encoding of the clip: up to 3 s of a CPU for 10 s of sound, where preparing and
    hashing take some ten milliseconds. Codes belong to the model that made them, so a cache lives and dies
    with one loaded family. Safe to share between threads; arrays are copied in and out, so that no take can
    change what another one hears.
    """

    def __init__(self, max_bytes: int) -> None:
        self._codes: BoundedCache[np.ndarray] = BoundedCache(max_bytes)

    @property
    def num_bytes(self) -> int:
        """Bytes of codes held now, never above the limit."""
        return self._codes.num_bytes

    def get(self, key: str) -> np.ndarray | None:
        """A copy of the codes under `key`, now the latest used, or None."""
        codes = self._codes.get(key)
        return None if codes is None else codes.copy()

    def put(self, key: str, codes: np.ndarray) -> None:
        """Keep a copy of `codes`; the longest unused make room. Codes too large for the cache aren't kept."""
        self._codes.put(key, codes.copy(), codes.nbytes)

    def forget(self, key: str) -> bool:
        """Drop the codes under `key`; whether there were any."""
        return self._codes.forget(key)

    def clear(self) -> None:
        """Drop everything."""
        self._codes.clear()


def _start(which: str) -> str:
    """`which` at the start of a sentence."""
    return which[:1].upper() + which[1:]


def _rms(samples: np.ndarray) -> float:
    """RMS around the mean: a constant offset is no sound."""
    return float(np.std(samples, dtype=np.float64))


def _check_recording(clip: Clip, which: str) -> None:
    """Raise RequestError unless rate, dtype, shape, length and values are those of a recording."""
    samples, rate, name = clip.samples, clip.sample_rate, _start(which)
    if isinstance(rate, bool) or not isinstance(rate, Integral):
        raise RequestError(f"{name} has the sample rate {rate!r}; give a whole number of Hz.")
    if not isinstance(samples, np.ndarray) or samples.dtype.kind != "f":
        kind = samples.dtype if isinstance(samples, np.ndarray) else type(samples).__name__
        raise RequestError(f"{name} has samples of type {kind}; give float32 in -1..1.")
    if samples.size == 0:
        raise RequestError(f"{name} is empty; use {MIN_CLIP_S:g} to {MAX_CLIP_S:g} seconds of one voice.")
    if samples.ndim not in (1, 2) or samples.shape[0] > samples.shape[-1]:
        raise RequestError(f"{name} has samples of shape {samples.shape}; give [n] or [channels, n].")
    check_format(int(rate), samples.shape[0] if samples.ndim == 2 else 1, name)
    check_length(samples.shape[-1] / int(rate), name)
    if not np.isfinite(samples).all():
        raise RequestError(f"{name} holds samples that are not numbers (NaN or infinite); export it again.")
    if (peak := float(np.abs(samples).max())) > MAX_PEAK:
        raise RequestError(f"{name} has samples up to {peak:g}; scale them to -1..1.")


def _mono(samples: np.ndarray) -> np.ndarray:
    """Samples float32 [n] of [n] or [channels, n]: the mean of the channels, each weighted by its energy.

    Equal channels give their plain mean and a silent or constant one weighs nothing, so it can't make the
    voice 6 dB quieter. The weights sum to 1: the mix has no higher peak than the channels.
    """
    channels = np.atleast_2d(samples).astype(np.float32)
    energy = np.array([np.var(channel, dtype=np.float64) for channel in channels])
    loudest = int(energy.argmax())
    if len(channels) == 1 or energy[loudest] < SILENCE_RMS**2:
        return channels[loudest]
    mix = (energy / energy.sum()).astype(np.float32) @ channels
    # Channels in opposite phase cancel each other; no other mix falls 20 dB under its loudest channel.
    return mix if _rms(mix) > 0.1 * math.sqrt(energy[loudest]) else channels[loudest]


def _frame_rms(samples: np.ndarray, frame: int) -> np.ndarray:
    """RMS around the clip's mean per `frame` samples, float64 [ceil(n / frame)]; the last may be shorter."""
    centred = samples.astype(np.float64) - samples.mean(dtype=np.float64)
    starts = np.arange(0, len(samples), frame)
    lengths = np.diff(starts, append=len(samples))
    return np.sqrt(np.add.reduceat(centred * centred, starts) / lengths)


def _check_sound(samples: np.ndarray, loudness: np.ndarray, which: str) -> None:
    """Raise RequestError for silence and for a constant; `loudness` is the RMS of each frame."""
    if loudness.max() >= SILENCE_RMS:
        return
    value = float(samples.mean(dtype=np.float64))
    if abs(value) >= SILENCE_RMS:
        raise RequestError(
            f"{_start(which)} holds the constant value {value:.3g}, not sound; record it again."
        )
    raise RequestError(f"{_start(which)} is silent; record it again, closer to the microphone.")


def _without_outer_silence(samples: np.ndarray, loudness: np.ndarray, frame: int) -> np.ndarray:
    """`samples` from one `frame` before the first sounding one to one after the last; inside stays."""
    sounding = np.flatnonzero(loudness > TRIM_BELOW * loudness.max())
    return samples[max(sounding[0] - 1, 0) * frame : (sounding[-1] + 2) * frame]


def _raised(voice: np.ndarray) -> np.ndarray:
    """`voice` itself, or if it is quiet a copy at TARGET_RMS, or as near to it as its peaks allow."""
    if (rms := _rms(voice)) >= QUIET_RMS:
        return voice
    centred = voice - voice.mean(dtype=np.float64).astype(np.float32)
    gain = min(TARGET_RMS / rms, PEAK_AFTER_RAISE / float(np.abs(centred).max()))
    return centred * np.float32(gain) if gain > 1.0 else voice


def _is_narrow(voice: np.ndarray, rate: int) -> bool:
    """Whether the recording holds no treble: a rate of 16 kHz or less, or a telephone's cliff at 4 kHz.

    Speech falls by 10 to 25 dB from the band 2-3.4 kHz to the band 4.4-8 kHz; an 8 kHz recording saved at a
    higher rate by 50 dB and more. A sound without anything at 2-3.4 kHz can't be judged.
    """
    if rate <= 16_000:
        return True
    size = 2048
    frames = voice[: len(voice) // size * size].reshape(-1, size) * np.hanning(size).astype(np.float32)
    spectrum = np.fft.rfft(frames)
    power = (spectrum.real**2 + spectrum.imag**2).mean(0)
    hz = np.fft.rfftfreq(size, 1 / rate)
    telephone = power[(hz >= 2_000) & (hz < 3_400)]
    above = power[(hz >= 4_400) & (hz < 8_000)]
    return bool(telephone.sum() > 1e-6 * power.sum() and above.mean() < 1e-4 * telephone.mean())


def _resampled(voice: np.ndarray, rate: int, wanted: int, which: str) -> np.ndarray:
    if rate == wanted:
        return voice
    try:
        import soxr  # late: a machine that only gets ready-made codes (a hosted GPU worker) has none
    except ImportError:
        raise RequestError(
            f"{_start(which)} is at {rate} Hz and needs soxr to be resampled; "
            f"run `pip install soxr` or give it at {wanted} Hz."
        ) from None
    return soxr.resample(voice, rate, wanted)


def _key(samples: np.ndarray, sample_rate: int) -> str:
    digest = hashlib.sha256(f"{sample_rate} Hz\n".encode())
    digest.update(np.ascontiguousarray(samples, "<f4"))
    return digest.hexdigest()
