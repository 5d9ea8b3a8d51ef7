"""The Fountain form of a script (https://fountain.io/syntax), and the marks of the page that all forms share.

Our own reader: no parser on PyPI that we found keeps the place of what it reads (at most the number of a
row), so the law of `prompts.copyist` couldn't be kept. Notes and boneyards are gone before a row comes here.
Emphasis stays in the text; the stage-marks cleaner of `prompts.spoken` takes it out.

Choices where the syntax leaves room: a row of capitals with words below is a name even if it looks like a
headline, but the visitor is told; lyrics outside a speech are sung by the one who spoke last; the second
half of dual dialogue begins with the line before it, its further lines follow as usual.
"""

from __future__ import annotations

import re

from prompts.copyist import Copyist
from prompts.cues import NAME_WORDS, Head, Names, Trust, is_extension, on_own_row
from prompts.rows import Row
from prompts.text import WHITE_SPACE

WHOLE_BRACKET = re.compile(r"[(（][^()（）]*[)）]")

_FIRST_KEY = re.compile(r"(?:title|credit|authors?|written by|draft date)\s*[:：]", re.IGNORECASE)
_KEY = re.compile(
    r"(?:title|credit|authors?|written by|draft date|date|source|notes?|contact|copyright|revision|format"
    r"|episode|series|based on)\s*[:：]",
    re.IGNORECASE,
)
_INDENTED = re.compile(r"\t|[ \xa0]{3}")
_PLACES = r"INT\.?/EXT|EXT\.?/INT|I\.?/E|INT|EXT|EST"
_SCENE = re.compile(rf"(?i:{_PLACES})\.|(?:{_PLACES}) ")
_SCENE_BELOW_SPEECH = re.compile(rf"(?:{_PLACES})\.")
_ACT = re.compile(
    r"(?:act|scene|chapter|part)\s+(?:[ivxlc]+|\d+|one|two|three|four|five|six|seven|eight|nine|ten)\b[^\w\s]*(?:\s.*)?",
    re.IGNORECASE,
)
_ACT_CHARACTERS = 80
_TRANSITION = re.compile(
    r"[^a-z:]*\bTO:|FADE IN[:.]?|FADE (?:OUT|TO BLACK)[:.]?|CUT TO BLACK[:.]?"
    r"|(?:THE END|BLACKOUT|CURTAIN)\.?"
)
_PAGE_BREAK = re.compile("={3,}")
_SECTION = re.compile(r"#{1,6}\s+\S")


def num_title_rows(rows: list[Row]) -> int:
    """How many rows the title page takes: a known key, then keys and indented rows up to an empty one."""
    first = next((index for index, row in enumerate(rows) if not row.is_empty), None)
    if first is None or not _FIRST_KEY.match(rows[first].text):
        return 0
    for index in range(first + 1, len(rows)):
        text = rows[index].text
        if rows[index].is_empty or not (_KEY.match(text) or _INDENTED.match(text)):
            return index
    return len(rows)


def page_mark(rows: list[Row], index: int) -> str | None:
    """What row `index` is in any form: a page break, a section, a transition, a heading, or None."""
    text = rows[index].text.strip(WHITE_SPACE)
    if _PAGE_BREAK.fullmatch(text):
        return "page break"
    if _SECTION.match(text):
        return "section"
    has_room = index == 0 or rows[index - 1].is_empty
    if has_room and _TRANSITION.fullmatch(text):
        return "transition"
    is_act = has_room and len(text) <= _ACT_CHARACTERS and _ACT.fullmatch(text)
    return "heading" if is_act or _is_scene(rows, index) else None


def is_fountain(rows: list[Row], names: Names) -> bool:
    """Whether the script is to be read as Fountain.

    Names on their own rows must be no fewer than names before a colon. Then a scene heading is enough, or
    names on their own rows together with any other mark of Fountain.
    """
    if len(names.owners) < len(names.cues):
        return False
    if any(_is_scene(rows, index) for index in range(len(rows))):
        return True
    return bool(names.owners) and (
        num_title_rows(rows) > 0
        or any(_forced_mark(row.text.strip(WHITE_SPACE)) for row in rows)
        or any(page_mark(rows, index) in ("transition", "page break") for index in range(len(rows)))
        or any(_is_marked(rows[index].text, head) for index, head in names.owners.items())
    )


