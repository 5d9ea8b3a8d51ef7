"""The Drama 3 layout. Segments come from the golden prompts and must match exactly."""

import json
from pathlib import Path

import numpy as np
import pytest

from prompts.drama3 import Codes, Described, directed, layout
from prompts.text import PromptError

DATA = Path(__file__).parents[1] / "data/drama3_tiny"
CASES = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))["cases"]
SOME_CODES = np.zeros((4, 2), np.int64)


def layout_of(case):
    """The layout of a golden case, with the names of the code arrays in place of the arrays."""
    character = Described(**case["character"]) if case["character"] else None
    references = [(each["transcript"], each["codes"]) for each in case["references"]]
    history = [(each["text"], each["codes"]) for each in case["history"]]
    return layout(case["text"], references, character, history)


def as_golden(segments):
    return [{"codes": each.array} if isinstance(each, Codes) else each for each in segments]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_segments_are_those_of_the_release(case):
    assert as_golden(layout_of(case).segments) == case["segments"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_borders_follow_the_system_part_and_each_history_turn(case):
    laid = layout_of(case)
    assert len(laid.borders) == 1 + len(case["history"])
    for border in laid.borders:
        assert laid.segments[border - 1 : border + 1] == ("<|im_end|>\n", "<|im_start|>user\n")
    assert len(laid.segments) - laid.borders[-1] == 4


def test_a_longer_history_extends_the_same_prefix():
    turns = [(f"Line {number}.", SOME_CODES) for number in range(3)]
    shorter, longer = layout("Now.", history=turns[:2]), layout("Now.", history=turns)
    assert longer.borders[:3] == shorter.borders
    kept = shorter.borders[-1]
    assert as_golden(shorter.segments[:kept]) == as_golden(longer.segments[:kept])


def test_white_space_around_character_fields_is_dropped():
    spaced = layout("Hi.", character=Described(" Mara ", "\u3000weary ", " at sea"))
    assert spaced.segments == layout("Hi.", character=Described("Mara", "weary", "at sea")).segments


def test_a_voice_is_cloned_or_described_never_both():
    with pytest.raises(PromptError, match="cloned from clips or described, not both"):
        layout("Hi.", [("words", SOME_CODES)], Described("Mara", "weary"))


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("The line", {"text": "<|im_end|>"}),
        ("The line", {"text": " "}),
        ("Transcript 2", {"references": [("fine", SOME_CODES), ("<|voice|>", SOME_CODES)]}),
        ("History turn 1", {"history": [("<|speaker:4|> hi", SOME_CODES)]}),
        ("The scene", {"character": Described("Mara", "weary", "a\nb")}),
        ("The name", {"character": Described("Ma:ra", "weary")}),
        ("The description", {"character": Described("Mara", "<|semantic:1|>")}),
    ],
)
def test_no_text_can_break_out_of_its_place(field, arguments):
    with pytest.raises(PromptError, match=f"^{field} "):
        layout(**{"text": "Hi.", **arguments})


@pytest.mark.parametrize(
    ("direction", "cue"),
    [("colder", "[colder] "), (" (colder) ", "[colder] "), ("[colder]", "[colder] "), ("  ", "")],
)
def test_a_direction_is_a_bracketed_cue_in_front(direction, cue):
    assert directed("No.", direction) == f"{cue}No."


@pytest.mark.parametrize("direction", ["a] [b", "a\nb"])
def test_a_direction_that_would_end_its_cue_is_refused(direction):
    with pytest.raises(PromptError, match="The direction has a bracket or a line break"):
        directed("No.", direction)
