"""Numbers, money, times, dates and a few abbreviations written out as English words: optional and visible.

A small model reads letters only, so "flat 4B" must become "flat four B". Each rule below is a pattern and the
words for what it finds; an earlier rule takes precedence. Where a spelling has two readings, the neutral one
is said: "3/11" is "three eleven", whichever is the month. British "and": "two hundred and fifty".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from unicode_rbnf import RbnfEngine

from prompts.changes import Change, Wording, changed

STEP = "numbers"

_SPELLER = RbnfEngine.for_language("en")  # the rules of Unicode's CLDR

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_FULL_MONTHS = "|".join(_MONTHS)
_SHORT_MONTHS = "|".join(rf"{name[:3]}\.?" for name in _MONTHS if name != "May")
_MONTH = f"(?P<month>{_FULL_MONTHS}|{_SHORT_MONTHS})"
_FRACTIONS = {
    "1/2": "one half", "1/3": "one third", "2/3": "two thirds", "1/4": "one quarter", "3/4": "three quarters",
    "½": "a half", "¼": "a quarter", "¾": "three quarters", "⅓": "a third", "⅔": "two thirds",
}  # fmt: skip
_MONEY = {"$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", "")}
_PLURALS = {"penny": "pence", "foot": "feet"} | dict.fromkeys(("yen", "hertz", "kilohertz"), "")
_UNITS = {
    "km/h": "kilometre per hour", "kph": "kilometre per hour", "mph": "mile per hour",
    "m/s": "metre per second", "km": "kilometre", "cm": "centimetre", "mm": "millimetre", "m": "metre",
    "ft": "foot", "mi": "mile", "kg": "kilogram", "mg": "milligram", "g": "gram", "lbs": "pound",
    "lb": "pound", "oz": "ounce", "ml": "millilitre", "l": "litre", "kHz": "kilohertz", "Hz": "hertz",
    "GB": "gigabyte", "MB": "megabyte", "kW": "kilowatt", "W": "watt", "min": "minute",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree",
}  # fmt: skip
_TITLES = {
    "Dr": "Doctor", "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Prof": "Professor", "St": "Saint",
    "Sgt": "Sergeant", "Capt": "Captain", "Lt": "Lieutenant", "Col": "Colonel", "Gen": "General",
    "Rev": "Reverend", "Jr": "Junior", "Sr": "Senior",
}  # fmt: skip
_BEFORE_NUMBER = {
    "no": "number",
    "nr": "number",
    "p": "page",
    "pp": "pages",
    "vol": "volume",
    "ch": "chapter",
    "fig": "figure",
}
_PHRASES = {
    "etc": "et cetera",
    "vs": "versus",
    "e.g": "for example",
    "i.e": "that is",
    "approx": "approximately",
}

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_BEFORE = r"(?<![\w.,:/])"
_BEHIND = r"(?![\w/:]|[.,]\d)"
_HALF = r"(?P<half>(?i:[ap]\.m\.|[ap]m\b))"
_SCALE = r"(?:\s(?P<scale>thousand|million|billion|trillion)\b)?"


def read_numbers(text: str, language: str = "en") -> Wording:
    """`text` with its numbers and abbreviations in words. A text that isn't English stays as it is."""
    if language.partition("-")[0].lower() != "en":
        return Wording(text, note=f"Numbers are read in English only; this text ({language}) stays as it is.")
    changes = sorted(_changes(text), key=lambda change: change.start)
    return Wording(changed(text, changes), tuple(changes))


def _changes(text: str) -> Iterator[Change]:
    taken = bytearray(len(text))
    for pattern, words in _COMPILED:
        for found in pattern.finditer(text):
            start, end = found.span()
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                yield Change(start, end, found[0], words(found), STEP)


def cardinal(number: str) -> str:
    """The words for "1,250.50": all digits behind the point are named, and all of a number that is a code."""
    whole, point, decimals = number.replace(",", "").partition(".")
    is_code = (len(whole) > 1 and whole[0] == "0") or len(whole) > 12
    words = _digits(whole) if is_code else _spelled(int(whole), "cardinal")
    return f"{words} point {_digits(decimals)}" if point else words


def ordinal(number: int) -> str:
    return _spelled(number, "ordinal")


def year(number: int) -> str:
    """Hundreds and the rest, "nineteen oh five"; a number as it is outside 100-9999 and for 2000-2009."""
    hundreds, rest = divmod(number, 100)
    if not 100 <= number <= 9999 or (hundreds % 10 == 0 and rest < 10):
        return cardinal(str(number))
    behind = cardinal(str(rest)) if rest else "hundred"
    return f"{cardinal(str(hundreds))} {'oh ' if 0 < rest < 10 else ''}{behind}"


