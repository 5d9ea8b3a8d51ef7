"""What is spoken of a row, and what its brackets are. All forms share this.

A bracket is one thing wherever it stands:

- `(beat)`, `(pause)`, `[long pause]` between words is a silence;
- `(...)` in front of the words of a speech is a direction, anywhere else it isn't spoken;
- `[...]` is a direction in the same way if it reads like one: it begins with a capital letter, ends with
  a full stop, or begins with a word of the stage ("exit", "aside", "to"). Otherwise it is a sound to
  perform, such as `[sighs]`, and stays in the text: how it is voiced is the model's affair;
- one that is glued to a word ("house(s)"), that holds figures ("(555) 0199") or the address of a link is
  words.
"""

from __future__ import annotations

import re

from prompts.copyist import SPACELESS, Copyist, beat_seconds
from prompts.rows import Row, Span, brackets
from prompts.text import WHITE_SPACE, has_something_to_say

BRACKETS = 2_000  # of one row; what stands behind them is words

_BEAT_CHARACTERS = 24
_EMPHASIS = "*_"
_STAGE_WORDS = {
    "exit", "exits", "exeunt", "enter", "enters", "entering", "re-enter", "reenter", "reenters", "aside",
    "to", "at", "from", "with", "into", "off", "offstage", "on", "crosses", "crossing", "rises", "rising",
    "sits", "sitting", "stands", "standing", "goes", "going", "comes", "coming", "takes", "taking", "gives",
    "giving", "looks", "looking", "turns", "turning", "walks", "walking", "runs", "running", "pointing",
    "points", "opens", "opening", "closes", "closing", "leaves", "leaving", "moves", "moving", "sees",
    "seeing", "they", "he", "she", "it", "all", "both", "the", "a", "an", "beat", "pause", "music", "sound",
    "sfx", "fx", "lights", "curtain", "kneels", "kneeling", "handing", "hands", "puts",
}  # fmt: skip
_VOICED = re.compile(
    r"(?:[a-z]+ly )?(?:sigh|laugh|chuckl|giggl|cough|sob|cr(?:y|ies)|gasp|groan|moan|whisper|shout|scream"
    r"|yell|clear(?:s|ing)"
    r"|sniff|snort|yawn|hum|breath|inhal|exhal|grunt|hiccup|whimper|weep|sing|whistl|gulp|pant|murmur"
    r"|mutter)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:https?:|mailto:|www\.|[/#]|[\w-]+\.\w)\S*")
_PART_OF_WORD = 3  # "(s)", "(un)", "(ed)"


def read_words(copy: Copyist, row: Row, start: int, is_play: bool = False) -> None:
    """Tell `copy` what is spoken of `row` from its character `start` on. In a play of old, `is_play`, square
    brackets are for the stage alone."""
    text, end = row.text, len(row.text)
    found, unclosed = brackets(text, start)
    for pair in found[:BRACKETS]:
        a, b = _with_emphasis(text, pair, start)
        kind = _kind(text, pair, is_play)
        if kind == "words":
            _tell_of_words(copy, row, pair)
        elif kind == "beat" and not _stands_alone(text, a, b):
            pass
        elif kind != "cue":
            copy.say(row.start + start, row.start + a)
            if kind == "beat" or copy.awaits_words:
                copy.bracket(row.start + a, row.start + b)
            else:
                copy.aside(row.start + a, row.start + b)
            start = b
    copy.say(row.start + start, row.start + end)
    if (
        unclosed
        and text[unclosed[0]] in "(（"
        and has_something_to_say(text[unclosed[0] + 1 : unclosed[0] + 2])
    ):
        copy.problem(
            row.start + unclosed[0], "This bracket is never closed, so its words are spoken; close it."
        )
    if len(found) > BRACKETS:
        copy.problem(
            row.start, f"The row has over {BRACKETS:,} brackets; those behind them are read as words."
        )


def is_direction(text: str, is_play: bool = False) -> bool:
    """Whether `text` as a whole is one bracket, with or without emphasis, and nothing to speak."""
    text = text.strip(WHITE_SPACE)
    if not text or text.strip(_EMPHASIS)[:1] not in tuple("(（[［"):
        return False
    body = text.strip(_EMPHASIS)
    found, _ = brackets(body)
    whole = found == [(0, len(body))]
    return whole and _kind(body, found[0], is_play) not in ("words", "cue")


def is_beat(text: str) -> bool:
    """Whether `text` as a whole is a bracket that asks for a silence."""
    body = text.strip(WHITE_SPACE + _EMPHASIS)
    return (
        bool(body)
        and body[0] in "(（[［"
        and brackets(body)[0] == [(0, len(body))]
        and _kind(body, (0, len(body))) == "beat"
    )


def _kind(text: str, pair: Span, is_play: bool = False) -> str:
    """What the bracket text[a:b] is: beat, direction, cue or words."""
    a, b = pair
    inside = text[a + 1 : b - 1].strip(WHITE_SPACE + _EMPHASIS)
    if _is_glued(text, a, b, inside) or (text[a - 1 : a] == "]" and _ADDRESS.fullmatch(inside)):
        return "words"
    if len(inside) <= _BEAT_CHARACTERS and beat_seconds(inside) is not None:
        return "beat"
    if not any(mark.isalpha() for mark in inside):
        return "words" if has_something_to_say(inside) else "direction"
    if text[a] in "(（" or is_play:
        return "direction"
    return "direction" if text[b : b + 1] != "(" and _is_of_the_stage(inside) else "cue"


def _is_glued(text: str, a: int, b: int, inside: str) -> bool:
    """Whether the bracket is part of a word beside it. Scripts without spaces have no such words."""
    before, behind = text[a - 1 : a] if a else "", text[b : b + 1]
    if before.isalnum() and not SPACELESS.match(before):
        return True
    is_short = " " not in inside and len(inside) <= 2 * _PART_OF_WORD
    return is_short and behind.isalnum() and not SPACELESS.match(behind) and not before.isalnum()


def _is_of_the_stage(inside: str) -> bool:
    first = inside.split(None, 1)[0].strip(".,;:!?").casefold()
    if _VOICED.match(inside) and len(inside.split()) <= _PART_OF_WORD:
        return False
    return (
        inside[0].isupper()
        or inside[-1] in ".!"
        or first in _STAGE_WORDS
        or any(mark.isupper() for mark in inside)
    )


def _tell_of_words(copy: Copyist, row: Row, pair: Span) -> None:
    inside = row.text[pair[0] + 1 : pair[1] - 1]
    if len(inside) > _PART_OF_WORD and not _ADDRESS.fullmatch(inside):
        copy.problem(
            row.start + pair[0], f"“({inside[:40]})” is spoken; put spaces around it if it is a direction."
        )


def _stands_alone(text: str, a: int, b: int) -> bool:
    """Whether white space, or a mark of CJK, stands on both sides of a silence."""
    sides = text[a - 1 : a] if a else "", text[b : b + 1]
    return all(
        not mark or mark in WHITE_SPACE or not mark.isalnum() or SPACELESS.match(mark) for mark in sides
    )


def _with_emphasis(text: str, pair: Span, start: int) -> Span:
    """The bracket with the same emphasis on both sides of it."""
    a, b = pair
    while a > start and text[a - 1] in _EMPHASIS and text[b : b + 1] == text[a - 1]:
        a, b = a - 1, b + 1
    return a, b
