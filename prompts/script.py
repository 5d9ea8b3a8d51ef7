"""A script comes in as it is written: pasted plain text, a stage play or Fountain.

Plain: `NAME: words`, `NAME (direction): words`, `NAME [direction]: words`, with ASCII or full-width marks; or
the name on its own row in capitals, with the words below, as stage plays have it. Who is a name is told in
`prompts.cues`. Further rules of the plain form:

- Rows below belong to the speech; joined by spaces. Behind an empty row they are a new line of the same
  speaker where names stand before colons (the visitor is told), and aren't spoken where names have rows of
  their own. What stands before the first name isn't spoken, nor a row in *italics* between empty rows.
- `(...)` alone on a row, or directly behind the colon, is the direction for what follows. `(beat)`, `(pause)`
  and `(long pause)`, also in square brackets, are a silence there and wherever they stand between words.
  Other brackets stay in the text: a row `[sighs]` is spoken, how is the model's affair.
- A row without a letter or a digit ("...", "-", "* * *") is a beat. Empty rows are layout, never silence.
- Without any name every paragraph is a line of the Narrator.

Fountain is told in `prompts.fountain`; it is recognised by a scene heading, or by names on their own rows
with one more mark of it. Comments `[[ ]]` and `/* */`, headings and transitions are known in all forms.

The law: each character of the source is in the text of exactly one `Line` (its `spans`) or in exactly one
`Shown`. Parsing takes any text, never raises, and takes time in proportion to its length.
"""

from __future__ import annotations

import re

from prompts import fountain
from prompts.copyist import Beat, Copyist, Line, Problem, Script, Shown, beat_seconds
from prompts.cues import Names
from prompts.rows import Row, Source
from prompts.text import WHITE_SPACE, has_something_to_say

__all__ = ["NARRATOR", "Beat", "Line", "Problem", "Script", "Shown", "parse"]

NARRATOR = "Narrator"

# Short, so that a long row of openers costs no more than its length.
_BRACKET = re.compile(r"(?<!\S)[(（\[][^()（）\[\]]{1,20}[)）\]](?!\S)")
_ITALICS = re.compile(r"\*[^*]+\*|_[^_]+_")
_LEADING = re.compile(rf"[{WHITE_SPACE}]*([(（][^()（）]{{1,200}}[)）])")


def parse(source: str) -> Script:
    """`source` as a script, in the form it seems to have. Any text will do; what is odd is a Problem."""
    text = Source(source)
    names = Names(text.rows)
    copy = Copyist(text)
    form = "fountain" if fountain.is_fountain(text.rows, names) else "plain"
    if form == "fountain":
        fountain.read(text.rows, names, copy)
    else:
        _Plain(text.rows, names, copy).read()
    copy.end_line()
    if copy.num_lines == 0 and any(not row.is_empty for row in text.rows):
        copy.problem(0, "Nobody speaks in this script; write lines as NAME: words.")
    return copy.script(form)


