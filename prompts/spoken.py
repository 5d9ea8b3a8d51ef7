"""From the words of a line to the words that are spoken, every step visible.

`spoken` is the way in. The steps, in this order: the stage-marks cleaner (on by default) takes out markdown
marks and emoji; the project's glossary respells names; cues in brackets go, for a model that would read them
out; numbers and abbreviations are written out (off by default); what a model can't read becomes what it can,
or goes (`prompts/letters.py`). Each change is told with its place in the line as written. A text must be
checked afterwards (`prompts.text.check_line`): without its marks `<|im_**start|>` is a control token.

The cleaner only ever takes away. Asterisks, underscores and backticks go where they mark words, and stay
between two letters or digits ("5*3", "snake_case", "don`t") and alone between spaces ("5 * 3"); bold marks
go inside words, too. What goes besides: `~~`, `#` and `>` at the beginning of a row, the brackets and the
address of a link, and white space that would be left doubled. Emoji are those of Unicode 16 (emoji-data.txt)
with their sequences. Signs that are read or are punctuation are none by themselves: ©, ®, ™ and ℹ go where a
selector makes pictures of them, ‼, ⁉ and 〰 stay and lose the selector.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from prompts import text as words
from prompts.changes import Change, Trail, Wording, changed
from prompts.letters import DIGITS, before_numbers, fold, plain_spaces, spelled
from prompts.numbers import read_numbers
from prompts.text import PromptError

GLOSSARY_ENTRIES = 500

# Emoji=Yes below U+1F000, without digits and without the signs that are read.
_EMOJI_SIGNS = (
    "\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0"
    "\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f"
    "\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u267f\u2692-\u2697"
    "\u2699\u269b\u269c\u26a0\u26a1\u26a7\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf"
    "\u26d1\u26d3\u26d4\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714"
    "\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764\u2795-\u2797"
    "\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
)
# Extended_Pictographic from U+1F000, code points kept for later emoji included; flags and skin tones.
_PICTURES = (
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e"
    "\U0001f191-\U0001f19a\U0001f1ad-\U0001f1ff\U0001f201-\U0001f20f\U0001f21a\U0001f22f\U0001f232-\U0001f23a"
    "\U0001f23c-\U0001f23f\U0001f249-\U0001f64f\U0001f680-\U0001f6ff\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff"
    "\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001faff"
)
_TAIL = "[\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f]*"
_ELEMENT = f"(?:[{_EMOJI_SIGNS}{_PICTURES}]|[©®™ℹⓂ㊗㊙]\ufe0f|[0-9#*]\ufe0f?\u20e3){_TAIL}"
_EMOJI = re.compile(f"(?<!\u200d)\u200d*(?:{_ELEMENT}\u200d*)+|[\ufe0e\ufe0f\u20e3]+")

_LINK = re.compile(r"!?\[([^\[\]\n]{1,200})\]\((?:https?:|mailto:|www\.|[/#]|[\w-]+\.\w)[^()\s]{0,400}\)")
_ROW_MARK = re.compile(r"^[ \t]*((?:>[ \t]*)+(?:#{1,6}(?=[ \t]))?|#{1,6}(?=[ \t])|\*(?=[ \t]))", re.MULTILINE)
_MARK_CLUSTER = re.compile(r"[*_`~]+")
_MARK_RUN = re.compile(r"\*+|_+|`+|~~+")
_SPACED_CUE = re.compile(rf"[{words.WHITE_SPACE}]{{0,8}}{words.CUE.pattern}(?=[.,;:!?…])|{words.CUE.pattern}")
_LINE_BREAK = re.compile(f"[{words.LINE_BREAKS}]")
_SPACES = re.compile(f"[{words.WHITE_SPACE}]")


def spoken(
    text: str,
    *,
    clean: bool = True,
    numbers: bool = False,
    glossary: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    language: str = "en",
    cues: bool = True,
    sounds: tuple[str, ...] | None = None,
    characters: str | None = None,
) -> Wording:
    """What is spoken of `text`, all changes placed in `text`. Raises PromptError for a faulty glossary.

    `cues`: whether the model performs them; `sounds`, if given, are the only ones that it performs behind the
    first word. `characters` are those that it reads, "" for all; without them nothing is folded.
    """
    trail, changes, note = Trail(text), [], ""
    steps = [_clean] if clean else []
    steps.append(lambda now: respell(now, dict(glossary)))
    if not cues:
        steps.append(cut_cues)
    elif sounds is not None:
        steps.append(lambda now: cut_cues(now, sounds, direction=True))
    steps += _reading(numbers, language, characters)
    for step in steps:
        done = step(text)
        changes += trail.follow(done.changes)
        text, note = done.text, done.note or note
    return Wording(text, tuple(sorted(changes, key=lambda change: change.start)), note)


def _reading(numbers: bool, language: str, characters: str | None) -> list[Callable[[str], Wording]]:
    """The steps that make digits words, and the characters those of the model."""
    reader = [lambda now: _read_outside_cues(now, language)] if numbers else []
    if characters is None:
        return reader
    if not characters:
        return [plain_spaces, *reader]
    steps = [lambda now: fold(now, characters)]
    if numbers:
        rest = [] if set(DIGITS) <= set(characters) else [spelled]
        steps = [lambda now: before_numbers(now, characters), *reader, *rest, *steps]
    return steps


def _read_outside_cues(text: str, language: str) -> Wording:
    """`read_numbers`, but for what stands in square brackets: that is played, not said."""
    read = read_numbers(text, language)
    inside = {place for found in words.CUE.finditer(text) for place in range(*found.span())}
    changes = tuple(change for change in read.changes if change.start not in inside)
    return Wording(changed(text, changes), changes, read.note)


def cut_cues(text: str, keep: Container[str] = (), direction: bool = False) -> Wording:
    """`text` without its cues in square brackets but those that `keep` names, in small letters, and, with
    `direction`, the one in front; and without the space that would be left doubled."""
    gone = bytearray(len(text))
    for found in _SPACED_CUE.finditer(text):
        inner = words.strip(words.strip(found[0])[1:-1]).casefold()
        in_front = direction and not words.strip(text[: found.start()])
        if inner not in keep and not in_front:
            gone[found.start() : found.end()] = b"\1" * len(found[0])
    return _without(text, gone, "cues")


def clean(text: str) -> Wording:
    """`text` without markdown marks and emoji: `changes` take away, and put nothing in their place."""
    emoji = [found.span() for found in _EMOJI.finditer(text)]
    gone = bytearray(len(text))
    for start, end in [*emoji, *_marks(text, emoji)]:
        gone[start:end] = b"\1" * (end - start)
    return _without(text, gone, "stage marks")


_clean = clean  # `spoken` has a switch of that name


def _without(text: str, gone: bytearray, step: str) -> Wording:
    """`text` without the characters whose place in `gone` is 1, nor the space that they leave doubled."""
    for start, end in list(_doubled_space(text, gone)):
        gone[start:end] = b"\1" * (end - start)
    stretches = (found.span() for found in re.finditer(b"\1+", gone))
    changes = tuple(Change(start, end, text[start:end], "", step) for start, end in stretches)
    return Wording(changed(text, changes), changes)


def respell(text: str, glossary: Mapping[str, str]) -> Wording:
    """`text` with the words of `glossary` respelt: whole words, whatever their case, the longest first.

    Raises PromptError for an entry that is empty or can't stand in a prompt, or for more than 500 of them.
    """
    check_glossary(glossary)
    if not glossary:
        return Wording(text)
    keys = sorted((words.strip(key) for key in glossary), key=len, reverse=True)
    by_key = {words.strip(key): words.strip(respelling) for key, respelling in glossary.items()}
    pattern = re.compile("|".join(rf"(?<!\w)({re.escape(key)})(?!\w)" for key in keys), re.IGNORECASE)
    changes = tuple(
        Change(*found.span(), found[0], by_key[keys[found.lastindex - 1]], "glossary")
        for found in pattern.finditer(text)
        if not unicodedata.category(text[found.end() : found.end() + 1] or " ").startswith("M")
    )
    return Wording(changed(text, changes), changes)


def check_glossary(glossary: Mapping[str, str]) -> None:
    """Raise PromptError, one sentence, unless every entry of `glossary` can be used."""
    if len(glossary) > GLOSSARY_ENTRIES:
        raise PromptError(
            f"The glossary has {len(glossary):,} entries, the limit is {GLOSSARY_ENTRIES}; remove some."
        )
    for key, respelling in glossary.items():
        words.refuse_request_text(key, "A word of the glossary")
        words.refuse_request_text(respelling, f"The respelling of “{words.strip(key)}”")


def _marks(text: str, emoji: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans of markdown marks."""
    for found in _LINK.finditer(text):
        yield found.start(), found.start(1)
        yield found.end(1), found.end()
    for found in _ROW_MARK.finditer(text):
        yield found.span(1)
    in_emoji = {place for start, end in emoji for place in range(start, end)}
    for cluster in _MARK_CLUSTER.finditer(text):
        start, end = cluster.span()
        left, right = text[max(0, start - 1) : start], text[end : end + 1]
        for found in _MARK_RUN.finditer(text, start, end):
            if found.start() not in in_emoji and _marks_words(found[0], left, right):
                yield found.span()


