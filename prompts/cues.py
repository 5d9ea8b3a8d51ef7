"""Who speaks: the rules by which the beginning of a row, or a whole row, is a character's name.

A *head* is what could be a name by its looks: at most four words and, but for capitals, forty characters, of
letters, digits and the marks that names have ("DR. OKAFOR", "GUARD #2", "O'NEIL", "花子"). It never ends a
sentence: a full stop belongs to a short abbreviation. In `NAME: words` the colon has white space, a quote or
a letter behind it, so "7:05", "https://" and ":-)" are no heads. How much a head is trusted depends on its
letters:

- CAPITALS are a name.
- Title Case, and scripts without case, are a name if the same name stands in capitals elsewhere, or begins
  two rows or more, or stands free: at the start, or behind an empty row, another head or the end of a
  sentence. Words that begin sentences ("Listen", "Note", "Remember") need the capitals.
- small letters are a name if it stands in capitals elsewhere, or is one word that begins two rows or more.
- Words of the page ("SCENE", "SETTING", "TITLE") are a name only if they begin two rows or more.

A name on its own row (stage plays, Fountain) is in capitals, or forced with `@`. One that stands in capitals
"elsewhere" may do so either way. Names are compared after NFKC and case folding, with "(O.S.)", "(V.O.)" and
"(CONT'D)" left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

from prompts.page import is_first_act, is_numbered_heading
from prompts.rows import Row, Span
from prompts.text import WHITE_SPACE

NAME_CHARACTERS = 40
NAME_WORDS = 4
HEAD_CHARACTERS = 300  # a row is searched so far for the colon

_COLONS = ":："
_OPENERS, _CLOSERS = "(（[［", ")）]］"
_MARKS_IN_NAMES = " \xa0\u3000\u200c\u200d'’‘`´.．#＃&＆/／-‐‑–_+・·"
_DECORATION = "*_"
_SENTENCE_ENDS = '.!?…。！？｡؟۔।"”’»」』)）]］*'
_PARTICLES = {
    "the", "a", "an", "of", "and", "at", "in", "from", "de", "del", "la", "le", "du", "der", "den", "von",
    "van", "di", "da", "al", "el", "bin", "ibn",
}  # fmt: skip
_OF_PLACES = {"at", "in", "from", "near", "outside", "inside", "on"}
_TITLES = {
    "dr", "mr", "mrs", "ms", "mx", "prof", "st", "sr", "jr", "fr", "capt", "cpt", "lt", "sgt", "col", "maj",
    "gen", "cpl", "pvt", "det", "insp", "rev", "hon",
}  # fmt: skip
# They begin sentences more often than they name people.
_SPEECH_WORDS = {
    "listen", "look", "remember", "note", "notes", "warning", "wait", "well", "so", "first", "second",
    "third", "then", "now", "here", "there", "today", "tomorrow", "yes", "no", "oh", "ok", "okay", "go",
    "stop", "run", "help", "hey", "please", "think", "imagine", "see", "hear", "question", "answer", "fact",
    "example", "rule", "reminder", "important", "attention", "ps", "p.s.", "result", "mind", "consider",
    "understand", "meaning", "namely", "this", "that",
}  # fmt: skip
_PAGE_WORDS = {
    "title", "credit", "author", "authors", "written by", "source", "date", "draft date", "copyright",
    "contact", "format", "episode", "series", "revision", "based on", "scene", "act", "setting", "place",
    "time", "characters", "cast", "dramatis personae", "synopsis", "at rise", "the end",
}  # fmt: skip
_PARTS = ("act", "scene", "chapter", "part")
_EXTENSION = re.compile("continue[ds]?|continuing|contd?|offscreen|offstage|off|voiceover|prelap|os|vo|oc")


_NEVER_NAMES = {
    "scene", "act", "setting", "at rise", "characters", "cast", "dramatis personae", "synopsis", "the end",
}  # fmt: skip
_DAYS = {
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february",
    "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
}  # fmt: skip
_NO_TITLES = _SPEECH_WORDS | _PAGE_WORDS | _DAYS  # on their own row in Title Case they are no names
_JOINERS = {"and", "&", "et", "und", "y", "e", "with", "the", "of"}
_BEFORE = WHITE_SPACE + _DECORATION
_STOP_OR_BRACKET = re.compile(r"[.．(（\[［]")
_BEHIND_NAME = re.compile(rf"[{_DECORATION}]*(?P<stop>[.．]?)[{_DECORATION}]*(?P<dash>[—–]?)")
_BRACKET_BEHIND_NAME = re.compile(
    r"[ \t\xa0]*[*_]{0,3}([(（][^()（）]{1,300}[)）]|[\[［][^\[\]［］]{1,300}[\]］])[*_]{0,3}"
)
_INITIALS = re.compile(r"\w\.(?:\w\.)*\w?")
_ROMAN = re.compile("[IVXLCDM]+")
_SCOTTISH = re.compile(r"(?:Mc|Mac|O[’'])?[A-Z][A-Z.’'-]*|(?:Mrs?|Dr|St|Ms|Capt|Sgt|Lt|Rev|Prof)\.?")
_CUE_NUMBER = re.compile(r"[ \t\xa0]*[(\[]?(\d{1,4})[A-Z]?[.):\]]?[ \t\xa0]+(?=\S)")


class Trust(IntEnum):
    """How surely a head is a name, by its letters."""

    SMALL = 0
    TITLE = 1
    CAPITALS = 2


@dataclass(frozen=True)
class Head:
    """What could be a name, at [0, end) of its row; `brackets` are the spans of the (…) behind the name.

    `end` is where speech begins: behind the colon, or at the end of the row. `tight`: no white space stands
    behind the colon.
    """

    name: str
    brackets: tuple[Span, ...]
    end: int
    trust: Trust
    tight: bool = False
    dual: bool = False
    forced: bool = False
    stopped: bool = False  # a full stop stands behind the name
    marked: bool = False  # emphasis stands around the name
    loose: bool = False  # only a bracket parts the name from the words
    group: bool = False  # capitals joined by small words: "ORLA and PELL"

    @property
    def key(self) -> str:
        return folded(self.name)


def folded(name: str) -> str:
    """What two spellings of one name have in common."""
    plain = unicodedata.normalize("NFKC", name).replace("’", "'").casefold()
    return " ".join(plain.split())


def is_extension(bracket: str) -> bool:
    """Whether the words of a bracket say where a voice comes from: O.S., V.O., CONT'D and their kin."""
    letters = "".join(mark for mark in folded(bracket) if mark.isalpha())
    return bool(letters) and not _EXTENSION.sub("", letters)


