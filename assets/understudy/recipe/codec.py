"""A small codec in the S2-Pro layout (same module tree and tensor names, smaller sizes).

    audio -> encoder (strides 4,4,4,4) -> two stride-2 convolutions -> causal transformer
          -> one "semantic" codebook + n residual codebooks            (1024 samples/frame)
    codes -> causal transformer -> two transposed convolutions -> decoder (4,4,4,4) -> audio

Everything is causal.  ``Codec(config)`` takes the dictionary stored in codec.json.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import shards
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

DEFAULT = dict(
    sample_rate=24000,
    encoder_dim=16,
    encoder_rates=[4, 4, 4, 4],
    latent_dim=192,
    decoder_dim=256,
    decoder_rates=[4, 4, 4, 4],
    encoder_transformer_layers=[0, 0, 0, 0],
    decoder_transformer_layers=[0, 0, 0, 0],
    quantizer=dict(
        input_dim=192,
        n_codebooks=5,
        codebook_size=1024,
        codebook_dim=8,
        semantic_codebook_size=1024,
        downsample_factor=[2, 2],
        transformer=dict(
            window_size=32,
            n_layer=3,
            n_head=3,
            dim=192,
            intermediate_size=320,
            head_dim=64,
            rope_base=10000,
            norm_eps=1e-5,
        ),
    ),
    frame_length=1024,
    num_codebooks=6,
)


def _snake(x, alpha):
    return (x + torch.sin(alpha * x) ** 2 / (alpha + 1e-9)).type_as(x)  # alpha is fp32 under autocast


_kernels = {"snake": _snake}


class Snake1d(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x):
        # "* 1": a plain tensor, so that one compiled kernel serves every channel count
        return _kernels["snake"](x, self.alpha * 1)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, kernel, dilation=1, stride=1, groups=1, norm=True):
        super().__init__()
        conv = nn.Conv1d(cin, cout, kernel, stride=stride, dilation=dilation, groups=groups)
        # unit gain: a short training cannot afford a signal that fades on its way in
        nn.init.trunc_normal_(conv.weight, std=(cin // groups * kernel) ** -0.5)
        nn.init.zeros_(conv.bias)
        self.conv = weight_norm(conv) if norm else conv
        self.left = (kernel - 1) * dilation + 1 - stride
        self.stride = stride

    def forward(self, x):
        extra = -x.shape[-1] % self.stride
        return self.conv(F.pad(x, (self.left, extra)))


class CausalTransConv(nn.Module):
    def __init__(self, cin, cout, kernel, stride, norm=True):
        super().__init__()
        conv = nn.ConvTranspose1d(cin, cout, kernel, stride=stride)
        nn.init.trunc_normal_(conv.weight, std=(cin * kernel / stride) ** -0.5)
        nn.init.zeros_(conv.bias)
        self.conv = weight_norm(conv) if norm else conv
        self.crop = kernel - stride

    def forward(self, x):
        y = self.conv(x)
        return y[..., : y.shape[-1] - self.crop]


class ResidualUnit(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        last = CausalConv(dim, dim, 1, norm=False)
        nn.init.trunc_normal_(last.conv.weight, std=0.3 * dim**-0.5)
        last.conv = weight_norm(last.conv)
        self.block = nn.Sequential(Snake1d(dim), CausalConv(dim, dim, 7, dilation), Snake1d(dim), last)

    def forward(self, x):
        return x + self.block(x)


class Block(nn.Module):
    def __init__(self, *modules):
        super().__init__()
        self.block = nn.Sequential(*modules)

    def forward(self, x):
        return self.block(x)


def encoder_block(dim, stride):
    half = dim // 2
    return Block(
        ResidualUnit(half, 1),
        ResidualUnit(half, 3),
        ResidualUnit(half, 9),
        Snake1d(half),
        CausalConv(half, dim, 2 * stride, stride=stride),
        nn.Identity(),
    )


def decoder_block(cin, cout, stride):
    return Block(
        Snake1d(cin),
        CausalTransConv(cin, cout, 2 * stride, stride),
        ResidualUnit(cout, 1),
        ResidualUnit(cout, 3),
        ResidualUnit(cout, 9),
    )


class Encoder(nn.Module):
    def __init__(self, dim, rates, latent):
        super().__init__()
        layers = [CausalConv(1, dim, 7)]
        with torch.no_grad():  # speech sits near 0.07 RMS: bring it to unit scale
            layers[0].conv.parametrizations.weight.original0.mul_(10.0)
        for rate in rates:
            dim *= 2
            layers.append(encoder_block(dim, rate))
        layers += [Snake1d(dim), CausalConv(dim, latent, 3)]
        self.block = nn.Sequential(*layers)

    def forward(self, x):
        return self.block(x)


class Decoder(nn.Module):
    def __init__(self, latent, channels, rates):
        super().__init__()
        layers = [CausalConv(latent, channels, 7)]
        for i, rate in enumerate(rates):
            layers.append(decoder_block(channels // 2**i, channels // 2 ** (i + 1), rate))
        last = channels // 2 ** len(rates)
        layers += [Snake1d(last), CausalConv(last, 1, 7), nn.Tanh()]
        self.model = nn.Sequential(*layers)
        with torch.no_grad():  # start quiet, far from where tanh saturates
            layers[-2].conv.parametrizations.weight.original0.mul_(0.05)

    def forward(self, x):
        return self.model(x)


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dwconv = CausalConv(dim, dim, 7, groups=dim, norm=False)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 1e-1))

    def forward(self, x):
        y = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class LayerScale(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), 1e-1))

    def forward(self, x):
        return x * self.gamma


def rope_table(length, head_dim, base, device):
    inverse = 1.0 / base ** (torch.arange(0, head_dim, 2, device=device).float() / head_dim)
    angles = torch.outer(torch.arange(length, device=device).float(), inverse)
    # the reference keeps this table in bfloat16
    return angles.cos().bfloat16().float(), angles.sin().bfloat16().float()


def rotate(x, cos, sin):
    even, odd = x.float()[..., 0::2], x.float()[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2).type_as(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.head_dim = c["n_head"], c["head_dim"]
        self.wqkv = nn.Linear(c["dim"], 3 * self.heads * self.head_dim, bias=False)
        self.wo = nn.Linear(self.heads * self.head_dim, c["dim"], bias=False)

    def forward(self, x, table, mask):
        b, t, _ = x.shape
        q, k, v = (m.view(b, t, self.heads, self.head_dim).transpose(1, 2) for m in self.wqkv(x).chunk(3, -1))
        q, k = rotate(q, *table), rotate(k, *table)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w1 = nn.Linear(c["dim"], c["intermediate_size"], bias=False)
        self.w3 = nn.Linear(c["dim"], c["intermediate_size"], bias=False)
        self.w2 = nn.Linear(c["intermediate_size"], c["dim"], bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention, self.feed_forward = Attention(c), FeedForward(c)
        self.ffn_norm, self.attention_norm = (
            RMSNorm(c["dim"], c["norm_eps"]),
            RMSNorm(c["dim"], c["norm_eps"]),
        )
        self.attention_layer_scale, self.ffn_layer_scale = LayerScale(c["dim"]), LayerScale(c["dim"])

    def forward(self, x, table, mask):
        x = x + self.attention_layer_scale(self.attention(self.attention_norm(x), table, mask))
        return x + self.ffn_layer_scale(self.feed_forward(self.ffn_norm(x)))


class WindowTransformer(nn.Module):
    """Causal attention over the last ``window_size`` frames, channels first."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.layers = nn.ModuleList(TransformerBlock(c) for _ in range(c["n_layer"]))
        self.norm = RMSNorm(c["dim"], c["norm_eps"])

    def forward(self, x):
        x = x.transpose(1, 2)
        t = x.shape[1]
        table = rope_table(t, self.c["head_dim"], self.c["rope_base"], x.device)
        at = torch.arange(t, device=x.device)
        gap = at[:, None] - at[None]
        mask = (gap >= 0) & (gap < self.c["window_size"])
        for layer in self.layers:
            x = layer(x, table, mask)
        return self.norm(x).transpose(1, 2)


