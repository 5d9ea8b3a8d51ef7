"""The Fountain form of a script (https://fountain.io/syntax).

Our own reader: no parser on PyPI that we found keeps the place of what it reads (at most the number of a
row), so the law of `prompts.copyist` couldn't be kept. Notes and boneyards are gone before a row comes here.
Emphasis stays in the text; the stage-marks cleaner of `prompts.spoken` takes it out.

Choices where the syntax leaves room: a row of capitals with words below is a name even if it looks like a
headline, but the visitor is told; lyrics outside a speech are sung by the one who spoke last; the second
half of dual dialogue begins with the line before it, its further lines follow as usual.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from prompts.copyist import Copyist
from prompts.cues import NAME_WORDS, Head, Names, Trust, is_extension, on_own_row
from prompts.page import is_scene, shown_as
from prompts.rows import Row
from prompts.speech import is_direction, read_words
from prompts.text import WHITE_SPACE

_PAGE_BREAK = re.compile("={3,}")


def is_fountain(rows: list[Row], marks: Mapping[int, str], names: Names) -> bool:
    """Whether the script is to be read as Fountain.

    Names on their own rows must be no fewer than names before a colon with words behind. Then a scene heading
    is enough, or names on their own rows together with any other mark of Fountain. A heading and a name that
    comes again, or is marked as only Fountain does, outweigh rows of capitals before a colon that come once.
    """
    if names.is_run_in:
        return False
    has_scene = any(
        kind == "heading" and is_scene(rows[index].text.strip(WHITE_SPACE), True)
        for index, kind in marks.items()
    )
    cues = {index: head for index, head in names.cues.items() if _has_words(rows, index, head)}
    times = Counter(head.key for head in names.owners.values())
    is_sure = any(times[head.key] > 1 or _is_marked(rows[i].text, head) for i, head in names.owners.items())
    again = Counter(head.key for head in cues.values()).most_common(1)
    if has_scene and is_sure and (not again or again[0][1] == 1):
        return True
    if len(names.owners) < len(cues):
        return False
    if has_scene:
        return True
    if names.are_rare(names.owners):
        return False
    return bool(names.owners) and (
        not {"title page", "transition", "page break"}.isdisjoint(marks.values())
        or any(_forced_mark(row.text.strip(WHITE_SPACE)) for row in rows)
        or any(_is_marked(rows[index].text, head) for index, head in names.owners.items())
    )


def read(rows: list[Row], marks: Mapping[int, str], names: Names, copy: Copyist) -> None:
    """Tell `copy` what each row of a Fountain script is."""
    in_speech = False
    for index, row in enumerate(rows):
        if row.is_empty:
            in_speech = in_speech and len(row.text) >= 2  # two spaces keep a speech open
        elif in_speech and marks.get(index) == "furniture":  # "(MORE)"
            _show(row, "furniture", copy)
        elif in_speech and not _ends_speech(row, marks.get(index)):
            _read_speech(row, copy)
        else:
            copy.end_line()
            in_speech = _read_page(rows, index, marks.get(index), names, copy)
    copy.tell_of_asides()


def _read_speech(row: Row, copy: Copyist) -> None:
    text = row.text.strip(WHITE_SPACE)
    start = row.text.index(text)
    if is_direction(text):
        copy.bracket(row.start + start, row.start + start + len(text))
        return
    if text.startswith("~"):
        copy.show(row.start + start, row.start + start + 1, "lyrics mark")
        start += 1
    read_words(copy, row, start)


def _read_page(rows: list[Row], index: int, page: str | None, names: Names, copy: Copyist) -> bool:
    """Row `index`, outside a speech. Returns whether a speech begins with it."""
    row = rows[index]
    text = row.text.strip(WHITE_SPACE)
    mark = page if page in ("title page", "licence", "programme") else _forced_mark(text) or page
    if mark == "lyrics" and copy.speaker is not None:
        _read_speech(row, copy)
        return True
    head = None if mark else on_own_row(row.text)
    if head and index in names.owners:
        copy.cue(row.start, head)
        if not head.forced and (len(head.name.split()) > NAME_WORDS or text[-1] in ".!?"):
            copy.problem(row.start, f"“{head.name}” is read as a name; if it is action, put ! in front.")
        return True
    _show(row, "action" if mark in (None, "lyrics") else shown_as(mark), copy)
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


def _has_words(rows: list[Row], index: int, head: Head) -> bool:
    """Whether words stand behind the name before a colon, or directly below it."""
    behind = rows[index].text[head.end :].strip(WHITE_SPACE)
    return bool(behind) or (index + 1 < len(rows) and not rows[index + 1].is_empty)


def _is_marked(text: str, head: Head) -> bool:
    """Whether a name on its own row is marked as only Fountain does: `@`, `^`, (O.S.)."""
    return head.forced or head.dual or any(is_extension(text[a + 1 : b - 1]) for a, b in head.brackets)


def _ends_speech(row: Row, page: str | None) -> bool:
    """Whether a row directly below a speech is none of it."""
    text = row.text.strip(WHITE_SPACE)
    is_page = page is not None and page != "soft furniture"
    return is_page or _forced_mark(text) in ("action", "synopsis", "centred")


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