def before_colon(text: str) -> Head | None:
    """The head of a row `NAME: words` or `NAME (direction): words`."""
    colon = _first_colon(text)
    if colon is None:
        return None
    name, brackets = _without_brackets(text[:colon])
    name = name.strip(WHITE_SPACE + _DECORATION)
    trust = trust_in(name)
    behind = text[colon + 1 :].lstrip(_DECORATION)
    if trust is None or not _may_follow(text, colon, behind, trust):
        return None
    tight = text[colon] == ":" and bool(behind) and behind[0] not in WHITE_SPACE
    return Head(name, brackets, len(text) - len(behind), trust, tight)


def on_own_row(text: str, groups: bool = False) -> Head | None:
    """The head of a row that is a name: in capitals, or forced with `@`; a `^` marks dual dialogue. With
    `groups` several names in capitals may be joined by a small word."""
    body = text.rstrip(WHITE_SPACE)
    dual, forced = body.endswith("^"), text.lstrip(WHITE_SPACE).startswith("@")
    name, brackets = _without_brackets(body[:-1] if dual else body)
    name = name.strip(WHITE_SPACE + _DECORATION)
    written = name
    name = name[1:].strip(WHITE_SPACE) if forced else _without_full_stop(name)
    letters = name if not groups else " ".join(word for word in name.split() if word not in _JOINERS)
    is_capital = any(mark.isupper() for mark in letters) and not any(mark.islower() for mark in letters)
    if not (name if forced else is_capital and name[-1] not in _COLONS):
        return None
    stopped = not forced and written != name
    group = groups and not forced and any(mark.islower() for mark in name)
    return Head(
        name, brackets, len(text), Trust.CAPITALS, dual=dual, forced=forced, stopped=stopped, group=group
    )


