"""How long a text should take to say, and how many frames a take of it may have.

The estimate is a sum over characters, each worth what its script says per second. It is rough on purpose: it
places the borders of a long line and stops a take that runs away, so it must never cut a slow actor short.
Hence the factor and the margin. Marks and joiners cost nothing, the letter under them has paid; pictures
aren't read.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache

ALPHABET_PER_S = 14.0  # Latin, Greek, Cyrillic, Armenian, Georgian: about 2.5 words a second, spaces included
# Characters a second of scripts that write more, or less, than a sound with each character. Keys are the
# first word of the Unicode character name.
SCRIPT_PER_S = {
    # An ideograph is a syllable or two; a kana is a mora, but stands between ideographs and long vowels.
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "BOPOMOFO"), 4.5),
    # One block is one syllable, and Korean says five or six of them a second.
    "HANGUL": 5.0,
    # Syllabaries: a consonant with its vowel in one sign.
    **dict.fromkeys(("ETHIOPIC", "CHEROKEE", "YI", "VAI", "CANADIAN"), 6.0),
    # Abugidas: the letter carries a vowel, other vowels are marks that cost nothing here.
    **dict.fromkeys(("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU"), 8.0),
    **dict.fromkeys(("KANNADA", "MALAYALAM", "SINHALA", "TIBETAN", "MYANMAR", "KHMER"), 8.0),
    # Abjads leave the short vowels out.
    **dict.fromkeys(("ARABIC", "HEBREW", "SYRIAC"), 10.0),
    # Written without spaces, so each letter is worth a little more than a Latin one.
    **dict.fromkeys(("THAI", "LAO"), 11.0),
}
DIGIT_S = 0.45  # "1999" takes about 1.4 s, "1,250.50" about 3.3 s
SYMBOL_S = 0.5  # %, &, $ and their like are read as words
PAUSE_S = 0.4  # an ellipsis, a dash or a new line is played, not read
CUE_S = 1.5  # [sighs], (laughs): the hold of a non-verbal sound

FACTOR = 1.8  # a slow actor against the average
MARGIN_S = 1.5  # breath before, ring after
LEAST_S = 2.0

# A cue is short and on one line; a longer bracket is a parenthesis of ordinary speech.
CUE = re.compile(r"\[[^\[\]\n]{1,80}\]|\([^()\n]{1,80}\)|（[^（）\n]{1,80}）|【[^【】\n]{1,80}】")
TOKEN = re.compile(r"<\|[^<>|\n]{1,40}\|>")
_PAUSE = re.compile(r"\.{2,}|…+|[—–]+|--+|\n+")
_READ_SYMBOLS = "%&@#§°"


def expected_seconds(text: str) -> float:
    """Seconds an average reading of `text` takes."""
    return math.fsum(character_seconds(text))


def frame_cap(text: str, frame_rate: float, most: int = 1200) -> int:
    """Frames after which a take of `text` has run away: at least 2 s of them, never above `most`."""
    seconds = max(LEAST_S, FACTOR * expected_seconds(text) + MARGIN_S)
    return min(most, math.ceil(seconds * frame_rate))


def character_seconds(text: str) -> list[float]:
    """Seconds of each character of `text`; their sum is the whole.

    A cue or a pause is paid by its first character. A part of `text` that cuts no cue, token or pause takes
    the seconds of its own characters or less.
    """
    seconds = [_seconds(character) for character in text]
    for index, character in enumerate(text):
        # Of a comma and a space only the comma takes time, and nothing does before the first word.
        if _is_gap(character) and (index == 0 or _is_gap(text[index - 1])):
            seconds[index] = 0.0
    for pause in _PAUSE.finditer(text):
        _pay_at_once(seconds, pause, PAUSE_S)
    for cue in CUE.finditer(text):
        # An actor may read out what stands in brackets, so it gets at least the time for that.
        _pay_at_once(seconds, cue, max(CUE_S, sum(seconds[cue.start() : cue.end()])))
    for token in TOKEN.finditer(text):
        _pay_at_once(seconds, token, 0.0)
    return seconds


def _pay_at_once(seconds: list[float], found: re.Match, price: float) -> None:
    start, end = found.span()
    seconds[start:end] = [price] + [0.0] * (end - start - 1)


@lru_cache(maxsize=8192)
def _seconds(character: str) -> float:
    kind = unicodedata.category(character)
    if kind[0] == "N":
        return DIGIT_S
    if kind in ("Sc", "Sm") or character in _READ_SYMBOLS:
        return SYMBOL_S
    if kind[0] in "MCS" or _is_inner_jamo(character):
        return 0.0
    script = unicodedata.name(character, "").partition(" ")[0] if kind[0] == "L" else ""
    return 1 / SCRIPT_PER_S.get(script, ALPHABET_PER_S)


@lru_cache(maxsize=8192)
def _is_gap(character: str) -> bool:
    return unicodedata.category(character)[0] in "PZC" and character not in _READ_SYMBOLS


def _is_inner_jamo(character: str) -> bool:
    """Whether `character` is the vowel or the end of a Hangul syllable that is written in parts."""
    return "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"
