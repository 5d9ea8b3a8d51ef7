"""A text in the characters that a model reads: the others give way to plainer ones, and what has no like is
left out and named.

A small model knows the characters of its training text and nothing else; a curly apostrophe reaches it as
three bytes that it never saw, and "can’t" is spoken as "can". So a family may say which characters it reads,
and every text is folded to them before the prompt: quotes and apostrophes of all forms, dashes, spaces,
full-width forms and ligatures, accents where there is no better, a few signs as words. Marks that nobody
voices just go. A letter, a digit or a sign without a like goes as well, but as a change of the step `UNREAD`,
for somebody to be told.

The law: what comes out holds characters of the set alone, and folding it again changes nothing. Speaker tags
stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from prompts.changes import UNREAD, Change, Wording, changed
from prompts.text import SPEAKER_TAG, WHITE_SPACE

STEP = "letters"
DIGITS = "0123456789"

# Signs that the number reader knows, and all that can be typed on any keyboard.
_BEFORE_NUMBERS = "".join(map(chr, range(32, 127))) + "€£¥₹¢°²³½¼¾⅓⅔–—−“”„«»…"

# The likes of a mark, the best one first: the first whose characters are all read takes its place.
_APOSTROPHES = "’‘ʼ＇`´‛‚‹›′‵ʹʻʽʾʿˈˊˋꞌ՚׳ʹ᾿᾽"
_QUOTES = "“”„‟«»″‶〝〞〟＂❝❞〃״"
_DASHES = "–―⸺⸻"
_HYPHENS = "‐‑‒⁃−﹣－֊᠆"
_LIKES = {
    **dict.fromkeys(_APOSTROPHES, ("'", "")),
    **dict.fromkeys(_QUOTES, ('"', "")),
    **dict.fromkeys("\"“”", ('"', "")),
    **dict.fromkeys(_DASHES, ("—", "–", "-", ",", " ")),
    **dict.fromkeys(_HYPHENS, ("-", "—", " ")),
    "–": ("—", "-", ",", " "),
    "—": ("–", "-", ",", " "),
    "-": (" ",),
    "'": ("’", ""),
    "…": ("...", ".", ""),
    **dict.fromkeys("‥․", (".", "")),
    **dict.fromkeys("。．｡۔।", (".", "")),
    **dict.fromkeys("、，､،·・•", (",", "")),
    **dict.fromkeys(";；؛", (";", ",", "")),
    **dict.fromkeys(":：", (":", ",", "")),
    **dict.fromkeys("?？؟", ("?", ".", "")),
    **dict.fromkeys("!！", ("!", ".", "")),
    "‽": ("?!", "?", ""),
    "¿": ("",),
    "¡": ("",),
    **dict.fromkeys("_/\\|", (" ", "")),
    **dict.fromkeys("*~^™®©℠", ("",)),
    "ß": ("ss",), "ẞ": ("SS",), "þ": ("th",), "Þ": ("Th",), "ð": ("d",), "Ð": ("D",), "ı": ("i",),
    "ĸ": ("k",), "ŋ": ("ng",), "Ŋ": ("Ng",), "œ": ("oe",), "Œ": ("Oe",), "ə": ("e",), "Ə": ("E",),
}  # fmt: skip
# Signs that are read as a word, with the space around it that a word needs.
_WORDS = {
    "&": "and", "＆": "and", "﹠": "and", "⁊": "and", "%": "percent", "‰": "per mille", "@": "at",
    "+": "plus", "=": "equals", "×": "times", "÷": "divided by", "°": "degrees", "№": "number", "#": "number",
    "§": "section", "$": "dollars", "€": "euros", "£": "pounds", "¥": "yen", "₹": "rupees", "¢": "cents",
    "²": "squared", "³": "cubed",
}  # fmt: skip

_LATIN = re.compile(r"LATIN (SMALL|CAPITAL) (?:LETTER|LIGATURE) ([A-Z]{1,2})(?: WITH .+)?")
_OPENING, _CLOSING = "([{（［｛【〔", ")]}）］｝】〕"
_ODD_SPACE = re.compile("[\xa0\u2000-\u200a\u202f\u205f]")
_STOPS = ".,;:!?…—"


@dataclass
class _Cell:
    """text[start:end] and what stands for it; `step` is None where that is itself."""

    start: int
    end: int
    was: str
    now: str
    step: str | None = None

    def become(self, now: str) -> None:
        self.now, self.step = now, self.step or STEP

    @property
    def is_space(self) -> bool:
        return bool(self.was) and self.was in WHITE_SPACE

    @property
    def is_gone(self) -> bool:
        return self.step is not None and not self.now


def fold(text: str, characters: str) -> Wording:
    """`text` in `characters` and speaker tags, every change with its place."""
    if "--" not in text and frozenset(characters).issuperset(text):
        return Wording(text)
    cells = list(_cells(text, characters))
    _pad_words(cells)
    _breathe(cells, "," in characters)
    _close_gaps(cells)
    if "—" in characters:
        _join_hyphens(cells)
    changes = tuple(_joined_up(text, cells))
    return Wording(changed(text, changes), changes)


def before_numbers(text: str, characters: str) -> Wording:
    """`text` folded as far as the number reader needs it: digits, currencies and units stay."""
    return fold(text, characters + _BEFORE_NUMBERS)


def plain_spaces(text: str) -> Wording:
    """`text` with an ordinary space for every no-break and thin one, for a model that reads everything."""
    changes = tuple(Change(*found.span(), found[0], " ", STEP) for found in _ODD_SPACE.finditer(text))
    return Wording(changed(text, changes), changes)


def spelled(text: str) -> Wording:
    """`text` with the digits that are left in it named one by one: better than not at all."""
    changes = []
    for found in re.finditer(r"[0-9]+", text):
        names = " ".join(_DIGIT_NAMES[int(digit)] for digit in found[0])
        start, end = found.span()
        before = " " if start and text[start - 1].isalnum() else ""
        after = " " if end < len(text) and text[end].isalnum() else ""
        changes.append(Change(start, end, found[0], before + names + after, "numbers"))
    return Wording(changed(text, changes), tuple(changes))


_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def _cells(text: str, characters: str) -> Iterator[_Cell]:
    """The text in cells: a speaker tag, or a character with its marks."""
    readable, place = frozenset(characters), 0
    while place < len(text):
        if tag := SPEAKER_TAG.match(text, place):
            yield _Cell(place, tag.end(), tag[0], tag[0])
            place = tag.end()
            continue
        end = place + 1
        while end < len(text) and unicodedata.category(text[end])[0] == "M":
            end += 1
        was = text[place:end]
        yield _Cell(place, end, was, *((was,) if readable.issuperset(was) else _now(was, characters)))
        place = end


def _now(was: str, characters: str) -> tuple[str, str]:
    """What stands for a character with its marks, and the step."""
    like = _like(was, characters)
    if like is not None:
        return like, STEP
    if word := _word(was, characters):
        return word, STEP
    kind = unicodedata.category(was[0])
    return "", UNREAD if kind[0] in "LNMS" or kind in ("Co", "Cn") else STEP


def _word(was: str, characters: str) -> str:
    word = _WORDS.get(was[0], "")
    return word if frozenset(characters).issuperset(word) else ""


@lru_cache(maxsize=65_536)
def _like(was: str, characters: str) -> str | None:
    """The best like of a character with its marks, "" for one that is silent, None where it has none."""
    readable = frozenset(characters)
    return next((like for like in _likes(was, characters) if readable.issuperset(like)), None)


def _likes(was: str, characters: str) -> Iterator[str]:
    base, kind = was[0], unicodedata.category(was[0])
    yield unicodedata.normalize("NFC", was)
    if kind in ("Cc", "Zs", "Zl", "Zp"):
        yield " "
    if kind == "Cf":
        yield ""
    yield from _LIKES.get(base, ())
    if base in _WORDS:
        return
    for form in ("NFKC", "NFKD"):
        other = unicodedata.normalize(form, was)
        if form == "NFKD":
            other = "".join(each for each in other if unicodedata.category(each)[0] != "M")
        if other and other != was:
            likes = [_like(each, characters) for each in other]
            if None not in likes:
                yield "".join(likes)
    if found := _LATIN.fullmatch(unicodedata.name(base, "")):
        yield found[2].capitalize() if found[1] == "CAPITAL" else found[2].lower()


def _pad_words(cells: list[_Cell]) -> None:
    """Space around a sign that became a word."""
    for index, cell in enumerate(cells):
        if cell.step and len(cell.now) > 1 and cell.was[0] in _WORDS:
            before, behind = cells[index - 1 : index], cells[index + 1 : index + 2]
            if before and not before[0].now.endswith(" ") and before[0].now:
                cell.now = f" {cell.now}"
            if behind and behind[0].was[0].isalnum():
                cell.now = f"{cell.now} "


def _breathe(cells: list[_Cell], has_comma: bool) -> None:
    """A comma where a bracket went between two words: "I left (early) and" -> "I left, early, and"."""
    for index, cell in enumerate(cells):
        if not (cell.is_gone and cell.was[0] in _OPENING + _CLOSING):
            continue
        side = index - 1 if cell.was[0] in _OPENING else index + 1
        if not 0 < side < len(cells) - 1 or not cells[side].is_space:
            continue
        word = _said(cells, side - 1, -1) if side < index else _said(cells, index - 1, -1)
        other = _said(cells, index + 1, 1) if side < index else _said(cells, side + 1, 1)
        if word.isalnum() and other.isalnum():
            cells[side].become(", " if has_comma else " ")


def _said(cells: list[_Cell], index: int, step: int) -> str:
    """The first character that is said from `index` on, in that direction."""
    while 0 <= index < len(cells):
        if now := cells[index].now:
            return now[0] if step > 0 else now[-1]
        index += step
    return ""


def _join_hyphens(cells: list[_Cell]) -> None:
    """A dash for two hyphens and more in a row, as people type one."""
    row: list[_Cell] = []
    for cell in [*cells, None]:
        if cell and cell.now == "-":
            row.append(cell)
        elif not cell or cell.now:
            if len(row) > 1:
                row[0].become("—")
                for each in row[1:]:
                    each.become("")
            row = []


def _close_gaps(cells: list[_Cell]) -> None:
    """Of the space on both sides of what is gone, one stays; at either end and before a stop none does."""
    index = 0
    while index < len(cells):
        if not cells[index].is_gone:
            index += 1
            continue
        first = index
        while index < len(cells) and cells[index].is_gone:
            index += 1
        before = cells[first - 1] if first else None
        behind = cells[index] if index < len(cells) else None
        opens = before is None or before.now[-1:] == " "
        if behind is not None and behind.now in _STOPS and _is_unread(cells[first:index]):
            stop = _stop_before(cells, first) if opens else None
            if before is None or stop is not None:
                # Of two stops around a stretch that is gone, the one that ends the sentence stays.
                gone = stop if stop is not None and stop.now in ",;:—" else behind
                gone.become("")
                index = first
                continue
        if opens and behind is not None and behind.now == " ":
            behind.become("")
            index -= 1 if index else 0
        elif before is not None and before.now == " " and (behind is None or behind.now[:1] in _STOPS):
            before.become("")
            index = first - 1


def _stop_before(cells: list[_Cell], index: int) -> _Cell | None:
    """The stop that is the last thing said before `index`, if it is one."""
    said = (each for each in reversed(cells[:index]) if each.now.strip())
    last = next(said, None)
    return last if last and last.now in _STOPS else None


def _is_unread(cells: list[_Cell]) -> bool:
    return any(cell.step == UNREAD for cell in cells)


def _joined_up(text: str, cells: list[_Cell]) -> Iterator[Change]:
    """The changed cells as changes; those of one step that touch are one."""
    index = 0
    while index < len(cells):
        first, step = index, cells[index].step
        while index < len(cells) and cells[index].step == step:
            index += 1
        if step:
            start, end = cells[first].start, cells[index - 1].end
            yield Change(start, end, text[start:end], "".join(each.now for each in cells[first:index]), step)
