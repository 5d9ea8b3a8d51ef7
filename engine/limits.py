"""What a request may ask for: every check that needs no model, in one place, before any model work.

Words have their own rules in `prompts/`; a family adds its own in `Family.check`.
"""

from __future__ import annotations

import math

import numpy as np

from engine.family import Capabilities
from engine.take import (
    MAX_REFERENCES,
    MAX_SEED,
    Character,
    Clip,
    Reference,
    RequestError,
    Sampling,
    Spoken,
    TakeRequest,
)

MAX_TEMPERATURE = 2.0
MAX_TOP_K = 1_000_000  # far above every codebook, and small enough for every tensor and every reader of JSON


def check_request(request: TakeRequest, able: Capabilities, family: str) -> None:
    """Raise RequestError, one sentence, for the first thing in `request` that can't be performed."""
    check_seed(request.seed)
    _integer(request.max_frames, "max_frames", 1, None)
    if request.deadline is not None:
        _number(request.deadline, "The deadline", "a positive number of seconds", lambda x: x > 0)
    check_sampling(request.sampling)
    _check_character(request.character, able, family)
    if not all(isinstance(turn, Spoken) for turn in request.history):
        raise RequestError("History is a list of earlier lines, each with its text and its codes.")
    if request.history and not able.history:
        raise RequestError(
            f"{family} can't continue earlier lines; leave the history out or choose another model."
        )


def check_seed(seed: int | None) -> None:
    """Raise RequestError for a seed outside 0..2^64-1; None draws one."""
    _integer(seed, "The seed", 0, MAX_SEED)


def check_sampling(sampling: Sampling) -> None:
    """Raise RequestError for a temperature outside 0..2, a top_p outside (0, 1] or a top_k outside
    1..1,000,000."""
    _number(
        sampling.temperature, "The temperature", f"a number from 0 to {MAX_TEMPERATURE:g}", _temperature_fits
    )
    _number(sampling.top_p, "top_p", "a number above 0 and at most 1", lambda x: 0 < x <= 1)
    _integer(sampling.top_k, "top_k", 1, MAX_TOP_K)


def _check_character(character: Character, able: Capabilities, family: str) -> None:
    voice = character.voice or ()
    if voice and character.description is not None:
        raise RequestError("A character is cloned from clips or described, not both; leave one of them out.")
    if character.scene is not None and character.description is None:
        raise RequestError(
            "A scene belongs to a described character; add a description or leave the scene out."
        )
    if voice and not able.clone:
        raise RequestError(
            f"{family} can't follow a reference clip; describe the voice or choose another model."
        )
    if character.description is not None and not able.describe:
        raise RequestError(f"{family} can't make a voice from a description; use a reference clip.")
    if len(voice) > MAX_REFERENCES:
        raise RequestError(f"There are {len(voice)} reference clips; use up to {MAX_REFERENCES} a character.")
    for number, reference in enumerate(voice, 1):
        if not isinstance(reference, Reference) or not isinstance(reference.audio, (Clip, np.ndarray)):
            raise RequestError(f"Reference {number} is not a clip or its codes; give a clip and its words.")


def _temperature_fits(value: float) -> bool:
    return 0 <= value <= MAX_TEMPERATURE


def _number(value: object, name: str, need: str, fits) -> None:
    # Compared with infinities, not by math.isfinite, which can't take an integer of 400 digits.
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf
    if not good or not fits(value):
        raise RequestError(f"{name} is {value!r}; it must be {need}.")


def _integer(value: object, name: str, least: int, most: int | None) -> None:
    if value is None:
        return
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not good or (most is not None and value > most):
        need = f"at least {least}" if most is None else f"from {least} to {most}"
        raise RequestError(f"{name} is {value!r}; it must be a whole number {need}.")
