"""Sounds that are no words, and stammers: what espeak-ng would spell letter by letter.

"Shh" is s-h-h to it, and "W-what" begins with "double-u". Such a stretch gets its phonemes here, as Kokoro
knows them; a stammer those with which its own word begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SOUNDS = (
    ("m{2,}", "ˈm"),
    ("h+m+|h+mm+", "hˈəm"),
    ("m+[-’']?h+m+", "əmhˈəm"),
    ("s+h+|s{2,}h*", "ʃˈːːː"),
    ("p+s+t+", "psˈːt"),
    ("p+f+t*", "pfˈːt"),
    ("b+r{2,}", "bɹˈːː"),
    ("g+r{2,}", "ɡɹˈːː"),
    ("z{2,}", "zˈːː"),
    ("h+u*m+p+h+", "hˈʌmf"),
    ("t+s*c+h+", "tʃˈ"),
    ("e+w{2,}", "ˈiːuː"),
    ("n{2,}", "nˈːː"),
    ("r{2,}", "ɹˈːː"),
    ("a+r+g+h+", "ˈɑːɡ"),
)
_SOUND = re.compile(
    rf"(?<![\w'’-])(?:{'|'.join(f'({each})' for each, _ in _SOUNDS)})(?![\w'’-])", re.IGNORECASE
)
_STAMMER = re.compile(r"(?<![\w'’-])((?:[A-Za-z]{1,3}-)+)([A-Za-z][A-Za-z'’]*)")
_VOWELS = "aeiouyAEIOUY"
_ONSET = re.compile("(tʃ|dʒ|[^ɐɑɒæɔəɚɛɜɪiuʊʌaeoᵻAIOQWY])*")
_VOWEL = re.compile("[ɐɑɒæɔəɚɛɜɪiuʊʌaeoᵻ]ː?")


def stretches(words: str, ipa: Callable[[str], str]) -> str:
    """IPA of `words`: sounds and stammers from here, everything else by `ipa`."""
    parts, place = [], 0
    for start, end, sound in sorted(_found(words, ipa)):
        if start >= place:
            parts += [ipa(words[place:start]), sound]
            place = end
    return "".join([*parts, ipa(words[place:])])


def _found(words: str, ipa: Callable[[str], str]) -> list[tuple[int, int, str]]:
    sounds = [(*found.span(), _SOUNDS[found.lastindex - 1][1]) for found in _SOUND.finditer(words)]
    stammers = [
        (found.start(), found.end(1), _stammered(found, ipa))
        for found in _STAMMER.finditer(words)
        if all(_begins(each, found[2]) for each in found[1][:-1].split("-"))
    ]
    return sounds + stammers


def _begins(start: str, word: str) -> bool:
    """Whether somebody got stuck at the start of a word, as in "W-what" and "st-stop", not "re-read"."""
    is_sound = len(start) == 1 or not any(letter in _VOWELS for letter in start)
    return (
        is_sound
        and len(start) < len(word)
        and word.lower().startswith(start.lower())
        and word[1:2] not in "'’"
    )


def _stammered(found: re.Match, ipa: Callable[[str], str]) -> str:
    """The onset of the word, once for each time that it was begun, with a space behind."""
    word = ipa(found[2]).strip().replace("ˈ", "").replace("ˌ", "")
    onset = _ONSET.match(word)[0]
    sounds = []
    for start in found[1][:-1].split("-"):
        if not onset:
            sounds.append(_VOWEL.match(word)[0] if _VOWEL.match(word) else word[:1])
        elif len(start) > 1:
            sounds.append(f"{onset}ə")
        else:
            sounds.append(f"{onset[:2] if onset[:2] in ('tʃ', 'dʒ') else onset[0]}ə")
    return " ".join(sounds) + " "