class VectorQuantize(nn.Module):
    def __init__(self, dim, size, code_dim):
        super().__init__()
        self.in_proj = torch.nn.utils.weight_norm(nn.Conv1d(dim, code_dim, 1))
        self.out_proj = torch.nn.utils.weight_norm(nn.Conv1d(code_dim, dim, 1))
        self.codebook = nn.Embedding(size, code_dim)
        self.continuous = False

    def lookup(self, z):
        """Nearest codes by cosine similarity: [B, code_dim, T] -> [B, T]."""
        unit = F.normalize(z.float().transpose(1, 2), dim=-1)
        table = F.normalize(self.codebook.weight.float(), dim=-1)
        return (unit @ table.T).argmax(-1)

    def embed(self, codes):
        return self.codebook(codes).transpose(1, 2)

    def forward(self, z):
        e = self.in_proj(z).float()
        if self.continuous:  # warm-up: the bottleneck without the rounding
            unit = F.normalize(e, dim=1)
            self.seen = (e.detach(), None)
            pull = (e.norm(dim=1) - 1).square().mean()
            return self.out_proj(unit), torch.zeros_like(e[:, 0], dtype=torch.long), pull, 0.0 * pull
        codes = self.lookup(e)
        if self.training:
            self.seen = (e.detach(), codes.detach())
        q = self.embed(codes).float()
        commitment = F.mse_loss(e, q.detach())
        codebook = F.mse_loss(q, e.detach())
        return self.out_proj(e + (q - e).detach()), codes, commitment, codebook


