"""A long line becomes pieces that one take can hold, cut where an actor would breathe.

Every place where a cut is thinkable is a border with a rank: after a sentence, after a clause, between words.
Only where a stretch between two of them is itself too long come the others: between things that belong
together ("Dr." and a name, digit groups), and between the characters of a giant word. The cuts are then
chosen all at once, as the cheapest path from the start of the line to its end: low ranks are dear, and pieces
of even length are cheap.

The white space at a border stays with the piece before it, so the pieces joined are the line. A border is
never inside a grapheme, a bracketed cue or a token, and there is something to say on both sides of it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import accumulate, pairwise

from prompts.duration import CUE, TOKEN, character_seconds
from prompts.text import WHITE_SPACE, front_cues, lasting_cues, readable


class Rank(IntEnum):
    """What a border parts."""

    SENTENCE = 0
    CLAUSE = 1
    WORD = 2
    BOUND = 3
    CHARACTER = 4


# In units of one piece whose room is wholly unused.
_COST = {Rank.SENTENCE: 0.0, Rank.CLAUSE: 0.5, Rank.WORD: 2.0, Rank.BOUND: 6.0, Rank.CHARACTER: 10.0}
_SHORT_S, _SHORT_COST = 3.0, 1.0  # a piece of two words sounds like an afterthought

_CLOSERS = "\"'”’»)]}」』）】〉》"
_SENTENCE_MARKS = ".!?…。！？｡．؟۔।॥։።፧‼⁇⁈⁉။។"
_CLAUSE_MARKS = ",;:–—،؛、，；：፣၊"
_WORD = re.compile(f"[^{WHITE_SPACE}]+")
_SPACE = re.compile(f"[{WHITE_SPACE.replace(chr(10), '')}]*")
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # kana, ideographs, Hangul
_INNER_SENTENCE = re.compile(f"(?:[。！？｡।॥]+|[!?]+(?=[{_SPACELESS}]))[{re.escape(_CLOSERS)}]*")
_INNER_CLAUSE = re.compile("[、，；：]+|[—–]+|--+")
_TITLE = re.compile(
    "Dr|Mrs?|Ms|Mx|Prof|St|Mt|Ft|Gen|Capt|Cpt|Lt|Sgt|Col|Maj|Cmdr|Adm|Rev|Hon|Sen|Rep|Gov|Pres|Fr|Sra?|Srta"
    "|Mme|Mlle|Mgr|Hr|Dott|Sig"
)
_LEADS_ON = re.compile(r"e\.?g|i\.?e|vs|cf|viz|ca|approx|z\.b|d\.h|u\.a|bzw|p\.ex", re.IGNORECASE)
_BEFORE_NUMBER = re.compile("n[or]s?|pp?|vol|ch|fig|art|op|sec", re.IGNORECASE)
_DOTTED = re.compile(r"(?:\w\.)+\w")


@dataclass(frozen=True)
class Piece:
    """A part of a line, white space and all; `begins_sentence`: a pause belongs in front of it."""

    text: str
    begins_sentence: bool


def split_line(text: str, most_seconds: float) -> list[Piece]:
    """`text` as pieces, as `split` makes them of its words. A direction at its front, "[softly]", stands in
    front of each of them; a sound, "[sighs]", in front of the first."""
    front = front_cues(text)
    if not front or front == text:
        return split(text, most_seconds)
    first, *others = split(text[len(front) :], most_seconds)
    direction = lasting_cues(text)
    again = f"{direction} " if direction else ""
    return [
        replace(first, text=front + first.text),
        *(replace(piece, text=again + piece.text) for piece in others),
    ]


def split(text: str, most_seconds: float) -> list[Piece]:
    """`text` as pieces of at most `most_seconds` expected speech each; joined they are `text`, exactly.

    A text that is short enough comes back as one piece. Only what can't be parted makes a longer piece: one
    cue, one character, or a row of signs without a word.
    """
    if not most_seconds > 0:
        raise ValueError(f"most_seconds is {most_seconds}; it must be above 0.")
    clock = [0.0, *accumulate(character_seconds(text))]
    if clock[-1] <= most_seconds:
        return [Piece(text, True)]
    borders = _borders(text, clock, most_seconds)
    places = [0, *sorted(borders), len(text)]
    ranks = [borders.get(place, Rank.SENTENCE) for place in places]
    ends = [places[cut] for cut in _cheapest([clock[place] for place in places], ranks, most_seconds)]
    starts = [0, *ends[:-1]]
    return [
        Piece(text[a:b], borders.get(a, Rank.SENTENCE) is Rank.SENTENCE)
        for a, b in zip(starts, ends, strict=True)
    ]


def _cheapest(times: list[float], ranks: list[Rank], most_seconds: float) -> list[int]:
    """Indices of the places where pieces end, the last included: the cheapest path over all places.

    `times` [places] is the clock at each place. A step over one stretch is allowed however long it is.
    """
    room = most_seconds - 1e-9  # sums taken in another order differ in their last bits
    costs, origins = [0.0], [0]
    for end in range(1, len(times)):
        first = min(bisect_left(times, times[end] - room), end - 1)
        steps = (
            (costs[start] + _cost(times[end] - times[start], room), start) for start in range(first, end)
        )
        cost, origin = min(steps)
        costs.append(cost + _COST[ranks[end]])
        origins.append(origin)
    ends = [len(times) - 1]
    while origins[ends[-1]]:
        ends.append(origins[ends[-1]])
    return ends[::-1]


def _cost(seconds: float, room: float) -> float:
    unused = max(0.0, 1.0 - seconds / room)
    return unused * unused + (_SHORT_COST if seconds < min(_SHORT_S, room / 4) else 0.0)


def _borders(text: str, clock: list[float], most_seconds: float) -> dict[int, Rank]:
    """The borders of `text` that the choice may use: place of the next character -> rank."""
    inside = {place for start, end in _atoms(text) for place in range(start + 1, end)}
    ranks = {
        place: rank for place, rank in _ranked(text).items() if place not in inside and _may_cut(text, place)
    }
    chosen = _between_words(text, {place: rank for place, rank in ranks.items() if rank < Rank.BOUND})
    for start, end in _long_stretches(chosen, clock, most_seconds):
        chosen |= {place: rank for place, rank in ranks.items() if start < place < end}
    chosen = _between_words(text, chosen)
    for start, end in _long_stretches(chosen, clock, most_seconds):
        free = (place for place in range(start + 1, end) if place not in inside and _may_cut(text, place))
        chosen |= {place: _inner_rank(text, place) for place in free if _may_break_word(text, place)}
    return _between_words(text, chosen)


def _long_stretches(
    borders: dict[int, Rank], clock: list[float], most_seconds: float
) -> list[tuple[int, int]]:
    places = [0, *sorted(borders), len(clock) - 1]
    return [(a, b) for a, b in pairwise(places) if clock[b] - clock[a] > most_seconds - 1e-9]


def _atoms(text: str) -> list[tuple[int, int]]:
    """Where the cues and the tokens of `text` start and end; nothing is cut inside them."""
    return [found.span() for pattern in (CUE, TOKEN) for found in pattern.finditer(text)]


def _ranked(text: str) -> dict[int, Rank]:
    """A rank for every place behind a word, and behind the marks of scripts that write no spaces."""
    ranks = {b.start(): _rank(text, a, b) for a, b in pairwise(_WORD.finditer(text))}
    for pattern, rank in ((_INNER_CLAUSE, Rank.CLAUSE), (_INNER_SENTENCE, Rank.SENTENCE)):
        for found in pattern.finditer(text):
            left, right = text[max(0, found.start() - 1) : found.start()], text[found.end() : found.end() + 1]
            in_number = left.isdigit() and right.isdigit()
            if left and right and right not in WHITE_SPACE and not in_number:
                ranks[found.end()] = Rank.BOUND if _is_closing(right) else rank
    for _, end in _atoms(text):
        after = _SPACE.match(text, end).end()
        if after in ranks and text[end - 2] not in _SENTENCE_MARKS:
            ranks[after] = Rank.BOUND  # [sighs] colours the words behind it
    return ranks


def _rank(text: str, word: re.Match, following: re.Match) -> Rank:
    """The rank of the border between two neighbouring words."""
    space, upcoming = text[word.end() : following.start()], following[0]
    if "\n" in space:
        ended = space.count("\n") > 1 or word[0].rstrip(_CLOSERS).endswith(tuple(_SENTENCE_MARKS))
        return Rank.SENTENCE if ended else Rank.CLAUSE
    if _belong_together(word[0], upcoming) or not space.strip("\xa0\u202f\u2007"):
        return Rank.BOUND
    core = word[0].rstrip(_CLOSERS)
    body = core.rstrip(_SENTENCE_MARKS)
    if core == body:
        return Rank.CLAUSE if core[-1:] and core[-1] in _CLAUSE_MARKS else Rank.WORD
    return _rank_after_marks(body.lstrip("([{\"'“‘«¿¡"), core[len(body) :], upcoming)


def _rank_after_marks(body: str, marks: str, upcoming: str) -> Rank:
    """The rank behind a word `body` with sentence `marks`, before the word `upcoming`."""
    first = next((character for character in upcoming if character.isalnum()), "")
    if marks == "." and _is_abbreviation(body, first):
        return Rank.BOUND
    if marks == "." and body.isdigit() and len(body) < 3:
        return Rank.WORD  # "3. Mai", or a number in a list
    hesitates = marks[-1] == "…" or marks.endswith("..")
    if first.islower() or (hesitates and re.match(r"\W*I\b", upcoming)):
        return Rank.CLAUSE  # "Wait... what", "Well... I", '"Run!" he said'
    return Rank.SENTENCE


def _is_abbreviation(body: str, first: str) -> bool:
    """Whether the full stop behind `body` is a part of it. `first` is the first letter of the next word."""
    if _TITLE.fullmatch(body) or _LEADS_ON.fullmatch(body):
        return True
    if _BEFORE_NUMBER.fullmatch(body):
        return first.isdigit()
    if len(body) == 1 and body.isupper():
        return body != "I"  # an initial; "So did I." ends a sentence
    return bool(_DOTTED.fullmatch(body)) and body.lower() not in ("a.m", "p.m")


def _belong_together(word: str, following: str) -> bool:
    """The groups of a number; a word and the mark that stands behind it."""
    if word[-1].isdigit() and following[0].isdigit():
        return True
    opens = unicodedata.category(following[0]) in ("Ps", "Pi")
    return not opens and not any(character.isalnum() for character in following)


def _inner_rank(text: str, place: int) -> Rank:
    """The rank inside a giant word. Japanese phrases tend to end where hiragana meets another script."""
    left, right = text[place - 1], text[place]
    ends_phrase = "\u3041" <= left <= "\u3096" and not "\u3041" <= right <= "\u3096"
    return Rank.BOUND if ends_phrase else Rank.CHARACTER


def _is_closing(character: str) -> bool:
    """Whether `character` is punctuation that belongs to what stands before it."""
    return (
        unicodedata.category(character) in ("Pe", "Pf", "Pd", "Pc")
        or character in _SENTENCE_MARKS + _CLAUSE_MARKS
    )


def _may_break_word(text: str, place: int) -> bool:
    """Whether a giant word may be cut at `place`: no mark is parted from the letters it belongs to."""
    left, right = unicodedata.category(text[place - 1]), unicodedata.category(text[place])
    if left in ("Ps", "Pi") or text[place] in WHITE_SPACE:
        return False
    # Lm holds the Japanese length and repetition marks, which begin no line.
    return right in ("Ps", "Pi") or (right[0] != "P" and right != "Lm")


def _may_cut(text: str, place: int) -> bool:
    """Whether a grapheme ends in front of `place`: rather too seldom than once too often."""
    left, right = text[place - 1], text[place]
    left_kind, right_kind = unicodedata.category(left), unicodedata.category(right)
    if right_kind[0] == "M" or "Cf" in (left_kind, right_kind) or left + right == "\r\n":
        return False  # marks and selectors; joiners, tags, direction marks
    if "\U0001f3fb" <= right <= "\U0001f3ff" or right in "\u0e33\u0eb3\uff9e\uff9f":
        return False  # skin tones; Thai and Lao AM; half-width voicing
    if unicodedata.combining(left) == 9:
        return False  # a virama joins two consonants
    if "\U0001f1e6" <= left <= "\U0001f1ff" and "\U0001f1e6" <= right <= "\U0001f1ff":
        return False  # two regional indicators are a flag; a row of flags stays together
    return not _is_jamo_inside(left, right)


def _is_jamo_inside(left: str, right: str) -> bool:
    """Whether both are parts of one Hangul syllable: no cut before a vowel or an end, or between leads."""
    lead = "\u1100" <= left <= "\u115f" or "\ua960" <= left <= "\ua97c"
    leads = lead and (
        "\u1100" <= right <= "\u115f" or "\ua960" <= right <= "\ua97c" or "\uac00" <= right <= "\ud7a3"
    )
    return leads or "\u1160" <= right <= "\u11ff" or "\ud7b0" <= right <= "\ud7fb"


def _between_words(text: str, borders: dict[int, Rank]) -> dict[int, Rank]:
    """The best of `borders` between each two letters, so that no piece is left with nothing to say."""
    said = [0, *accumulate(unicodedata.category(character)[0] in "LN" for character in readable(text))]
    best: dict[int, int] = {}
    for place in sorted(borders):
        count = said[place]
        if 0 < count < said[-1] and (count not in best or borders[place] < borders[best[count]]):
            best[count] = place
    return {place: borders[place] for place in best.values()}