def in_title_case(text: str) -> Head | None:
    """The head of a row that could be a name in Title Case: "First Witch", "Lady Anne."."""
    body = text.rstrip(WHITE_SPACE)
    if len(body) > HEAD_CHARACTERS:
        return None
    name, brackets = _without_brackets(body)
    name = name.strip(WHITE_SPACE + _DECORATION)
    written, name = name, _without_full_stop(name) if name else ""
    if trust_in(name) is not Trust.TITLE or not any(mark.isupper() for mark in name):
        return None
    return Head(name, brackets, len(text), Trust.TITLE, stopped=written != name)


def before_stop(text: str) -> Head | None:
    """The head of a row `NAME. words` or `NAME (direction). words`, with or without emphasis around the name;
    a dash may stand behind the full stop. `NAME [direction] words` is a loose one."""
    body = text.lstrip(WHITE_SPACE + _DECORATION)
    start = len(text) - len(body)
    marked = any(mark in _DECORATION for mark in text[:start])
    for found in _STOP_OR_BRACKET.finditer(text, start, start + NAME_CHARACTERS + 1):
        name = text[start : found.start()].strip(WHITE_SPACE + _DECORATION)
        head = _stopped_head(text, name, found.start(), marked)
        if head or found[0] not in ".．":
            return head
    return None


def _has_words_behind(text: str, head: Head) -> bool:
    """Whether a row in capitals is a name with a full stop and words in capitals: "ORLA. STOP!"."""
    run_in = None if head.forced else before_stop(text)
    return run_in is not None and not run_in.loose and len(run_in.name) > 1


def group_parts(name: str) -> list[str]:
    """The folded names that a group's name is made of."""
    return [
        folded(part)
        for part in re.split(r"\s+(?:and|et|und|y|e|with)\s+|\s*[&+/,]\s*", name, flags=re.IGNORECASE)
        if part
    ]


def _stopped_head(text: str, name: str, end: int, marked: bool) -> Head | None:
    """The head `name` of `text`, if behind `end` stand a full stop, brackets or both, and then words."""
    words = name.split()
    trust = trust_in(name)
    is_plain = all(
        word in _JOINERS or not any(mark.islower() for mark in word) or _is_scottish(word) for word in words
    )
    if trust is None or trust is Trust.SMALL or (trust is Trust.CAPITALS and not is_plain):
        return None
    if _INITIALS.fullmatch(name):  # "J.R. EWING"
        return None
    if not any(mark.isupper() for mark in name) or _ROMAN.fullmatch(name) or words[-1].casefold() in _TITLES:
        return None
    found, brackets = _BEHIND_NAME.match(text, end), []
    while not found["stop"] and (bracket := _BRACKET_BEHIND_NAME.match(text, found.end())):
        brackets.append(bracket.span(1))
        found = _BEHIND_NAME.match(text, bracket.end())
    behind = text[found.end() :]
    if not behind.strip(_BEFORE) or not (found["stop"] or (brackets and trust is Trust.CAPITALS)):
        return None
    if behind[0] not in WHITE_SPACE and behind[0] not in "\"'“‘«([（［" and not found["dash"]:
        return None
    loose = not found["stop"]
    return Head(name, tuple(brackets), found.end(), trust, stopped=not loose, marked=marked, loose=loose)


def _is_scottish(word: str) -> bool:
    return bool(_SCOTTISH.fullmatch(word))


