"""A scene as the page saves it: one JSON file with the script as typed, the voices that are nobody's, and the
scene with the codes of its takes. What comes back from a visitor is checked, nothing in it is trusted.
"""

from __future__ import annotations

import json
from typing import Any

from engine.family import Family
from engine.json_values import parse
from engine.scene import LINE_GAP_S, Scene, SceneLine
from engine.scene_file import from_json, to_json
from engine.take import RequestError
from prompts.copyist import BEAT_S
from web.casting import DESCRIBED, READY, Voice, voices_of
from web.rooms import Room

MARK, SCHEMA = "tableread_page", 1


def written(room: Room) -> dict[str, Any]:
    """A room as JSON data. Cloned voices are left out: they are somebody's; a voice file keeps one."""
    with room.lock:
        voices = {}
        for name, voice in room.voices.items():
            if voice.kind == READY:
                voices[name] = {"voice": voice.ready}
            elif voice.kind == DESCRIBED and voice.description:
                voices[name] = {"description": voice.description, "scene": voice.scene}
        scene = json.loads(to_json(room.scene, voices=False))
        saved = {MARK: SCHEMA, "script": room.source, "cast": voices, "scene": scene}
        return saved | ({"part": room.part} if room.part else {})


def read(data: bytes, name: str, family: Family) -> tuple[str, str, dict[str, Voice], Scene]:
    """(script, its part or "", voices, scene) of what `written` or the command line wrote. Raises
    RequestError, one sentence, for anything else."""
    saved = parse(data, name)
    if not isinstance(saved, dict) or MARK not in saved:
        scene = from_json(data, name)
        return "\n".join(_rows(scene)), "", {}, scene
    if saved[MARK] != SCHEMA:
        raise RequestError(f"{name} has the schema {saved[MARK]!r:.20}, this page reads {SCHEMA}; update it.")
    part = saved.pop("part", "")
    is_whole = saved.keys() == {MARK, "script", "cast", "scene"}
    if not is_whole or not isinstance(saved["script"], str) or not isinstance(part, str):
        raise RequestError(f"{name} is no scene of this page; give a scene.json that was saved here.")
    scene = from_json(json.dumps(saved["scene"]), name)
    return saved["script"], part, voices_of(saved["cast"], family), scene


def _rows(scene: Scene) -> list[str]:
    """A script that has these lines."""
    rows = []
    for line in scene.lines:
        rows += ["(beat)"] * round(max(0.0, line.gap_s - LINE_GAP_S) / BEAT_S)
        rows.append(_row(line))
    return rows


def _row(line: SceneLine) -> str:
    direction = f" ({line.direction})" if line.direction else ""
    return f"{line.speaker}{direction}: {line.text}"
