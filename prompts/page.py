"""What stands on the pages of a script and is nobody's speech.

`page_marks` looks once at all rows and tells the kind of each that no reader has to think about: title page,
licence (what a publisher's markers enclose), programme (a list of characters behind its title), heading,
transition, section, page break, furniture (page numbers, "(MORE)", "End of Act One", "Blackout") and sound
(SOUND, SFX, MUSIC ... and whatever directs a machine: they have cues like people and are none).

Every pattern begins at the beginning of a row, is anchored at its end where it must be, and has no repeat
inside a repeat over the same characters, so that a row costs no more than its length.
"""

from __future__ import annotations

import re

from prompts.rows import Row
from prompts.text import WHITE_SPACE

NUMERAL = (
    r"(?:[ivxlc]+|\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    r"|fifteen"
    r"|sixteen|seventeen|eighteen|nineteen|twenty)"
)
ORDINAL = (
    r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last|final|\d+(?:st|nd|rd|th))"
)

_FIRST_KEY = re.compile(r"(?:title|credit|authors?|written by|draft date)\s*[:：]", re.IGNORECASE)
_KEY = re.compile(
    r"(?:title|credit|authors?|written by|draft date|date|source|notes?|contact|copyright|revision|format"
    r"|episode|series|based on)\s*[:：]",
    re.IGNORECASE,
)
_INDENTED = re.compile(r"\t|[ \xa0]{3}")

_PLACES = r"INT\.?/EXT|EXT\.?/INT|I\.?/E|INT|EXT|EST"
_NUMBERED = r"(?:[A-Z]?\d+[A-Z]?[.)]?[ \t]+)?"  # a shooting script's scene number
_SCENE = re.compile(rf"{_NUMBERED}(?:(?i:{_PLACES})\.|(?:{_PLACES}) )")
_SCENE_BELOW_SPEECH = re.compile(rf"{_NUMBERED}(?:{_PLACES})\.")
# Behind the number: nothing, a mark, or words that begin with a capital ("ACT TWO The garden").
_ACT = re.compile(
    rf"(?i:act|scene|chapter|part|episode)\s+(?i:the\s+{ORDINAL}|{NUMERAL})\b"
    rf"(?:[^\w\s]|\s*$|\s+(?=[^\w\s]|[A-Z\d]))"
    rf"|(?i:(?:the\s+)?{ORDINAL}\s+(?:act|scene|part|chapter))\b(?:\W*$|[^\w\s]|\s+(?=[^\w\s]|[A-Z\d]))"
)
_ACT_ALONE = re.compile(
    rf"(?:ACT|SCENE)\s+(?:THE\s+{ORDINAL}|{NUMERAL})\W*|(?:THE\s+)?{ORDINAL}\s+(?:ACT|SCENE)\W*",
    re.IGNORECASE,
)
_UNNUMBERED = re.compile(
    r"(?:the\s+)?(?:prologue|epilogue|prelude|interlude|induction|teaser|cold open|overture|scene|act)[.:]?",
    re.IGNORECASE,
)
_FIRST_ACT = re.compile(
    r"\W*(?:act\s+(?:i|1|one|the\s+first)|(?:the\s+)?(?:first|1st)\s+act)\b", re.IGNORECASE
)
_HEADING_CHARACTERS = 80
_TRANSITION = re.compile(
    r"[^a-z:]*\bTO:|(?:SMASH |MATCH |JUMP |HARD |QUICK )?(?:CUT|DISSOLVE|WIPE|FADE UP|FADE DOWN|IRIS IN"
    r"|IRIS OUT"
    r"|CROSS-?FADE):|INTERCUT[^a-z:]*:|BACK TO SCENE[:.]?|FADE IN[:.]?|(?:SLOW )?FADE[:.]"
    r"|(?:SLOW )?FADE (?:OUT|TO BLACK|TO WHITE)[:.]?|(?:SMASH )?CUT TO (?:BLACK|WHITE)[:.]?"
    r"|(?:THE END|BLACKOUT|CURTAIN)\.?"
)
_PAGE_BREAK = re.compile("={3,}")
_SECTION = re.compile(r"#{1,6}\s+\S")

_PAGE_NUMBER = re.compile(
    r"[-–—~\[(|]?\s*(?:page|pg\.?|p\.)\s*\d{1,4}(?:\s*(?:of|/)\s*\d{1,4})?\s*[-–—~\])|.]?"
    r"|[-–—~]\s*\d{1,4}\s*[-–—~]",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"\d{1,4}\.?")