def read(rows: list[Row], names: Names, copy: Copyist) -> None:
    """Tell `copy` what each row of a Fountain script is."""
    in_speech = False
    title = num_title_rows(rows)
    for index, row in enumerate(rows):
        if index < title:
            _show(row, "title page", copy)
        elif row.is_empty:
            in_speech = in_speech and len(row.text) >= 2  # two spaces keep a speech open
        elif in_speech and not _ends_speech(rows, index):
            _read_speech(row, copy)
        else:
            copy.end_line()
            in_speech = _read_page(rows, index, names, copy)


def _read_speech(row: Row, copy: Copyist) -> None:
    text = row.text.strip(WHITE_SPACE)
    start, end = row.start + row.text.index(text), row.start + len(row.text)
    if WHOLE_BRACKET.fullmatch(text):
        copy.bracket(start, start + len(text))
        return
    if text.startswith("~"):
        copy.show(start, start + 1, "lyrics mark")
        start += 1
    copy.say(start, end)


def _read_page(rows: list[Row], index: int, names: Names, copy: Copyist) -> bool:
    """Row `index`, outside a speech. Returns whether a speech begins with it."""
    row = rows[index]
    text = row.text.strip(WHITE_SPACE)
    mark = _forced_mark(text) or page_mark(rows, index)
    if mark == "lyrics" and copy.speaker is not None:
        _read_speech(row, copy)
        return True
    head = None if mark else on_own_row(row.text)
    if head and index in names.owners:
        copy.cue(row.start, head)
        if not head.forced and (len(head.name.split()) > NAME_WORDS or text[-1] in ".!?"):
            copy.problem(row.start, f"“{head.name}” is read as a name; if it is action, put ! in front.")
        return True
    _show(row, "action" if mark in (None, "lyrics") else mark, copy)
    if not mark:
        _tell_if_meant_as_name(row, head, names.heads.get(index), names, copy)
    return False


def _tell_if_meant_as_name(
    row: Row, alone: Head | None, before_colon: Head | None, names: Names, copy: Copyist
) -> None:
    if alone and (alone.forced or names.is_known(alone.key)):
        copy.problem(row.start, f"{alone.name} has no words here; leave a row empty above, and none below.")
    elif before_colon and before_colon.trust is Trust.CAPITALS:
        name = before_colon.name
        copy.problem(row.start, f"This row isn't spoken; put {name} on its own row, with the words below.")


def _show(row: Row, kind: str, copy: Copyist) -> None:
    copy.show(row.start, row.start + len(row.text), kind)


def _is_scene(rows: list[Row], index: int) -> bool:
    """Whether the row is a scene heading: INT. or its kin behind an empty row, or in capitals anywhere."""
    has_room = index == 0 or rows[index - 1].is_empty
    return bool((_SCENE if has_room else _SCENE_BELOW_SPEECH).match(rows[index].text.lstrip(WHITE_SPACE)))


def _is_marked(text: str, head: Head) -> bool:
    """Whether a name on its own row is marked as only Fountain does: `@`, `^`, (O.S.)."""
    return head.forced or head.dual or any(is_extension(text[a + 1 : b - 1]) for a, b in head.brackets)


def _ends_speech(rows: list[Row], index: int) -> bool:
    """Whether a row directly below a speech is none of it."""
    text = rows[index].text.strip(WHITE_SPACE)
    return page_mark(rows, index) is not None or _forced_mark(text) in ("action", "synopsis", "centred")


def _forced_mark(text: str) -> str | None:
    """What the first character of a row makes of it, in Fountain only."""
    if text.startswith("~"):
        return "lyrics"
    if text.startswith(">"):
        return "centred" if text.endswith("<") else "transition"
    if text.startswith("=") and not _PAGE_BREAK.fullmatch(text):
        return "synopsis"
    if text.startswith(".") and text[1:2].isalnum():
        return "heading"
    return {"!": "action", "#": "section"}.get(text[:1])