def trust_in(name: str) -> Trust | None:
    """How far the letters of `name` make it a name, or None if it can't be one."""
    words = name.split()
    letters = [mark for mark in name if mark.isalpha()]
    if not letters or not all(_may_stand_in_name(mark) for mark in name) or not name[0].isalnum():
        return None
    if sum(word.casefold() not in _PARTICLES for word in words) > NAME_WORDS or len(words) > 2 * NAME_WORDS:
        return None
    if not all(_is_abbreviation(word) for word in words if "." in word):
        return None
    trust = _trust_in_letters(words, letters)
    return trust if trust is Trust.CAPITALS or len(name) <= NAME_CHARACTERS else None


class Names:
    """The heads of one script, and which of them are names. Lives for one parse.

    By the index of their row: `heads` stand before a colon, `cues` are those of them that are names; `stops`
    are names with a full stop or a bracket behind them and words behind that; `owners` have a row of their
    own, with an empty row above and words below. `marks` are the kinds of rows that are nobody's speech.
    """

    def __init__(self, rows: list[Row], marks: Mapping[int, str]):
        self._rows, self._marks = rows, marks
        free = [index for index, row in enumerate(rows) if index not in marks and not row.is_empty]
        heads = {index: head for index in free if (head := before_colon(rows[index].text))}
        self.heads = _with_cue_numbers(rows, free, heads)
        below = [index for index in free if self._has_words_below(index)]
        own_rows = {index: head for index in below if (head := on_own_row(rows[index].text, groups=True))}
        own_rows = {index: head for index, head in own_rows.items() if head.key not in _PAGE_WORDS}
        self._own_rows = {
            i: head for i, head in own_rows.items() if not _has_words_behind(rows[i].text, head)
        }
        self._count()
        front = _end_of_contents(rows, marks)
        in_front = Counter(head.key for index, head in self.cues.items() if index < front)
        self.cues = {i: head for i, head in self.cues.items() if i >= front or in_front[head.key] > 1}
        self._title_rows = self._find_title_rows(below)
        self.is_run_in = False  # whether speeches follow their names behind a full stop
        self.stops = self._find_stops(free)
        if self._is_play:
            sure, first = self._sure_names(), self._first_speech()
            self.cues = {i: head for i, head in self.cues.items() if head.key in sure and i > first}
        self.owners = {
            index: head for index, head in self._own_rows.items() if self._has_room(index) and not head.group
        }

    def is_known(self, key: str) -> bool:
        """Whether the name stands in capitals somewhere, or before a colon that makes it a name."""
        return key in self._known

    def is_cast(self, name: str) -> bool:
        """Whether the name speaks in this script."""
        return folded(name) in self._cast

    def is_page_word(self, index: int) -> bool:
        """Whether row `index` begins with a word of the page before a colon, and not as a name."""
        return index in self.heads and index not in self.cues and self.heads[index].key in _PAGE_WORDS

    def are_rare(self, heads: Collection[int]) -> bool:
        """Whether `heads`, rows that could begin a speech, are so few in a long text that it is prose: hardly
        a paragraph in fifty begins with one, or one in ten and none of the first."""
        written = [i for i, row in enumerate(self._rows) if not row.is_empty and i not in self._marks]
        starts = [i for i in written if self._has_room(i)][:3]
        is_late = not heads or (bool(starts) and min(heads) > starts[-1])
        most = self._num_paragraphs / (10 if is_late else 50)
        return self._num_paragraphs >= 20 and len(heads) < most

    def alone(self, index: int) -> Head | None:
        """The name that row `index` is, in the plain form.

        It stands below an empty row, or comes again, or the script has no empty rows at all. Where names
        stand before colons, a row of capitals is a shout unless it comes again as a name. One with a full
        stop comes again, or others with a full stop do.
        """
        if index in self._title_rows:
            return self._title_rows[index]
        head = self._own_rows.get(index)
        if head is None or (trust_in(head.name) is not Trust.CAPITALS and not head.group):
            return None
        times = self._times[head.key]
        if times == 1 and (self.cues or head.key in _SPEECH_WORDS) and not self._is_known_group(head):
            return None
        has_room = self._has_room(index) or (self._is_dense and self._stands_free(index))
        return head if times > 1 or (has_room and (not head.stopped or self._have_stops)) else None

    def looks_like_name(self, index: int) -> str | None:
        """The name that row `index`, which isn't read as one, could be meant to be: alone on its row or
        before a full stop, in capitals, or in Title Case where names are written so."""
        if index in self._marks:
            return None
        text = self._rows[index].text
        head = self.heads.get(index)
        if head and head.trust is Trust.CAPITALS:
            return None if head.key in _SPEECH_WORDS | _PAGE_WORDS else head.name
        head = self._own_rows.get(index) or on_own_row(text, groups=True) or before_stop(text)
        if head and (head.key in _SPEECH_WORDS | _PAGE_WORDS or head.loose):
            return None
        if head and head.trust is Trust.CAPITALS:
            return head.name
        title = in_title_case(text) if self._has_words_below(index) else None
        if (
            title
            and self._title_rows
            and title.key not in _SPEECH_WORDS | _PAGE_WORDS
            and self._stands_free(index)
        ):
            return title.name
        return None

    def doubt(self, index: int) -> str | None:
        """What to tell the visitor about the head of row `index`, if its reading is a guess."""
        head = self.heads.get(index)
        if head is None or head.trust is not Trust.TITLE or head.key in _SPEECH_WORDS | _PAGE_WORDS:
            return None
        if index not in self.cues:
            return f"“{head.name}” is read as spoken words; if it is a name, write it in capitals."
        if self._times[head.key] > 1 or (len(self.cues) > 1 and not self._capitals):
            return None
        return f"“{head.name}” is read as a name; if it is spoken, put the name of its speaker in front."

    # Who has a name.

    def _count(self) -> None:
        own = Counter(head.key for head in self._own_rows.values())
        self._times = own + Counter(head.key for head in self.heads.values())
        self._capitals = own + Counter(h.key for h in self.heads.values() if h.trust is Trust.CAPITALS)
        self.cues = {index: head for index, head in self.heads.items() if self._is_name(index, head)}
        self._known = self._capitals.keys() | {head.key for head in self.cues.values()}
        repeated = {head.key for head in self._own_rows.values() if own[head.key] > 1}
        self._have_stops = any(head.stopped and head.key in repeated for head in self._own_rows.values())
        self._on_own_rows = repeated | {
            head.key for index, head in self._own_rows.items() if self._have_stops and head.stopped
        }

    def _find_title_rows(self, below: list[int]) -> dict[int, Head]:
        """Names in Title Case on their own rows: those that come again, if enough of the script is like that.

        With a full stop behind the name, or in a script whose other names are in capitals, coming again is
        enough; otherwise such rows must begin half of the paragraphs, be a fourth of all rows, or be six or
        more of two or more names.
        """
        found = {}
        for index in below:
            head = in_title_case(self._rows[index].text)
            below_name = index - 1 in found or index - 1 in self._own_rows  # then it is what somebody says
            if head and head.key not in _NO_TITLES and not below_name:
                found[index] = head
        free = Counter(head.key for index, head in found.items() if self._stands_free(index))
        found = {i: head for i, head in found.items() if free[head.key] > 1 or self._stands_free(i)}
        times = Counter(head.key for head in found.values())
        again = {
            index: head
            for index, head in found.items()
            if times[head.key] > 1 or head.key in self._on_own_rows
        }
        if not again or len(self.cues) > len(again):
            return {}
        keys = {head.key for head in again.values()}
        others = sum(head.key in self._on_own_rows or self._has_room(i) for i, head in self._own_rows.items())
        if self._is_dense and not others:
            others = len(self._own_rows)
        is_script = (
            (others and len(again) + others > 2)
            or self._share_of_paragraphs(again) >= 0.5
            or (len(again) > 2 and 4 * len(again) >= self._num_written)
            or (len(again) > 5 and len(keys) > 1)
        )
        if not is_script or len(again) + others < 3:
            return {}
        if not self._is_dense and 2 * sum(map(self._has_room, again)) < len(again):
            return {}
        stopped = any(head.stopped for head in again.values())
        once = {i: head for i, head in found.items() if stopped and head.stopped and self._has_room(i)}
        return again | once

    def _find_stops(self, free: list[int]) -> dict[int, Head]:
        """Names before a full stop with words behind, `ORLA. Hello.`, if the script is set like that."""
        found = {}
        for index in free:
            head = None if index in self._own_rows else before_stop(self._rows[index].text)
            is_page = head and (head.key in _PAGE_WORDS | _DAYS or head.key.partition(" ")[0] in _PARTS)
            could_be = head and not is_page and head.key not in _SPEECH_WORDS and index not in self.cues
            if could_be and (self._stands_free(index) or index - 1 in found):
                found[index] = head
        sure = {
            i: head
            for i, head in found.items()
            if not head.loose and (head.trust is Trust.CAPITALS or head.marked)
        }
        strong = self._agreed(sure, 0.5, 0.25)
        if strong:
            found = {i: head for i, head in found.items() if i in sure or head.loose}
        else:
            plain = {i: head for i, head in found.items() if not head.loose}
            strong = self._agreed(plain, 0.75, 0.5)
        known = {head.key for head in strong.values()} | self._on_own_rows
        if not known or len(self.cues) > len(strong) + len(self._own_rows):
            return {}
        self.is_run_in = bool(strong)
        kept = dict(strong)
        for index, head in found.items():
            parts = group_parts(head.name)
            is_group = len(parts) > 1 and all(part in known for part in parts)
            if is_group or (head.key in known and (strong or head.loose)):
                kept[index] = head
        return dict(sorted(kept.items()))

    def _agreed(self, found: dict[int, Head], alone: float, again: float) -> dict[int, Head]:
        """Those of `found` that are names, if together they make a script: by themselves they begin the share
        `alone` of the paragraphs; where one comes again, the share `again`."""
        times = Counter(head.key for head in found.values())
        repeated = [key for key, count in times.items() if count > 1]
        needed = again if len(repeated) > 1 or (repeated and alone <= 0.5) else alone
        if again >= 0.5 and (not repeated or len(found) < 3):  # by their letters these are no names
            return {}
        if len(found) < 2 or len(found) <= len(self.cues):
            return {}
        if len(times) == 1 and self._share_of_paragraphs(found) < alone:
            return {}
        share = self._share_of_paragraphs(found)
        is_dense = len(found) > self._num_paragraphs  # speeches aren't parted by empty rows
        if is_dense:
            share = len(found) / self._num_written
            is_much = len(found) > 5 and len(repeated) > 1
            if repeated and again < 0.5:
                needed = 0.03 if is_much else 0.1
            elif is_much and len(found) >= 4 * len(times):  # few names that come often
                needed = 0.15
        if share < needed:
            return {}
        by_letters = again < 0.5
        return {
            index: head
            for index, head in found.items()
            if times[head.key] > 1
            or (len(head.name) > 1 and self._may_come_once(index, head, is_dense, by_letters))
        }

    def _may_come_once(self, index: int, head: Head, is_dense: bool, by_letters: bool) -> bool:
        """Whether a name before a full stop that comes once is one, where others are."""
        if by_letters:
            return is_dense or self._has_room(index)
        before = next((each for each in range(index - 1, -1, -1) if not self._rows[each].is_empty), None)
        is_setting = before in self._marks or not _OF_PLACES.isdisjoint(head.key.split())
        return self._has_room(index) and not is_setting

    def _share_of_paragraphs(self, heads: Mapping[int, Head]) -> float:
        starts = sum(self._has_room(index) for index in heads)
        return starts / max(1, self._num_paragraphs)

    @property
    def _is_play(self) -> bool:
        """Whether far more names have rows of their own, or a full stop, than stand before a colon."""
        own = sum(head.key in self._on_own_rows for head in self._own_rows.values())
        others = max(own, len(self.stops), len(self._title_rows))
        again = Counter(head.key for head in self.cues.values())
        return others > 2 and others > 4 * sum(count for count in again.values() if count > 1)

    def _sure_names(self) -> set[str]:
        """In a play: names as the others are set, and those that stand twice in capitals before a colon."""
        times = Counter(head.key for head in self.heads.values() if head.trust is Trust.CAPITALS)
        others = (*self.stops.values(), *self._title_rows.values())
        return self._on_own_rows | {head.key for head in others} | {key for key in times if times[key] > 1}

    def _first_speech(self) -> int:
        """The first row of a name that the play is set in: what stands before is a programme."""
        own = (index for index, head in self._own_rows.items() if head.key in self._on_own_rows)
        return min((*own, *self.stops, *self._title_rows), default=0)

    def _is_known_group(self, head: Head) -> bool:
        parts = group_parts(head.name)
        return len(parts) > 1 and all(self._times[part] > 1 or part in self._on_own_rows for part in parts)

    @cached_property
    def _cast(self) -> set[str]:
        heads = (*self.cues.values(), *self.stops.values(), *self._title_rows.values())
        return {head.key for head in heads} | self._on_own_rows

    @cached_property
    def _is_dense(self) -> bool:
        return all(index == 0 for index in self._own_rows if self._has_room(index))

    @cached_property
    def _num_written(self) -> int:
        """How many rows hold words that somebody could speak."""
        return sum(not row.is_empty and index not in self._marks for index, row in enumerate(self._rows))

    @cached_property
    def _num_paragraphs(self) -> int:
        """How many paragraphs there are, without those in brackets and those of the page."""
        return sum(
            self._has_room(index)
            and not row.is_empty
            and index not in self._marks
            and row.text.lstrip(_BEFORE)[:1] not in _OPENERS
            for index, row in enumerate(self._rows)
        )

    def _is_name(self, index: int, head: Head) -> bool:
        times, in_capitals = self._times[head.key], head.key in self._capitals
        if head.key in _NEVER_NAMES:
            return False
        if head.key in _PAGE_WORDS or head.key.partition(" ")[0] in _PARTS:
            return times > 1
        if head.trust is Trust.CAPITALS:
            return head.key not in _SPEECH_WORDS or self._capitals[head.key] > 1
        if in_capitals or head.key in _SPEECH_WORDS:
            return in_capitals
        if head.trust is Trust.SMALL:
            return times > 1 and " " not in head.key and not head.tight and self._stands_free(index)
        is_caseless = not any(mark.isupper() for mark in head.name)
        return times > 1 or (self._stands_free(index) and (is_caseless or not head.tight))

    def _has_room(self, index: int) -> bool:
        return index == 0 or self._rows[index - 1].is_empty

    def _has_words_below(self, index: int) -> bool:
        if index + 1 >= len(self._rows) or self._rows[index + 1].is_empty:
            return False
        return not is_numbered_heading(self._rows[index + 1].text.strip(WHITE_SPACE))

    def _stands_free(self, index: int) -> bool:
        before = self._rows[index - 1].text.rstrip(WHITE_SPACE) if index else ""
        return (
            not before or index - 1 in self.heads or index - 1 in self._marks or before[-1] in _SENTENCE_ENDS
        )


