"""Roman numerals as words, where what stands before them says that they are numerals.

Behind Act, Scene, Chapter, World War and their like it is a number ("Act three"), behind a name an ordinal
("Henry the eighth"). Capitals only, and two letters or more: "Mix it.", "I saw it. V was right." stay. One
letter is a numeral behind a ruler's name or such a heading; an I there must not be able to be somebody who
speaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from prompts.context import before, behind
from prompts.number_words import cardinal, ordinal

_HEADS = (
    "act", "scene", "chapter", "part", "book", "volume", "section", "episode", "canto", "appendix", "phase",
    "type", "class", "level", "stage", "grade", "mark", "article", "psalm", "sonnet", "symphony", "season",
    "lesson", "figure", "round", "title", "super bowl", "world war",
)  # fmt: skip
_RULERS = frozenset(
    re.findall(
        r"\w+",
        "Henry Edward Charles James George William Richard Stephen John Elizabeth Mary Anne Louis Philip "
        "Frederick Napoleon Nicholas Peter Catherine Alexander Leopold Francis Ivan Pius Leo Gregory "
        "Benedict Innocent Clement Urban Paul Ferdinand Maximilian Otto Gustav Gustavus Christian Haakon "
        "Olav Harald Constantine Justinian Ramses Ramesses Rameses Darius Xerxes Ptolemy Cleopatra "
        "Wilhelm Friedrich Carlos Felipe Alfonso Umberto Robert David Kenneth Alexandra Margrethe "
        "Juliana Rudolf Rudolph Franz Joseph Victor Emmanuel Amadeus Isabella Boris Baldwin Sigismund "
        "Murad Selim Mehmed Suleiman Theodosius Sixtus Celestine Julius Pedro",
    )
)
_RANKS = frozenset(
    re.findall(
        r"\w+",
        "King Queen Pope Emperor Empress Tsar Tsarina Czar Kaiser Prince Princess Duke Sultan Shah "
        "Pharaoh Saint",
    )
)
_COUNTED = frozenset(  # a number, not an ordinal, behind these
    re.findall(
        r"\w+",
        "Apollo Rocky Rambo Saturn Gemini Voyager Titan Fantasy Bowl Mk Terminator Godfather Halo Quest "
        "Trident Minuteman Vatican Olympiad Vostok Soyuz Windows",
    )
)
_NO_NAMES = frozenset(
    re.findall(
        r"\w+",
        "The A An And But Or If In On At To Of For From With By As So Then When While That This These "
        "Those He She It We They You My Your His Her Its Our Their Is Are Was Were Be Do Did Does Has "
        "Have Had Can Could Will Would May Not No Yes Oh Ah Well Why What Where Who How There Here Now "
        "Just Only Even Because Since After Before Size",
    )
)

_LETTERS = r"(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_LONG = rf"(?=[IVXL]{{2,}}\b){_LETTERS}(?![A-Za-z])"
_ROW = rf"{_LONG}(?:(?:,?\s(?:and|to|or|&)\s|,\s|[-–]){_LONG})*"
_PAUSES = r"(?=\s*[.,;:!?)\]\"”]|\s*$|\s+of\b)"


def roman_value(numeral: str) -> int:
    """What a well-formed numeral counts: "XIV" is 14."""
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}[letter] for letter in numeral]
    return sum(-now if now < then else now for now, then in zip(values, [*values[1:], 0], strict=True))


def _read_row(found: re.Match) -> str:
    row = re.sub(r"[-–]", " to ", found["it"]).replace("&", "and")
    return re.sub(r"\b[IVXLC]+\b", lambda numeral: cardinal(str(roman_value(numeral[0]))), row)


def _read_single(found: re.Match) -> str:
    return cardinal(str(roman_value(found["it"])))


def _read_behind_name(found: re.Match) -> str | None:
    name, numeral, front = found["name"], found["it"], before(found).rstrip()
    plain = name.capitalize() if name.isupper() else name
    is_ruler = plain in _RULERS or front.rpartition(" ")[2].capitalize() in _RANKS
    if plain in _NO_NAMES or (name.isupper() and not is_ruler):
        return None
    if len(numeral) == 1 and not (is_ruler and _is_alone(numeral, found)):
        return None
    if plain in _COUNTED:
        return cardinal(str(roman_value(numeral)))
    begins = not front or front[-1] in ".!?…:"
    if not is_ruler and (set(numeral) == {"X"} or "L" in numeral or (begins and numeral == "IV")):
        return None  # sizes, and drips: "Check IV"
    return f"the {ordinal(roman_value(numeral))}"


def _is_alone(numeral: str, found: re.Match) -> bool:
    """Whether one letter behind a ruler's name is a numeral: an I, unless it may begin "I saw"."""
    front, rest = before(found).rstrip(), behind(found)
    word = front.rpartition(" ")[2]
    if numeral != "I" or word.capitalize() in _RANKS or _GOES_ON.match(rest):
        return True
    opens = not front or front[-1] in '.!?…,;:"“' or word.lower() in _OPENS
    return opens and bool(re.match(r"\s[a-z]", rest))


_GOES_ON = re.compile(
    r"\s*(?:[.,;:!?)\]\"”]|$|['’]s\b|\s(?:of|and|or|is|has|ruled|reigned|died|became|himself|herself)\b)"
)
_OPENS = frozenset(
    re.findall(
        r"\w+",
        "when while until that because if as of under by than and but since though although how why",
    )
)


_HEAD = rf"\b(?i:(?:{'|'.join(each.replace(' ', chr(92) + 's') for each in _HEADS)})s?)\s"
_HEAD_OF_MANY = _HEAD.replace("s?)", "s)")
# They go before the rules of numbers, which would read WW2 as a code.
WARS: tuple[tuple[str, Callable[[re.Match], str | None]], ...] = (
    (r"\bWW(?:1|I)\b", lambda found: "World War one"),
    (r"\bWW(?:2|II)\b", lambda found: "World War two"),
)
RULES: tuple[tuple[str, Callable[[re.Match], str | None]], ...] = (
    *WARS,
    (rf"{_HEAD}(?P<it>{_ROW})", _read_row),
    (rf"{_HEAD_OF_MANY}(?P<it>[IVX](?:(?:,?\s(?:and|to|or|&)\s|,\s|[-–]){_LONG})+)", _read_row),
    (r"\b(?i:world\swar)\s(?P<it>[IV])\b", _read_single),
    (
        r"\b(?:Act|Scene|Chapter|Part|Book|Volume|ACT|SCENE|CHAPTER|PART|BOOK|VOLUME)\s(?P<it>[VX])\b",
        _read_single,
    ),
    (
        rf"\b(?:Act|Scene|Chapter|Part|Book|Volume|ACT|SCENE|CHAPTER|PART|BOOK|VOLUME)\s(?P<it>I)\b{_PAUSES}",
        _read_single,
    ),
    (
        rf"\b(?P<name>[A-Z](?:['’][A-Z])?[a-z][A-Za-z'’-]{{0,30}}|[A-Z]{{2,30}})\s(?P<it>{_LONG}|[IVX]\b)",
        _read_behind_name,
    ),
)
