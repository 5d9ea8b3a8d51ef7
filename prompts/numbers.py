"""Numbers, money, times, dates and a few abbreviations written out as English words: visible, for all models.

A small model reads letters only, so "flat 4B" must become "flat four B". Each rule is a pattern and the words
for what it finds, or None where it isn't that after all; an earlier rule takes precedence. Where a spelling
has two readings, the neutral one is said: "3/11" is "three eleven", whichever is the month. British "and":
"two hundred and fifty".

The law: a change covers whole tokens. Beside it stands no letter, digit, currency, ".", ":" or "'" of the
same token; else the token stays as it is, whole. Marks that end a sentence are not of the token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from prompts import abbreviations, roman
from prompts.abbreviations import ends_sentence
from prompts.changes import Change, Wording, changed
from prompts.context import before, behind
from prompts.number_words import cardinal, digits, in_pairs, ordinal, plain, year

STEP = "numbers"

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
_MONEY = {
    "$": ("dollar", "cent"),
    "€": ("euro", "cent"),
    "£": ("pound", "penny"),
    "¥": ("yen", ""),
    "₹": ("rupee", ""),
}
_LANDS = {
    "": "", "US": "US ", "A": "Australian ", "AU": "Australian ", "C": "Canadian ", "CA": "Canadian ",
    "NZ": "New Zealand ", "HK": "Hong Kong ", "S": "Singapore ",
}  # fmt: skip
_CODES = {"USD": "US dollar", "EUR": "euro", "GBP": "pound", "JPY": "yen"}
_SCALES = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion"}
_SCALES |= {"b": "billion", "B": "billion", "tn": "trillion"}
_PER = {"h": "hour", "hr": "hour", "wk": "week", "mo": "month", "yr": "year", "lb": "pound", "kg": "kilogram"}
_PLURALS = {"penny": "pence", "foot": "feet", "inch": "inches"}
_PLURALS |= dict.fromkeys(("yen", "hertz", "kilohertz", "megahertz", "gigahertz"), "")
_UNITS = {
    "km/h": "kilometre per hour", "kph": "kilometre per hour", "mph": "mile per hour",
    "m/s": "metre per second", "km": "kilometre", "cm": "centimetre", "mm": "millimetre", "m": "metre",
    "m²": "square metre", "km²": "square kilometre", "ft": "foot", "mi": "mile", "kg": "kilogram",
    "mg": "milligram", "g": "gram", "lbs": "pound", "lb": "pound", "oz": "ounce", "ml": "millilitre",
    "l": "litre", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "Hz": "hertz",
    "TB": "terabyte", "GB": "gigabyte", "MB": "megabyte",
    "kB": "kilobyte", "KB": "kilobyte", "kW": "kilowatt", "W": "watt", "mins": "minute", "min": "minute",
    "secs": "second", "sec": "second", "hrs": "hour", "hr": "hour", "yrs": "year", "ms": "millisecond",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree",
}  # fmt: skip
_ATTACHED = {"s": "second", "h": "hour"}  # with a space between, these are letters
_DECADE_BEFORE = re.compile(r"(?i)\b(?:the|his|her|their|your|my|our|its|early|mid|late)[\s-]$")
_YEAR_BEFORE = re.compile(
    r"(?i)\b(?:of|in|since|from|by|until|till|the|to|after|before|back|spring|summer|winter)\s$"
)
_CALL_BEFORE = re.compile(
    r"(?i)\b(?:call|calls|called|calling|dial|dials|dialled|dialed|ring|rang|phone|phoned)\s$"
)
_MANY_BEHIND = re.compile(r"\s(?!calls?\b|operators?\b)(?:[a-z]+s|people|men|women|children)\b")

# Not inside a number: a row of digits is looked at once.
_START = r"(?<!\d)(?<!\d[.,])"
_NUMBER = rf"(?:{_START}(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+))"
_MINUS = r"(?:(?<![\w.,)-])(?P<minus>[-−]))?"
_HALF = r"(?P<half>(?i:[ap]\.m\.|[ap]m\b))"
_SUFFIX = "(?P<suffix>k|K|mn|m|M|bn|b|B|tn)(?![A-Za-z])"
_SCALE = rf"(?:[\s-](?P<scale>thousand|million|billion|trillion)\b|{_SUFFIX})?"
_OPENERS, _CLOSERS = '"“‘([{«—–', "\"”’)]}»'"
_POSSESSIVE = re.compile("['’]s(?![\\w'’])")
# Where nothing of a token is left: marks that end a sentence, and behind quotation marks any others as well.
_ENDS = re.compile(rf"[.!?…{re.escape(_CLOSERS)}]{{0,8}}(?:\s|$|[—–])")
_STOP_AND_QUOTE = re.compile("[.!?…]{1,4}['’]")
_LEAVES = re.compile(rf"[.,;:!?…{re.escape(_CLOSERS)}]{{0,8}}(?:\s|$|[—–])")


def read_numbers(text: str, language: str = "en") -> Wording:
    """`text` with its numbers and abbreviations in words. A text that isn't English stays as it is."""
    if language.partition("-")[0].lower() != "en":
        return Wording(text, note=f"Numbers are read in English only; this text ({language}) stays as it is.")
    changes = sorted(_changes(text), key=lambda change: change.start)
    return Wording(changed(text, changes), tuple(changes))


