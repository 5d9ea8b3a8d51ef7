"""The script as a list of lines, and the cast as cards: what they show, and the components that show it.

Each is a `gr.HTML` drawn by its own script (`scene_list.js`, `cast_list.js`, `casting_call.js`), so that no
word passes a template. Their values hold facts and ids; codes and sound stay here.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any

import gradio as gr

from engine.attempt import remembered_at
from engine.engine import Engine
from engine.family import Family
from engine.reading import told_unread, writes_numbers
from engine.scene import LINE_GAP_S, Mark, SceneLine, SceneTake
from engine.take import RequestError
from engine.voices import ReadyVoice
from prompts.changes import UNREAD, Wording
from prompts.copyist import LINES
from prompts.letters import STEP as LETTERS
from prompts.text import PromptError
from web.casting import CLIPS, DESCRIBED, FILE, OWN, READY, Voice
from web.rooms import Room
from web.takes import in_words

HERE = Path(__file__).parent
OPEN_CARDS = 8
LANDMARKS = {"heading", "action", "transition", "centred", "section", "synopsis"}  # shown between lines


def scene_list() -> gr.HTML:
    """The lines. Its events carry ids: submit (perform from here), play, retry (retake), select (open), apply
    (use a take), like (star), edit (memory), input (turn to a part of the script)."""
    return _drawn("scene_list.js", "scene-lines")


def cast_list() -> gr.HTML:
    """The cards. Its events: submit (another voice), select (clips and files), delete (forget a voice), play
    (casting call)."""
    return _drawn("cast_list.js", "scene-cast")


def casting_call() -> gr.HTML:
    """The casting call. Its events: play (hear one again), submit (choose one)."""
    return _drawn("casting_call.js", "scene-call")


def scene_facts(room: Room, engine: Engine, note: str = "") -> dict[str, Any]:
    """What the list of lines shows; `note` is a sentence for whoever just did something."""
    with room.lock:
        stale, landmarks = room.scene.stale(), _landmarks(room)
        rows = [
            _row(room, engine.family, line, stale.get(line.id), landmarks.get(line.id, []))
            for line in room.scene.lines
        ]
        return {
            "rows": rows,
            "problems": [
                {"row": each.row, "column": each.column, "sentence": each.sentence}
                for each in room.script.problems[:100]
            ],
            "parts": parts_of(room),
            "making": room.making,
            "open": _opened(room, engine),
            "can_direct": engine.family.capabilities.direct,
            "note": note,
        }


def parts_of(room: Room) -> list[dict[str, Any]]:
    """What the script can be cut into, as far as it fits a scene; the whole, where it fits, comes first."""
    parts = room.script.parts
    outer, end = 0, 0
    for each in parts:  # those that lie in none before them, together, are the whole
        if each.first_row >= end:
            outer, end = outer + each.num_lines, each.end_row
    whole = [("", "The whole script", outer)] if parts else []
    return [
        {"name": name, "told": f"{told} ({count} lines)", "chosen": name == room.part}
        for name, told, count in [*whole, *((each.name, each.name, each.num_lines) for each in parts)]
        if count <= LINES
    ]


def cast_facts(room: Room, family: Family, ready: dict[str, ReadyVoice], note: str = "") -> dict[str, Any]:
    """What the cards show; `note` is a sentence for whoever just did something."""
    able = family.capabilities
    with room.lock:
        counts: dict[str, int] = {}
        names: dict[str, str] = {}
        for line in room.scene.lines:
            counts[line.actor] = counts.get(line.actor, 0) + 1
            names.setdefault(line.actor, line.speaker)
        cards = [_card(names[key], key, counts[key], room.voices.get(key, Voice()), ready) for key in names]
    cant = []
    if not able.clone:
        cant.append(f"{family.name} can't follow a clip; a checkpoint of Drama 3's layout can.")
    if not able.describe:
        cant.append(f"{family.name} can't make a voice from words; choose a ready voice or clips.")
    kinds = [
        {"id": READY, "name": "A ready voice", "able": bool(ready)},
        {"id": DESCRIBED, "name": "In words", "able": able.describe},
        {"id": CLIPS, "name": "From clips or a file", "able": able.clone},
        {"id": OWN, "name": "The model's own", "able": True},
    ]
    voices = [{"id": each.id, "about": each.about} for each in ready.values()]
    return {"cards": cards, "kinds": kinds, "voices": voices, "cant": cant, "open": OPEN_CARDS, "note": note}


def about(voice: Voice, ready: dict[str, ReadyVoice]) -> str:
    """A voice in a few words."""
    if voice.kind == READY and voice.ready in ready:
        return ready[voice.ready].about
    if voice.kind == DESCRIBED:
        return voice.description or "no description yet"
    return voice.about if voice.kind in (CLIPS, FILE) else "the model's own voice"


def _drawn(script: str, elem_id: str) -> gr.HTML:
    return gr.HTML(
        {},
        html_template=f'<div class="tr-{elem_id}"></div>',
        js_on_load="\n".join((HERE / name).read_text(encoding="utf-8") for name in ("nodes.js", script)),
        apply_default_css=False,
        elem_id=elem_id,
    )


def _row(
    room: Room, family: Family, line: SceneLine, mark: Mark | None, landmarks: list[str]
) -> dict[str, Any]:
    take = room.scene.accepted_take(line.id)
    row = {
        "id": line.id,
        "number": line.number,
        "who": line.speaker,
        "text": line.text,
        "direction": line.direction,
        "beat": round(max(0.0, line.gap_s - LINE_GAP_S), 2) if line.gap_s else 0,
        "dual": line.dual,
        "landmarks": landmarks,
        "stale": mark.sentence if mark else "",
        "trouble": room.troubles.get(line.id, ""),
        "memory": room.scene.memory.get(line.id, ""),
        "takes": len(room.scene.takes_of(line.id)),
        "take": _take(room, take) if take else None,
    }
    return row | _wording(room, line, family)


def _wording(room: Room, line: SceneLine, family: Family) -> dict[str, Any]:
    """What is spoken, where it isn't what is written, what changed it, and what can't be read."""
    reading, able = room.scene.reading, family.capabilities
    try:
        wording = reading.wording(line.text, able)
    except PromptError as problem:
        return {"spoken": "", "steps": str(problem)}
    if wording.text == line.text:
        return {"spoken": "", "steps": wording.note if writes_numbers(able, reading.numbers) else ""}
    if marks := _marks(wording):
        return {"spoken": "", "steps": marks}
    steps = sorted({each.step for each in wording.changes if each.step != UNREAD})
    told = [told_unread(family.name, wording.unread)] if wording.unread else []
    return {"spoken": wording.text, "steps": "; ".join([*([", ".join(steps)] if steps else []), *told])}


def _marks(wording: Wording) -> str:
    """A few words where nothing but marks have changed, as a book's apostrophes do in nearly every line: its
    words needn't stand there twice. Empty where more has changed."""
    if any(each.step != LETTERS or any(map(str.isalnum, each.was + each.now)) for each in wording.changes):
        return ""
    pairs = dict.fromkeys((each.was.strip(), each.now.strip()) for each in wording.changes)
    told = [f"{was or 'space'} read as {now}" if now else f"{was or 'space'} left out" for was, now in pairs]
    return ", ".join(told[:3]) + (", ..." if len(told) > 3 else "")


