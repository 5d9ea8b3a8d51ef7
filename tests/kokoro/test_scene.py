"""A scene played by the stand-in: it can't be directed and remembers nothing, and says so."""

from __future__ import annotations

from engine.attempt import perform_lines, remembered_at
from engine.engine import Engine
from engine.kokoro.family import KokoroFamily
from engine.scene import Scene, SceneTake
from engine.scene_file import from_json, to_json
from engine.take import Character, Status
from prompts.script import parse


def test_every_line_is_performed_for_itself_and_without_its_direction():
    engine = Engine(KokoroFamily.load())
    scene = Scene.of(parse("MARA: No.\nMARA (whispers): Why?"), 7, {"MARA": Character(description="low")})
    hints = []
    for line, event in perform_lines(scene, engine.family, engine.perform):
        if isinstance(event, SceneTake):
            scene = scene.with_take(event)
        elif isinstance(event, Status) and event.phase == "direction":
            hints.append((line.number, event.detail))
    assert hints == [(2, "kokoro can't be directed; directions are shown and not performed.")]
    assert [(take.text, take.codes, take.heard) for take in scene.takes] == [
        ("No.", None, ()),
        ("Why?", None, ()),
    ]
    assert to_json(from_json(to_json(scene))) == to_json(scene)
    memory = remembered_at(scene, "L2", engine)
    assert (memory.lines, memory.dropped, memory.rows, memory.room) == ((), (), 0, 0)
