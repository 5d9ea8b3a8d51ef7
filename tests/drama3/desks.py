"""What tests of desks share, with a GPU and with its double: pieces, given noise, frames as a host hears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
import pytest
import torch

from engine.drama3.codec import Codec
from engine.drama3.graphs import CodecDesk
from engine.engine import Engine
from engine.family import Piece
from engine.noise import BLOCK_FRAMES
from engine.take import Audio, Character, Done, Sampling, TakeRequest


def piece(**fields) -> Piece:
    plain = dict(text="Hi.", index=0, character=Character(), history=(), sampling=Sampling(), seed=5)
    return Piece(**{**plain, "max_frames": 200, **fields})


def scripted(stored: Mapping[str, np.ndarray]) -> torch.Tensor:
    """[frames, 2 + heads, candidates]: the noise of a golden run."""
    main, retry, heads = (torch.from_numpy(stored[f"{draw}_noise"]) for draw in ("first", "ras", "head"))
    noise = torch.ones(len(main), 2 + heads.shape[1], main.shape[1])
    noise[:, 0], noise[:, 1], noise[:, 2:, : heads.shape[2]] = main, retry, heads
    return noise


def follow(take, noise: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a take draw with given noise in the place of what its desk would make."""
    padded = torch.cat((noise, torch.ones_like(noise[:BLOCK_FRAMES])))

    def put() -> None:
        take.desk.noise.copy_(padded[take.state.num_frames :][:BLOCK_FRAMES])

    monkeypatch.setattr(take.desk, "make_noise", put)


def stepped(take, count: int) -> np.ndarray:
    """The next frames [count, 3 + codebooks] as the host hears of them, looking ahead by one."""
    take.step()
    for frame in range(count):
        if frame + 1 < count:
            take.step()
        take.status(frame)
    return take.desk.log[:count].numpy().copy()


def some_codes(codec: Codec, frames: int) -> torch.Tensor:
    """[codebooks, frames] int64, any of each book's."""
    sizes = torch.tensor(codec.codebook_sizes)[:, None]
    return (torch.rand(len(sizes), frames, generator=torch.manual_seed(1)) * sizes).long()


def decoded(desk: CodecDesk, codes: torch.Tensor, sizes: Sequence[int]) -> np.ndarray:
    """The sound of codes, int16 [n], that come to the desk in pieces of such sizes."""
    parts = []
    with closing(desk.sit()) as vocoder:
        for piece_of_codes in codes.split(sizes, 1):
            vocoder.queue(piece_of_codes)
            parts += [sound.pcm for sound in vocoder.heard(wait=False)]
        parts += [sound.pcm for sound in vocoder.heard(wait=True)]
    return np.concatenate(parts)


def performed(engine: Engine, wanted: TakeRequest) -> tuple[np.ndarray, Done]:
    """A take's sound, int16 [n], and how it ended."""
    events = list(engine.perform(wanted))
    return np.concatenate([each.pcm for each in events if isinstance(each, Audio)]), events[-1]
