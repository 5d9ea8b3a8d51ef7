"""The source of a script, cut into rows that keep their place, with its comments taken out of sight.

A comment is a note `[[ ]]` or a boneyard `/* */`. It is replaced by spaces of the same length before anyone
looks for names, so that every offset found in a row is an offset of the source. A note ends before the next
empty row (one of two spaces isn't empty, as Fountain has it), a boneyard goes on for as long as it takes. One
that is never closed hides nothing: its words stay in the script, and the visitor is told.

A bracket is one thing however many rows it takes: rows between its opening and its closing, which must stand
in the same paragraph, are one `Row` here, with spaces in place of the line breaks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from prompts.text import LINE_BREAKS, WHITE_SPACE

Span = tuple[int, int]

_BREAK_MARKS = f"\r\n|\r(?!\n)|[{LINE_BREAKS.replace(chr(13), '')}]"
_BREAK = re.compile(_BREAK_MARKS)
_EMPTY_ROW = re.compile(f"(?:{_BREAK_MARKS})(?=[ \t\xa0\u3000]?[{LINE_BREAKS}])")
_OPENING = re.compile(r"/\*|\[\[")
_CLOSING = {"/*": "*/", "[[": "]]"}
_KIND = {"/*": "boneyard", "[[": "note"}
_BRACKET_MARKS = re.compile(
    r"(?<![\w)）\]］*_])[:;=][-']?[()]|[()（）\[\]［］]"
)  # the first are faces: ":-("
_CLOSES = {")": "(", "）": "（", "]": "[", "］": "["}
_BRACKET_ROWS = 12
# A row that begins a speech by its looks: no bracket reaches over it.
_NEW_SPEECH = re.compile(
    r"[ \t\xa0]*[*_]{0,3}[^\W\d_a-z][^a-z()\[\]:：]{0,40}(?:[(\[][^()\[\]]{0,80}[)\]][ \t]*)?(?:[:：]"
    r"|[ \t\xa0]*$)"
)


@dataclass(frozen=True)
class Row:
    """One row: `text` is what can be seen of source[start : start + len(text)], with spaces for comments."""

    number: int
    start: int
    text: str

    @property
    def is_empty(self) -> bool:
        return not self.text.strip(WHITE_SPACE)


class Source:
    """The text of a script with its rows and comments, for the time of one parse.

    `rows` leaves out those that a comment hides; `comments` are (start, end, kind); `unclosed` are
    (offset, kind), the first of each kind.
    """

    def __init__(self, text: str):
        self.text = text
        self.comments, self.unclosed = _comments(text)
        self._row_starts = row_starts(text)
        self._hidden = [(start, end) for start, end, _ in self.comments]
        self.rows = list(self._visible_rows())

    def place(self, offset: int) -> tuple[int, int]:
        """Row and column of `offset`, both counted from 1."""
        row = bisect_right(self._row_starts, offset)
        return row, offset - self._row_starts[row - 1] + 1

    def trimmed(self, start: int, end: int, by_row: bool = False) -> list[Span]:
        """The parts of [start, end) between the comments, without white space around them; `by_row`: and
        without the line breaks in between."""
        found = []
        for a, b in self._in_rows(start, end) if by_row else self._outside(start, end):
            part = self.text[a:b]
            body = part.strip(WHITE_SPACE)
            if body:
                a += len(part) - len(part.lstrip(WHITE_SPACE))
                found.append((a, a + len(body)))
        return found

    def has_space(self, start: int, end: int) -> bool:
        """Whether white space that isn't part of a comment stands in [start, end)."""
        return any(mark in WHITE_SPACE for a, b in self._outside(start, end) for mark in self.text[a:b])

    def _visible_rows(self) -> Iterator[Row]:
        seen = self._with_spaces_for_comments()
        ends = [*(found.start() for found in _BREAK.finditer(self.text)), len(self.text)]
        paragraph: list[Row] = []
        for number, (start, end) in enumerate(zip(self._row_starts, ends, strict=True), start=1):
            row = Row(number, start, seen[start:end])
            if not row.is_empty:
                paragraph.append(row)
            elif not self._touches_comment(start, end):
                yield from _with_whole_brackets(paragraph, seen)
                paragraph = []
                yield row
        yield from _with_whole_brackets(paragraph, seen)

    def _with_spaces_for_comments(self) -> str:
        parts, end = [], 0
        for a, b in self._hidden:
            parts += [self.text[end:a], " " * (b - a)]
            end = b
        return "".join([*parts, self.text[end:]])

    def _in_rows(self, start: int, end: int) -> Iterator[Span]:
        for a, b in self._outside(start, end):
            for found in _BREAK.finditer(self.text, a, b):
                yield a, found.start()
                a = found.end()
            yield a, b

    def _touches_comment(self, start: int, end: int) -> bool:
        before = bisect_right(self._hidden, (end, len(self.text) + 1)) - 1
        return before >= 0 and self._hidden[before][0] <= end and self._hidden[before][1] > start

    def _outside(self, start: int, end: int) -> Iterator[Span]:
        index = max(0, bisect_right(self._hidden, (start, len(self.text) + 1)) - 1)
        while start < end and index < len(self._hidden) and self._hidden[index][0] < end:
            a, b = self._hidden[index]
            if start < a:
                yield start, a
            start, index = max(start, b), index + 1
        if start < end:
            yield start, end


