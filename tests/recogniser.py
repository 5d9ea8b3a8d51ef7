"""How far what was heard is from what was to be said; the ears are the page's own (`web/recogniser.py`)."""

from __future__ import annotations

import re
import unicodedata

from web.recogniser import hear, why_deaf

__all__ = ["hear", "plain_words", "why_deaf", "word_errors", "words_lost"]

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]
_ONES += ["twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def word_errors(expected: str, heard: str) -> tuple[int, int]:
    """(substitutions + deletions + insertions, number of expected words), after `plain_words` of both."""
    want, got = plain_words(expected), plain_words(heard)
    row = list(range(len(got) + 1))
    for i, word in enumerate(want, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(got, 1):
            swap = diagonal + (word != other)
            diagonal, row[j] = row[j], min(swap, row[j] + 1, row[j - 1] + 1)
    return row[-1], len(want)


def words_lost(expected: str, heard: str) -> tuple[int, int]:
    """(words without a counterpart in what was heard, words), but for the first, which is often missed.

    Of the alignments with the fewest errors the one that loses fewest words counts.
    """
    want, got = plain_words(expected)[1:], plain_words(heard)
    # (errors, words lost) of the best alignment of want[:i] with got[:j]
    row = [(j, 0) for j in range(len(got) + 1)]
    for i, word in enumerate(want, 1):
        diagonal, row[0] = row[0], (i, i)
        for j, other in enumerate(got, 1):
            swap = diagonal[0] + (word != other), diagonal[1]
            lost, added = (row[j][0] + 1, row[j][1] + 1), (row[j - 1][0] + 1, row[j - 1][1])
            diagonal, row[j] = row[j], min(swap, lost, added)
    return row[-1][1], len(want)


def plain_words(text: str) -> list[str]:
    """Words without case, accents, punctuation or hyphens; whole numbers below a million are spelled."""
    text = re.sub("[—–‐‑-]", " ", text.replace("’", "'").lower())
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    for short, long in (("mr.", "mister"), ("mrs.", "missus"), ("dr.", "doctor"), ("&", " and "), ("'", "")):
        text = text.replace(short, long)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"\d+", lambda match: f" {_spelled(int(match[0]))} ", text)
    return re.sub("[^a-z ]", " ", text).split()


def _spelled(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f" {_ONES[number % 10]}" if number % 10 else "")
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = f" {_spelled(number % unit)}" if number % unit else ""
            return f"{_spelled(number // unit)} {name}{rest}"
    raise ValueError(number)
