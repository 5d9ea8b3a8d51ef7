"""What listens while the codec learns: spectra, phoneme readers and judges of realism.

None of it is needed to use the codec.
"""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

PHONES = 178  # the teacher's alphabet
PARTS = 2  # phoneme labels in a frame: 47 a second


class NamingHead(nn.Module):
    """Names one of ``classes`` for each part of a frame, from its quantised embedding and two on either side:
    [B, dim, frames] -> logits [B, frames, PARTS, classes]."""

    def __init__(self, dim: int, classes: int, hidden: int = 256) -> None:
        super().__init__()
        self.classes = classes
        self.near = nn.Conv1d(dim, hidden, 5, padding=2)
        self.name = nn.Conv1d(hidden, PARTS * classes, 1)

    def forward(self, x):
        y = self.name(F.gelu(self.near(x)))
        return y.transpose(1, 2).reshape(len(x), x.shape[-1], PARTS, self.classes)


class MelSpectrogram(nn.Module):
    def __init__(self, rate: int, n_fft: int, n_mels: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        top = 2595 * math.log10(1 + rate / 2 / 700)
        edges = 700 * (10 ** (torch.linspace(0, top, n_mels + 2) / 2595) - 1)
        bins = torch.linspace(0, rate / 2, n_fft // 2 + 1)
        rise = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        fall = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
        self.register_buffer("bank", torch.minimum(rise, fall).clamp(min=0))

    def forward(self, x):
        z = torch.stft(x, self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        return self.bank @ (z.real.square() + z.imag.square() + 1e-12).sqrt()


class MelLoss(nn.Module):
    """Distance of log spectra. The codes hold no phase, so a window shorter than a pitch period asks for
    pulses where nobody can know them, and gets their average, which is noise: 512 samples at least."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self.scales = nn.ModuleList(
            MelSpectrogram(rate, w, m) for w, m in ((2048, 160), (1024, 96), (512, 64))
        )

    def forward(self, fake, real):
        loss = 0.0
        for scale in self.scales:
            a, b = scale(fake), scale(real)
            loss = loss + (a.clamp(min=1e-5).log10() - b.clamp(min=1e-5).log10()).abs().mean()
        return loss


class Periodicity(nn.Module):
    """How much less a sound [B, samples] repeats itself than the real one, where that is voiced.

    A hoarse voice has the right log spectrum; what it lacks shows in the normalised autocorrelation, which
    knows nothing of phase. The codes tell the pitch within some limits only, so the sound is asked for a
    repetition of its own, at the lag near the real one where it repeats best: a distance at the real lag
    alone is least with upper harmonics of noise. ``near`` (log of a ratio of lags) is how far away that may
    be: little more than the codes' own error, so that it pulls at a wrong pitch. Frames of 43 and 85 ms,
    lags of 2-16 ms (60-500 Hz); the whole band, which finds the lag, and three parts of it, because
    hoarseness sits in the upper harmonics."""

    WINDOWS, SHORTEST, LONGEST = (1024, 2048), 48, 400
    NEAR = (1.12, 1.04)  # ratio of lags at the beginning and at the end of a codec's first act
    BANDS_HZ = ((50, 5000), (50, 900), (900, 2200), (2200, 5000))

    def __init__(self, rate: int) -> None:
        super().__init__()
        self.rate = rate
        self.register_buffer("near", torch.tensor(math.log(self.NEAR[0])))
        self.register_buffer("lags", torch.arange(self.SHORTEST, self.LONGEST).float())
        for n in self.WINDOWS:
            window, bins = torch.hann_window(n), torch.linspace(0, rate / 2, n + 1)
            own = torch.fft.irfft(torch.fft.rfft(window, 2 * n).abs().square())[self.SHORTEST : self.LONGEST]
            self.register_buffer(f"window{n}", window)
            self.register_buffer(f"taper{n}", own / window.square().sum())
            bands = torch.stack([(bins >= low) & (bins < high) for low, high in self.BANDS_HZ])
            self.register_buffer(f"bands{n}", bands.float()[:, None])

    def curves(self, x, n: int):
        """Autocorrelation [B, bands, frames, lags] and loudness [B, bands, frames] in frames of n samples."""
        frames = x.float().unfold(-1, n, n // 4) * getattr(self, f"window{n}")
        z = torch.fft.rfft(frames, 2 * n)
        power = (z.real.square() + z.imag.square())[:, None] * getattr(self, f"bands{n}")
        curve = torch.fft.irfft(power)
        energy = curve[..., 0] + 1e-6 * n
        curve = curve[..., self.SHORTEST : self.LONGEST] / energy[..., None] / getattr(self, f"taper{n}")
        return curve, energy / n

    def best(self, curve):
        """Place of the highest peak in the whole band [B, 1, frames, 1]; of nearly equal ones, the shortest
        lag, because twice the period of a high voice may lie nearer to a whole number."""
        return (curve[:, :1].detach() - 2e-4 * self.lags).argmax(-1, keepdim=True)

    @torch.no_grad()
    def pitch(self, x):
        """Pitch of x [B, samples] in frames of 2,048 samples, 512 apart: Hz [B, frames], and which of them
        are voiced (loud, and the sound repeats itself)."""
        curve, loudness = (y[:, :1] for y in self.curves(x, 2048))
        place = self.best(curve)
        peak, loudness = curve.gather(-1, place)[:, 0, :, 0], loudness[:, 0]
        voiced = (peak > 0.45) & (loudness > 0.05 * loudness.amax(-1, keepdim=True))
        return self.rate / self.lags[place[:, 0, :, 0]], voiced

    def forward(self, fake, real):
        loss = 0.0
        for n in self.WINDOWS:
            with torch.no_grad():
                wanted, loudness = self.curves(real, n)
                place = self.best(wanted)
                peak = wanted.gather(-1, place.expand(*wanted.shape[:-1], 1))[..., 0].clamp(0, 1)
                voiced = peak * peak[:, :1] * loudness / (loudness + 1e-5)
            curve, _ = self.curves(fake, n)
            away = (self.lags / self.lags[place]).log().abs() > self.near
            own = self.best(curve.detach()[:, :1] - 9.0 * away)
            reached = curve.gather(-1, own.expand(*curve.shape[:-1], 1))[..., 0]
            short = (peak - reached).abs() + (wanted - curve).abs().mean(-1)
            loss = loss + (voiced * short).sum() / voiced.sum().clamp(min=1.0)
        return loss


class PitchNames(nn.Module):
    """The pitch of a sound as names for each part of a frame: quarter tones from 60 Hz on."""

    LOWEST_HZ, PER_OCTAVE, COUNT = 60.0, 24, 74

    def __init__(self, listen: Periodicity) -> None:
        super().__init__()
        self.listen = listen
        self.register_buffer("names", torch.arange(self.COUNT).float())

    def forward(self, audio):
        """[B, frames * 1,024 samples] -> pitch in quarter tones above 60 Hz, and whether there is a voice,
        each [B, frames, PARTS]: of a window whose middle is that of the part."""
        hz, voiced = self.listen.pitch(F.pad(audio, (768, 768)))
        place = self.PER_OCTAVE * (hz / self.LOWEST_HZ).log2()
        return place.unflatten(1, (-1, PARTS)), voiced.unflatten(1, (-1, PARTS))

    def loss(self, logits, place, voiced):
        """Cross-entropy of logits [B, frames, PARTS, COUNT] with a bump of a quarter tone at the pitch."""
        wanted = (-((self.names - place[..., None]) ** 2)).softmax(-1)
        miss = -(wanted * logits.float().log_softmax(-1)).sum(-1)
        return (miss * voiced).sum() / voiced.sum().clamp(min=1)


class Reader(nn.Module):
    """Names the phonemes of a waveform [B, samples]: [B, frames, PARTS, PHONES].

    It learns from the teacher's own sound. What the codec gives back has to be as readable: a
    spectral distance alone forgives a lost consonant, which is short and quiet."""

    def __init__(self, rate: int = 24000, width: int = 256) -> None:
        super().__init__()
        self.mel = MelSpectrogram(rate, 1024, 80)  # every 256 samples: two columns a label
        self.first = nn.Conv1d(80, width, 5, padding=2)
        self.pool = nn.Conv1d(width, width, 4, stride=2, padding=1)
        self.more = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(3))
        self.name = nn.Conv1d(width, PHONES, 1)

    def forward(self, x):
        y = (self.mel(x)[..., : x.shape[-1] // 256].clamp(min=1e-4).log() + 4) / 2
        y = F.gelu(self.pool(F.gelu(self.first(y))))
        for layer in self.more:
            y = y + F.gelu(layer(y))
        return self.name(y).transpose(1, 2).reshape(len(x), -1, PARTS, PHONES)


class STFTJudge(nn.Module):
    """Sees magnitudes to the power of 0.3, so that weak upper harmonics count beside the strong low ones."""

    def __init__(self, n_fft: int, width: int = 32) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))

        def conv(i, o, k, s=(1, 1), d=(1, 1)):
            return weight_norm(
                nn.Conv2d(
                    i, o, k, stride=s, dilation=d, padding=((k[0] - 1) * d[0] // 2, (k[1] - 1) * d[1] // 2)
                )
            )

        self.layers = nn.ModuleList(
            [
                conv(1, width, (3, 9)),
                conv(width, width, (3, 9), (1, 2), (1, 1)),
                conv(width, width, (3, 9), (1, 2), (2, 1)),
                conv(width, width, (3, 9), (1, 2), (4, 1)),
                conv(width, width, (3, 3)),
            ]
        )
        self.last = conv(width, 1, (3, 3))

    def forward(self, x):
        z = torch.stft(
            x.float(), self.n_fft, self.n_fft // 4, window=self.window, return_complex=True, normalized=True
        )
        z = (z.real.square() + z.imag.square() + 1e-8).pow(0.15)[:, None].transpose(2, 3)
        features = []
        for layer in self.layers:
            z = F.leaky_relu(layer(z), 0.2)
            features.append(z)
        return self.last(z), features


class PeriodJudge(nn.Module):
    def __init__(self, period: int, width: int = 32) -> None:
        super().__init__()
        self.period = period
        widths = [1, width, 4 * width, 8 * width, 16 * width]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3, 1), padding=(2, 0)))
            for a, b in itertools.pairwise(widths)
        )
        self.last = weight_norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, x):
        x = F.pad(x, (0, -x.shape[-1] % self.period))
        z = x.view(len(x), 1, -1, self.period).contiguous(memory_format=torch.channels_last)
        features = []
        for layer in self.layers:
            z = F.leaky_relu(layer(z), 0.1)
            features.append(z)
        return self.last(z), features


class Judges(nn.Module):
    """Hear the whole band of a short piece of sound [B, samples]."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ModuleList(
            [STFTJudge(n) for n in (2048, 1024, 512)] + [PeriodJudge(p) for p in (2, 3, 5, 7, 11)]
        )

    def forward(self, x):
        return [judge(x) for judge in self.all]


class LowJudges(nn.Module):
    """Hear 0-1.5 kHz of a longer piece [B, samples], and nothing else.

    With the real sound below 1 kHz the codec's clips are worth 3.29 of the teacher's 3.34 DNSMOS, with
    the real sound above it nothing is gained; but eight judges of the whole band mind the upper 10 kHz.
    At 3 kHz a second is so short that these can follow a melody: windows of 85 and 43 ms."""

    FACTOR, HALF = 8, 128  # of the rate; of the filter, in samples

    def __init__(self) -> None:
        super().__init__()
        at = torch.arange(-self.HALF, self.HALF + 1)
        kernel = torch.sinc(0.9 * at / self.FACTOR) * torch.hann_window(len(at) + 2, periodic=False)[1:-1]
        self.register_buffer("kernel", (kernel / kernel.sum())[None, None], persistent=False)
        self.all = nn.ModuleList(
            [STFTJudge(n) for n in (256, 128)] + [PeriodJudge(p, width=16) for p in (2, 3, 5)]
        )

    def low(self, x):
        """[B, samples] -> [B, (samples - 257) // 8 + 1], without the rounding that judges may do."""
        with torch.autocast(x.device.type, enabled=False):
            return F.conv1d(x.float()[:, None], self.kernel, stride=self.FACTOR)[:, 0]

    def forward(self, x):
        x = self.low(x)
        return [judge(x) for judge in self.all]
