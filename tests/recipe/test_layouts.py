"""What the language model is trained on is what it will be asked."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from engine.models import UNDERSTUDY
from prompts.drama3 import directed


@pytest.fixture(scope="module")
def encode(recipe):
    return recipe.layouts.Encoder(Tokenizer.from_file(str(UNDERSTUDY / "tokenizer.json")))


@pytest.mark.parametrize("number", range(6))
def test_a_prompt_has_the_engines_rows(recipe, encode, family, prompt_of, expected, number):
    case = expected[number]
    voices, history = (
        [(said["text"], np.array(said["codes"], np.int16).T) for said in case.get(name, ())]
        for name in ("voices", "history")
    )
    segments = recipe.layouts.layout(case["text"], voices, history, case.get("character"), case.get("scene"))
    first, books = family.config.semantic_start_token_id, family.num_codebooks
    np.testing.assert_array_equal(recipe.layouts.rows(segments, encode, first, books), prompt_of(case))


def test_the_tokenizer_is_the_one_of_the_checkpoint(recipe, tmp_path):
    recipe.layouts.build_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert (tmp_path / "tokenizer.json").read_text() == Path(UNDERSTUDY / "tokenizer.json").read_text()


def test_the_fast_encoder_gives_the_tokenizers_ids(recipe, encode):
    texts = [
        'Well - what\'s "this"?\nA line.',
        "system\nnot a phrase here",
        "<|speaker:0|> Hello",
        "caf\u00e9",
    ]
    for text in texts:
        assert encode(text).tolist() == encode.tokenizer.encode(text).ids


@pytest.mark.parametrize(("pitch", "word"), [("low", ("deep", "low")), ("high", ("high", "bright", "light"))])
def test_a_description_that_must_tell_the_pitch_tells_it(recipe, pitch, word):
    session = dict(gender="f", accent="us", speed=1.0)
    for seed in range(50):
        text = recipe.layouts.describe(random.Random(seed), session, pitch, 0.0, pitch_told=True).lower()
        assert any(w in text for w in word), text


def test_a_false_description_differs_in_what_it_is_false_about(recipe):
    session = dict(gender="m", accent="gb", speed=1.0)
    assert recipe.layouts.opposite(session, "low", "pitch") == (session, "high")
    assert recipe.layouts.opposite(session, "high", "gender") == ({**session, "gender": "f"}, "high")


@pytest.mark.parametrize("words", ["softly", "Very slowly, whispering.", "at the top of his voice", ""])
def test_a_direction_stands_where_the_app_puts_it(recipe, words):
    assert recipe.layouts.directed("I know.", words) == directed("I know.", words)