def _changes(text: str) -> Iterator[Change]:
    taken = bytearray(len(text))
    for pattern, words in _COMPILED if _FIGURE.search(text) else _WITHOUT_FIGURES:
        for found in pattern.finditer(text):
            span = found.span("it") if "it" in pattern.groupindex else found.span()
            if any(taken[span[0] : span[1]]) or not (token := _token(text, *span)):
                continue
            said = words(found)
            start, end, front, back = token
            if said is not None and not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                yield Change(start, end, text[start:end], front + said + back, STEP)


def _token(text: str, start: int, end: int) -> tuple[int, int, str, str] | None:
    """(start, end, front, back): the stretch with quotation marks, a colon and an 's that stand at it, and
    which of them stay in front and behind; None where it is only a part of a token."""
    front = back = ""
    if start and text[start - 1] in "'’" and (start == 1 or _is_outside(text[start - 2], _OPENERS)):
        start, front = start - 1, text[start - 1]
    if found := _POSSESSIVE.match(text, end):
        end, back = found.end(), found[0]
    while end < len(text) and text[end] in "'’:" and _LEAVES.match(text, end + 1):
        end, back = end + 1, back + text[end]
    if (found := _STOP_AND_QUOTE.match(text, end)) and _ENDS.match(text, found.end()):
        end, back = found.end(), back + found[0]
    if _holds_left(text, start) or _holds_right(text, end):
        return None
    return start, end, front, back


def _is_outside(mark: str, marks: str) -> bool:
    return mark.isspace() or mark in marks


def _holds_left(text: str, start: int) -> bool:
    """Whether the stretch goes on to the left, within its token."""
    if not start:
        return False
    mark, first = text[start - 1], text[start]
    if mark in "-–−,*":
        return start > 1 and text[start - 2].isnumeric() and not first.isalpha()
    return mark in ".:'’" or _is_of_token(mark)


def _holds_right(text: str, end: int) -> bool:
    if end == len(text):
        return False
    mark, last = text[end], text[end - 1]
    if mark in "-–−,*":
        return text[end + 1 : end + 2].isnumeric() and not last.isalpha()
    if mark in ".:'’":
        return not (mark == "." and _ENDS.match(text, end))
    return _is_of_token(mark)


def _is_of_token(mark: str) -> bool:
    kind = unicodedata.category(mark)
    return kind[0] in "LNM" or kind in ("Sc", "Sm", "So") or mark in "_/\\@#%&^′″"


def _plural(noun: str, number: str) -> str:
    """`noun` in the form that `number` asks for; of "mile per hour" the first word changes."""
    head, *rest = noun.split(" ")
    index = 1 if head in ("square", "US") else 0
    words = [head, *rest]
    many = words[index] if number == "1" else _PLURALS.get(words[index], f"{words[index]}s") or words[index]
    return " ".join([*words[:index], many, *words[index + 1 :]])


def _read_money(found: re.Match) -> str:
    unit, part = _MONEY[found["sign"]]
    unit = _LANDS[found["land"] or ""] + unit
    whole, _, decimals = found["number"].partition(".")
    minus = "minus " if found["minus"] else ""
    behind = f" per {_PER.get(found['per'], found['per'])}" if found["per"] else ""
    one = _is_adjective(found)
    scale = found["scale"] or _SCALES.get(found["suffix"] or "", "")
    if found["last"]:
        pair = f"{cardinal(found['number'])} to {cardinal(found['last'])}"
        return f"{minus}{pair}{' ' + scale if scale else ''} {_last_plural(unit, '')}{behind}"
    if scale:
        return f"{minus}{cardinal(found['number'])} {scale} {_last_plural(unit, '1' if one else '')}{behind}"
    if len(decimals) != 2 or not part:
        number = "1" if one else found["number"]
        return f"{minus}{cardinal(found['number'])} {_last_plural(unit, number)}{behind}"
    cents = f"{cardinal(str(int(decimals)))} {_plural(part, str(int(decimals)))}"
    whole_words = f"{cardinal(whole or '0')} {_last_plural(unit, whole)}"
    if not int(decimals):
        return minus + whole_words + behind
    return minus + (f"{whole_words} and {cents}" if int((whole or "0").replace(",", "")) else cents) + behind


