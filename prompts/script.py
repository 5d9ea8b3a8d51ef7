"""A script comes in as it is written: pasted plain text, a stage play or Fountain.

Plain: `NAME: words`, `NAME (direction): words`, with ASCII or full-width marks; `NAME. words` as most printed
plays have it; or the name on its own row, with the words below. Who is a name is told in `prompts.cues`,
what is on the page and no speech in `prompts.page`, what brackets are in `prompts.speech`. Further rules
of the plain form:

- Rows below belong to the speech; joined by spaces. Behind an empty row they are a new line of the same
  speaker where names stand before colons (the visitor is told), and aren't spoken where names have rows of
  their own or a full stop. What stands before the first name isn't spoken, nor a row in *italics* between
  empty rows, nor "Exit MARA". A row of two spaces is no empty row, if the script has others.
- A bracket alone on a row, or directly behind the name, is the direction for what follows.
- A row without a letter or a digit ("...", "-", "* * *") is a beat. Empty rows are layout, never silence.
- Without any name every paragraph is a line of the Narrator, and brackets are words.

Fountain is told in `prompts.fountain`; it is recognised by a scene heading, or by names on their own rows
with one more mark of it. Comments `[[ ]]` and `/* */`, headings and transitions are known in all forms.

The law: each character of the source is in the text of exactly one `Line` (its `spans`) or in exactly one
`Shown`. Parsing takes any text, never raises, and takes time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from prompts import fountain
from prompts.copyist import Beat, Copyist, Line, Part, Problem, Script, Shown
from prompts.cues import Names
from prompts.page import SOFT, page_marks, shown_as
from prompts.parts import with_parts
from prompts.rows import Row, Source
from prompts.speech import is_beat, is_direction, read_words
from prompts.text import WHITE_SPACE, has_something_to_say

__all__ = ["NARRATOR", "Beat", "Line", "Part", "Problem", "Script", "Shown", "parse"]

NARRATOR = "Narrator"

# Short, so that a long row of openers costs no more than its length.
_BRACKET = re.compile(r"(?<!\S)[(（\[][^()（）\[\]]{1,24}[)）\]](?!\S)")
_ITALICS = re.compile(r"\*[^*]+\*|_[^_]+_")
_ON_STAGE = re.compile(r"_?(?:(?:Re-?)?Enter|Exit|Exeunt|EXIT|EXEUNT|(?:RE-?)?ENTER)\b(?P<who>.{0,120})")


def parse(source: str) -> Script:
    """`source` as a script, in the form it seems to have. Any text will do; what is odd is a Problem."""
    text = Source(source)
    marks = page_marks(text.rows)
    names = Names(text.rows, marks)
    copy = Copyist(text)
    form = "fountain" if fountain.is_fountain(text.rows, marks, names) else "plain"
    if form == "fountain":
        fountain.read(text.rows, marks, names, copy)
    else:
        _Plain(text.rows, marks, names, copy).read()
    copy.end_line()
    if copy.num_lines == 0 and any(not row.is_empty for row in text.rows):
        copy.problem(0, "Nobody speaks in this script; write lines as NAME: words.")
    return with_parts(copy.script(form), source)


class _Plain:
    """Reads the plain form, row by row. Lives for one parse."""

    def __init__(self, rows: list[Row], marks: Mapping[int, str], names: Names, copy: Copyist):
        self._rows, self._marks, self._names, self._copy = rows, marks, names, copy
        self._alone = {index: head for index in range(len(rows)) if (head := names.alone(index))}
        self._is_open = False  # whether a row without a name belongs to the present speaker
        self._before_colon = False  # how the present name stands
        self._behind_empty = False
        self._skipped: list[Row] = []  # rows that nobody speaks, and that don't look like a name
        self._sounds: list[Row] = []
        self._told: set[str] = set()
        # Two spaces keep a speech open only where somebody made the difference.
        self._has_bare_rows = any(row.is_empty and len(row.text) < 2 for row in rows)

    def read(self) -> None:
        heads = {*self._names.cues, *self._alone, *self._names.stops}
        is_prose = not heads or self._names.are_rare(heads)
        if is_prose:
            self._copy.narrate(NARRATOR)
        for index, row in enumerate(self._rows):
            kind = self._marks.get(index)
            if row.is_empty:
                if self._is_open and len(row.text) == 2 and self._has_bare_rows and not is_prose:
                    continue
                self._copy.end_line()
                self._is_open &= self._before_colon
            elif kind and not self._is_spoken_mark(kind, is_prose):
                self._read_page(row, kind)
            elif is_prose:
                self._read_prose(row)
            else:
                self._read_row(index, row)
            self._behind_empty = row.is_empty
        self._tell_of_skipped()

    def _is_spoken_mark(self, kind: str, is_prose: bool) -> bool:
        """Whether what looks like a mark of the page is spoken here."""
        if is_prose:
            return kind in (SOFT, "sound", "programme")
        return kind == SOFT and self._copy.awaits_words and not self._behind_empty

    def _read_page(self, row: Row, kind: str) -> None:
        keeps_open = kind in ("furniture", SOFT) and self._is_open
        if not keeps_open:
            self._copy.end_line()
        if kind == "sound":
            self._sounds.append(row)
        elif kind in ("licence", "programme"):
            self._tell_once(row.start, _TOLD[kind])
        elif kind == SOFT and row.text.strip(_NUMBER_MARKS).isdigit():
            self._tell_once(
                row.start, "This number is read as that of a page; write it as a word if it is spoken."
            )
        self._show(row, shown_as(kind))
        self._is_open = keeps_open

    def _read_prose(self, row: Row) -> None:
        few = "hardly any" if self._names.cues or self._alone or self._names.stops else "no"
        self._tell_once(
            row.start, f"There are {few} names, so a narrator reads this; to cast it, write NAME: words."
        )
        self._read_narration(row)

    def _read_narration(self, row: Row) -> None:
        """All of a row is spoken, its brackets too, but for those that ask for a beat."""
        copy, start = self._copy, row.start
        end = start + len(row.text)
        if _is_wordless(row.text) or is_beat(row.text):
            self._read_silence(row)
            return
        for found in _BRACKET.finditer(row.text):
            if is_beat(found[0]):
                copy.say(start, row.start + found.start())
                copy.bracket(row.start + found.start(), row.start + found.end())
                start = row.start + found.end()
        copy.say(start, end)

    def _read_row(self, index: int, row: Row) -> None:
        head = self._names.cues.get(index) or self._alone.get(index) or self._names.stops.get(index)
        doubt = self._names.doubt(index)
        if doubt and (head or self._is_open):
            self._copy.problem(row.start, doubt)
        if head:
            self._copy.cue(row.start, head)
            self._is_open, self._before_colon = True, index in self._names.cues
            self._read_words(head.end, row)
        elif self._is_open and not self._is_page_row(index) and not self._is_stage_direction(row):
            self._read_below(index, row)
        elif _is_wordless(row.text) or is_beat(row.text):
            self._read_silence(row)
        else:
            self._show_unspoken(index, row)

    def _read_below(self, index: int, row: Row) -> None:
        """A row without a name that goes on with the speech above."""
        text = row.text.strip(WHITE_SPACE)
        if is_direction(text, self._names.is_run_in):
            start = row.start + row.text.index(text)
            self._copy.bracket(start, start + len(text))
            return
        if self._behind_empty and not self._copy.awaits_words and has_something_to_say(text):
            remedy = "put the row in parentheses if it isn't spoken"
            self._copy.problem(row.start, f"{self._copy.speaker} goes on here; {remedy}.")
        elif (name := self._names.looks_like_name(index)) and self._names.is_cast(name):
            remedy = f"if {name} speaks, write {name}: and the words"
            self._copy.problem(row.start, f"“{name}” is read as spoken words; {remedy}.")
        self._read_words(0, row)

    def _read_words(self, start: int, row: Row) -> None:
        """What is spoken from character `start` of `row` on."""
        if _is_wordless(row.text[start:]):
            self._copy.beat(row.start + start, row.start + len(row.text))
            return
        read_words(self._copy, row, start, self._names.is_run_in)

    def _read_silence(self, row: Row) -> None:
        start, end = row.start, row.start + len(row.text)
        if _is_wordless(row.text):
            self._copy.beat(start, end)
            return
        text = row.text.strip(WHITE_SPACE)
        start += row.text.index(text)
        self._copy.bracket(start, start + len(text))

    def _show_unspoken(self, index: int, row: Row) -> None:
        if self._is_page_row(index):
            self._show(row, "title page" if self._copy.speaker is None else "heading")
            return
        name = self._names.looks_like_name(index)
        if name:
            remedy = f"if {name} speaks, write the name as other names are written here"
            self._copy.problem(row.start, f"“{name}” is read as no name, so the row is skipped; {remedy}.")
        elif not is_direction(row.text, is_play=True):
            self._skipped.append(row)
        self._show(row, "action")

    def _is_page_row(self, index: int) -> bool:
        """Whether the row tells of the stage ("SETTING: a kitchen") and goes on with no speech."""
        return self._names.is_page_word(index) and (self._behind_empty or not self._is_open)

    def _is_stage_direction(self, row: Row) -> bool:
        """Whether the row, between empty rows, is in italics, or says who comes and goes."""
        text = row.text.strip(WHITE_SPACE)
        if not self._behind_empty or self._copy.awaits_words:
            return False
        found = _ON_STAGE.fullmatch(text)
        return bool(_ITALICS.fullmatch(text)) or bool(
            found and (text[:2] in ("Ex", "EX") or any(map(str.isupper, found["who"])))
        )

    def _show(self, row: Row, kind: str) -> None:
        self._copy.show(row.start, row.start + len(row.text), kind)

    def _tell_of_skipped(self) -> None:
        """One sentence about rows of a kind, at the first of them."""
        if self._names.cues and not self._names.is_run_in:
            self._copy.tell_of_asides()
        if self._skipped:
            others = self._copy.others([row.start for row in self._skipped])
            rest = f", nor {others}, so they are skipped" if others else ", so it is skipped"
            self._copy.problem(self._skipped[0].start, f"Nobody speaks this row{rest}; put a name in front.")
        if self._sounds:
            others = self._copy.others([row.start for row in self._sounds])
            rest = f", like {others}" if others else ""
            sentence = f"This is a sound or a cue of the stage and isn't spoken{rest}."
            self._copy.problem(self._sounds[0].start, sentence)

    def _tell_once(self, offset: int, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._copy.problem(offset, sentence)


_NUMBER_MARKS = WHITE_SPACE + ".*_"
_TOLD = {
    "licence": "What the publisher wrote before and behind the text isn't spoken.",
    "programme": "This is read as a list of the characters, so it isn't spoken; take its title out if it is "
    "a speech.",
}


def _is_wordless(text: str) -> bool:
    """Whether there are only signs in `text`, and some: "...", "-"."""
    return bool(text.strip(WHITE_SPACE)) and not has_something_to_say(text)