def _end_of_contents(rows: list[Row], marks: Mapping[int, str]) -> int:
    """The row of the heading with which the acts begin again behind a table of contents, 0 if there is
    none."""
    firsts = [
        i for i, kind in marks.items() if kind == "heading" and is_first_act(rows[i].text.strip(WHITE_SPACE))
    ]
    return max(firsts) if len(firsts) > 1 else 0


def _with_cue_numbers(rows: list[Row], free: list[int], heads: dict[int, Head]) -> dict[int, Head]:
    """`heads`, and those behind numbers that count the cues of a radio play: nearly all cues have one, each
    higher than the last or 1 again, and the names are not all one ("1 WITCH", "2 WITCH")."""
    found: dict[int, Head] = {}
    values = []
    for index in free:
        number = _CUE_NUMBER.match(rows[index].text)
        head = before_colon(rows[index].text[number.end() :]) if number else None
        if head and head.trust is not Trust.SMALL:
            at = number.end()
            spans = tuple((a + at, b + at) for a, b in head.brackets)
            found[index] = replace(head, brackets=spans, end=head.end + at)
            values.append(int(number[1]))
    if not found or 5 * len(found) < 4 * len(heads.keys() | found.keys()):
        return heads
    is_rising = all(a < b or b == 1 for a, b in pairwise(values))
    names = {head.key for head in found.values()}
    capitals = sum(head.trust is Trust.CAPITALS for head in found.values())
    if not is_rising or 2 * capitals < len(found) or (len(found) > 1 and len(names) == 1):
        return heads
    return heads | found


