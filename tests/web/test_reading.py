"""What the page shows of a line that its model can't read as it is written."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import gradio as gr
import pytest
import torch

from engine.drama3.family import Drama3Family
from engine.engine import Engine
from web.handlers import Stage
from web.queue import Gate
from web.rooms import Rooms
from web.scene_stage import SceneStage
from web.shelf import Shelf
from web.takes import entry, in_words

SMALL = " !',-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz—"
KEY = "k" * 32
REQUEST = gr.Request(session_hash="s")


@pytest.fixture
def scenes(drama3_tiny, tmp_path):
    """The scene's handlers over the tiny checkpoint, which says that it reads English letters only."""
    folder = shutil.copytree(drama3_tiny / "checkpoint", tmp_path / "small")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"characters": SMALL, "languages": ["en"], "performs_cues": False})
    )
    family = Drama3Family.load(folder, "small", "local", torch.device("cpu"))
    shelf, rooms = Shelf(), Rooms()
    made = SceneStage(Stage(Engine(family), Gate(), shelf), rooms)
    yield made
    shelf.close()
    rooms.close()


def rows(scenes: SceneStage, script: str) -> list[dict]:
    room = scenes.rooms.room(KEY)
    scenes._write(room, script)
    return scenes.rows(room)["rows"]


def test_a_line_shows_what_is_spoken_of_it_and_what_cannot_be_read(scenes):
    changed, unread, cue, plain = rows(
        scenes, "ANN: I can’t owe 20.\nANN: Say 日本 now.\nANN: Go [sighs] on.\nANN: No."
    )
    assert (changed["spoken"], changed["steps"]) == ("I can't owe twenty.", "letters, numbers")
    assert (unread["spoken"], unread["steps"]) == ("Say now.", "letters; small can't read “日本”; left out.")
    assert (cue["spoken"], cue["steps"]) == ("Go on.", "cues")
    assert (plain["spoken"], plain["steps"]) == ("", "")


def test_a_line_of_which_only_marks_are_read_otherwise_stands_there_once(scenes):
    """C-01: the curly apostrophes of a play are in nearly every line."""
    marks, quotes, both = rows(scenes, "ANN: I can’t – I won’t.\nANN: He said “no”.\nANN: I can’t, José.")
    assert (marks["spoken"], marks["steps"]) == ("", "’ read as ', – read as —")
    assert quotes["spoken"] == ""
    assert quotes["steps"].startswith("“ ")
    assert (both["spoken"], both["steps"]) == ("I can't, Jose.", "letters")


def test_the_switch_shows_what_the_model_needs_and_can_be_turned_off(scenes):
    rows(scenes, "ANN: I owe 20.")
    room = scenes.rooms.room(KEY)
    assert scenes._all(room)[3] is True
    assert room.scene.reading.numbers is None
    (row,) = scenes.change_reading(KEY, "", True, False, [], REQUEST)["rows"]
    assert (row["spoken"], room.scene.reading.numbers) == ("I owe.", False)
    assert "small can't read “20”; left out." in row["steps"]
    scenes.change_reading(KEY, "", True, True, [], REQUEST)
    assert room.scene.reading.numbers is None


def test_a_take_in_the_list_says_what_was_spoken_and_left_out():
    card = {"text": "Say 日本 20.", "performed": "Say twenty.", "flags": ["unread(2)"], "seed": 1}
    take = SimpleNamespace(card=card | {"finish_reason": "stop"}, audio_s=1.0)
    assert in_words(["unread(2)"]) == ["2 characters left out that it can't read"]
    assert entry(take)["facts"] == (
        "1.0 s · 2 characters left out that it can't read · spoken: Say twenty. · seed 1"
    )
