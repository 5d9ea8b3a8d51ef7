"""The teacher: Kokoro-82M (Apache-2.0), run in batches of unequal length.

The PyPI package ``kokoro`` (0.9.4) supplies the modules; this file loads the dequantised
weights and replaces the two places that assume a batch of one: instance norm (its
statistics must skip the padding) and the bidirectional LSTMs (packed here).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import re
import sys
import types
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SAMPLE_RATE = 24000
SAMPLES_PER_FRAME = 600
SPACE = 16  # in the teacher's alphabet
VOICED_HZ = 50.0  # the pitch curve lies below where there is no voice
TREMOR_HZ = 4.3  # five frames of the codec; of 5.5 the understudy learnt nothing
TREMOR_ENERGY = 6.0  # swing of the energy curve for each unit of the pitch's
SMOOTHED = 7  # 80 Hz frames over which a step between two phonemes is spread
CONFIG = dict(
    n_token=178,
    hidden_dim=512,
    n_layer=3,
    style_dim=128,
    max_dur=50,
    n_mels=80,
    text_encoder_kernel_size=5,
    dropout=0.2,
    plbert=dict(
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=2048,
        max_position_embeddings=512,
        num_hidden_layers=12,
        dropout=0.1,
    ),
    istftnet=dict(
        upsample_kernel_sizes=[20, 12],
        upsample_rates=[10, 6],
        gen_istft_hop_size=5,
        gen_istft_n_fft=20,
        resblock_dilation_sizes=[[1, 3, 5]] * 3,
        resblock_kernel_sizes=[3, 7, 11],
        upsample_initial_channel=512,
    ),
)


class _Lengths:
    """Valid frames per item, at the 40 Hz frame rate, for the masked norms."""

    frames: torch.Tensor | None = None
    longest: int = 0


def _masked_stats(x: torch.Tensor):
    length = x.shape[-1]
    rate = length // _Lengths.longest
    valid = _Lengths.frames * rate + (length - _Lengths.longest * rate)
    mask = (torch.arange(length, device=x.device)[None] < valid[:, None])[:, None]
    return mask, valid.to(torch.float32)[:, None, None]


def _norm_core(x, h, mask, count):
    gamma, beta = h.float()[:, :, None].chunk(2, dim=1)
    x = x.float() * mask
    mean = x.sum(-1, keepdim=True) / count
    var = (((x - mean) * mask) ** 2).sum(-1, keepdim=True) / count
    return ((1 + gamma) * ((x - mean) * torch.rsqrt(var + 1e-5)) + beta) * mask


def _norm(x, h, mask, count):
    return _norm_core(x, h, mask, count).to(x.dtype)


def _norm_snake(x, h, mask, count, alpha):
    y = _norm_core(x, h, mask, count)
    a = alpha.float()
    return (y + torch.sin(a * y) ** 2 / a).to(x.dtype)


_kernels = {"norm": _norm, "snake": _norm_snake}


def _adain_forward(self, x, s):
    mask, count = _masked_stats(x)
    return _kernels["norm"](x, self.fc(s), mask, count)


def _resblock_forward(self, x, s):
    mask, count = _masked_stats(x)
    for c1, c2, n1, n2, a1, a2 in zip(
        self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2, strict=False
    ):
        y = c1(_kernels["snake"](x, n1.fc(s), mask, count, a1))
        x = x + c2(_kernels["snake"](y, n2.fc(s), mask, count, a2))
    return x


def _packed(lstm, x, lengths):
    out, _ = lstm(pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]


@dataclass
class Curves:
    """What to do with the curves of a batch; lines [B], tokens [B, T] as the tokens are, all float32.

    ``stretch``: factor of a token's duration, ``fixed``: its 40 Hz frames where that is above 0; ``melody``:
    factor of the pitch's range in the logarithm, around its own mean; ``pitch``, ``bend``: factors of the
    pitch of a line, of a token; ``tremble``: share by which it swings; ``voice``: 0 takes the voice away;
    ``push`` is added to the energy curve."""

    pitch: torch.Tensor
    melody: torch.Tensor
    tremble: torch.Tensor
    stretch: torch.Tensor
    fixed: torch.Tensor
    bend: torch.Tensor
    voice: torch.Tensor
    push: torch.Tensor

    def with_space(self) -> Curves:
        """For tokens with another one behind the first, to which nothing is done."""
        plain = dict(stretch=1.0, fixed=0.0, bend=1.0, push=0.0)
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in out.items():
            if value.ndim == 2:
                new = value[:, 1:2] if name == "voice" else torch.full_like(value[:, :1], plain[name])
                out[name] = torch.cat((value[:, :1], new, value[:, 1:]), 1)
        return Curves(**out)

    def durations(self, frames: torch.Tensor) -> torch.Tensor:
        return torch.where(self.fixed > 0, self.fixed, frames * self.stretch)

    def bent(self, f0: torch.Tensor, energy: torch.Tensor, token: torch.Tensor):
        """Both curves [B, 80 Hz frames] as directed; token [B, frames] says whose frame it is."""
        of_token = lambda x: torch.gather(x, 1, token)  # noqa: E731
        voiced = f0 > VOICED_HZ
        height = f0.clamp(min=1.0).log()
        mean = (height * voiced).sum(-1, keepdim=True) / voiced.sum(-1, keepdim=True).clamp(min=1)
        time = torch.arange(f0.shape[1], device=f0.device) * (SAMPLES_PER_FRAME / 2 / SAMPLE_RATE)
        swing = torch.sin(2 * math.pi * TREMOR_HZ * time)[None] * self.tremble[:, None]
        sung = (
            (mean + self.melody[:, None] * (height - mean)).exp() * (1 + swing) * smooth(of_token(self.bend))
        )
        f0 = torch.where(voiced, sung, f0) * self.pitch[:, None] * of_token(self.voice)
        return f0, energy + smooth(of_token(self.push)) + TREMOR_ENERGY * swing


def smooth(x: torch.Tensor) -> torch.Tensor:
    """x [B, frames], its steps spread over a few frames."""
    side = SMOOTHED // 2
    padded = torch.nn.functional.pad(x[:, None], (side, side), mode="replicate")
    return torch.nn.functional.avg_pool1d(padded, SMOOTHED, 1)[:, 0]


class Teacher(torch.nn.Module):
    def __init__(self, weights: str, package_dir: str | None = None, compile_kernels: bool = False) -> None:
        super().__init__()
        if package_dir:  # import the modules without the package's text front end
            package = types.ModuleType("kokoro")
            package.__path__ = [str(Path(package_dir) / "kokoro")]
            sys.modules["kokoro"] = package
        # the package imports these two only for logging and by accident
        for name, content in (
            ("loguru", {"logger": types.SimpleNamespace(debug=lambda *a: None)}),
            ("attr", {"attr": None}),
        ):
            if importlib.util.find_spec(name) is None:
                stub = types.ModuleType(name)
                stub.__dict__.update(content)
                sys.modules[name] = stub
        istftnet = importlib.import_module("kokoro.istftnet")
        modules = importlib.import_module("kokoro.modules")
        istftnet.AdaIN1d.forward = _adain_forward
        istftnet.AdaINResBlock1.forward = _resblock_forward
        if compile_kernels:
            _kernels["norm"] = torch.compile(_norm, dynamic=True)
            _kernels["snake"] = torch.compile(_norm_snake, dynamic=True)
        from transformers import AlbertConfig

        c = CONFIG
        self.bert = modules.CustomAlbert(AlbertConfig(vocab_size=c["n_token"], **c["plbert"]))
        self.bert_encoder = torch.nn.Linear(c["plbert"]["hidden_size"], c["hidden_dim"])
        self.predictor = modules.ProsodyPredictor(
            style_dim=c["style_dim"],
            d_hid=c["hidden_dim"],
            nlayers=c["n_layer"],
            max_dur=c["max_dur"],
            dropout=c["dropout"],
        )
        self.text_encoder = modules.TextEncoder(
            channels=c["hidden_dim"],
            kernel_size=c["text_encoder_kernel_size"],
            depth=c["n_layer"],
            n_symbols=c["n_token"],
        )
        self.decoder = istftnet.Decoder(
            dim_in=c["hidden_dim"], style_dim=c["style_dim"], dim_out=c["n_mels"], **c["istftnet"]
        )
        for module in self.modules():  # fold the weight norms: the export has plain weights
            if hasattr(module, "weight_g"):
                torch.nn.utils.remove_weight_norm(module)
        self._load(weights)
        self.eval().requires_grad_(False)

    def _load(self, path: str) -> None:
        from safetensors.torch import load_file

        state = {}
        for key, value in load_file(path).items():
            key = re.sub(r"\b(cnn\.\d|asr_res)\.\1", r"\1", key)
            key = re.sub(r"^shared\.", "predictor.shared.", key)
            if re.search(r"albert_layers.*_\d+\.weight$", key) or "stft" in key:
                continue  # ALBERT shares one layer: the export repeats it
            state[key] = value
        own = self.state_dict()
        for key in own:
            if key.endswith(("norm.weight", "norm.bias")) and key not in state:
                state[key] = own[key]  # affine terms of the instance norms: never trained
            if key.endswith("position_ids") or key.startswith("bert.pooler"):
                state.setdefault(key, own[key])
        missing = sorted(set(own) - set(state))
        extra = sorted(set(state) - set(own))
        if missing or extra:
            raise ValueError(f"missing {missing[:10]} extra {extra[:10]}")
        self.load_state_dict(state)

    @torch.no_grad()
    def forward(
        self,
        tokens: torch.Tensor,
        lengths: torch.Tensor,
        style: torch.Tensor,
        speed: torch.Tensor,
        half: bool = False,
        how: Curves | None = None,
    ):
        """tokens [B, T] (0-padded, 0 at both ends), style [B, 256], speed [B]; how: changes to the curves.

        Returns audio [B, samples] and the valid samples per item; ``self.f0``,
        ``self.spoken`` and ``self.duration`` [B, T] keep the pitch curve (80 Hz), the phoneme of each
        40 Hz frame and the 40 Hz frames of each token.

        An unstressed first sound right behind the 0 is swallowed ("I insist" becomes "insist"): a space goes
        between the two, and counts as part of the 0."""
        device = tokens.device
        start, rest = tokens[:, :1], tokens[:, 1:]
        named = torch.cat((start, start, rest), 1)
        tokens = torch.cat((start, torch.full_like(start, SPACE), rest), 1)
        lengths = lengths + 1
        how = how.with_space() if how else None
        timbre, prosody = style[:, :128], style[:, 128:]
        pad = torch.arange(tokens.shape[1], device=device)[None] >= lengths[:, None]
        with torch.autocast(device.type, dtype=torch.float16, enabled=half):
            hidden = self.bert(tokens, attention_mask=(~pad).int())
            d_en = self.bert_encoder(hidden).transpose(-1, -2).float()
        d = self.predictor.text_encoder(d_en, prosody, lengths, pad)
        x = _packed(self.predictor.lstm, d, lengths)
        duration = torch.sigmoid(self.predictor.duration_proj(x)).sum(-1) / speed[:, None]
        duration = how.durations(duration) if how else duration
        duration = duration.round().clamp(min=1).long().masked_fill(pad, 0)
        self.duration = torch.cat((duration[:, :1] + duration[:, 1:2], duration[:, 2:]), 1)
        frames = duration.sum(-1)
        longest = int(frames.max())
        ends = duration.cumsum(-1)
        grid = torch.arange(longest, device=device)[None].expand(len(tokens), -1).contiguous()
        index = torch.searchsorted(ends, grid, right=True).clamp(max=tokens.shape[1] - 1)
        t_en = self.text_encoder(tokens, lengths, pad)
        frame_mask = (grid < frames[:, None]).unsqueeze(1)
        take = lambda m: torch.gather(m, 2, index[:, None].expand(-1, m.shape[1], -1)) * frame_mask  # noqa: E731
        en, asr = take(d.transpose(-1, -2)), take(t_en)
        _Lengths.frames, _Lengths.longest = frames, longest
        shared = _packed(self.predictor.shared, en.transpose(-1, -2), frames).transpose(-1, -2)
        mask2 = frame_mask.repeat_interleave(2, dim=-1)[:, 0]
        curves = []
        for blocks, proj in (
            (self.predictor.F0, self.predictor.F0_proj),
            (self.predictor.N, self.predictor.N_proj),
        ):
            y = shared
            for block in blocks:
                y = block(y, prosody)
            curves.append(proj(y).squeeze(1) * mask2)
        if how:
            curves = [c * mask2 for c in how.bent(*curves, index.repeat_interleave(2, dim=-1))]
        self.f0 = curves[0]
        self.spoken = torch.gather(named, 1, index) * frame_mask[:, 0]
        with torch.autocast(device.type, dtype=torch.float16, enabled=half):
            audio = self.decoder(asr, curves[0], curves[1], timbre)
        return audio.float().reshape(len(tokens), -1), frames * SAMPLES_PER_FRAME


def load_vocab(path: str) -> dict[str, int]:
    return json.loads(Path(path).read_text(encoding="utf-8"))["vocab"]
