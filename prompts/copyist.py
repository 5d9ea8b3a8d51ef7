"""What a script is made of, and the one who writes it down.

The readers of the two forms (`prompts.script`, `prompts.fountain`) decide what each row is and tell the
`Copyist`, who keeps the law: every character of the source ends in the text of one line or in one stretch
that is shown. A reader must hand over each stretch once; what none hands over is white space.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from prompts import text as words
from prompts.cues import NAME_CHARACTERS, Head, folded, is_extension
from prompts.rows import Source, Span

BEAT_S = 0.8
ROWS_NAMED = 8
LINES = 500

_BEAT_S = {"": BEAT_S, "short ": BEAT_S / 2, "long ": 2 * BEAT_S}
_BEAT = re.compile(r"(?:an? )?(short |long )?(?:beat|pause|silence)\.?", re.IGNORECASE)
# Emphasis at an edge of a word, not within one.
_EMPHASIS = re.compile(r"(?<![^\W_])[*_]+|[*_]+(?![^\W_])")
_HUNG = re.compile(r"[,;:!?]|\.(?! ?\.)")
# Scripts whose rows join without a space. Korean isn't one of them.
SPACELESS = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")


@dataclass(frozen=True)
class Line:
    """One speech to perform.

    `text` is what is spoken as it is written: the stretches `spans` of the source, joined by one space where
    white space or a new row parts them (by nothing in scripts without spaces). `direction`: the words of the
    brackets in front. `row`, `column`: where the text begins, from 1. `dual`: begins with the line before.
    """

    speaker: str
    text: str
    direction: str
    row: int
    column: int
    dual: bool = False
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Beat:
    """A silence."""

    row: int
    seconds: float


@dataclass(frozen=True)
class Shown:
    """A stretch of the source that isn't spoken: source[start:end].

    `kind` is title page, licence, programme, heading, action, sound, centred, transition, section,
    synopsis, page break, furniture, note, boneyard, cue, parenthetical, lyrics mark, beat or space.
    """

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Problem:
    """Something the visitor should know about the source at `row`, `column`; nothing is lost by it."""

    row: int
    column: int
    sentence: str


@dataclass(frozen=True)
class Part:
    """An act, a scene or another stretch of a script: its rows from `first_row` up to `end_row`, without that
    one, which are source[start:end]. `name` is unique in its script, `heading` is what it says by itself;
    scenes follow their act."""

    name: str
    heading: str
    first_row: int
    end_row: int
    num_lines: int
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Script:
    """A script as written. `characters` are those who speak, in order of appearance; `parts` are what it can
    be cut into."""

    entries: tuple[Line | Beat, ...]
    characters: tuple[str, ...]
    shown: tuple[Shown, ...]
    problems: tuple[Problem, ...]
    form: str
    parts: tuple[Part, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, Line))


def beat_seconds(bracket: str) -> float | None:
    """The silence that the words of a bracket ask for ("beat", "A long pause."), or None."""
    found = _BEAT.fullmatch(bracket.strip(words.WHITE_SPACE))
    return _BEAT_S[(found[1] or "").lower()] if found else None


def too_long(num_lines: int) -> str:
    """What is told of a script with that many lines, if it is one too long."""
    return f"The script has {num_lines:,} lines, the limit is {LINES}; cut it into scenes."


class Copyist:
    """Writes down one script as its rows are read, in order. Offsets are offsets of the source."""

    def __init__(self, source: Source):
        self._source = source
        self._entries: list[Line | Beat] = []
        self._shown = [Shown(*comment) for comment in source.comments]
        self._problems: list[Problem] = []
        self._names: dict[str, str] = {}  # folded -> as first written
        self._characters: dict[str, None] = {}
        self._speaker: str | None = None
        self._directions: list[str] = []
        self._spans: list[Span] = []
        self._dual = False
        self.asides: list[int] = []  # where brackets stand within speeches
        self._wordless: int | None = None  # where the present name stands, while it has no words
        for offset, kind in source.unclosed:
            closing = "]]" if kind == "note" else "*/"
            self.problem(offset, f"This {kind} is never closed, so its words stay in; end it with {closing}.")

    @property
    def speaker(self) -> str | None:
        """Who is speaking; None before the first name."""
        return self._speaker

    @property
    def awaits_words(self) -> bool:
        """Whether the present name has neither words nor a silence so far."""
        return self._wordless is not None

    @property
    def num_lines(self) -> int:
        return sum(isinstance(entry, Line) for entry in self._entries)

    def others(self, offsets: list[int]) -> str:
        """The rows of `offsets` behind the first, in words; "" where there are none."""
        numbers = [str(self._source.place(offset)[0]) for offset in offsets[1 : ROWS_NAMED + 1]]
        more = len(offsets) - 1 - len(numbers)
        row = "rows" if len(numbers) + more > 1 else "row"
        return f"{row} {', '.join(numbers)}{f' and {more:,} others' if more else ''}" if numbers else ""

    def tell_of_asides(self) -> None:
        """Say that brackets within speeches aren't spoken, for forms in which they could be."""
        if self.asides:
            others = self.others(self.asides)
            rest = f", like those in {others}" if others else ""
            self.problem(self.asides[0], f"This bracket is read as a direction and isn't spoken{rest}.")

    def cue(self, start: int, head: Head) -> None:
        """`head`, at offset `start`, speaks from here on. Brackets behind it are directions or beats."""
        self._end_speech()
        self._wordless = start
        self._speaker = self._names.setdefault(head.key, head.name)
        self._directions, self._dual = [], head.dual
        end = start
        for a, b in head.brackets:
            self.show(end, start + a, "cue")
            self.bracket(start + a, start + b, of_name=True)
            end = start + b
        self.show(end, start + head.end, "cue")
        self._check_name(start, head.name)

    def narrate(self, name: str) -> None:
        """`name`, who is not in the source, speaks from here on."""
        self._speaker = name

    def bracket(self, start: int, end: int, of_name: bool = False) -> None:
        """A whole (…), with the emphasis around it: a beat, where a voice comes from (if `of_name`), or a
        direction for what follows."""
        inside = self._inside(start, end)
        seconds = beat_seconds(inside)
        if seconds is not None:
            self.beat(start, end, seconds)
            return
        self.end_line()
        self.show(start, end, "parenthetical")
        if of_name:
            inside = ", ".join(part for part in re.split(", *", inside) if not is_extension(part))
        if inside:
            self._directions.append(inside)
            self._check_direction(start, inside)

    def aside(self, start: int, end: int) -> None:
        """A bracket within a speech: it isn't spoken, and the speech goes on."""
        self.asides.append(start)
        self.show(start, end, "parenthetical")

    def beat(self, start: int, end: int, seconds: float = BEAT_S) -> None:
        """A silence, written at [start, end)."""
        self.end_line()
        self.show(start, end, "beat")
        self._entries.append(Beat(self._source.place(start)[0], seconds))
        self._wordless = None

    def say(self, start: int, end: int) -> None:
        """The speaker goes on with what stands at [start, end)."""
        spans = self._source.trimmed(start, end, by_row=True)
        self._spans += spans
        self._wordless = None if spans else self._wordless

    def show(self, start: int, end: int, kind: str) -> None:
        """What stands at [start, end) isn't spoken."""
        self._shown += [Shown(a, b, kind) for a, b in self._source.trimmed(start, end)]

    def problem(self, offset: int, sentence: str) -> None:
        self._problems.append(Problem(*self._source.place(offset), sentence))

    def end_line(self) -> None:
        """The line is complete, if there is one. Without a letter to say it is a beat."""
        if not self._spans:
            return
        spans, self._spans = tuple(self._spans), []
        text = self._joined(spans)
        row, column = self._source.place(spans[0][0])
        if words.has_something_to_say(text):
            direction = ", ".join(self._directions)
            self._entries.append(Line(self._speaker, text, direction, row, column, self._dual, spans))
            self._characters.setdefault(self._speaker)
            self._check_line(spans[0][0], text)
        else:
            self._shown += [Shown(a, b, "beat") for a, b in spans]
            self._entries.append(Beat(row, BEAT_S))
        self._directions, self._dual = [], False

    def script(self, form: str) -> Script:
        """All that was written down, with the gaps filled by white space."""
        self._end_speech()
        lines = [entry for entry in self._entries if isinstance(entry, Line)]
        if len(lines) > LINES:
            self.problem(lines[LINES].spans[0][0], too_long(len(lines)))
        spans = [span for line in lines for span in line.spans]
        taken = sorted([(0, 0), *spans, *((each.start, each.end) for each in self._shown)])
        taken.append((len(self._source.text),) * 2)
        gaps = [Shown(a, b, "space") for (_, a), (b, _) in pairwise(taken) if a < b]
        shown = sorted(self._shown + gaps, key=lambda each: each.start)
        problems = sorted(self._problems, key=lambda each: (each.row, each.column))
        return Script(tuple(self._entries), tuple(self._characters), tuple(shown), tuple(problems), form)

    def _end_speech(self) -> None:
        self.end_line()
        if self._wordless is not None:
            self.problem(
                self._wordless, f"{self._speaker} has no words here; write them behind or below the name."
            )
            self._wordless = None

    def _inside(self, start: int, end: int) -> str:
        """The words of a bracket at [start, end), without emphasis."""
        text = self._source.text
        while text[start] in "*_":
            start += 1
        while text[end - 1] in "*_":
            end -= 1
        spans = self._source.trimmed(start + 1, end - 1, by_row=True)
        return _EMPHASIS.sub("", self._joined(spans)).strip(words.WHITE_SPACE)

    def _joined(self, spans: list[Span] | tuple[Span, ...]) -> str:
        text = self._source.text
        parts = [text[a:b] for a, b in spans[:1]]
        for (_, end), (start, next_end) in pairwise(spans):
            spaceless = SPACELESS.match(text[end - 1]) and SPACELESS.match(text[start])
            is_hung = _HUNG.match(text, start) and not text[end:start].isspace()  # a mark behind a bracket
            if self._source.has_space(end, start) and not spaceless and not is_hung:
                parts.append(" ")
            parts.append(text[start:next_end])
        return "".join(parts)

    def _check_name(self, offset: int, name: str) -> None:
        if self._names[folded(name)] != name:
            return
        if len(name) > NAME_CHARACTERS:
            remedy = f"shorten it to {NAME_CHARACTERS} or fewer"
            self.problem(offset, f"The name “{name[:12]}…” has {len(name)} characters; {remedy}.")
        self._check(offset, words.check_character_field, name, "name")

    def _check_direction(self, offset: int, direction: str) -> None:
        self._check(offset, words.refuse_content, direction, "The direction")
        if any(mark in direction for mark in "[]"):
            self.problem(offset, "The direction has square brackets; write it as plain words.")

    def _check_line(self, offset: int, text: str) -> None:
        self._check(offset, words.check_line, text)

    def _check(self, offset: int, check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except words.PromptError as refusal:
            self.problem(offset, str(refusal))
