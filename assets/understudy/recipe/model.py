"""The understudy's language model: Drama 3's layout at a few per cent of its size.

Module and tensor names are those of the checkpoint, so ``state_dict`` is the file:

    model.language_model.*        hybrid MoE backbone (gated delta net + gated attention)
    lm_head                       end of speech and the semantic band are the sampled rows
    audio_decoder.*               codebook embeddings
    audio_decoder_mtp_shared.*    tower layers that every codebook shares
    audio_decoder_mtp.*           one tower layer and head per residual codebook

``forward`` is the teacher-forced pass used for training; takes are the app's engine's to perform.
Attention guidance, the phoneme head and dropout exist during training only.
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


class Norm(nn.Module):
    """RMS norm whose stored weight is zero-centred."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), (1.0 + self.weight).to(x.dtype), self.eps)


def rope(positions, width, base):
    inverse = 1.0 / base ** (torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width)
    angles = positions.float()[:, None] * inverse
    return angles.cos(), angles.sin()


def rotate_halves(x, cos, sin):
    """x [B, T, H, D]: first cos.shape[-1] * 2 features rotate, as two halves."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def rotate_pairs(x, cos, sin):
    width = cos.shape[-1] * 2
    even, odd, rest = x[..., 0:width:2], x[..., 1:width:2], x[..., width:]
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    return torch.cat(
        (torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2), rest), -1
    )


def attend(q, k, v):
    """q [B, T, H, D] against k, v [B, T, K, D], causal."""
    groups = q.shape[2] // k.shape[2]
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


SPREAD, NEAR = 3.0, 5  # letters: width of the guided bump; what counts as a hit
AHEAD = (0, 4)  # guided head n looks this many letters past the one being spoken


def guidance(q, k, spots):
    """Do these heads look at the letters being spoken?  q [B, T, heads, D], k the same heads' keys.

    spots [B, T]: row of the letter the next frame speaks, -1 for none.  Returns the mean of
    -log(attention-weighted bump around the letter) and the attention mass close to it."""
    t = q.shape[1]
    at = torch.arange(t, device=q.device)
    known = (spots >= 0).float()
    loss = hit = 0.0
    for head, ahead in enumerate(AHEAD):
        scores = (q[:, :, head] @ k[:, :, head].transpose(1, 2)).float() * q.shape[-1] ** -0.5
        scores = scores.masked_fill(at[None] > at[:, None], float("-inf"))
        distance = at[None, None] - (spots + ahead)[..., None]
        whole = scores.logsumexp(-1)
        bump = (scores - distance.square() / (2 * SPREAD**2)).logsumexp(-1)
        near = scores.masked_fill(distance.abs() > NEAR, float("-inf")).logsumexp(-1)
        loss = loss + ((whole - bump).clamp(max=12) * known).sum()
        hit = hit + ((near - whole).exp().detach() * known).sum()
    total = known.sum().clamp(min=1) * len(AHEAD)
    return loss / total, hit / total


class Attention(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.guided = None
        self.heads, self.kv, self.dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.q_proj = nn.Linear(hidden, 2 * self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv * self.dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, hidden, bias=False)
        self.q_norm, self.k_norm = Norm(self.dim, eps), Norm(self.dim, eps)

    def forward(self, x, table, spots=None):
        b, t, _ = x.shape
        q, gate = self.q_proj(x).view(b, t, self.heads, 2 * self.dim).chunk(2, -1)
        q = rotate_halves(self.q_norm(q), *table)
        k = rotate_halves(self.k_norm(self.k_proj(x).view(b, t, self.kv, self.dim)), *table)
        v = self.v_proj(x).view(b, t, self.kv, self.dim)
        if spots is not None:
            n = len(AHEAD)
            self.guided = guidance(
                q[:, :, :n], k.repeat_interleave(self.heads // self.kv, 2)[:, :, :n], spots
            )
        y = attend(q, k, v)
        return self.o_proj((y * torch.sigmoid(gate)).reshape(b, t, -1))


def inverse_unit_lower(a, block: int = 16):
    """(I + a)^-1 for strictly lower triangular a [..., n, n], n = block * 2^k."""
    n = a.shape[-1]
    eye = torch.eye(block, device=a.device, dtype=a.dtype)
    blocks = torch.stack([a[..., i : i + block, i : i + block] for i in range(0, n, block)], -3)
    power, inverse = -blocks, eye - blocks
    for _ in range(int(math.log2(block)) - 1):
        power = power @ power
        inverse = inverse + inverse @ power
    parts = list(inverse.unbind(-3))
    size = block
    while size < n:
        merged = []
        for i in range(0, len(parts), 2):
            top, bottom = parts[i], parts[i + 1]
            at = i * size
            corner = -(bottom @ a[..., at + size : at + 2 * size, at : at + size] @ top)
            zero = torch.zeros_like(corner)
            merged.append(torch.cat((torch.cat((top, zero), -1), torch.cat((corner, bottom), -1)), -2))
        parts, size = merged, size * 2
    return parts[0]


def delta_rule(q, k, v, g, beta, chunk: int = 64):
    """Gated delta rule over whole sequences; q, k [B, H, T, K] unit length, v [B, H, T, V]."""
    t = q.shape[2]
    pad = -t % chunk
    q, k, v = (F.pad(x, (0, 0, 0, pad)) for x in (q, k, v))
    g, beta = F.pad(g, (0, pad)), F.pad(beta, (0, pad))
    split = lambda x: x.reshape(*x.shape[:2], -1, chunk, *x.shape[3:])  # noqa: E731
    q, k, v, g, beta = split(q), split(k), split(v), split(g).cumsum(-1), split(beta)[..., None]
    lower = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    decay = (g[..., :, None] - g[..., None, :]).masked_fill(~lower, float("-inf")).exp()
    k_beta, v_beta = k * beta, v * beta
    inverse = inverse_unit_lower(((k_beta @ k.transpose(-1, -2)) * decay).tril(-1))
    u = inverse @ v_beta
    w = inverse @ (k_beta * g.exp()[..., None])
    inner = (q @ k.transpose(-1, -2)) * decay
    q_in = q * g.exp()[..., None]
    k_out = (k * (g[..., -1:] - g).exp()[..., None]).transpose(-1, -2)
    fade = g[..., -1].exp()[..., None, None]
    state = torch.zeros(*q.shape[:2], k.shape[-1], v.shape[-1], device=q.device, dtype=q.dtype)
    out = []
    for i in range(q.shape[2]):
        new = u[:, :, i] - w[:, :, i] @ state
        out.append(q_in[:, :, i] @ state + inner[:, :, i] @ new)
        state = state * fade[:, :, i] + k_out[:, :, i] @ new
    return torch.cat(out, 2)[:, :, :t]


class DeltaNet(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.k_heads, self.v_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        self.k_dim, self.v_dim = c["linear_key_head_dim"], c["linear_value_head_dim"]
        hidden = c["hidden_size"]
        self.key, self.value = self.k_heads * self.k_dim, self.v_heads * self.v_dim
        width = 2 * self.key + self.value
        self.in_proj_qkv = nn.Linear(hidden, width, bias=False)
        self.in_proj_z = nn.Linear(hidden, self.value, bias=False)
        self.in_proj_b = nn.Linear(hidden, self.v_heads, bias=False)
        self.in_proj_a = nn.Linear(hidden, self.v_heads, bias=False)
        self.taps = c["linear_conv_kernel_dim"]
        self.conv1d = nn.Conv1d(width, width, self.taps, groups=width, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(self.v_heads))
        self.A_log = nn.Parameter(torch.empty(self.v_heads).uniform_(0.05, 8).log())
        self.norm = nn.Module()
        self.norm.weight = nn.Parameter(torch.ones(self.v_dim))
        self.eps = c["rms_norm_eps"]
        self.out_proj = nn.Linear(self.value, hidden, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        mixed = self.in_proj_qkv(x)
        seen = F.pad(mixed, (0, 0, self.taps - 1, 0))
        weight = self.conv1d.weight[:, 0].to(mixed.dtype)
        mixed = sum(
            seen[:, i : i + t] * weight[:, i] for i in range(self.taps)
        )  # 4 taps: cheaper than a convolution
        mixed = F.silu(mixed)
        q, k, v = mixed.split((self.key, self.key, self.value), -1)
        q, k = (
            q.reshape(b, t, self.k_heads, self.k_dim).float(),
            k.reshape(b, t, self.k_heads, self.k_dim).float(),
        )
        v = v.reshape(b, t, self.v_heads, self.v_dim).float()
        unit = lambda m: m * torch.rsqrt(m.square().sum(-1, keepdim=True) + 1e-6)  # noqa: E731
        q, k = unit(q) * self.k_dim**-0.5, unit(k)
        repeat = self.v_heads // self.k_heads
        if repeat > 1:
            q, k = q.repeat_interleave(repeat, 2), k.repeat_interleave(repeat, 2)
        beta = self.in_proj_b(x).float().sigmoid()
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias.float())
        with torch.autocast(x.device.type, enabled=False):
            y = delta_rule(*(m.transpose(1, 2) for m in (q, k, v, g, beta))).transpose(1, 2)
        z = self.in_proj_z(x).view(b, t, self.v_heads, self.v_dim)
        y = F.rms_norm(y, (self.v_dim,), self.norm.weight.float(), self.eps) * F.silu(z.float())
        return self.out_proj(y.reshape(b, t, -1).to(x.dtype))


class Mlp(nn.Module):
    def __init__(self, hidden, width) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (
            nn.Linear(hidden, width, bias=False),
            nn.Linear(hidden, width, bias=False),
        )
        self.down_proj = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Few and small: all of them are computed, and the routing weights silence the rest."""

    def __init__(self, c) -> None:
        super().__init__()
        self.count, hidden, width = c["num_experts"], c["hidden_size"], c["moe_intermediate_size"]
        self.gate_up_proj = nn.Parameter(torch.empty(self.count, 2 * width, hidden).normal_(std=hidden**-0.5))
        self.down_proj = nn.Parameter(torch.empty(self.count, hidden, width).normal_(std=width**-0.5))

    def forward(self, x, weights):
        gate, up = F.linear(x, self.gate_up_proj.flatten(0, 1)).unflatten(-1, (self.count, -1)).chunk(2, -1)
        inner = F.silu(gate) * up * weights[..., None].to(x.dtype)
        return F.linear(inner.flatten(-2), self.down_proj.transpose(0, 1).flatten(1))