def _last_plural(unit: str, number: str) -> str:
    land, _, noun = unit.rpartition(" ")
    return f"{land} {_plural(noun, number)}".lstrip()


def _is_adjective(found: re.Match) -> bool:
    """Whether it is "a $5 bill": one, behind an article and before a word or a hyphen."""
    goes_on = behind(found)
    is_one = re.search(r"(?i)\ba\s$", before(found)) and re.match(r"\s[a-z]{3,}", goes_on)
    return bool(is_one or re.match("-[a-z]", goes_on))


def _read_money_behind(found: re.Match) -> str:
    if found["sign"] == "¢":
        return f"{cardinal(found['number'])} {_plural('cent', found['number'])}"
    return f"{cardinal(found['number'])} {_plural(_MONEY[found['sign']][0], found['number'])}"


def _read_money_code(found: re.Match) -> str:
    return f"{cardinal(found['number'])} {_last_plural(_CODES[found['code']], found['number'])}"


def _read_time(found: re.Match) -> str:
    hour, minute = cardinal(str(int(found["hour"]))), int(found["minute"])
    behind = f" and {cardinal(str(int(found['second'])))} seconds" if found["second"] else ""
    behind += f" {_half(found)}" if found["half"] else ""
    if minute:
        return f"{hour} {'oh ' if minute < 10 else ''}{cardinal(str(minute))}{behind}"
    if behind or not 0 < int(found["hour"]) <= 12:
        return hour + (behind or " hundred")
    return f"{hour} o'clock"


def _read_times(found: re.Match) -> str:
    return " to ".join(_TIMES.sub(_read_time, found[name]) for name in ("first", "last"))


def _read_half(found: re.Match) -> str:
    minute = found["minute"] if "minute" in found.re.groupindex else None
    middle = (
        f" {'oh ' if minute[0] == '0' else ''}{cardinal(str(int(minute)))}" if minute and int(minute) else ""
    )
    return f"{cardinal(found['hour'])}{middle} {_half(found)}"


def _half(found: re.Match) -> str:
    """The words for "p.m."; a sentence that ends with it keeps its full stop."""
    return f"{found['half'][0].lower()} m" + ("." if found[0].endswith(".") and ends_sentence(found) else "")


def _read_colon(found: re.Match) -> str:
    """Chapter and verse, or a score: "23:4"."""
    words = f"{cardinal(found['first'])} {cardinal(found['last'])}"
    return f"{words} to {cardinal(found['to'])}" if found["to"] else words


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


def _read_decade(found: re.Match) -> str | None:
    years, mark = found["years"], found["mark"]
    if len(years) == 2 and not mark and not _DECADE_BEFORE.search(before(found)):
        return None
    words = year(int(years)) if len(years) == 4 else cardinal(years)
    return re.sub("y$", "ies", words) if words.endswith("y") else f"{words}s"


def _read_short_year(found: re.Match) -> str | None:
    number = found["year"]
    if not _YEAR_BEFORE.search(before(found)):
        return None  # a quotation begins: "'20 men,' he said"
    return f"oh {cardinal(number[1])}" if number[0] == "0" else cardinal(number)


def _read_range(found: re.Match) -> str:
    first, last = found["first"], found["last"]
    behind = " percent" if "percent" in found.re.groupindex and found["percent"] else ""
    if (
        len(first) == 4
        and first.isdigit()
        and len(last) in (2, 4)
        and last.isdigit()
        and 1010 <= int(first) <= 2099
    ):
        return f"{plain(first)} to {plain(last)}{behind}"
    return f"{cardinal(first)} to {cardinal(last)}{behind}"


def _read_unit(found: re.Match) -> str:
    unit = _UNITS.get(found["unit"]) or _ATTACHED[found["unit"]]
    first = f"{cardinal(found['first'])} to " if found["first"] else ""
    if "minus" in found.re.groupindex and found["minus"]:
        first = "minus " + first
    return f"{first}{cardinal(found['number'])} {_plural(unit, '' if first else found['number'])}"


