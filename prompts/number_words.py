"""The English words for a number: counted, in order, as a year, digit by digit. British "and"."""

from __future__ import annotations

from unicode_rbnf import RbnfEngine

_SPELLER = RbnfEngine.for_language("en")  # the rules of Unicode's CLDR

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def cardinal(number: str) -> str:
    """The words for "1,250.50": all digits behind the point are named, and all of a number that is a code."""
    whole, point, decimals = number.replace(",", "").partition(".")
    if not whole:
        return f"point {digits(decimals)}"
    is_code = (len(whole) > 1 and whole[0] == "0") or len(whole) > 12
    words = digits(whole) if is_code else _spelled(int(whole), "cardinal")
    return f"{words} point {digits(decimals)}" if point else words


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


def digits(row: str) -> str:
    return " ".join(DIGITS[int(digit)] for digit in row)


def plain(number: str) -> str:
    """Four digits from 1010 to 2099 are read as years are: "ten sixty-six", "nineteen oh five"."""
    if len(number) == 4 and number.isdigit() and 1010 <= int(number) <= 2099:
        return year(int(number))
    return cardinal(number)


def in_pairs(number: str) -> str:
    """The digits of a flight, a road or a model: "twenty-four ninety", "seven thirty-seven", "one oh one"."""
    if number[0] == "0" or len(number) > 4:
        return digits(number)
    if len(number) < 3:
        return cardinal(number)
    if number.endswith("000"):
        return cardinal(number)
    head, tail = cardinal(number[:-2]), number[-2:]
    if tail == "00":
        return f"{head} hundred"
    return f"{head} {'oh ' + cardinal(tail[1]) if tail[0] == '0' else cardinal(tail)}"