_CONTINUED = re.compile(
    r"[(\[](?:more|continued|cont[’']?d?)[.:]?[)\]]|(?:CONTINUED|CONT[’']D)[.:]?(?:\s*[(\[]\d{1,3}[)\]])?"
    r"|[(\[]CONTINUED[:.]?\s*\d{1,3}[)\]]|\d{1,3}\s+CONTINUED[:.]?(?:\s*\d{1,3})?"
)
_ENDING = re.compile(
    r"end of (?:the )?(?:play|act|scene|part|episode|script|prologue|epilogue|show|teaser|chapter|excerpt"
    r"|first|second"
    rf"|third|fourth|fifth)\b.{{0,40}}|end (?:act|scene) {NUMERAL}\.?|act drop\.?",
    re.IGNORECASE,
)
# They could be words of a speech, too: only with an empty row above, or below.
_STAGE = re.compile(
    r"(?:(?:a |the )?(?:slow |quick |brief |short )?(?:black-?\s?out|(?:final )?curtain|tableau|act drop"
    r"|intermission|interval"
    r"|fade(?: to black| out)?|(?:house ?)?lights|scene)"
    r"(?: falls?| rises?| drops?| ends?| up| down| out| fades?| dims?| closes| descends| to black| slowly"
    r"| quickly)*"
    r"|the end|finis)[.!]?",
    re.IGNORECASE,
)

_SOUNDS = (
    r"SOUND|SOUNDS|SOUND EFFECTS?|SOUND FX|SFX|FX|F/X|S/FX|GRAMS?|MUSIC|MUS|ATMOS?|AMBIENCE|AMBIANCE|AMB"
    r"|FOLEY"
)
_MACHINES = (
    r"ATMOSPHERE|AMBIENT|EFFECTS?|STINGS?|STINGER|JINGLE|THEME|THEME MUSIC|BACKGROUND|WALLA|CROSS-?FADE"
    r"|LIGHTS|LIGHTING"
    r"|LX|(?:ANGLE|CLOSE|WIDE)(?: ON)?|CLOSE-?UP|PAN TO|POV|INSERT|FLASHBACK|SUPER|SUPERIMPOSE|CHYRON"
    r"|CAPTION|TITLE CARD|MONTAGE|CAMERA|VIDEO|STAGE DIRECTIONS?"
)
_NUMBER = r"(?:[(\[]?\d{1,4}[A-Z]?[.):\]]?\s+)?[*_]{0,3}"
_CUE_WORDS = (
    r"(?: (?:CUE|EFFECTS?|FX|BED|STING|NO\.?|#?\d{1,3}[A-Z]?)){0,3}[*_]{0,3}(?:\s*\([^()]{0,200}\))?\s*"
)
# Before a colon in any letters, otherwise in capitals; "SFX" and its like need no mark at all.
_SOUND = re.compile(
    rf"{_NUMBER}(?:(?i:{_SOUNDS})|{_MACHINES})(?i:{_CUE_WORDS})[:：]"
    rf"|{_NUMBER}(?:{_SOUNDS}|{_MACHINES}){_CUE_WORDS}(?:[.–—](?=[\s*_]|$)|-\s|$)"
    r"|(?:SFX|FX|F/X|ATMOS|GRAMS|LX)(?: \d{1,3})? \S"
)

_CAST_TITLE = re.compile(
    r"(?:the )?(?:(?:main |list of )?(?:cast|characters)(?: of characters| list)?(?: (?:of|in) the play)?"
    r"|dramatis person(?:ae|æ)"
    r"|persons?(?: (?:of|in) the (?:play|drama|dialogue)| represented)?|people (?:of|in) the play|personages)"
    r"(?: in order of (?:appearance|speaking))?[:.]?",
    re.IGNORECASE,
)
_LISTED = re.compile(r"[^,:.;()\[\]\t–—]{1,60}")
_SPEECH_MARK = re.compile(r"[^,:.;()\[\]\t–—]{1,60}[:：.]")
_STARTED = re.compile(r"\*{3}\s*START OF TH(?:E|IS) PROJECT GUTENBERG", re.IGNORECASE)
_ENDED = re.compile(r"\*{3}\s*END OF TH(?:E|IS) PROJECT GUTENBERG", re.IGNORECASE)


SOFT = "soft furniture"  # words that could be spoken: they are where a name waits for some


def shown_as(kind: str) -> str:
    """The kind that a visitor is shown."""
    return "furniture" if kind == SOFT else kind


def num_title_rows(rows: list[Row]) -> int:
    """How many rows the title page takes: a known key, then keys and indented rows up to an empty one."""
    first = next((index for index, row in enumerate(rows) if not row.is_empty), None)
    if first is None or not _FIRST_KEY.match(rows[first].text):
        return 0
    for index in range(first + 1, len(rows)):
        text = rows[index].text
        if rows[index].is_empty or not (_KEY.match(text) or _INDENTED.match(text)):
            return index
    return len(rows)


def page_marks(rows: list[Row]) -> dict[int, str]:
    """The kind of every row that is marked, by its index."""
    marks: dict[int, str] = dict.fromkeys(range(num_title_rows(rows)), "title page")
    texts = [row.text.strip(WHITE_SPACE) for row in rows]
    marks |= _licence(texts)
    for index, text in enumerate(texts):
        if text and index not in marks and (kind := _kind(texts, index, marks)):
            marks[index] = kind
    for index, text in enumerate(texts):
        if text and _has_room(texts, index) and _CAST_TITLE.fullmatch(text):
            marks |= _programme(texts, index, marks)
    return {index: kind for index, kind in marks.items() if texts[index]}


