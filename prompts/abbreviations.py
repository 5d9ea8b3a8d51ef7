"""Titles, streets and other short forms as the words they stand for, with a full stop and without."""

from __future__ import annotations

import re
from collections.abc import Callable

from prompts.context import before, behind
from prompts.number_words import cardinal

_ALWAYS = {"Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Messrs": "Messers"}
_BEFORE_NAME = {
    "Dr": "Doctor", "Prof": "Professor", "Sgt": "Sergeant", "Capt": "Captain", "Cpt": "Captain",
    "Lt": "Lieutenant", "Col": "Colonel", "Gen": "General", "Maj": "Major", "Cmdr": "Commander",
    "Adm": "Admiral", "Rev": "Reverend", "Gov": "Governor", "Sen": "Senator", "Hon": "Honourable",
    "Mme": "Madame", "Mlle": "Mademoiselle", "Fr": "Father", "Mt": "Mount", "Ft": "Fort", "St": "Saint",
}  # fmt: skip
_BEHIND_NAME = {"Jr": "Junior", "Sr": "Senior"}
_ROADS = {
    "St": "Street",
    "Rd": "Road",
    "Ave": "Avenue",
    "Blvd": "Boulevard",
    "Dr": "Drive",
    "Ln": "Lane",
    "Sq": "Square",
}
_BEFORE_NUMBER = {
    "p": "page",
    "pp": "pages",
    "vol": "volume",
    "ch": "chapter",
    "fig": "figure",
    "nr": "number",
}
_PHRASES = {
    "etc": "et cetera",
    "vs": "versus",
    "e.g": "for example",
    "i.e": "that is",
    "approx": "approximately",
}

# What begins a sentence and is no name: "We met on Elm St. Then he left."
_STARTS = frozenset(
    re.findall(
        r"\w+",
        "The A An And But Or If In On At To For From With By As So Then When While That This These Those "
        "He She It We They You I My Your His Her Our Their Is Are Was Were Do Did Has Have Had No Yes Oh "
        "Well Why What Where Who How There Here Now Nobody Somebody Everybody Nothing Come Go Let Look "
        "Not",
    )
)

_NAME_BEHIND = re.compile(r"\s+[\"'“‘(]?[A-Z](?:['’]?[a-zA-Z]|\.\s?[A-Z])")
_WORD_BEFORE = re.compile(r"([A-Za-z'’-]+)(\.?)\s+$")


def _read_title(found: re.Match) -> str | None:
    title, short = found["title"], found["title"].capitalize()
    stop = "." if found["stop"] and not behind(found).strip() else ""
    if short in _ALWAYS:
        return _as_loud(_ALWAYS[short], title) + stop
    if short in _BEHIND_NAME:
        return _BEHIND_NAME[short] + stop if found["stop"] or _follows_name(found) else None
    if short in _ROADS and (road := _read_road(found, short)):
        return road
    if short in _BEFORE_NAME and (
        _NAME_BEHIND.match(behind(found)) or (found["stop"] and short not in _ROADS)
    ):
        return _as_loud(_BEFORE_NAME[short], title) + stop
    if short == "Dr" and (found["stop"] or title == "Dr"):
        return _BEFORE_NAME[short] + stop
    return None


def _read_road(found: re.Match, short: str) -> str | None:
    """The road that it stands for at the end or behind a capital word; None where a name follows."""
    name = re.match(r"\s+([A-Z]\w*)", behind(found))
    new_sentence = bool(name and found["stop"] and name[1] in _STARTS)
    if name and short in _BEFORE_NAME and not new_sentence:
        return None
    is_last = not behind(found).strip(" \n\"'”’)")
    is_road = _follows_name(found) or (short == "St" and (is_last or found["stop"]))
    if not is_road or (short == "Dr" and not _follows_name(found)):
        return None
    return _ROADS[short] + ("." if found["stop"] and (is_last or new_sentence) else "")


def _follows_name(found: re.Match) -> bool:
    word = _WORD_BEFORE.search(before(found))
    return bool(word and not word[2] and word[1][0].isupper() and word[1] not in _STARTS)


def _as_loud(word: str, title: str) -> str:
    return word.upper() if title.isupper() and len(title) > 1 else word


def _read_number_sign(found: re.Match) -> str | None:
    """Inside a sentence a number; at its start only where no noun follows ("No. 5 men heard it.")."""
    front = before(found).rstrip(" \n\"'“‘(")
    if (not front or front[-1] in ".!?…:") and re.match(r"\s+[a-z]", behind(found)):
        return None
    what = "numbers" if found["what"] == "Nos" else "number"
    return f"{what} {_numbers(found)}"


def _read_numbered(found: re.Match) -> str:
    return f"{_BEFORE_NUMBER.get(found['what'].lower(), 'number')} {_numbers(found)}"


def _numbers(found: re.Match) -> str:
    return " to ".join(cardinal(each) for each in re.findall(r"\d+", found["number"]))


def _read_phrase(found: re.Match) -> str:
    phrase = found["phrase"].lower()
    is_last = ends_sentence(found) if phrase == "etc" else not behind(found).strip()
    return _PHRASES[phrase] + ("." if found["stop"] and is_last else "")


def ends_sentence(found: re.Match) -> bool:
    """Whether the full stop of an abbreviation is one of the sentence too."""
    rest = behind(found).lstrip(" \n\"'”’)")
    return not rest or rest[0].isupper()


_RANGE = r"(?P<number>\d+(?:[-–]\d+)?)"
_TITLES = sorted({*_ALWAYS, *_BEFORE_NAME, *_BEHIND_NAME, *_ROADS}, key=len, reverse=True)
_LOUD = [each.upper() for each in ("Mr", "Mrs", "Ms", "Dr")]

# The first reads numbers and goes before the rules of numbers.
NUMBERED: tuple[tuple[str, Callable[[re.Match], str | None]], ...] = (
    (rf"\b(?P<what>Nos?)\.\s?{_RANGE}", _read_number_sign),
    (rf"\b(?P<what>(?i:{'|'.join(_BEFORE_NUMBER)}))\.\s?{_RANGE}", _read_numbered),
    (rf"(?P<what>#){_RANGE}", _read_numbered),
    (rf"(?P<what>№)\s?{_RANGE}", _read_numbered),
)
RULES: tuple[tuple[str, Callable[[re.Match], str | None]], ...] = (
    (rf"\b(?P<title>{'|'.join([*_TITLES, *_LOUD])})\b(?P<stop>\.?)", _read_title),
    (r"\b(?P<phrase>(?i:e\.g|i\.e|approx))(?P<stop>\.)", _read_phrase),
    (r"\b(?P<phrase>(?i:etc|vs))\b(?P<stop>\.?)", _read_phrase),
    (r"(?<=\s)&(?=\s)", lambda found: "and"),
)