class _Plain:
    """Reads the plain form, row by row. Lives for one parse."""

    def __init__(self, rows: list[Row], names: Names, copy: Copyist):
        self._rows, self._names, self._copy = rows, names, copy
        self._alone = {index: head for index in range(len(rows)) if (head := names.alone(index))}
        self._is_open = False  # whether a row without a name belongs to the present speaker
        self._before_colon = False  # how the present name stands
        self._behind_empty = False
        self._told: set[str] = set()

    def read(self) -> None:
        is_prose = not (self._names.cues or self._alone)
        title = fountain.num_title_rows(self._rows)
        if is_prose:
            self._copy.narrate(NARRATOR)
        for index, row in enumerate(self._rows):
            if row.is_empty:
                self._copy.end_line()
                self._is_open &= self._before_colon
            elif kind := "title page" if index < title else fountain.page_mark(self._rows, index):
                self._copy.end_line()
                self._show(row, kind)
                self._is_open = False
            elif is_prose:
                self._read_prose(row)
            else:
                self._read_row(index, row)
            self._behind_empty = row.is_empty

    def _read_prose(self, row: Row) -> None:
        self._tell_once(
            row.start, "There are no names, so a narrator reads this; to cast it, write NAME: words."
        )
        self._read_words(row.start, row)

    def _read_row(self, index: int, row: Row) -> None:
        head = self._names.cues.get(index) or self._alone.get(index)
        doubt = self._names.doubt(index)
        if doubt:
            self._copy.problem(row.start, doubt)
        if head:
            self._copy.cue(row.start, head)
            self._is_open, self._before_colon = True, index in self._names.cues
            self._read_words(row.start + head.end, row)
        elif self._is_open and not self._is_page_row(index) and not self._is_stage_direction(row):
            self._read_below(row)
        elif _is_silence(row.text):
            self._read_words(row.start, row)
        else:
            self._show_unspoken(index, row)

    def _read_below(self, row: Row) -> None:
        """A row without a name that goes on with the speech above."""
        text = row.text.strip(WHITE_SPACE)
        if fountain.WHOLE_BRACKET.fullmatch(text):
            start = row.start + row.text.index(text)
            self._copy.bracket(start, start + len(text))
            return
        if self._behind_empty and not self._copy.awaits_words and has_something_to_say(text):
            remedy = "put the row in parentheses if it isn't spoken"
            self._copy.problem(row.start, f"{self._copy.speaker} goes on here; {remedy}.")
        self._read_words(row.start, row)

    def _read_words(self, start: int, row: Row) -> None:
        """What is spoken from `start` to the end of `row`: directions first, beats in between."""
        copy, end = self._copy, row.start + len(row.text)
        if _is_wordless(row.text[start - row.start :]):
            copy.beat(start, end)
            return
        while copy.awaits_words and (found := _LEADING.match(row.text, start - row.start)):
            copy.bracket(row.start + found.start(1), row.start + found.end(1))
            start = row.start + found.end()
        for found in _BRACKET.finditer(row.text, start - row.start):
            if beat_seconds(found[0][1:-1]) is not None:
                copy.say(start, row.start + found.start())
                copy.bracket(row.start + found.start(), row.start + found.end())
                start = row.start + found.end()
        copy.say(start, end)

    def _show_unspoken(self, index: int, row: Row) -> None:
        if self._is_page_row(index):
            self._show(row, "title page" if self._copy.speaker is None else "heading")
            return
        if not fountain.WHOLE_BRACKET.fullmatch(row.text.strip(WHITE_SPACE)):
            self._tell_once(row.start, "Nobody speaks this row, so it is skipped; put a name in front.")
        self._show(row, "action")

    def _is_page_row(self, index: int) -> bool:
        """Whether the row tells of the stage ("SETTING: a kitchen") and goes on with no speech."""
        return self._names.is_page_word(index) and (self._behind_empty or not self._is_open)

    def _is_stage_direction(self, row: Row) -> bool:
        text = row.text.strip(WHITE_SPACE)
        return self._behind_empty and not self._copy.awaits_words and bool(_ITALICS.fullmatch(text))

    def _show(self, row: Row, kind: str) -> None:
        self._copy.show(row.start, row.start + len(row.text), kind)

    def _tell_once(self, offset: int, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._copy.problem(offset, sentence)


def _is_wordless(text: str) -> bool:
    """Whether there are only signs in `text`, and some: "...", "-"."""
    return bool(text.strip(WHITE_SPACE)) and not has_something_to_say(text)


def _is_silence(text: str) -> bool:
    """Whether `text` is signs, or one bracket that asks for a beat."""
    return _is_wordless(text) or (
        bool(_BRACKET.fullmatch(text.strip(WHITE_SPACE)))
        and beat_seconds(text.strip(WHITE_SPACE)[1:-1]) is not None
    )
