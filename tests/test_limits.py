"""Every refusal that needs no model names the thing and the remedy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from engine.family import Capabilities
from engine.limits import check_request
from engine.take import Character, Clip, Reference, RequestError, Sampling, Spoken, TakeRequest

ABLE = Capabilities(clone=True, describe=True, direct=True, history=True, seeds=True, languages=())
CODES = np.zeros((4, 2), np.int64)
CLIP = Reference(Clip(np.zeros(10, np.float32), 44_100), "Hello.")
CLONED = Character(voice=(CLIP,))
DESCRIBED = Character("Mara", description="weary", scene="a storm")
HISTORY = (Spoken("Hello.", CODES),)


def refusal(able: Capabilities = ABLE, **fields) -> str:
    with pytest.raises(RequestError) as refused:
        check_request(TakeRequest("Hello.", **fields), able, "Tiny")
    return str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"seed": 0},
        {"seed": 2**64 - 1},
        {"max_frames": 1},
        {"deadline": 0.001},
        {"deadline": 3},
        {"sampling": Sampling(0, 1, 1)},
        {"sampling": Sampling(2.0, 1e-9, None)},
        {"character": CLONED},
        {"character": Character(voice=(CLIP,) * 4)},
        {"character": Character(voice=(Reference(CODES, "Hello."),))},
        {"character": DESCRIBED},
        {"character": Character(voice=(), description="weary")},
        {"history": HISTORY * 50},
    ],
)
def test_a_request_within_the_limits_passes(fields):
    check_request(TakeRequest("Hello.", **fields), ABLE, "Tiny")


@pytest.mark.parametrize("seed", [1.0, True, False, -1, 2**64, "7", math.nan, [7]])
def test_a_seed_is_a_whole_number_of_64_bits(seed):
    assert refusal(seed=seed) == f"The seed is {seed!r}; it must be a whole number from 0 to {2**64 - 1}."


@pytest.mark.parametrize(
    "temperature", [math.nan, math.inf, -math.inf, -0.1, 2.1, "1", True, None, 10**400, [1.0]]
)
def test_a_temperature_is_a_number_from_0_to_2(temperature):
    said = refusal(sampling=Sampling(temperature=temperature))
    assert said == f"The temperature is {temperature!r}; it must be a number from 0 to 2."


@pytest.mark.parametrize("top_p", [0, 0.0, 1.1, -0.5, math.nan, math.inf, "0.9", True, None])
def test_top_p_is_above_0_and_at_most_1(top_p):
    said = refusal(sampling=Sampling(top_p=top_p))
    assert said == f"top_p is {top_p!r}; it must be a number above 0 and at most 1."


@pytest.mark.parametrize("top_k", [0, 10**6 + 1, int(1e308), -1, 1.5, 30.0, True, "30", math.nan])
def test_top_k_is_a_whole_number_up_to_a_million(top_k):
    said = refusal(sampling=Sampling(top_k=top_k))
    assert said == f"top_k is {top_k!r}; it must be a whole number from 1 to 1000000."


@pytest.mark.parametrize("max_frames", [0, -3, 2.0, True, "9", math.nan])
def test_max_frames_is_a_whole_number_of_at_least_1(max_frames):
    said = refusal(max_frames=max_frames)
    assert said == f"max_frames is {max_frames!r}; it must be a whole number at least 1."


@pytest.mark.parametrize("deadline", [0, 0.0, -1.0, math.nan, math.inf, True, "3"])
def test_a_deadline_is_a_positive_number_of_seconds(deadline):
    said = refusal(deadline=deadline)
    assert said == f"The deadline is {deadline!r}; it must be a positive number of seconds."


def test_a_fifth_reference_is_too_many():
    said = refusal(character=Character(voice=(CLIP,) * 5))
    assert said == "There are 5 reference clips; use up to 4 a character."


def test_a_character_is_not_cloned_and_described():
    assert "not both" in refusal(character=Character(voice=(CLIP,), description="weary"))
    assert "not both" in refusal(character=Character(voice=(CLIP,), description=""))


@pytest.mark.parametrize("voice", [None, (CLIP,)])
def test_a_scene_needs_a_description(voice):
    assert "add a description" in refusal(character=Character(voice=voice, scene="a storm"))


@pytest.mark.parametrize(
    "item", [CLIP.audio, "clip.wav", Reference("clip.wav", "Hello."), Reference(None, "Hi.")]
)
def test_a_reference_is_a_clip_or_codes_with_words(item):
    said = refusal(character=Character(voice=(CLIP, item)))
    assert said == "Reference 2 is not a clip or its codes; give a clip and its words."


def test_history_is_made_of_spoken_lines():
    assert "History is a list of earlier lines" in refusal(history=(("Hello.", CODES),))


@pytest.mark.parametrize(
    ("lacking", "fields", "what"),
    [
        ("clone", {"character": CLONED}, "Tiny can't follow a reference clip; "),
        ("describe", {"character": DESCRIBED}, "Tiny can't make a voice from a description; "),
        ("history", {"history": HISTORY}, "Tiny can't continue earlier lines; "),
    ],
)
def test_what_a_family_cannot_do_is_refused_and_the_rest_is_not(lacking, fields, what):
    unable = dataclasses.replace(ABLE, **{lacking: False})
    assert refusal(unable, **fields).startswith(what)
    check_request(TakeRequest("Hello."), unable, "Tiny")