class ResidualVQ(nn.Module):
    def __init__(self, dim, count, size, code_dim):
        super().__init__()
        self.quantizers = nn.ModuleList(VectorQuantize(dim, size, code_dim) for _ in range(count))

    def forward(self, z):
        """Sums of the first one, two ... quantised embeddings, codes [B, count, frames], two losses."""
        sums, codes, commitment, codebook = [], [], 0.0, 0.0
        residual = z
        for quantizer in self.quantizers:
            q, c, a, b = quantizer(residual)
            residual = residual - q
            sums.append(sums[-1] + q if sums else q)
            commitment, codebook = commitment + a, codebook + b
            codes.append(c)
        return sums, torch.stack(codes, 1), commitment, codebook

    def from_codes(self, codes):
        return sum(q.out_proj(q.embed(codes[:, i])) for i, q in enumerate(self.quantizers))


class Quantizer(nn.Module):
    def __init__(self, c):
        super().__init__()
        dim = c["input_dim"]
        self.semantic_quantizer = ResidualVQ(dim, 1, c["semantic_codebook_size"], c["codebook_dim"])
        self.quantizer = ResidualVQ(dim, c["n_codebooks"], c["codebook_size"], c["codebook_dim"])
        self.downsample = nn.Sequential(
            *[
                nn.Sequential(CausalConv(dim, dim, f, stride=f, norm=False), ConvNeXtBlock(dim))
                for f in c["downsample_factor"]
            ]
        )
        self.upsample = nn.Sequential(
            *[
                nn.Sequential(CausalTransConv(dim, dim, f, f, norm=False), ConvNeXtBlock(dim))
                for f in reversed(c["downsample_factor"])
            ]
        )
        self.pre_module = WindowTransformer(c["transformer"])
        self.post_module = WindowTransformer(c["transformer"])

    def quantise(self, z):
        """Sums of the first one, two ... codebooks' embeddings [B, dim, frames] (the last is decoded),
        codes [B, codebooks, frames], and the losses of commitment and codebooks."""
        z = self.pre_module(self.downsample(z)).float()
        (semantic,), c0, a0, b0 = self.semantic_quantizer(z)
        rest, codes, a, b = self.quantizer(z - semantic)
        sums = [semantic, *(semantic + part for part in rest)]
        return sums, torch.cat((c0, codes), 1), a0 + a, b0 + b

    def decode(self, codes):
        # as in the reference, a code past the end of its table becomes the last one
        first, rest = self.semantic_quantizer.quantizers[0], self.quantizer.quantizers[0]
        codes = torch.cat(
            (
                codes[:, :1].clamp(max=first.codebook.num_embeddings - 1),
                codes[:, 1:].clamp(max=rest.codebook.num_embeddings - 1),
            ),
            1,
        )
        z = self.semantic_quantizer.from_codes(codes[:, :1]) + self.quantizer.from_codes(codes[:, 1:])
        return self.upsample(self.post_module(z))


class Codec(nn.Module):
    def __init__(self, config: dict = DEFAULT) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config["encoder_dim"], config["encoder_rates"], config["latent_dim"])
        self.quantizer = Quantizer(config["quantizer"])
        self.decoder = Decoder(config["latent_dim"], config["decoder_dim"], config["decoder_rates"])
        self.frame_samples = math.prod(config["encoder_rates"]) * math.prod(
            config["quantizer"]["downsample_factor"]
        )

    def encode(self, audio):
        """[B, samples] -> codes [B, codebooks, frames]; the end is zero-padded to a frame."""
        audio = F.pad(audio, (0, -audio.shape[-1] % self.frame_samples))
        return self.quantizer.quantise(self.encoder(audio[:, None]))[1]

    def decode(self, codes):
        return self.decoder(self.quantizer.decode(codes))[:, 0]

    @classmethod
    def load(cls, folder: str | Path) -> Codec:
        codec = cls(json.loads((Path(folder) / "codec.json").read_text()))
        codec.load_state_dict(shards.read(folder, "codec"))
        return codec.eval()

    def save(self, folder: str | Path, dtype=torch.float16) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "codec.json").write_text(json.dumps(self.config, indent=2))
        save_file(
            {k: v.detach().to(dtype).cpu().contiguous() for k, v in self.state_dict().items()},
            str(Path(folder) / "codec.safetensors"),
        )
