"""What the benches of whole takes share: a family by name, a voice, one take's figures."""

from __future__ import annotations

import gc

import numpy as np
import torch

from bench import full_size
from engine.engine import Engine
from engine.family import Family
from engine.models import load_family
from engine.take import Audio, Character, Clip, Done, Reference, Sampling, Spoken, TakeRequest

LINE = "I kept the letters in a tin under the bed, and nobody ever asked me for them."
SAMPLING = Sampling()


def engine_of(name: str) -> Engine:
    """The engine with a named model; `full-size` is the random checkpoint on the GPU."""
    family = full_size.family(torch.device("cuda")) if name == "full-size" else load_family(name)
    family.warm()
    return Engine(family)


def random_codes(family: Family, seconds: float, seed: int) -> np.ndarray:
    """Codes int64 [codebooks, frames] of so many seconds; what they say doesn't matter for time."""
    draws = np.random.default_rng(seed)
    frames = round(seconds * family.sample_rate / family.hop)
    return draws.integers(0, min(256, family.codebook_size), (family.num_codebooks, frames))


def clip(seconds: float, sample_rate: int, seed: int = 0) -> Clip:
    """A clip of noise that swells and falls, which every check takes for a voice."""
    draws, time = np.random.default_rng(seed), np.arange(round(seconds * sample_rate)) / sample_rate
    samples = 0.1 * draws.standard_normal(len(time)) * (1.2 + np.sin(2 * np.pi * 3 * time))
    return Clip(samples.clip(-1, 1).astype(np.float32), sample_rate)


def request(
    family: Family,
    references: int = 1,
    turns: int = 0,
    frames: int = 24,
    seed: int = 0,
    audio: Clip | None = None,
    text: str = LINE,
) -> TakeRequest:
    """A cloned take of at most `frames` frames: references of 10 s (or `audio`), turns of 4 s."""
    voice = tuple(
        Reference(random_codes(family, 10.0, number) if audio is None else audio, LINE)
        for number in range(references)
    )
    history = tuple(Spoken(LINE, random_codes(family, 4.0, 100 + number)) for number in range(turns))
    return TakeRequest(text, Character(voice=voice or None), history, SAMPLING, seed, frames)


def longest(engine: Engine, frames: int) -> tuple[TakeRequest, int]:
    """A request whose prompt is as long as turns of history can make it, and its rows."""
    engine.family.history_rows = engine.family.max_rows  # more than any model is taught
    size = engine.measure(request(engine.family, turns=1, frames=frames))
    turns = (size.room - 16) // size.turns[0]  # 16: a clip of 10 s is codes of a little more
    return request(engine.family, turns=turns, frames=frames), size.own + turns * size.turns[0]


def performed(engine: Engine, wanted: TakeRequest) -> tuple[Done, int]:
    """How a take ended, and its samples; its sound is consumed."""
    samples, done = 0, None
    for event in engine.perform(wanted):
        if isinstance(event, Audio):
            samples += len(event.pcm)
        elif isinstance(event, Done):
            done = event
    gc.collect()
    return done, samples
