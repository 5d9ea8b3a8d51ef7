"""Drawing codes: the exponential race, two nucleus policies and repetition-aware sampling.

argmax(p / e) with e ~ Exp(1) has the law of a categorical draw and needs no host sync, so every function
here can live inside a CUDA graph. The noise comes from `engine/noise.py`: a seed that misses one draw gives
another take. Formulas: Drama 3 notes, section 7 (SGLang Omni's sampler).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

RETRY_TEMPERATURE, RETRY_TOP_K, RETRY_TOP_P = 1.0, 30, 0.95
HEAD_TOP_K = 30  # wider caps on the codebook heads hurt speaker similarity (SGLang Omni)
RAS_WINDOW = 16
UNCAPPED = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Knobs:
    """A request's sampling as tensors [1] on the model's device, so that a graph can read them."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor

    @classmethod
    def of(cls, temperature: float, top_k: int | None, top_p: float, device: torch.device | str) -> Knobs:
        capped = UNCAPPED if top_k is None else min(top_k, UNCAPPED)
        return cls(
            torch.tensor([temperature], dtype=torch.float32, device=device),
            torch.tensor([capped], dtype=torch.int64, device=device),
            torch.tensor([top_p], dtype=torch.float32, device=device),
        )

    def parts(self) -> tuple[Tensor, ...]:
        return self.temperature, self.top_k, self.top_p


@dataclass(frozen=True, eq=False)
class TakeKnobs:
    """A take's three samplers: the main draw, its retry (never the request's) and the codebook heads."""

    main: Knobs
    retry: Knobs
    heads: Knobs

    @classmethod
    def of(cls, temperature: float, top_k: int | None, top_p: float, device: torch.device | str) -> TakeKnobs:
        main = Knobs.of(temperature, top_k, top_p, device)
        retry = Knobs.of(RETRY_TEMPERATURE, RETRY_TOP_K, RETRY_TOP_P, device)
        return cls(main, retry, Knobs(main.temperature, main.top_k.clamp(max=HEAD_TOP_K), main.top_p))

    def parts(self) -> tuple[Tensor, ...]:
        """The tensors of all three."""
        return tuple(part for knobs in (self.main, self.retry, self.heads) for part in knobs.parts())


def draw(
    logits: Tensor, noise: Tensor, knobs: Knobs, keep_crossing: bool, ranks: int | None = None
) -> Tensor:
    """Indices [batch] int64 drawn from logits [batch, n] (any float dtype; computed in float32).

    `noise` [batch, n] ~ Exp(1). Rank r (sorted by probability) is kept iff r = 0, or r < top_k and the mass
    is <= top_p, the mass being that of the ranks before r (`keep_crossing`: the token that crosses top_p
    stays) or that up to and including r. A dropped candidate scores -inf before any division. `ranks`, where
    no top_k is above it, spares sorting the others.
    """
    scaled = logits.float() / knobs.temperature.clamp(min=1e-5)[..., None]
    probability = scaled.softmax(-1)
    if ranks is None:
        probability, index = probability.sort(dim=-1, descending=True, stable=True)
    else:
        probability, index = probability.topk(min(ranks, logits.shape[-1]), -1)
    mass = probability.cumsum(-1)
    if keep_crossing:
        mass = F.pad(mass[..., :-1], (1, 0))
    rank = torch.arange(index.shape[-1], device=logits.device)
    keep = (rank < knobs.top_k[..., None]) & (mass <= knobs.top_p[..., None])
    keep = keep | (rank == 0)
    score = torch.where(keep, probability / noise.gather(-1, index), -torch.inf)
    return index.gather(-1, score.argmax(-1, keepdim=True)).squeeze(-1)


def draw_main(
    logits: Tensor, noise: Tensor, window: Tensor, candidates: Tensor, eos: int, knobs: TakeKnobs
) -> tuple[Tensor, Tensor]:
    """(first, main) vocabulary ids [1] int64, by repetition-aware sampling.

    `logits` [1, n] over `candidates` [n] int64 (sorted ids); `noise` [2, n] for the first draw and the retry;
    `window` [16] int64 holds the main ids of the last rows, -1 where there are none. Both draws are always
    made; a semantic first draw that occurs in the window is replaced by the retry, which is not checked
    again. So temperature 0 alone doesn't make a take deterministic; its noise does.
    """
    first = candidates[draw(logits, noise[:1], knobs.main, keep_crossing=True)]
    again = candidates[draw(logits, noise[1:2], knobs.retry, keep_crossing=True, ranks=RETRY_TOP_K)]
    repeated = (first != eos) & (window == first).any()
    return first, torch.where(repeated, again, first)