def row_starts(text: str) -> list[int]:
    """Where each row of `text` begins."""
    return [0, *(found.end() for found in _BREAK.finditer(text))]


def brackets(text: str, start: int = 0) -> tuple[list[Span], list[int]]:
    """The outermost brackets of `text` from `start` on, each with its closing; and openings without one.

    One walk: a closing that fits the last opening ends it, any other is a mark like all others.
    """
    pairs: list[Span] = []
    open_marks: list[tuple[str, int]] = []
    for found in _BRACKET_MARKS.finditer(text, start):
        mark = found[0]
        if mark in _CLOSES:
            if open_marks and open_marks[-1][0] == _CLOSES[mark]:
                opened = open_marks.pop()[1]
                while pairs and pairs[-1][0] > opened:
                    pairs.pop()
                pairs.append((opened, found.end()))
        elif len(mark) == 1:
            open_marks.append((mark, found.start()))
    return pairs, [place for _, place in open_marks]


def _with_whole_brackets(paragraph: list[Row], seen: str) -> Iterator[Row]:
    """The rows of a paragraph, those that a bracket holds together as one."""
    if len(paragraph) < 2:
        yield from paragraph
        return
    last = _last_rows(paragraph)
    index = 0
    while index < len(paragraph):
        row, end = paragraph[index], last.get(index, index)
        each = index
        while each < end:  # brackets may overlap: "(a" / "b) (c" / "d)"
            each += 1
            end = max(end, last.get(each, each))
        if end > index:
            stop = paragraph[end].start + len(paragraph[end].text)
            text = _BREAK.sub(lambda found: " " * len(found[0]), seen[row.start : stop])
            row = Row(row.number, row.start, text)
        yield row
        index = end + 1


def _last_rows(paragraph: list[Row]) -> dict[int, int]:
    """By the index of a row in which a bracket opens: that of the row below in which it closes."""
    last: dict[int, int] = {}
    open_marks: list[tuple[str, int]] = []
    for index, row in enumerate(paragraph):
        if open_marks and _NEW_SPEECH.match(row.text):
            open_marks = []
        for found in _BRACKET_MARKS.finditer(row.text):
            mark = found[0]
            if mark in _CLOSES:
                if open_marks and open_marks[-1][0] == _CLOSES[mark]:
                    opened = open_marks.pop()[1]
                    if 0 < index - opened < _BRACKET_ROWS:
                        last[opened] = max(index, last.get(opened, index))
            elif len(mark) == 1:
                open_marks.append((mark, index))
    return last


def _comments(text: str) -> tuple[list[tuple[int, int, str]], list[tuple[int, str]]]:
    """The comments of `text` and the first opening of each kind that isn't closed; one walk, no way back."""
    found: list[tuple[int, int, str]] = [(0, 1, "space")] if text.startswith("\ufeff") else []
    unclosed: dict[str, int] = {}
    closings = {mark: _Ahead(text, re.compile(re.escape(close))) for mark, close in _CLOSING.items()}
    empty_rows = _Ahead(text, _EMPTY_ROW)
    position = 0
    while opening := _OPENING.search(text, position):
        mark, start = opening[0], opening.start()
        close = closings[mark].after(opening.end())
        if close is None or (mark == "[[" and (empty_rows.after(start) or close)[0] < close[0]):
            unclosed.setdefault(mark, start)
            position = opening.end()
        else:
            found.append((start, close[1], _KIND[mark]))
            position = close[1]
    return found, [(start, _KIND[mark]) for mark, start in unclosed.items()]


class _Ahead:
    """The next place of a pattern, asked for at rising positions: each stretch of text is searched once."""

    def __init__(self, text: str, pattern: re.Pattern):
        self._text, self._pattern = text, pattern
        self._next: Span | None = (-1, -1)

    def after(self, position: int) -> Span | None:
        if self._next and self._next[0] < position:
            found = self._pattern.search(self._text, position)
            self._next = found.span() if found else None
        return self._next
