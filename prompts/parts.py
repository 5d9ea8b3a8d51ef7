"""The acts and scenes of a script, so that a long one can be performed part by part.

A part begins at a heading and ends at the next one of its rank or a higher one. Headings that no line
follows, as in a table of contents, make none. Acts, chapters and sections of Fountain stand above scenes;
a script without either, or a part that is too long for one scene, is cut into stretches of equal length.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from prompts.copyist import LINES, Line, Part, Script, too_long
from prompts.rows import row_starts

NAME_CHARACTERS = 60
ATTEMPTS = 8  # to cut a part into stretches that are short enough: one row may hold many lines

_SCENE = re.compile(r"\W*(?:\w+\s+)?(?:scene\b|int\b|ext\b|est\b|i/e\b)", re.IGNORECASE)
_BARE = re.compile(r"\W*(?:the\s+)?(?:scene|act)\W*", re.IGNORECASE)  # tells where one is, not which


@dataclass(frozen=True)
class _Heading:
    row: int
    rank: int  # 1 for acts
    text: str


def with_parts(script: Script, source: str) -> Script:
    """`script` with its parts, outer ones before those within; none where they would be the whole."""
    rows = [line.row for line in script.lines]
    if not rows:
        return script
    starts = row_starts(source)
    headings = _headings(script, source, starts)
    end = len(starts) + 1
    parts = _cut(headings, rows, 1, end, "", min((each.rank for each in headings), default=1))
    if len(parts) < 2 and not (parts and len(rows) > LINES):
        parts = _stretches("", rows, 1, end) if len(rows) > LINES else []
    starts.append(len(source))
    placed = (
        dataclasses.replace(each, start=starts[each.first_row - 1], end=starts[each.end_row - 1])
        for each in _unique(parts)
    )
    return dataclasses.replace(script, parts=tuple(placed))


def only(script: Script, part: Part) -> Script:
    """The script with the lines, beats and problems of one part."""

    def is_in(row: int) -> bool:
        return part.first_row <= row < part.end_row

    entries = tuple(entry for entry in script.entries if is_in(entry.row))
    characters = tuple(dict.fromkeys(entry.speaker for entry in entries if isinstance(entry, Line)))
    told = too_long(len(script.lines))
    problems = tuple(each for each in script.problems if is_in(each.row) and each.sentence != told)
    shown = tuple(each for each in script.shown if part.start <= each.start < part.end)
    return dataclasses.replace(script, entries=entries, characters=characters, shown=shown, problems=problems)


def find_part(script: Script, name: str) -> Part | None:
    """The part of that name, in any letters: all of it, its own heading, or how one of them begins; None if
    there is none, or more than one that doesn't lie within the first."""
    wanted = _words(name)
    if not wanted:
        return None
    for kind in (_is_same, _begins):
        found = [
            each
            for each in script.parts
            if any(kind(_words(said), wanted) for said in (each.name, each.heading))
        ]
        outer = found[0] if found else None
        if outer and all(
            outer.first_row <= each.first_row and each.end_row <= outer.end_row for each in found
        ):
            return outer
        if found:
            return None
    return None


def named(script: Script) -> str:
    """The parts in words, for a sentence."""
    parts = [f"“{each.name}” ({each.num_lines} lines)" for each in script.parts[:40]]
    more = len(script.parts) - len(parts)
    return ", ".join([*parts, *([f"and {more} more"] if more else [])])


def _is_same(words: list[str], wanted: list[str]) -> bool:
    return words == wanted


def _begins(words: list[str], wanted: list[str]) -> bool:
    return words[: len(wanted)] == wanted


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _headings(script: Script, source: str, starts: list[int]) -> list[_Heading]:
    found = []
    for each in script.shown:
        if each.kind not in ("heading", "section"):
            continue
        row = bisect_right(starts, each.start)
        text = source[each.start : each.end]
        if _BARE.fullmatch(text):
            continue
        name = " ".join(text.strip("#.>*_= \t").split())[:NAME_CHARACTERS].rstrip(" .,:;—–-")
        if name:
            found.append(_Heading(row, _rank(text, each.kind), name))
    return found


def _rank(text: str, kind: str) -> int:
    if kind == "section":
        return len(text) - len(text.lstrip("#"))
    if _SCENE.match(text):
        return 7 if re.match(r"\W*(?:\w+\s+)?scene\b", text, re.IGNORECASE) else 8
    return 1


def _cut(
    headings: list[_Heading], rows: list[int], first: int, end: int, outer: str, rank: int
) -> list[Part]:
    """The parts of rows [first, end): `headings` stand there, those of `rank` are the highest."""
    starts = [index for index, each in enumerate(headings) if each.rank == rank]
    if not starts:
        return []
    parts: list[Part] = []
    bounds = [*(headings[index].row for index in starts), end]
    before = headings[: starts[0]]
    if _num_lines(rows, first, bounds[0]):
        opening = f"{outer}, opening" if outer else "Opening"
        parts += _one(opening, "Opening", before, rows, first, bounds[0])
    for number, index in enumerate(starts):
        stop = bounds[number + 1]
        if not _num_lines(rows, headings[index].row, stop):
            continue
        inner = headings[index + 1 : starts[number + 1] if number + 1 < len(starts) else len(headings)]
        name = f"{outer}, {headings[index].text}" if outer else headings[index].text
        parts += _one(name, headings[index].text, inner, rows, headings[index].row, stop)
    return parts


def _one(name: str, heading: str, inner: list[_Heading], rows: list[int], first: int, end: int) -> list[Part]:
    """A part and those within it."""
    count = _num_lines(rows, first, end)
    within = _cut(inner, rows, first, end, name, min(each.rank for each in inner)) if inner else []
    if len(within) < 2:
        within = _stretches(name, rows, first, end) if count > LINES else []
    return [Part(name, heading, first, end, count), *within]


def _stretches(outer: str, rows: list[int], first: int, end: int) -> list[Part]:
    """Rows [first, end) cut into stretches of as many lines each, as few as will do."""
    a, b = bisect_left(rows, first), bisect_left(rows, end)
    fewest = -(-(b - a) // LINES)
    for number in range(fewest, fewest + ATTEMPTS):
        cuts = [a + (b - a) * each // number for each in range(number + 1)]
        # A cut stands between two rows: lines of one row stay together.
        places = [first, *(rows[each] for each in cuts[1:-1]), end]
        sizes = [_num_lines(rows, *pair) for pair in pairwise(places)]
        if max(sizes) <= LINES:
            break
    found = []
    for start, stop, size in zip(places, places[1:], sizes, strict=False):
        if size:
            at = bisect_left(rows, start) - a
            heading = f"{'lines' if outer else 'Lines'} {at + 1} to {at + size}"
            found.append(Part(f"{outer}, {heading}" if outer else heading, heading, start, stop, size))
    return found


def _num_lines(rows: list[int], first: int, end: int) -> int:
    return bisect_left(rows, end) - bisect_left(rows, first)


def _unique(parts: list[Part]) -> list[Part]:
    """The parts with numbers behind names that come again."""
    seen: Counter[str] = Counter()
    found = []
    for each in parts:
        seen[each.name] += 1
        number = seen[each.name]
        found.append(each if number == 1 else dataclasses.replace(each, name=f"{each.name} ({number})"))
    return found
