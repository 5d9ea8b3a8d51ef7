"""The English words for a number: counted, in order, as a year, digit by digit. British "and" (num2words)."""

from __future__ import annotations

from num2words import num2words

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def cardinal(number: str) -> str:
    """The words for "1,250.50": all digits behind the point are named, and all of a number that is a code."""
    whole, point, decimals = number.replace(",", "").partition(".")
    if not whole:
        return f"point {digits(decimals)}"
    is_code = (len(whole) > 1 and whole[0] == "0") or len(whole) > 12
    words = digits(whole) if is_code else num2words(int(whole)).replace(",", "")
    return f"{words} point {digits(decimals)}" if point else words


def ordinal(number: int) -> str:
    return num2words(number, to="ordinal").replace(",", "")


def year(number: int) -> str:
    return num2words(number, to="year").replace("oh-", "oh ").replace(",", "")


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
