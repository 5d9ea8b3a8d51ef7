"""The scene's sound: takes in a row with the silence between them, and how loud a take is.

A take goes into the mix sample for sample. Only lines spoken together are changed: where their sum would pass
full scale, that group as a whole is turned down to fit, so that nothing clips and nothing pumps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine.take import RequestError

FULL_SCALE = 32_767

# ITU-R BS.1770-4 at any rate: both filters from their analogue prototypes (a shelf of +4 dB above 1.7 kHz for
# the head, a high-pass at 38 Hz), blocks of 0.4 s every 0.1 s, gates at -70 LUFS and 10 LU below the mean.
SHELF_HZ, SHELF_DB, SHELF_Q = 1681.974450955533, 3.999843853973347, 0.7071752369554196
SHELF_BEND = 0.4996667741545416
HIGH_PASS_HZ, HIGH_PASS_Q = 38.13547087602444, 0.5003270373238773
OFFSET_LUFS = -0.691
BLOCK_S, STEP_S = 0.4, 0.1
ABSOLUTE_GATE_LUFS, RELATIVE_GATE_LU = -70.0, -10.0


@dataclass(frozen=True, eq=False)
class Part:
    """A take on its way into the mix: `pcm` int16 [n], `gap_s` of silence before it; a `dual` one starts
    together with the part before. `name` is for sentences."""

    name: str
    pcm: np.ndarray
    sample_rate: int
    gap_s: float
    dual: bool = False


def mixed(parts: Iterable[Part]) -> Iterator[np.ndarray]:
    """The mix as blocks int16 [n], at the rate of its takes; a block is a silence or a group of lines.

    Only the lines that are spoken together are held at once. Raises RequestError at a take of another rate.
    """
    group: list[Part] = []
    for part in parts:
        if group and part.sample_rate != group[0].sample_rate:
            raise RequestError(
                f"{part.name} has {part.sample_rate} samples a second, the takes before it "
                f"{group[0].sample_rate}; perform them with one model."
            )
        if group and not part.dual:
            yield from _blocks(group)
            group = []
        group.append(part)
    if group:
        yield from _blocks(group)


def loudness(pcm: np.ndarray, sample_rate: int) -> float:
    """Integrated loudness of `pcm` int16 [n] in LUFS after ITU-R BS.1770-4; -inf for silence.

    Sound shorter than a block of 0.4 s is one block.
    """
    sound = _k_weighted(pcm / (FULL_SCALE + 1), sample_rate)
    size, step = round(BLOCK_S * sample_rate), round(STEP_S * sample_rate)
    energy = np.concatenate([[0.0], np.cumsum(sound * sound)])
    starts = np.arange(0, max(len(sound) - size, 0) + 1, step)
    ends = np.minimum(starts + size, len(sound))
    power = (energy[ends] - energy[starts]) / np.maximum(ends - starts, 1)
    heard = power[_lufs(power) > ABSOLUTE_GATE_LUFS]
    if not len(heard):
        return -math.inf
    heard = heard[_lufs(heard) > _lufs(heard.mean()) + RELATIVE_GATE_LU]
    return float(_lufs(heard.mean()))


def equal_gains(levels: Sequence[float]) -> tuple[float, ...]:
    """A factor for each of several takes, of these loudnesses in LUFS, that makes them equally loud.

    The quietest plays as it is (1.0), the others are turned down, so no take clips. Silence plays as it is.
    """
    least = min((level for level in levels if level > -math.inf), default=0.0)
    return tuple(10 ** ((least - level) / 20) if level > -math.inf else 1.0 for level in levels)


def _blocks(group: list[Part]) -> Iterator[np.ndarray]:
    yield np.zeros(round(group[0].gap_s * group[0].sample_rate), np.int16)
    yield group[0].pcm if len(group) == 1 else _together([part.pcm for part in group])


def _together(takes: list[np.ndarray]) -> np.ndarray:
    """Takes that start at once, as one: their sum, turned down as a whole where it would pass full scale."""
    total = np.zeros(max(map(len, takes)), np.int32)
    for pcm in takes:
        total[: len(pcm)] += pcm
    peak = int(np.abs(total).max(initial=0))
    return (total if peak <= FULL_SCALE else np.trunc(total * (FULL_SCALE / peak))).astype(np.int16)


def _lufs(power: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return OFFSET_LUFS + 10 * np.log10(power)


def _k_weighted(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """`samples` float64 [n] as both filters hear them. They are applied to the spectrum, over 0.1 s of
    silence in which their ringing dies away."""
    size = len(samples) + sample_rate // 10
    size = 1 << (size - 1).bit_length()
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size))  # one sample's delay
    response = np.ones_like(z)
    for b, a in (_shelf(sample_rate), _high_pass(sample_rate)):
        response *= np.polyval(b[::-1], z) / np.polyval(a[::-1], z)
    return np.fft.irfft(np.fft.rfft(samples, size) * response, size)[: len(samples)]


def _shelf(sample_rate: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    k, high = math.tan(math.pi * SHELF_HZ / sample_rate), 10 ** (SHELF_DB / 20)
    bend, ring = high**SHELF_BEND, k / SHELF_Q
    norm = 1 + ring + k * k
    b = (high + bend * ring + k * k, 2 * (k * k - high), high - bend * ring + k * k)
    return tuple(each / norm for each in b), (1.0, 2 * (k * k - 1) / norm, (1 - ring + k * k) / norm)


def _high_pass(sample_rate: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    k = math.tan(math.pi * HIGH_PASS_HZ / sample_rate)
    norm = 1 + k / HIGH_PASS_Q + k * k
    return (1.0, -2.0, 1.0), (1.0, 2 * (k * k - 1) / norm, (1 - k / HIGH_PASS_Q + k * k) / norm)