def _spelled(number: int, kind: str) -> str:
    rules = f"spellout-{kind}-verbose"
    return _SPELLER.format_number(number, ruleset_names=[rules]).text_by_ruleset[rules].replace(",", "")


def _digits(digits: str) -> str:
    return " ".join(_DIGITS[int(digit)] for digit in digits)


def _plural(noun: str, number: str) -> str:
    """`noun` in the form that `number` asks for; of "mile per hour" the first word changes."""
    first, *rest = noun.split(" ")
    many = first if number == "1" else _PLURALS.get(first, f"{first}s") or first
    return " ".join([many, *rest])


def _read_money(found: re.Match) -> str:
    unit, part = _MONEY[found["sign"]]
    whole, _, decimals = found["number"].partition(".")
    if found["scale"]:
        return f"{cardinal(found['number'])} {found['scale']} {_plural(unit, '')}"
    if len(decimals) != 2 or not part:
        return f"{cardinal(found['number'])} {_plural(unit, found['number'])}"
    cents = f"{cardinal(str(int(decimals)))} {_plural(part, str(int(decimals)))}"
    whole_words = f"{cardinal(whole)} {_plural(unit, whole)}"
    if not int(decimals):
        return whole_words
    return f"{whole_words} and {cents}" if whole != "0" else cents


def _read_time(found: re.Match) -> str:
    hour, minute = cardinal(str(int(found["hour"]))), int(found["minute"])
    behind = f" and {cardinal(str(int(found['second'])))} seconds" if found["second"] else ""
    behind += f" {_half(found)}" if found["half"] else ""
    if minute:
        return f"{hour} {'oh ' if minute < 10 else ''}{cardinal(str(minute))}{behind}"
    if behind or not 0 < int(found["hour"]) <= 12:
        return hour + (behind or " hundred")
    return f"{hour} o'clock"


def _read_half(found: re.Match) -> str:
    return f"{cardinal(found['hour'])} {_half(found)}"


def _half(found: re.Match) -> str:
    """The words for "p.m."; a sentence that ends with it keeps its full stop."""
    return f"{found['half'][0].lower()} m" + ("." if found[0].endswith(".") and _ends_sentence(found) else "")


def _read_iso_date(found: re.Match) -> str:
    return f"the {ordinal(int(found['day']))} of {_MONTHS[int(found['m']) - 1]} {year(int(found['year']))}"


def _read_slashes(found: re.Match) -> str:
    if found[0] in _FRACTIONS:
        return _FRACTIONS[found[0]]
    first, second, last = int(found["first"]), int(found["second"]), found["year"]
    behind = f" {year(int(last)) if len(last) == 4 else cardinal(last)}" if last else ""
    if 12 < first <= 31 and 0 < second <= 12:
        return f"the {ordinal(first)} of {_MONTHS[second - 1]}{behind}"
    if 12 < second <= 31 and 0 < first <= 12:
        return f"{_MONTHS[first - 1]} the {ordinal(second)}{behind}"
    return f"{cardinal(found['first'])} {cardinal(found['second'])}{behind}"


def _read_month_first(found: re.Match) -> str:
    behind = f", {year(int(found['year']))}" if found["year"] else ""
    return f"{_month(found)} {ordinal(int(found['day']))}{behind}"


def _read_day_first(found: re.Match) -> str:
    behind = f" {year(int(found['year']))}" if found["year"] else ""
    return f"the {ordinal(int(found['day']))} of {_month(found)}{behind}"


def _month(found: re.Match) -> str:
    return next(name for name in _MONTHS if name.startswith(found["month"][:3]))


def _read_decade(found: re.Match) -> str:
    words = year(int(found["years"])) if len(found["years"]) == 4 else cardinal(found["years"])
    return re.sub("y$", "ies", words) if words.endswith("y") else f"{words}s"


def _read_range(found: re.Match) -> str:
    first, last = found["first"], found["last"]
    if len(first) == len(last) == 4:
        return f"{_plain(first)} to {_plain(last)}"
    return f"{cardinal(first)} to {cardinal(last)}"


def _read_code(found: re.Match) -> str:
    """Letters and digits in one word: "4B", "B12", "R2D2"."""
    return " ".join(
        cardinal(part) if part.isdigit() else part for part in re.findall(r"\d+|[A-Za-z]+", found[0])
    )


def _read_version(found: re.Match) -> str:
    return " point ".join(cardinal(part) for part in found[0].split("."))


def _read_title(found: re.Match) -> str:
    is_last = not found.string[found.end() :].strip()
    if found["title"] == "St" and not re.match(r"\s[A-Z]", found.string[found.end() :]):
        return "Street" + "." * is_last
    return _TITLES[found["title"]] + "." * is_last


def _read_numbered(found: re.Match) -> str:
    return f"{_BEFORE_NUMBER.get(found['what'].lower(), 'number')} {cardinal(found['number'])}"


