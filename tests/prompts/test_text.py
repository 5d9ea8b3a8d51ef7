"""The rules for caller text. `validation` and `speaker_tags` are verdicts of code that runs the release."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.text import (
    FIELD_CHARACTERS,
    LINE_CHARACTERS,
    PromptError,
    caller_text_problem,
    check_character_field,
    check_line,
    check_transcript,
    has_something_to_say,
    lasting_cues,
    reference_block,
    request_text_problem,
    special_problem,
    strip,
    tag,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/prompts.json").read_text(encoding="utf-8"))
texts = settings(max_examples=60, deadline=None)
snippets = st.lists(
    st.sampled_from(["<|speaker:0|>", "<|speaker:12|>", " ", "\u3000", "\x1c", "hi", "<|"]), max_size=6
)


@pytest.mark.parametrize("case", GOLDEN["validation"], ids=lambda case: ascii(case["text"]))
def test_caller_text_is_judged_as_the_release_judges_it(case):
    assert (caller_text_problem(case["text"]) is None) == case["caller_text_ok"]
    assert (request_text_problem(case["text"]) is None) == case["request_ok"]


@pytest.mark.parametrize("case", GOLDEN["speaker_tags"], ids=lambda case: ascii(case["text"]))
def test_speaker_tags_stand_where_the_release_puts_them(case):
    assert tag(case["text"]) == case["tagged"]
    assert reference_block(case["text"]) == case["reference_block"]


@texts
@given(snippets.map("".join))
def test_tagging_twice_is_tagging_once(text):
    assert tag(tag(text)) == tag(text)
    assert reference_block(reference_block(text)) == reference_block(text)


@texts
@given(st.text(max_size=40))
def test_a_reference_block_keeps_every_character_of_the_transcript(text):
    assert sorted(reference_block(text)) == sorted(tag(text))


def test_only_unicode_white_space_is_stripped():
    assert strip("\u2003\x85 a\u200b\x1c \u3000") == "a\u200b\x1c"


@pytest.mark.parametrize("token", ["<|im_start|>", "<|im_end|>", "<|voice|>", "<|text|>", "<|interleave|>"])
def test_a_control_token_is_refused_by_name(token):
    with pytest.raises(PromptError) as refusal:
        check_line(f"Hello {token} there")
    assert str(refusal.value) == f"The line contains the control token {token}; remove it."


@pytest.mark.parametrize(
    "text", ["<|semantic:3|> hi", "hi <|speaker:3|>", "hi <|speaker:07|>", "broken \ud83d half"]
)
def test_what_would_break_the_prompt_is_refused(text):
    with pytest.raises(PromptError, match=r"^The line contains "):
        check_line(text)


def test_the_door_refuses_other_specials_of_the_tokenizer_and_the_prompt_layer_does_not():
    specials = ["<|endoftext|>", "<|audio_separator|>", "<|speaker:0|>"]
    text = "one <|audio_separator|> two"
    assert request_text_problem(text) is None
    assert special_problem("<|speaker:0|> hi", specials) is None
    with pytest.raises(
        PromptError, match=r"The line contains the control token <\|audio_separator\|>; remove it\."
    ):
        check_line(text, specials)


@pytest.mark.parametrize(
    "text",
    ["", " \u3000\n", "...", "-", "?!", "🏃🏽‍♂️", "❤️", "1️⃣", "ℹ️", "<|speaker:0|> …", "[...]", "\u200b", "。"],
)
def test_punctuation_and_pictures_alone_are_nothing_to_say(text):
    assert not has_something_to_say(text)
    with pytest.raises(PromptError):
        check_line(text)


@pytest.mark.parametrize("text", ["No.", "[sighs]", "(laughs)", "7", "你", "نعم", "é", "हाँ", "½"])
def test_a_word_a_digit_or_a_cue_is_something_to_say(text):
    assert has_something_to_say(text)
    check_line(text)


def test_limits_count_characters_and_name_the_field():
    check_line("a" * LINE_CHARACTERS)
    check_transcript("a" * FIELD_CHARACTERS, 1)
    with pytest.raises(PromptError, match=r"^The line has 5,001 characters, the limit is 5,000; "):
        check_line("a" * (LINE_CHARACTERS + 1))
    with pytest.raises(PromptError, match=r"^Transcript 2 has 2,001 characters, the limit is 2,000; "):
        check_transcript("a" * (FIELD_CHARACTERS + 1), 2)
    with pytest.raises(PromptError, match=r"^The description has 2,001 characters"):
        check_character_field("a" * (FIELD_CHARACTERS + 1), "description")


def test_a_history_turn_is_named_in_the_refusal():
    with pytest.raises(PromptError, match=r"^History turn 3 is empty; fill it in\.$"):
        check_line("  ", field="History turn 3")


def test_a_missing_transcript_asks_for_the_words_of_the_clip():
    with pytest.raises(PromptError, match=r"^Transcript 2 is empty; write the words spoken in the clip\.$"):
        check_transcript(" ", 2)


@pytest.mark.parametrize("field", ["name", "description", "scene"])
@pytest.mark.parametrize("text", ["", "two\nlines", "two\rlines", "two\u2028lines", "<|im_end|>"])
def test_character_fields_are_single_lines_without_control_tokens(field, text):
    with pytest.raises(PromptError, match=f"^The {field} "):
        check_character_field(text, field)


def test_only_a_name_must_not_have_a_colon():
    check_character_field("tired: very tired", "description")
    with pytest.raises(PromptError, match=r"^The name has a colon; "):
        check_character_field("Mara:", "name")


@pytest.mark.parametrize("value", [None, 3, b"bytes", ["text"]])
def test_a_line_that_is_not_text_is_refused(value):
    with pytest.raises(PromptError, match=r"^The line is a .*; give it as text\.$"):
        check_line(value)


@pytest.mark.parametrize(
    ("text", "lasting"),
    [
        ("[whispering] Come.", "[whispering]"),
        (" [softly][sighs] Come.", "[softly]"),
        ("[a little louder] Come.", "[a little louder]"),
        ("[laughs] Come.", ""),
        ("[takes a breath] Come.", ""),
        ("[long pause] Come.", ""),
        ("[clears throat] [angry] Come.", "[angry]"),
        ("Come. [softly] Now.", ""),
        ("[] Come.", ""),
        ("Come.", ""),
    ],
)
def test_directions_at_the_front_last_and_sounds_do_not(text, lasting):
    assert lasting_cues(text) == lasting
