"""The take card: what a file says of itself, and a request again from what it says.

Clips, their words and earlier lines stay private: the card keeps one hash of them, which tells whether they
are the same when they are given again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.family import Family
from engine.reading import performed, writes_numbers
from engine.take import Done, Encoded, RequestError, TakeRequest, from_json, to_json

NOTICE = "Synthetic speech, made by a machine with Tableread."


def card(family: Family, request: TakeRequest, done: Done, encoded: Sequence[Encoded] = ()) -> dict[str, Any]:
    """The card of a take as plain JSON data. `encoded` are the references made in it, in their order."""
    who, sampling = request.character, request.sampling
    facts = {
        "notice": NOTICE,
        "model": family.name,
        "revision": family.revision,
        "seed": done.seed,
        "text": request.text,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_frames": request.max_frames,
        "describe": who.description,
        "name": who.name or None,
        "scene": who.scene,
        "voice": _voice_digest(request, encoded),
        "history": _digest([to_json(turn) for turn in request.history]) if request.history else None,
        "finish_reason": done.finish_reason,
        "frames": done.frames,
        "flags": list(done.flags),
        "codes": None if done.codes is None else to_json(done.codes.astype(np.uint16)),
    }
    if request.letters:  # cards of before don't have these, and stay what they were when made again
        facts["performed"] = performed(request, family)
        facts["numbers"] = writes_numbers(family.capabilities, request.numbers)
    return facts


def codes_of(card: dict[str, Any], family: Family) -> np.ndarray | None:
    """The take's own codes int64 [codebooks, frames], if this very model made them. Raises RequestError for a
    card whose codes are damaged."""
    data = card.get("codes")
    if not data or (card.get("model"), card.get("revision")) != (family.name, family.revision):
        return None
    codes = from_json(data)
    if not isinstance(codes, np.ndarray):
        raise RequestError("The take's card holds no array of codes; use another copy of the take.")
    return codes.astype(np.int64)


def _voice_digest(request: TakeRequest, encoded: Sequence[Encoded]) -> str | None:
    """One hash of the codes of all references and of their words."""
    fresh = iter(encoded)
    heard = []
    for reference in request.character.voice or ():
        codes = reference.audio if isinstance(reference.audio, np.ndarray) else next(fresh).codes
        heard.append([to_json(codes.astype(np.uint16)), reference.transcript])
    return _digest(heard) if heard else None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
