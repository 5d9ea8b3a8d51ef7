"""A scene as JSON and back: what a page keeps over a reload, and what `perform` leaves beside the sound.

Text alone, no pickle. Codes of takes are in it, sound is not. The voices of cloned characters are somebody's:
they are written only where the file stays with whoever brought them.
"""

from __future__ import annotations

import dataclasses
import json
import re

from engine.json_values import parse, read_value, write_value
from engine.limits import check_sampling
from engine.scene import FORGOTTEN, MAX_TAKES, PINNED, Scene
from engine.take import MAX_REFERENCES, MAX_SEED, RequestError
from prompts.copyist import LINES
from prompts.text import FIELD_CHARACTERS, LINE_CHARACTERS

SCHEMA = 1
MARK = "tableread_scene"
MAX_BYTES = 20 << 20  # ten hours of Drama 3's takes
MAX_GAP_S = 3_600.0

_LINE_ID = re.compile(r"L[1-9][0-9]{0,8}")


def to_json(scene: Scene, voices: bool = True) -> str:
    """The scene as one line of JSON; equal scenes give equal text. Without `voices`, cloned characters are
    left out of the cast: give them their clips again to go on."""
    if not voices:
        described = {name: who for name, who in scene.cast.items() if not who.voice}
        scene = dataclasses.replace(scene, cast=described)
    return json.dumps({MARK: SCHEMA, **write_value(scene)}, ensure_ascii=False, sort_keys=True)


def from_json(text: str | bytes, name: str = "The scene") -> Scene:
    """The scene that `to_json` wrote. Raises RequestError, one sentence, for anything else."""
    if len(text) > MAX_BYTES:
        raise RequestError(f"{name} is larger than {MAX_BYTES >> 20} MB; that is no scene of ours.")
    data = parse(text, name)
    if not isinstance(data, dict) or MARK not in data:
        raise RequestError(f"{name} is no scene of Tableread; give a scene.json.")
    if (schema := data.pop(MARK)) != SCHEMA:
        raise RequestError(f"{name} has the schema {schema!r:.20}, this Tableread reads {SCHEMA}; update it.")
    scene = read_value(Scene, data, name)
    if problem := _problem(scene):
        raise RequestError(f"{name} can't be used: {problem}.")
    check_sampling(scene.sampling)
    return scene


def _problem(scene: Scene) -> str | None:
    """What doesn't fit together in a scene whose fields have the right types."""
    checks = (_line_problem, _cast_problem, _take_problem, _choice_problem)
    return next((problem for check in checks if (problem := check(scene))), None)


def _line_problem(scene: Scene) -> str | None:
    if not 0 <= scene.seed <= MAX_SEED:
        return "its seed is out of range"
    if len(scene.lines) > LINES:
        return f"it has {len(scene.lines)} lines, the limit is {LINES}"
    if len({line.id for line in scene.lines}) < len(scene.lines):
        return "two of its lines share an id"
    for number, line in enumerate(scene.lines, 1):
        if line.number != number or line.row < 1:
            return f"line {number} is not where it says"
        if not _LINE_ID.fullmatch(line.id) or int(line.id[1:]) > scene.lines_made:
            return f"line {number} has an id that was never given"
        if not 0 <= line.gap_s <= MAX_GAP_S:
            return f"the silence before line {number} lasts {line.gap_s:g} s"
        if max(len(line.speaker), len(line.direction)) > FIELD_CHARACTERS or len(line.text) > LINE_CHARACTERS:
            return f"line {number} is too long"
    return None


def _cast_problem(scene: Scene) -> str | None:
    if len(scene.cast) > LINES:
        return f"it has a cast of {len(scene.cast)}, the limit is {LINES}"
    for name, who in scene.cast.items():
        words = (name, who.name, who.description or "", who.scene or "")
        if max(map(len, words)) > FIELD_CHARACTERS:
            return "somebody in its cast is described at too great a length"
        if who.voice and (who.description is not None or len(who.voice) > MAX_REFERENCES):
            return f"{name:.80} has more than one kind of voice"
    return None


def _take_problem(scene: Scene) -> str | None:
    ids = {line.id for line in scene.lines}
    if len(scene.takes) > MAX_TAKES:
        return f"it has {len(scene.takes)} takes, the limit is {MAX_TAKES}"
    for take in scene.takes:
        if take.line_id not in ids:
            return "it has a take without a line"
        if min(take.retake, take.frames, take.num_samples, take.sample_rate - 1, take.seed) < 0:
            return "a count in one of its takes is below zero"
        if take.seed > MAX_SEED or (take.codes is not None and take.codes.shape[1] != take.frames):
            return "a take's codes are not as many as its frames"
    return None


def _choice_problem(scene: Scene) -> str | None:
    owners = {take.id: take.line_id for take in scene.takes}
    if len(owners) < len(scene.takes):
        return "it has the same take twice"
    if any(owners.get(take) != line for line, take in scene.accepted.items()):
        return "a line's accepted take is not one of its takes"
    if not owners.keys() >= scene.starred:
        return "a star is on no take"
    ids = {line.id for line in scene.lines}
    if not ids >= scene.memory.keys() or not {PINNED, FORGOTTEN}.issuperset(scene.memory.values()):
        return "its memory names no line"
    return None