class Moe(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.gate = nn.Linear(c["hidden_size"], c["num_experts"], bias=False)
        self.experts = Experts(c)
        self.shared_expert = Mlp(c["hidden_size"], c["shared_expert_intermediate_size"])
        self.shared_expert_gate = nn.Linear(c["hidden_size"], 1, bias=False)
        self.top = c["num_experts_per_tok"]
        self.balance = None

    def forward(self, x):
        p = F.linear(x, self.gate.weight).float().softmax(-1)
        value, index = p.topk(self.top, -1)
        value = value / value.sum(-1, keepdim=True)
        weights = torch.zeros_like(p).scatter(-1, index, value)
        if self.training:
            share = (weights > 0).float().flatten(0, -2).mean(0)
            self.balance = p.shape[-1] / self.top * (share * p.flatten(0, -2).mean(0)).sum()
        return self.experts(x, weights) + torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)


class Layer(nn.Module):
    drop = 0.0

    def __init__(self, c, kind: str) -> None:
        super().__init__()
        self.full = kind == "full_attention"
        if self.full:
            self.self_attn = Attention(c)
        else:
            self.linear_attn = DeltaNet(c)
        self.mlp = Moe(c)
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, x, table, spots=None):
        h = self.input_layernorm(x)
        h = self.self_attn(h, table, spots) if self.full else self.linear_attn(h)
        x = x + F.dropout(h, self.drop, self.training)
        return x + F.dropout(self.mlp(self.post_attention_layernorm(x)), self.drop, self.training)