def _marks_words(run: str, left: str, right: str) -> bool:
    """Whether a run of one mark marks words, from the characters beside it and its kin."""
    if left.isalnum() and right.isalnum():
        is_bold = run[0] == "*" and len(run) > 1
        return run[0] == "~" or (is_bold and not (left.isdigit() and right.isdigit()))
    stands_alone = all(not mark or mark in words.WHITE_SPACE for mark in (left, right))
    return len(run) > 1 or not stands_alone


def _doubled_space(text: str, gone: bytearray) -> Iterator[tuple[int, int]]:
    """White space to take away, so that what stood on both sides of the gone stretches stands once.

    Of the white space around them the first stays, or the first with a line break; at the beginning and the
    end of the text none does.
    """
    for found in re.finditer(b"\2*\1[\1\2]*", _places(text, gone)):
        start, end = found.span()
        spaces = [(start + each.start(), start + each.end()) for each in re.finditer(b"\2+", found[0])]
        at_edge = (start == 0 and gone[start]) or (end == len(text) and gone[end - 1])
        if not at_edge:
            breaks = (span for span in spaces if _LINE_BREAK.search(text, *span))
            kept = next(breaks, spaces[0] if spaces else None)
            spaces = [span for span in spaces if span != kept]
        yield from spaces


def _places(text: str, gone: bytearray) -> bytes:
    """One byte a character: 1 where it is gone, 2 for white space, 0 otherwise."""
    places = bytearray(gone)
    for found in _SPACES.finditer(text):
        if not gone[found.start()]:
            places[found.start()] = 2
    return bytes(places)