def _read_mixed_fraction(found: re.Match) -> str:
    return f"{cardinal(found['whole'])} and {_FRACTIONS[found['part']]}"


def _read_telephone(found: re.Match) -> str:
    return ", ".join(_digits(part) for part in re.findall(r"\d+", found[0]))


def _read_phrase(found: re.Match) -> str:
    return _PHRASES[found["phrase"].lower()] + ("." if _ends_sentence(found) else "")


def _ends_sentence(found: re.Match) -> bool:
    """Whether the full stop of an abbreviation is one of the sentence too."""
    behind = found.string[found.end() :].lstrip(" \n\"'”’)")
    return not behind or behind[0].isupper()


def _plain(number: str) -> str:
    """Four digits from 1100 to 2099 are read as years are: "nineteen oh five"."""
    if len(number) == 4 and number.isdigit() and 1100 <= int(number) <= 2099:
        return year(int(number))
    return cardinal(number)


# "7:05", "19:00", "7:30 p.m.", "7:05:30"
_TIME = (
    rf"{_BEFORE}(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?:\s?{_HALF})?(?![:\d])"
)
_DAY = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s(?P<year>\d{4})(?!\d))?"
_YEARS = r"(?:1[1-9]|20)\d\d"

_RULES: tuple[tuple[str, Callable[[re.Match], str]], ...] = (
    (rf"(?P<sign>[$€£¥])(?P<number>{_NUMBER}){_SCALE}(?![\w]|[.,]\d)", _read_money),
    (_TIME, _read_time),
    (rf"{_BEFORE}(?P<hour>1[0-2]|[1-9])\s?{_HALF}", _read_half),
    (
        rf"{_BEFORE}(?P<year>\d{{4}})-(?P<m>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])(?![\w-])",
        _read_iso_date,
    ),
    (rf"{_BEFORE}(?P<first>\d\d?)/(?P<second>\d\d?)(?:/(?P<year>\d{{4}}|\d\d))?{_BEHIND}", _read_slashes),
    (rf"\b{_MONTH}\s{_DAY}{_YEAR}{_BEHIND}", _read_month_first),
    (rf"\b(?:the\s)?{_DAY}\s(?:of\s)?{_MONTH}(?![a-z]){_YEAR}", _read_day_first),
    (rf"\b(?P<what>(?i:{'|'.join(_BEFORE_NUMBER)}))\.\s?(?P<number>\d+)\b", _read_numbered),
    (r"(?<!\w)(?P<what>#)(?P<number>\d+)\b", _read_numbered),
    (r"(?<![\w.,])['’]?(?P<years>(?:1[1-9]|20)\d0|[2-9]0)s\b", _read_decade),
    (r"\b(?P<number>\d{1,6})(?:st|nd|rd|th)\b", lambda found: ordinal(int(found["number"]))),
    (rf"(?<![\w.,])(?P<number>{_NUMBER})\s?%", lambda found: f"{cardinal(found['number'])} percent"),
    (
        rf"(?<![\w.,])(?P<number>{_NUMBER})\s?(?P<unit>{'|'.join(map(re.escape, _UNITS))})(?!\w)",
        lambda found: f"{cardinal(found['number'])} {_plural(_UNITS[found['unit']], found['number'])}",
    ),
    (r"(?<![\w.,])\d+(?:\.\d+){2,}(?!\w)", _read_version),
    (rf"(?<![\w.,–-])(?P<first>{_YEARS})[–-](?P<last>{_YEARS})(?![\w–-])", _read_range),
    (r"(?<![\w-])\d{3,4}(?:-\d{3,4})+(?![\w-])|(?<!\w)\+?\d{9,}(?!\w)", _read_telephone),
    (rf"(?<![\w.,–-])(?P<first>{_NUMBER})[–-](?P<last>{_NUMBER})(?![\w–-])", _read_range),
    (r"\b(?:\d+[A-Za-z]|[A-Za-z]\d)[A-Za-z\d]*\b", _read_code),
    (rf"(?<![\w.,-])[-−](?P<number>{_NUMBER})", lambda found: f"minus {cardinal(found['number'])}"),
    (r"(?P<whole>\d{1,12})(?P<part>[½¼¾⅓⅔])", _read_mixed_fraction),
    (_NUMBER, lambda found: _plain(found[0])),
    ("[½¼¾⅓⅔]", lambda found: _FRACTIONS[found[0]]),
    (rf"\b(?P<title>{'|'.join(_TITLES)})\.", _read_title),
    (r"(?<!\w)(?P<phrase>(?i:etc|vs|e\.g|i\.e|approx))\.", _read_phrase),
    (r"(?<=\s)&(?=\s)", lambda found: "and"),
)
_COMPILED = tuple((re.compile(pattern), words) for pattern, words in _RULES)
