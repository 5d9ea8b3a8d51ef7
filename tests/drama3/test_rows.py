"""Rows of the golden prompts, through the tiny checkpoint's own tokenizer: exact."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from engine.drama3.config import Drama3Config
from engine.drama3.rows import count_rows, layout_rows
from engine.take import RequestError
from prompts.drama3 import Codes, Described, Layout, layout

DATA = Path(__file__).parents[1] / "data/drama3_tiny"
CASES = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))["cases"]
ARRAYS = np.load(DATA / "prompts.npz")
CONFIG = Drama3Config.from_folder(DATA / "checkpoint")
SIZES = (CONFIG.semantic_start_token_id, CONFIG.tower.num_codebooks, CONFIG.tower.vocab_size)
TOKENIZER = Tokenizer.from_file(str(DATA / "checkpoint/tokenizer.json"))
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])


def encode(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


def layout_of(case):
    character = Described(**case["character"]) if case["character"] else None
    references = [(each["transcript"], ARRAYS[f"codes_{each['codes']}"]) for each in case["references"]]
    history = [(each["text"], ARRAYS[f"codes_{each['codes']}"]) for each in case["history"]]
    return layout(case["text"], references, character, history)


@by_name
def test_rows_are_those_of_the_release(case):
    made, _ = layout_rows(layout_of(case), encode, *SIZES)
    assert made.dtype == np.int64
    assert made.shape == (case["rows"], 1 + SIZES[1])
    np.testing.assert_array_equal(made, ARRAYS[f"rows_{case['name']}"])


@by_name
def test_borders_count_the_rows_of_the_segments_before_them(case):
    laid = layout_of(case)
    _, borders = layout_rows(laid, encode, *SIZES)
    assert borders == tuple(len(rows(laid.segments[:border], encode, *SIZES)) for border in laid.borders)


@by_name
def test_rows_are_counted_without_being_made(case):
    laid = layout_of(case)
    made, borders = layout_rows(laid, encode, *SIZES)
    assert count_rows(laid, lambda text: len(encode(text))) == (len(made), borders)


def test_the_rows_before_a_border_do_not_depend_on_what_follows():
    turns = [("It came up the stairs.", ARRAYS["codes_turn_1"]), ("I hid.", ARRAYS["codes_turn_2"])]
    short, short_borders = layout_rows(layout("Now.", history=turns[:1]), encode, *SIZES)
    long, long_borders = layout_rows(layout("Later.", history=turns), encode, *SIZES)
    assert long_borders[:2] == short_borders
    np.testing.assert_array_equal(short[: short_borders[1]], long[: short_borders[1]])


def rows(segments, *how):
    """The rows of `segments` alone."""
    return layout_rows(Layout(tuple(segments), ()), *how)[0]


def test_no_segments_are_no_rows():
    assert rows([], encode, *SIZES).shape == (0, 1 + SIZES[1])


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.int64, np.uint64])
def test_any_integer_codes_will_do(dtype):
    codes = np.array([[1, 2], [3, 4], [5, 6], [7, 63]], dtype)
    made = rows([Codes(codes, "the codes")], encode, *SIZES)
    assert made.tolist() == [[440, 1, 3, 5, 7], [441, 2, 4, 6, 63]]


def test_a_refusal_says_which_turn_has_the_wrong_codes():
    turns = [("One.", ARRAYS["codes_turn_1"]), ("Two.", ARRAYS["codes_turn_2"] + 64)]
    with pytest.raises(RequestError, match=r"^The codes of history turn 2 hold "):
        layout_rows(layout("Three.", history=turns), encode, *SIZES)