def _read_many(found: re.Match) -> str | None:
    """A model or a year with a plural: "747s", "F-16s"; a round number may be seconds."""
    number = found["number"]
    if not re.search("[A-Za-z]-$", before(found)) and (len(number) < 3 or number.endswith("0")):
        return None
    words = in_pairs(number)
    return re.sub("y$", "ie", words) + ("es" if words.endswith("x") else "s")


def _read_height(found: re.Match) -> str:
    return f"{cardinal(found['feet'])} foot {cardinal(found['inches'])}"


def _read_code(found: re.Match) -> str:
    """Letters and digits in one word: "4B", "B12", "R2D2", "MP3", "BA2490"."""
    return " ".join(
        in_pairs(part) if part.isdigit() else _letters(part)
        for part in re.findall(r"\d+|[A-Za-z]+", found[0])
    )


def _letters(part: str) -> str:
    """A word, or letters that are named one by one: two or three capitals, or no vowel."""
    is_named = (part.isupper() and len(part) < 4) or not re.search("[aeiouyAEIOUY]", part)
    return " ".join(part) if is_named else part


def _read_version(found: re.Match) -> str:
    parts = found["parts"].split(".")
    return ("v " if found["v"] else "") + " point ".join(cardinal(part) for part in parts)


def _read_mixed_fraction(found: re.Match) -> str:
    words = _FRACTIONS[found["part"]]
    return f"{cardinal(found['whole'])} and {re.sub('^one ', 'a ', words)}"


def _read_telephone(found: re.Match) -> str:
    return ", ".join(digits(part) for part in re.findall(r"\d+", found[0]))


def _read_emergency(found: re.Match) -> str | None:
    if _CALL_BEFORE.search(before(found)):
        return digits(found[0])
    is_count = found[0] == "112" or _MANY_BEHIND.match(behind(found))
    return None if is_count else digits(found[0])


def _between(found: re.Match) -> str:
    return " ".join(cardinal(part) for part in re.findall(r"\d+", found[0]))


# "7:05", "19:00", "7:30 p.m.", "7:05:30"
_TIME = rf"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?:\s?{_HALF})?"
_TIMES = re.compile(_TIME)
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?:\s?(?i:[ap]\.m\.|[ap]m\b))?"
_DAY = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s(?P<year>\d{4})(?!\d))?"
_BEHIND = r"(?![\w/:]|[.,]\d)"
_UNIT_NAMES = "|".join(re.escape(each) for each in sorted(_UNITS, key=len, reverse=True))