def _first_colon(text: str) -> int | None:
    """The first colon of `text` that isn't inside brackets."""
    depth = 0
    for index, mark in enumerate(text[:HEAD_CHARACTERS]):
        if mark in _COLONS and depth == 0:
            return index
        depth += (mark in _OPENERS) - (mark in _CLOSERS)
        if depth < 0:
            return None
    return None


def _without_brackets(text: str) -> tuple[str, tuple[Span, ...]]:
    """`text` up to the brackets at its end, and the spans of these brackets."""
    spans: list[Span] = []
    body = text.rstrip(WHITE_SPACE + _DECORATION)
    while body.endswith(tuple(_CLOSERS)):
        openers = "(（" if body[-1] in ")）" else "[［"
        start = max(body.rfind(mark) for mark in openers)
        if start < 0:
            break
        spans.insert(0, (start, len(body)))
        text, body = body[:start], body[:start].rstrip(WHITE_SPACE + _DECORATION)
    return text, tuple(spans)


def _without_full_stop(name: str) -> str:
    """`name` without the full stop that some plays put behind it: "ALGERNON."."""
    last = name.rpartition(" ")[2].rstrip(".").casefold()
    return name if last in _TITLES else name.rstrip(".")


def _may_follow(text: str, colon: int, behind: str, trust: Trust) -> bool:
    """Whether `behind` can be speech: it begins with white space, or tightly with a quote or a letter."""
    if text[colon] != ":" or not behind or behind[0] in WHITE_SPACE:
        return True
    if behind[0] in "(（[［":
        return any(mark in behind for mark in _CLOSERS)
    is_word = behind[0].isalpha() or behind[0] in "\"'“‘«¿¡「『—…"
    return is_word and trust is not Trust.SMALL


def _may_stand_in_name(mark: str) -> bool:
    return mark in _MARKS_IN_NAMES or unicodedata.category(mark)[0] in "LMN"


def _is_abbreviation(word: str) -> bool:
    """Whether the full stops of `word` end no sentence: "DR.", "J.R.", "St.", but not "No."."""
    *parts, last = word.casefold().replace("．", ".").split(".")
    if word.casefold().strip(".") in _SPEECH_WORDS:
        return False
    is_initials = all(len(part) <= 1 for part in parts)
    return len(last) <= 12 and (is_initials or parts[0] in _TITLES or (word.isupper() and len(parts[0]) <= 4))


def _trust_in_letters(words: list[str], letters: list[str]) -> Trust:
    capitals = sum(mark.isupper() for mark in letters)
    small = sum(mark.islower() for mark in letters)
    if capitals > 2 * small:  # "McCOY", "GUARD #2"
        return Trust.CAPITALS
    firsts = (word.lstrip("'’‘#")[:1] for word in words if word.casefold() not in _PARTICLES)
    return Trust.SMALL if any(mark.islower() for mark in firsts) else Trust.TITLE