def is_scene(text: str, has_room: bool) -> bool:
    """Whether a row is a scene heading: INT. or its kin behind an empty row, or in capitals anywhere."""
    return bool((_SCENE if has_room else _SCENE_BELOW_SPEECH).match(text))


def is_numbered_heading(text: str) -> bool:
    """Whether `text` names an act, a scene or a chapter with its number."""
    return len(text) <= _HEADING_CHARACTERS and bool(_ACT.match(text))


def is_first_act(text: str) -> bool:
    """Whether `text` is the heading of the first act."""
    return bool(_FIRST_ACT.match(text))


def is_sound(text: str) -> bool:
    """Whether `text` is the cue of a sound or a machine, with or without what it does."""
    return bool(_SOUND.match(text))


def _kind(texts: list[str], index: int, marks: dict[int, str]) -> str | None:
    text, has_room = texts[index], _has_room(texts, index)
    ends_here = index + 1 == len(texts) or not texts[index + 1]
    plain = text.strip("*_ ")
    if _PAGE_BREAK.fullmatch(text):
        return "page break"
    if _SECTION.match(text):
        return "section"
    if _CONTINUED.fullmatch(plain) or _PAGE_NUMBER.fullmatch(plain):
        return "furniture"
    if has_room and _TRANSITION.fullmatch(text):
        return "transition"
    if is_scene(text, has_room):
        return "heading"
    may_stand = (
        has_room or marks.get(index - 1) == "heading" or (text.isupper() and _ACT_ALONE.fullmatch(plain))
    )
    if may_stand and is_numbered_heading(plain):
        return "heading"
    if has_room and ends_here and _UNNUMBERED.fullmatch(plain):
        return "heading"
    if _ENDING.fullmatch(plain):
        return "furniture"
    if (has_room or ends_here) and _STAGE.fullmatch(plain):
        return SOFT
    if _BARE_NUMBER.fullmatch(plain) and not _counts(texts, index):
        return SOFT
    return "sound" if is_sound(text) else None


def _counts(texts: list[str], index: int) -> bool:
    """Whether a number on its own row is one of several below each other: somebody counts."""
    beside = [texts[each] for each in (index - 1, index + 1) if 0 <= each < len(texts)]
    return any(_BARE_NUMBER.fullmatch(text) for text in beside)


def _has_room(texts: list[str], index: int) -> bool:
    return index == 0 or not texts[index - 1]


def _licence(texts: list[str]) -> dict[int, str]:
    """The rows outside a publisher's markers, if there are any."""
    start = next((index for index, text in enumerate(texts) if _STARTED.match(text)), -1)
    end = next((index for index, text in enumerate(texts) if _ENDED.match(text)), len(texts))
    return dict.fromkeys([*range(start + 1), *range(end, len(texts))], "licence")


def _programme(texts: list[str], title: int, marks: dict[int, str]) -> dict[int, str]:
    """The rows of a list of characters whose title is row `title`.

    It ends where a heading stands, where a name comes again (then it speaks), or where a paragraph below the
    list is no list.
    """
    listed: set[str] = set()
    found = {title: "programme"}
    index, is_dense = title + 1, False
    while index < len(texts):
        if not texts[index]:
            index += 1
            continue
        end = next((each for each in range(index, len(texts)) if not texts[each]), len(texts))
        stop = next((each for each in range(index, end) if marks.get(each) in _ENDS_LIST), end)
        keys = [_listed(text) for text in texts[index:stop]]
        if listed and (set(keys) & listed or not _is_list(texts[index:stop], is_dense)):
            break
        seen: set[str] = set()
        again = next((at for at, key in enumerate(keys) if key in seen or seen.add(key)), None)
        if again is not None:  # no empty row between the list and the first speech
            return found | dict.fromkeys(range(index, index + again), "programme")
        found |= dict.fromkeys(range(index, stop), "programme")
        if stop < end:
            break
        listed |= set(keys)
        is_dense = is_dense or len(keys) > 1
        index = end
    return found


_ENDS_LIST = ("heading", "transition", "section", "licence")


def _listed(text: str) -> str:
    found = _LISTED.match(text.strip("*_ "))
    return " ".join(found[0].casefold().split()) if found else text


def _is_list(block: list[str], is_dense: bool) -> bool:
    """Whether a paragraph goes on with a list of characters. Behind a list without empty rows a paragraph
    that begins like a speech is one, and so is a name with words of its own below it."""
    if not block:
        return True
    if is_dense and _SPEECH_MARK.match(block[0]):
        return False
    if len(block) > 1 and block[0].isupper() and not block[1].isupper():
        return any(mark in block[0] for mark in ",:;—–(")
    return all(len(text) <= 100 for text in block)
