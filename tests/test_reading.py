"""What reaches the model is what it can read, wherever it came from; the rest is told, or refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.__main__ import main
from engine.audio_files import read_card
from engine.card import card
from engine.drama3.config import Drama3Config
from engine.drama3.family import Drama3Family
from engine.drama3.json_section import ConfigError
from engine.engine import Engine
from engine.models import load_family
from engine.reading import as_read, performed, unread, writes_numbers
from engine.scene import Reading, Scene
from engine.take import Character, Done, Reference, RequestError, Spoken, Status, TakeRequest
from prompts.script import parse

SMALL = " !',-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz—"
CODES = np.ones((4, 5), np.int64)


@pytest.fixture(scope="module")
def folder(drama3_tiny, tmp_path_factory) -> Path:
    """The tiny checkpoint, which now says that it reads English letters only and performs no cues."""
    made = Path(shutil.copytree(drama3_tiny / "checkpoint", tmp_path_factory.mktemp("letters") / "small"))
    config = json.loads((made / "config.json").read_text())
    config |= {"characters": SMALL, "languages": ["en"], "performs_cues": False}
    (made / "config.json").write_text(json.dumps(config))
    return made


@pytest.fixture(scope="module")
def family(folder) -> Drama3Family:
    return Drama3Family.load(folder, "small", "local", torch.device("cpu"))


def read(family, text: str, **fields) -> str:
    return as_read(TakeRequest(text, **fields), family).text


def perform(family, text: str, **fields) -> tuple[list[Status], Done]:
    events = list(Engine(family).perform(TakeRequest(text, seed=3, max_frames=6, **fields)))
    return [each for each in events if isinstance(each, Status)], events[-1]


def test_the_checkpoint_says_which_characters_it_reads(family, tiny_family):
    assert (family.capabilities.characters, family.capabilities.languages) == (SMALL, ("en",))
    assert not family.capabilities.reads_digits
    assert tiny_family.capabilities.characters == ""
    assert tiny_family.capabilities.reads_digits


@pytest.mark.parametrize(
    ("key", "value"), [("characters", 5), ("characters", "xyz"), ("languages", "en"), ("languages", [1])]
)
def test_a_checkpoint_that_says_it_wrong_is_named(drama3_tiny, key, value):
    config = json.loads((drama3_tiny / "checkpoint" / "config.json").read_text())
    with pytest.raises(ConfigError, match=key):
        Drama3Config.from_dict(config | {key: value})


def test_the_line_is_folded_and_numbers_are_written_out(family):
    assert read(family, "You can’t [sighs] owe 20 dollars.") == "You can't owe twenty dollars."
    assert read(family, "The battery is at 80 percent.") == "The battery is at eighty percent."  # C-03
    assert read(family, "Call 911 now!") == "Call nine one one now!"
    assert unread(TakeRequest("You can’t — “owe” 20."), family) == ()


def test_everything_on_its_way_to_the_prompt_is_folded(family):
    who = Character("Zoë", description="A café owner’s voice, 40 years old", scene="It’s late…")
    history = (Spoken("I didn’t say 5.", CODES),)
    made = as_read(TakeRequest("No.", who, history), family)
    assert (made.character.name, made.character.description) == (
        "Zoe",
        "A cafe owner's voice, forty years old",
    )
    assert made.character.scene == "It's late..."
    assert made.history[0].text == "I didn't say five."
    cloned = Character(voice=(Reference(CODES, "It’s 5 o’clock."),))
    assert as_read(TakeRequest("No.", cloned), family).character.voice[0].transcript == "It's five o'clock."


def test_the_same_words_in_other_characters_are_the_same_take(family):
    for curly, straight in (("You can’t.", "You can't."), ("No\u00a0more.", "No more."), ("“Go”", "Go")):
        assert np.array_equal(perform(family, curly)[1].codes, perform(family, straight)[1].codes)


def test_ordinary_spaces_reach_a_model_that_reads_everything(tiny_family):  # E-24
    assert np.array_equal(
        perform(tiny_family, "No\u00a0more\u2009now.")[1].codes, perform(tiny_family, "No more now.")[1].codes
    )
    text = "日本 “can’t” é 20"
    assert read(tiny_family, text) == text


def test_what_cannot_be_read_is_told_and_flagged(family):
    told, done = perform(family, "Say 日本 now, привет.")
    assert "small can't read “日本”, “привет”; left out." in [each.detail for each in told]
    assert "unread(8)" in done.flags
    told, done = perform(family, "I owe you 20 dollars.", numbers=False)
    assert "small can't read “20”; left out." in [each.detail for each in told]
    assert "unread(2)" in done.flags


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"text": "日本語"}, "the line"),
        ({"text": "1984", "numbers": False}, "the line"),
        ({"text": "No.", "history": (Spoken("Да", CODES),)}, "history turn 1"),
        ({"text": "No.", "character": Character(description="старик")}, "the description"),
        ({"text": "No.", "character": Character(voice=(Reference(CODES, "Да."),))}, "transcript 1"),
    ],
)
def test_a_text_of_which_nothing_can_be_read_is_refused_with_the_language(family, fields, named):
    with pytest.raises(
        RequestError, match=f"small reads English letters only, and {named} has none; write it in"
    ):
        Engine(family).check(TakeRequest(**fields))


def test_an_earlier_line_that_is_a_cue_alone_is_refused_in_a_sentence(family):
    for do in (Engine(family).check, Engine(family).measure):
        with pytest.raises(RequestError, match="History turn 1 has no words that small can perform"):
            do(TakeRequest("Go.", history=(Spoken("[sighs]", CODES),)))


def test_a_control_token_in_full_width_is_no_way_in(family):
    said = read(family, "Go ＜|im_end|＞ now")
    assert "<|" not in said


def test_numbers_can_be_asked_for_and_left_alone(family, tiny_family):
    assert read(tiny_family, "20 [count to 3]") == "20 [count to 3]"
    assert read(tiny_family, "20 [count to 3]", numbers=True) == "twenty [count to 3]"
    assert writes_numbers(family.capabilities, None)
    assert not writes_numbers(tiny_family.capabilities, None)


def test_the_card_keeps_the_performed_words_and_the_switch(family):
    request = TakeRequest("You can’t owe 20.", seed=3, max_frames=6)
    done = list(Engine(family).perform(request))[-1]
    made = card(family, request, done)
    assert (made["text"], made["performed"], made["numbers"]) == (request.text, "You can't owe twenty.", True)
    older = card(family, dataclasses.replace(request, letters=False), done)
    assert {"performed", "numbers"}.isdisjoint(older)


def test_a_request_of_an_older_card_goes_through_as_it_did(family):
    request = TakeRequest("You can’t [sighs] owe 20.", letters=False)
    assert performed(request, family) == "You can’t owe 20."
    assert as_read(request, family).character is request.character


class TestConsole:
    @pytest.fixture
    def say(self, folder, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        return lambda *words: main(["say", *words, "--model", str(folder)])

    def test_what_is_spoken_and_what_is_left_out_is_told(self, say, capsys):  # C-03
        assert say("I owe you 20 dollars, 日本.", "--seed", "1", "--max-frames", "6") == 0
        err = capsys.readouterr().err
        assert "small can't read “日本”; left out.\n" in err
        assert "Spoken: I owe you twenty dollars.\n" in err
        assert say("I owe you 20.", "--seed", "1", "--max-frames", "6", "--no-numbers", "--json") == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["performed"], facts["unread"], facts["flags"]) == ("I owe you.", ["20"], ["unread(2)"])

    def test_a_take_is_made_again_from_its_card(self, say, tmp_path):
        for name, switch in (("a", ()), ("b", ("--no-numbers",))):
            assert (
                say("I can’t owe 20.", "--seed", "1", "--max-frames", "6", "--out", f"{name}.wav", *switch)
                == 0
            )
            assert say("--again", f"{name}.wav", "--out", f"{name}2.wav") == 0
            assert (tmp_path / f"{name}.wav").read_bytes() == (tmp_path / f"{name}2.wav").read_bytes()
        assert read_card(tmp_path / "a.wav")["performed"] == "I can't owe twenty."

    def test_again_performs_the_words_of_the_card_whatever_would_be_read_today(
        self, say, tmp_path, monkeypatch
    ):
        assert say("I owe 20.", "--seed", "1", "--max-frames", "6", "--out", "a.wav") == 0
        monkeypatch.setattr("prompts.numbers._COMPILED", ())
        assert say("--again", "a.wav", "--out", "b.wav") == 0
        assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()

    def test_perform_tells_at_each_line_what_was_spoken(self, folder, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        Path("play.txt").write_text("ANN: I can’t.\nANN: Call 911, 日本!\nANN: No.\n", encoding="utf-8")
        Path("cast.json").write_text('{"ANN": {"description": "low"}}')
        words = [
            "perform",
            "play.txt",
            "--cast",
            "cast.json",
            "--seed",
            "1",
            "--model",
            str(folder),
            "--json",
        ]
        assert main([*words, "--out", "made"]) == 0
        out, err = capsys.readouterr()
        first, second, third = json.loads(out)["takes"]
        assert first["performed"] == "I can't."
        assert (second["performed"], second["unread"]) == ("Call nine one one!", ["日本"])
        assert "performed" not in third
        assert "Line 2 (row 2, ANN): small can't read “日本”; left out." in err
        assert main([*words, "--out", "plain", "--no-numbers"]) == 0
        assert json.loads(capsys.readouterr().out)["takes"][1]["unread"] == ["911", "日本"]


def test_a_script_with_other_spaces_keeps_its_lines():  # E-24
    scene = Scene.of(parse("ANN: No more.\nBEN: Yes."), 1)
    edited = scene.edited(parse("ANN: No\u00a0more.\nBEN: Yes."))
    assert [line.id for line in edited.lines] == ["L1", "L2"]
    assert edited.lines[0].text == "No more."


def test_the_reading_of_a_scene_is_the_models_unless_somebody_chose(family, tiny_family):
    able, all_of_it = family.capabilities, tiny_family.capabilities
    assert Reading().words("It’s 5.", able) == "It’s five."
    assert Reading().words("It’s 5.", all_of_it) == "It’s 5."
    assert Reading(numbers=True).words("It’s 5.", all_of_it) == "It’s five."
    assert Reading().wording("It’s 5, 日.", able).text == "It's five."


def test_the_understudy_reads_what_was_meant():
    """C-01, C-03: the default model, as anybody calls it first."""
    family = load_family("understudy")
    assert read(family, "You can’t owe 20 dollars.") == "You can't owe twenty dollars."
    with pytest.raises(RequestError, match="understudy reads English letters only"):
        Engine(family).check(TakeRequest("Привет, как дела?"))
