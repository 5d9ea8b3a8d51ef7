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
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

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


def on_own_row(text: str) -> Head | None:
    """The head of a row that is a name: in capitals, or forced with `@`; a `^` marks dual dialogue."""
    body = text.rstrip(WHITE_SPACE)
    dual, forced = body.endswith("^"), text.lstrip(WHITE_SPACE).startswith("@")
    name, brackets = _without_brackets(body[:-1] if dual else body)
    name = name.strip(WHITE_SPACE + _DECORATION)
    name = name[1:].strip(WHITE_SPACE) if forced else _without_full_stop(name)
    is_capital = any(mark.isupper() for mark in name) and not any(mark.islower() for mark in name)
    if not (name if forced else is_capital and name[-1] not in _COLONS):
        return None
    return Head(name, brackets, len(text), Trust.CAPITALS, dual=dual, forced=forced)


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

    By the index of their row: `heads` stand before a colon, `cues` are those of them that are names;
    `owners` have a row of their own, with an empty row above and words below.
    """

    def __init__(self, rows: list[Row]):
        self._rows = rows
        heads = ((index, before_colon(row.text)) for index, row in enumerate(rows))
        self.heads = {index: head for index, head in heads if head}
        own_rows = ((i, on_own_row(row.text)) for i, row in enumerate(rows) if self._has_words_below(i))
        self._own_rows = {i: head for i, head in own_rows if head and head.key not in _PAGE_WORDS}
        self.owners = {index: head for index, head in self._own_rows.items() if self._has_room(index)}
        own = Counter(head.key for head in self._own_rows.values())
        self._times = own + Counter(head.key for head in self.heads.values())
        self._capitals = own + Counter(h.key for h in self.heads.values() if h.trust is Trust.CAPITALS)
        self.cues = {index: head for index, head in self.heads.items() if self._is_name(index, head)}
        self._known = self._capitals.keys() | {head.key for head in self.cues.values()}

    def is_known(self, key: str) -> bool:
        """Whether the name stands in capitals somewhere, or before a colon that makes it a name."""
        return key in self._known

    def is_page_word(self, index: int) -> bool:
        """Whether row `index` begins with a word of the page before a colon, and not as a name."""
        return index in self.heads and index not in self.cues and self.heads[index].key in _PAGE_WORDS

    def alone(self, index: int) -> Head | None:
        """The name that row `index` is, in the plain form.

        It stands below an empty row, or comes again, or the script has no empty rows at all. Where names
        stand before colons, a row of capitals is a shout unless it comes again as a name.
        """
        head = self._own_rows.get(index)
        if head is None or trust_in(head.name) is not Trust.CAPITALS:
            return None
        times = self._times[head.key]
        if times == 1 and (self.cues or head.key in _SPEECH_WORDS):
            return None
        ends_sentence = self._rows[index].text.rstrip(WHITE_SPACE).endswith(".")
        has_room = index in self.owners or (self._is_dense and self._stands_free(index))
        return head if times > 1 or (has_room and not ends_sentence) else None

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

    @cached_property
    def _is_dense(self) -> bool:
        return all(index == 0 for index in self.owners)

    def _is_name(self, index: int, head: Head) -> bool:
        times, in_capitals = self._times[head.key], head.key in self._capitals
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
        return index + 1 < len(self._rows) and not self._rows[index + 1].is_empty

    def _stands_free(self, index: int) -> bool:
        before = self._rows[index - 1].text.rstrip(WHITE_SPACE) if index else ""
        return not before or index - 1 in self.heads or before[-1] in _SENTENCE_ENDS


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
    last = name.split()[-1].rstrip(".").casefold() if name else ""
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