def _take(room: Room, take: SceneTake) -> dict[str, Any]:
    length = f"{take.num_samples / take.sample_rate:.1f} s"
    is_here = room.has_sound(take.id)
    facts = [
        length,
        take.model,
        *in_words(take.flags),
        *([] if is_here else ["performed again when you press Perform"]),
    ]
    wish = " · ".join(filter(None, (take.direction, take.note)))
    return {
        "id": take.id,
        "facts": " · ".join(facts),
        "seed": str(take.seed),
        "sound": is_here,
        "wish": wish,
        "cut": take.finish_reason == "cancelled",
        "star": take.id in room.scene.starred,
        "accepted": room.scene.accepted.get(take.line_id) == take.id,
        "model": take.model,
    }


def _opened(room: Room, engine: Engine) -> dict[str, Any] | None:
    lines = {line.id: line for line in room.scene.lines}
    if room.opened not in lines:
        return None
    line = lines[room.opened]
    takes = [_take(room, take) for take in room.scene.takes_of(line.id)]
    return {"line": line.id, "takes": takes, "memory": _memory(room, engine, line)}


def _memory(room: Room, engine: Engine, line: SceneLine) -> dict[str, Any]:
    """What a line's actor remembers at it, of what came before."""
    family = engine.family
    if not family.capabilities.history:
        return {"told": f"{family.name} performs every line by itself; it remembers nothing.", "lines": []}
    before = [each for each in room.scene.lines[: line.number - 1] if each.actor == line.actor]
    if not before:
        return {"told": f"{line.speaker} has not spoken yet; there is nothing to remember.", "lines": []}
    scene = room.scene_for(family)
    try:
        kept = remembered_at(scene, line.id, engine)
    except RequestError:
        return {
            "told": f"What {line.speaker} remembers shows once a line before this is performed.",
            "lines": [],
        }
    many = "1 earlier line" if len(kept.lines) == 1 else f"{len(kept.lines)} earlier lines"
    told = (
        f"{line.speaker} remembers {many}: {kept.rows:,} rows of the {kept.room:,} that {family.name} keeps."
    )
    if kept.dropped:
        told += f" Older ones that have gone: {len(kept.dropped)}."
    how = {each.id: _remembered(room, each, kept.lines, kept.dropped) for each in before}
    return {
        "told": told,
        "share": round(kept.rows / kept.room, 3) if kept.room else 0.0,
        "lines": [
            {"id": each.id, "number": each.number, "text": each.text[:120], "how": how[each.id]}
            for each in before
        ],
    }


def _remembered(room: Room, line: SceneLine, kept: tuple[str, ...], dropped: tuple[str, ...]) -> str:
    if how := room.scene.memory.get(line.id):
        return how
    return "remembered" if line.id in kept else "dropped" if line.id in dropped else "not performed"


def _card(name: str, key: str, lines: int, voice: Voice, ready: dict[str, ReadyVoice]) -> dict[str, Any]:
    return {
        "key": key,
        "name": name,
        "lines": lines,
        "kind": CLIPS if voice.kind == FILE else voice.kind,
        "ready": voice.ready,
        "description": voice.description,
        "scene": voice.scene,
        "about": about(voice, ready),
        "mine": voice.kind in (CLIPS, FILE),
    }


def _landmarks(room: Room) -> dict[str, list[str]]:
    """Stretches of the script that help to find one's way, by the line that they stand before."""
    script, source = room.script, room.source
    starts = [line.spans[0][0] for line in script.lines]
    found: dict[str, list[str]] = {}
    for each in script.shown:
        if each.kind in LANDMARKS:
            index = bisect_right(starts, each.start)
            if index < len(room.scene.lines):
                found.setdefault(room.scene.lines[index].id, []).append(source[each.start : each.end][:200])
    return found
