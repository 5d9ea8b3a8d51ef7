"""The takes that are published beside the understudy, as requests."""

from __future__ import annotations

import json

import numpy as np

from engine.models import UNDERSTUDY
from engine.take import Character, Reference, Sampling, Spoken, TakeRequest

EXPECTED = json.loads((UNDERSTUDY / "expected.json").read_text(encoding="utf-8"))
EXACT_FRAMES = 20  # rounding of another CPU may turn one late draw, and what follows it


def request_of(case: dict) -> TakeRequest:
    name, description = case.get("character", ("", None))
    voice = tuple(Reference(np.array(each["codes"]), each["text"]) for each in case.get("voices", ()))
    return TakeRequest(
        case["text"],
        Character(name, voice or None, description, case.get("scene")),
        tuple(Spoken(each["text"], np.array(each["codes"])) for each in case.get("history", ())),
        Sampling(case["temperature"], case["top_p"], case["top_k"]),
        case["seed"],
        case["limit"],
    )