class LanguageModel(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, kind) for kind in c["layer_types"])
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])

    def guided_layers(self) -> list[int]:
        """Two full-attention layers in the middle: late enough to know the sounds, early enough to use it."""
        full = [i for i, layer in enumerate(self.layers) if layer.full]
        middle = len(full) // 2
        return full[max(0, middle - 1) : middle + 1]

    def forward(self, x, positions, spots=None):
        r = self.c["rope_parameters"]
        table = rope(positions, int(self.c["head_dim"] * r["partial_rotary_factor"]), r["rope_theta"])
        guided = self.guided_layers() if spots is not None else []
        for i, layer in enumerate(self.layers):
            x = layer(x, table, spots if i in guided else None)
        return self.norm(x)


class TowerAttention(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = c["n_head"], c["n_local_heads"], c["head_dim"]
        self.wqkv = nn.Linear(
            c["dim"], 2 * (self.heads + self.kv) * self.dim, bias=False
        )  # query, gate, key, value
        self.wo = nn.Linear(self.heads * self.dim, c["dim"], bias=False)
        self.q_norm, self.k_norm = Norm(self.dim, c["norm_eps"]), Norm(self.dim, c["norm_eps"])

    def forward(self, x, table):
        b, t, _ = x.shape
        wide, narrow = self.heads * self.dim, self.kv * self.dim
        q, gate, k, v = self.wqkv(x).split((wide, wide, narrow, narrow), -1)
        q = rotate_pairs(self.q_norm(q.view(b, t, self.heads, self.dim)), *table)
        k = rotate_pairs(self.k_norm(k.view(b, t, self.kv, self.dim)), *table)
        y = attend(q, k, v.view(b, t, self.kv, self.dim)).reshape(b, t, -1)
        return self.wo(y * torch.sigmoid(gate))


class FeedForward(nn.Module):
    def __init__(self, dim, width) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, width, bias=False), nn.Linear(dim, width, bias=False)
        self.w2 = nn.Linear(width, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TowerBlock(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        self.attention = TowerAttention(c)
        self.feed_forward = FeedForward(c["dim"], c["intermediate_size"])
        self.attention_norm, self.ffn_norm = Norm(c["dim"], c["norm_eps"]), Norm(c["dim"], c["norm_eps"])

    def forward(self, x, table):
        x = x + self.attention(self.attention_norm(x), table)
        return x + self.feed_forward(self.ffn_norm(x))


class TowerLayer(nn.Module):
    drop = 0.0

    def __init__(self, c, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        table = nn.Embedding(c["vocab_size"], c["dim"])
        if shared:
            self.semantic_embedding = table
        else:
            self.codebook_embedding = table
        self.enorm, self.hnorm = Norm(c["dim"], c["norm_eps"]), Norm(c["dim"], c["norm_eps"])
        self.eh_proj = nn.Linear(2 * c["dim"], c["dim"], bias=False)
        self.transformer_layer = TowerBlock(c)
        self.final_layernorm = Norm(c["dim"], c["norm_eps"])

    def forward(self, hidden, codes, semantic, extra, table):
        embedding = (self.semantic_embedding if self.shared else self.codebook_embedding)(codes).to(
            hidden.dtype
        )
        embedding = embedding * semantic[..., None]
        if extra is not None:
            embedding = embedding + extra
        mixed = self.eh_proj(torch.cat((self.enorm(embedding), self.hnorm(hidden)), -1))
        return self.final_layernorm(self.transformer_layer(F.dropout(mixed, self.drop, self.training), table))


class Understudy(nn.Module):
    def __init__(self, config: dict) -> None:
        super().__init__()
        self.config = config
        c, a = config["text_config"], config["audio_decoder_config"]
        self.model = nn.Module()
        self.model.language_model = LanguageModel(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        self.books, self.size = a["num_codebooks"], a["vocab_size"]
        self.into_backbone = a["vq_backbone_codebooks"]
        self.audio_decoder = nn.Module()
        self.audio_decoder.codebook_embeddings = nn.Embedding(self.books * self.size, a["dim"])
        self.audio_decoder_mtp_shared = nn.Module()
        self.audio_decoder_mtp_shared.layers = nn.ModuleList(
            TowerLayer(a, True) for _ in range(a["shared_enrichment_layers"])
        )
        self.audio_decoder_mtp = nn.Module()
        self.audio_decoder_mtp.layers = nn.ModuleList(TowerLayer(a, False) for _ in range(self.books - 1))
        self.audio_decoder_mtp.heads = nn.ModuleList(
            nn.Linear(a["dim"], self.size, bias=False) for _ in range(self.books - 1)
        )
        self.first, self.last = config["semantic_start_token_id"], config["semantic_end_token_id"]
        self.eos = config["eos_token_id"]
        self.register_buffer("offsets", torch.arange(self.books) * self.size, persistent=False)
        for m in self.modules():
            if isinstance(m, nn.Embedding):
                nn.init.normal_(m.weight, std=0.5)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=m.in_features**-0.5)
        nn.init.normal_(self.lm_head.weight, std=0.5 * c["hidden_size"] ** -0.5)

    # frames are rows [token, code 0 .. code n-1]
    def is_semantic(self, tokens):
        return (tokens >= self.first) & (tokens <= self.last)

    def embed(self, rows):
        text = self.model.language_model.embed_tokens(rows[..., 0])
        n = self.into_backbone
        if n == 0:
            return text
        codes = self.audio_decoder.codebook_embeddings(rows[..., 2 : 2 + n] + self.offsets[1 : 1 + n]).sum(-2)
        return torch.where(self.is_semantic(rows[..., :1]), (text + codes) * (1 + n) ** -0.5, text)

    def extra(self, rows):
        n = self.into_backbone
        if n >= self.books - 1:
            return None
        codes = self.audio_decoder.codebook_embeddings(rows[..., 2 + n :] + self.offsets[1 + n :]).sum(-2)
        return codes * self.is_semantic(rows[..., :1])

    def tower_table(self, positions):
        a = self.config["audio_decoder_config"]
        return rope(positions, int(a["head_dim"] * a["rotary_percent"]), a["rope_base"])

    def forward(
        self,
        rows,
        where,
        count,
        blurred=None,
        spots=None,
        phones=None,
        listener=None,
        smoothing=0.0,
        twins=False,
    ):
        """Losses of a padded batch [B, T, 1 + books], by name: main token (semantic or end), codes 1..

        ``where``: flat positions (in [B, T - 1]) whose next row is heard; the first ``count`` count.
        ``blurred``: the rows as the backbone hears them, with some audio frames replaced.
        ``spots``, ``phones`` [B, T]: row of the letter and phoneme (-1: none) of each audio row;
        ``listener``: the auxiliary head that names this and the next row's phoneme.
        ``twins``: the second half of the batch is the first half's takes under false descriptions. They
        are no examples; "told" is how surely the true description is told from the false one by the
        likelihood of the take: -log sigmoid of the difference in nats.  Its optimum is the posterior of
        a perfect model, but among the 350 nats of a take the likelihood alone hardly feels that one."""
        t = rows.shape[1]
        positions = torch.arange(t, device=rows.device)
        blurred = rows if blurred is None else blurred
        backbone = self.model.language_model
        after = None if spots is None else F.pad(spots[:, 1:], (0, 1), value=-1)  # what the next row speaks
        hidden = backbone(self.embed(blurred), positions, spots=after)[:, :-1]
        this, following = blurred[:, :-1], rows[:, 1:]
        take = lambda x: x.reshape(-1, *x.shape[2:]).index_select(0, where)  # noqa: E731
        heard = take(following)
        there = (torch.arange(len(where), device=rows.device) < count).float()
        owner = where // (t - 1)  # which take a position belongs to
        weight = there * (owner < len(rows) // 2) if twins else there
        speech = weight * self.is_semantic(heard[:, 0])
        rows_of = torch.cat(
            (self.lm_head.weight[self.eos][None], self.lm_head.weight[self.first : self.last + 1])
        )
        out = {}
        taken = take(hidden)
        if phones is not None and listener is not None:
            named = listener(taken).float().view(-1, 2, 178)
            wanted = torch.stack((take(phones[:, 1:]), take(F.pad(phones[:, 2:], (0, 1), value=-1))), 1)
            wanted = torch.where(weight[:, None] > 0, wanted, -1)
            out["phone"] = F.cross_entropy(named.flatten(0, 1), wanted.flatten(), ignore_index=-1)
            right = (named.argmax(-1) == wanted)[:, 0] & (wanted[:, 0] >= 0)
            out["phone_right"] = right.sum() / (wanted[:, 0] >= 0).sum().clamp(min=1)
        if spots is not None:
            pieces = [backbone.layers[i].self_attn.guided for i in backbone.guided_layers()]
            out["guide"] = sum(p[0] for p in pieces) / len(pieces)
            out["hit"] = sum(p[1] for p in pieces) / len(pieces)
        logits = F.linear(taken, rows_of.to(hidden.dtype)).float()
        target = torch.where(heard[:, 0] == self.eos, 0, (heard[:, 0] - self.first + 1).clamp(0, self.size))
        main = F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
        nats, main = main * there, main * weight
        semantic = self.is_semantic(following[..., 0])
        table = self.tower_table(positions[:-1])
        h, extra = hidden, self.extra(this)
        for i, layer in enumerate(self.audio_decoder_mtp_shared.layers):
            h = layer(h, following[..., 1], semantic, extra if i == 0 else None, table)
        codes, total = [], speech.sum().clamp(min=1)
        for i, (layer, head) in enumerate(
            zip(self.audio_decoder_mtp.layers, self.audio_decoder_mtp.heads, strict=False)
        ):
            h = layer(h, following[..., 1 + i], semantic, None, table)
            loss = F.cross_entropy(
                head(take(h)).float(), heard[:, 2 + i], reduction="none", label_smoothing=smoothing
            )
            codes.append((loss * speech).sum() / total)
            nats = nats + loss * there * self.is_semantic(heard[:, 0])
        ending = weight * (target == 0)
        out["main"], out["codes"] = main.sum() / weight.sum().clamp(min=1), torch.stack(codes)
        out["end"] = ((main * ending).sum() / ending.sum().clamp(min=1)).detach()
        if twins:
            true, false = torch.zeros_like(rows[:, 0, 0], dtype=nats.dtype).index_add(0, owner, nats).chunk(2)
            out["told"] = F.softplus(true - false).mean()
            out["told_right"] = (true < false).float().mean()
        return out

    def save(self, folder) -> None:
        state = {}
        for k, v in self.state_dict().items():
            keep = k.endswith(("A_log", "linear_attn.norm.weight"))
            state[k] = v.detach().to(torch.float32 if keep else torch.float16).cpu().contiguous()
        Path(folder).mkdir(parents=True, exist_ok=True)
        save_file(state, str(Path(folder) / "model.safetensors"))
        (Path(folder) / "config.json").write_text(json.dumps(self.config, indent=2))

    @classmethod
    def load(cls, folder) -> Understudy:
        model = cls(json.loads((Path(folder) / "config.json").read_text()))
        model.load_state_dict(shards.read(folder, "model"))
        return model.eval()