_RULES: tuple[tuple[str, Callable[[re.Match], str | None]], ...] = (
    (r"24[/-]7(?:/365)?", lambda found: "twenty-four seven"),
    (r"20[/-]20", lambda found: "twenty twenty"),
    *roman.WARS,
    (r"\b(?:911|999|112)\b", _read_emergency),
    (
        rf"(?:(?<![\w.,)$€£¥₹])(?P<minus>[-−]))?(?P<land>\b(?:US|AU|A|CA|C|NZ|HK|S))?(?P<sign>[$€£¥₹])\s?(?P<number>{_NUMBER})"
        rf"(?:[-–](?:(?P=sign))?(?P<last>{_NUMBER}))?{_SCALE}"
        r"(?:/(?P<per>hour|hr|h|day|night|week|wk|month|mo|year|yr|person|head|mile|kg|lb)(?!\w))?",
        _read_money,
    ),
    (rf"(?P<number>{_NUMBER})(?P<sign>[€£$¥₹¢])(?!\d)", _read_money_behind),
    (rf"(?P<number>{_NUMBER})\s(?P<sign>[€¢])(?!\s?\d)", _read_money_behind),
    (rf"(?P<number>{_NUMBER})\s(?P<code>USD|EUR|GBP|JPY)\b", _read_money_code),
    (rf"\b(?P<code>USD|EUR|GBP|JPY)\s(?P<number>{_NUMBER})", _read_money_code),
    (rf"(?P<first>{_CLOCK})\s?[-–]\s?(?P<last>{_CLOCK})", _read_times),
    (_TIME, _read_time),
    (rf"(?P<hour>1[0-2]|[1-9])(?:\.(?P<minute>[0-5]\d))?\s?{_HALF}", _read_half),
    (r"(?P<first>\d{1,3}):(?P<last>\d{1,3})(?:[-–](?P<to>\d{1,3}))?", _read_colon),
    (r"(?P<year>\d{4})-(?P<m>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])", _read_iso_date),
    (r"(?P<whole>\d{1,12})\s(?P<part>1/2|1/3|2/3|1/4|3/4)", _read_mixed_fraction),
    (r"(?P<first>\d\d?)/(?P<second>\d\d?)(?:/(?P<year>\d{4}|\d\d))?", _read_slashes),
    (
        r"(?P<first>1?\d\d)/(?P<second>\d\d)",
        lambda found: f"{cardinal(found['first'])} over {cardinal(found['second'])}",
    ),
    (
        r"(?P<first>\d{1,4})/(?P<second>\d{1,4})",
        lambda found: f"{plain(found['first'])} {cardinal(found['second'])}",
    ),
    (rf"\b{_MONTH}\s{_DAY}{_YEAR}{_BEHIND}", _read_month_first),
    (rf"\b(?:the\s)?{_DAY}\s(?:of\s)?{_MONTH}(?![a-z]){_YEAR}", _read_day_first),
    *abbreviations.NUMBERED,
    (r"(?P<mark>['’]?)(?P<years>(?:1\d|20)\d0|[2-9]0)s\b", _read_decade),
    (r"(?<![\w.])['’](?P<year>\d\d)(?![\w'’])", _read_short_year),
    (r"\b(?P<number>\d{1,6})(?:st|nd|rd|th)\b", lambda found: ordinal(int(found["number"]))),
    (rf"(?P<first>{_NUMBER})%?[-–](?P<last>{_NUMBER})(?P<percent>\s?%)", _read_range),
    (
        rf"{_MINUS}(?P<number>{_NUMBER})\s?%",
        lambda found: f"{'minus ' if found['minus'] else ''}{cardinal(found['number'])} percent",
    ),
    (r"(?P<feet>\d)\s?ft\.?\s?(?P<inches>\d\d?)(?:\s?in\b)?", _read_height),
    (r"(?P<feet>\d)['’′](?P<inches>\d\d?)(?:\"|″|”|'')?", _read_height),
    (
        rf"{_MINUS}(?:(?P<first>{_NUMBER})[-–])?(?P<number>{_NUMBER})\s?(?P<unit>{_UNIT_NAMES})(?![\w²³/])",
        _read_unit,
    ),
    (rf"{_START}(?P<number>\d+)s(?!\w)", _read_many),
    (rf"(?:(?P<first>{_NUMBER})[-–])?(?P<number>{_NUMBER})(?P<unit>[sh])(?!\w)", _read_unit),
    (rf"{_START}(?P<v>\b[vV])?(?P<parts>\d+(?:\.\d+){{2,}}|(?<=[vV])\d+(?:\.\d+)+)", _read_version),
    (
        r"\(\d{3}\)\s?\d{3}-\d{4}|(?<![\d-])\+?\d{1,4}(?:-\d{3,4})+|(?<![\d.,])\+?\d{9,}|\b0\d{2,4}(?:\s\d{3,4}){1,2}|\+\d{1,3}(?:\s\d{2,4}){2,4}",
        _read_telephone,
    ),
    (rf"(?P<first>{_NUMBER})[-–](?P<last>{_NUMBER})", _read_range),
    (r"(?<![\d-])\d+(?:-\d+){2,}", _between),
    (
        r"(?<![\d.,])(?P<first>\d+)\s?[x×]\s?(?P<last>\d+)",
        lambda found: f"{cardinal(found['first'])} by {cardinal(found['last'])}",
    ),
    (r"\b(?:\d+[A-Za-z]|[A-Za-z]+\d)[A-Za-z\d]*\b", _read_code),
    (rf"(?P<number>{_NUMBER})\+", lambda found: f"{cardinal(found['number'])} plus"),
    (rf"(?<![\w.,)-])[-−](?P<number>{_NUMBER})", lambda found: f"minus {cardinal(found['number'])}"),
    (r"(?P<whole>\d{1,12})(?P<part>[½¼¾⅓⅔])", _read_mixed_fraction),
    (_NUMBER, lambda found: plain(found[0])),
    ("[½¼¾⅓⅔]", lambda found: _FRACTIONS[found[0]]),
)
_WITHOUT_FIGURES = tuple((re.compile(rule), words) for rule, words in (*roman.RULES, *abbreviations.RULES))
_COMPILED = (*((re.compile(pattern), words) for pattern, words in _RULES), *_WITHOUT_FIGURES)
_FIGURE = re.compile("[\\d½¼¾⅓⅔]")
