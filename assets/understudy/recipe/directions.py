"""Directions: what the teacher does with its curves, and the words in which people ask for it.

A `Manner` is how a line is performed; `DIRECTIONS` are the manners that have a name, each with the phrases
that mean it. `phrase` words one for a prompt. Phrases in `held_out` are never trained on: evaluate.py asks
for them. Directions without a sound ("without looking up") belong to this as the others do: they change
nothing.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Manner:
    """How a line differs from the same line plain.

    Factors of `pace`, of the `melody`'s range (in the logarithm, around its own mean) and of the `pitch`;
    `breath`: no voice at all; `energy` is added to the teacher's energy curve; `tilt_db` lifts what lies
    above 1 kHz against what lies below, `level_db` is loudness against plain; `tremble` is the share by which
    the pitch swings; `pauses` and `drawn` are shares of the words with a pause behind them and of words drawn
    out.
    """

    pace: float = 1.0
    melody: float = 1.0
    pitch: float = 1.0
    energy: float = 0.0
    tilt_db: float = 0.0
    level_db: float = 0.0
    tremble: float = 0.0
    pauses: float = 0.0
    drawn: float = 0.0
    breath: bool = False

    def scaled(self, strength: float) -> Manner:
        """The same, more (above 1) or less of it."""
        factors = {k: getattr(self, k) ** strength for k in ("pace", "melody", "pitch")}
        terms = ("energy", "tilt_db", "level_db", "tremble", "pauses", "drawn")
        return replace(self, **factors, **{k: getattr(self, k) * strength for k in terms})

    def __add__(self, other: Manner) -> Manner:
        """Both at once."""
        factors = {k: getattr(self, k) * getattr(other, k) for k in ("pace", "melody", "pitch")}
        terms = {k: getattr(self, k) + getattr(other, k) for k in ("energy", "tilt_db", "level_db")}
        shares = {k: max(getattr(self, k), getattr(other, k)) for k in ("tremble", "pauses", "drawn")}
        return Manner(**factors, **terms, **shares, breath=self.breath or other.breath)


@dataclass(frozen=True)
class Direction:
    """A manner with its words: `graded` go with "a little" and "very", `phrases` stand for themselves.

    `kind`: of one kind only one at a time can be asked for. `laughs`: the line begins with a laugh.
    """

    kind: str
    manner: Manner
    graded: tuple[str, ...]
    phrases: tuple[str, ...]
    held_out: tuple[str, ...]
    laughs: bool = False


PLAIN = Manner()
DIRECTIONS = {
    "whispering": Direction(
        "loudness",
        Manner(breath=True, energy=-1.0, level_db=-4.0, tilt_db=12.0, pace=0.97),
        (),
        (
            "whispering", "whispers", "whisper", "whispered", "in a whisper", "whispering in her ear",
            "whispering to him", "in a low whisper", "whispering so that no one hears", "hushed, whispering",
            "a whisper", "barely a whisper", "voice dropped to a whisper", "in whispers", "stage whisper",
            "whispers in his ear", "hoarse whisper", "whispering urgently to her",
        ),
        ("under her breath", "barely audible", "speaking in a whisper", "a hoarse whisper", "without voice"),
    ),
    "soft": Direction(
        "loudness",
        Manner(pace=0.92, melody=0.8, pitch=0.95, energy=-1.2, tilt_db=-6.5, level_db=-8.0),
        ("softly", "quietly", "gently", "soft", "quiet", "gentle", "hushed", "low", "tenderly", "soothing"),
        (
            "in a low voice", "in a soft voice", "in a quiet voice", "softer", "quieter", "more softly",
            "more quietly", "lower your voice", "lowering her voice", "keeping his voice down", "to herself",
            "to himself", "murmuring", "murmurs", "muttering", "in a murmur", "keep it down", "calming her",
            "as if to a child", "almost to herself", "under the music",
        ),
        ("gently, as to a child", "in hushed tones", "with a quiet voice", "speaking softly", "mutters"),
    ),
    "loud": Direction(
        "loudness",
        Manner(melody=1.15, pitch=1.1, energy=0.8, tilt_db=5.0, level_db=4.0),
        ("loudly", "loud", "forcefully", "strongly"),
        (
            "in a loud voice", "louder", "more loudly", "raising his voice", "raising her voice", "speak up",
            "at full voice", "with a loud voice", "so that all can hear", "booming", "to the whole room",
            "projecting", "over the noise", "over the music", "to the back row", "voice raised",
        ),
        ("with a raised voice", "speaking loudly", "to the crowd", "out loud", "above the din"),
    ),
    "shouting": Direction(
        "loudness",
        Manner(pace=0.97, melody=1.15, pitch=1.25, energy=1.2, tilt_db=5.0, level_db=5.0),
        (),
        (
            "shouting", "shouts", "shout", "yelling", "yells", "shouted", "calling out", "crying out",
            "screaming", "hollering", "bellowing", "shouting over the storm", "shouting across the street",
            "calls out", "yelling at him", "shouting from the next room", "roaring", "calling from far away",
        ),
        (
            "at the top of his voice", "bellows", "yelling across the field", "shouts at her",
            "crying out loud",
        ),
    ),
    "slow": Direction(
        "pace",
        Manner(pace=0.7),
        ("slowly", "slow", "unhurriedly", "deliberately"),
        (
            "slower", "more slowly", "slow down", "taking his time", "taking her time", "in no hurry",
            "at a slow pace", "unhurried", "one word at a time", "word by word", "speaking slowly",
            "measured", "drawing it out", "drawling", "at leisure", "ponderous",
        ),
        ("with no hurry at all", "at a crawl", "slow and steady", "spoken slowly", "with great deliberation"),
    ),
    "quick": Direction(
        "pace",
        Manner(pace=1.4),
        ("quickly", "fast", "quick", "rapidly", "hurriedly", "briskly"),
        (
            "faster", "quicker", "more quickly", "speed up", "in a hurry", "in a rush", "hurrying",
            "rushing", "rapid", "at a fast pace", "speaking quickly", "in haste", "all in one breath",
            "talking fast", "rattling it off", "breathless, fast",
        ),
        ("at high speed", "at a gallop", "hastily", "spoken fast", "rushing through it"),
    ),
    "flat": Direction(
        "feeling",
        Manner(melody=0.08, energy=-0.1),
        ("flat", "flatly", "coldly", "cold", "drily", "bored", "detached"),
        (
            "monotone", "in a monotone", "in a flat voice", "without expression", "expressionless",
            "deadpan", "colder", "flatter", "without emotion", "emotionless", "no feeling",
            "with no feeling", "like a robot", "blankly", "toneless", "as if reading a list", "indifferent",
            "stone-faced", "matter-of-fact",
        ),
        ("without any feeling", "in a monotonous voice", "robotic", "ice cold", "with a dead voice"),
    ),
    "excited": Direction(
        "feeling",
        Manner(pace=1.1, melody=1.45, pitch=1.1, energy=0.3, tilt_db=1.0, level_db=1.5),
        (
            "excited", "excitedly", "happy", "happily", "cheerful", "cheerfully", "joyful", "joyfully",
            "enthusiastic", "enthusiastically", "delighted", "brightly", "thrilled", "eagerly",
        ),
        (
            "with excitement", "with joy", "full of joy", "happier", "with enthusiasm", "beaming",
            "overjoyed", "in high spirits", "bubbling over", "with delight", "bursting with news",
            "livelier", "warmly, happy", "smiling broadly",
        ),
        ("full of excitement", "jubilant", "giddy with joy", "gleefully", "with great enthusiasm"),
    ),
    "sad": Direction(
        "feeling",
        Manner(pace=0.8, melody=0.55, pitch=0.9, energy=-0.6, tilt_db=-2.0, level_db=-3.0),
        (
            "sad", "sadly", "tired", "wearily", "weary", "sorrowful", "sorrowfully", "gloomy", "mournful",
            "dejected", "tiredly", "unhappy", "unhappily", "melancholy", "heartbroken", "exhausted",
        ),
        (
            "with sorrow", "with a heavy heart", "sadder", "in grief", "grieving", "full of sorrow",
            "defeated", "close to tears", "worn out", "holding back tears", "resigned", "with regret",
            "lost in grief", "after a long day",
        ),
        ("full of sadness", "downcast", "drained", "mournfully", "with deep regret"),
    ),
    "angry": Direction(
        "feeling",
        Manner(pace=1.14, melody=1.2, pitch=1.06, energy=0.8, tilt_db=4.0, level_db=4.0),
        (
            "angry", "angrily", "furious", "furiously", "irritated", "annoyed", "enraged", "fiercely",
            "bitterly",
        ),
        (
            "in anger", "with anger", "angrier", "snapping", "snaps", "in a rage", "full of rage", "fuming",
            "losing his temper", "losing her temper", "seething", "harshly", "raging", "outraged", "livid",
            "barking", "exploding",
        ),
        ("full of anger", "in a fury", "boiling with rage", "wrathful", "out of patience"),
    ),
    "trembling": Direction(
        "feeling",
        Manner(pace=0.96, melody=0.75, pitch=1.06, tremble=0.16, energy=-0.2, level_db=-1.5),
        ("afraid", "scared", "frightened", "fearful", "fearfully", "nervous", "nervously", "shaken", "shaky"),
        (
            "trembling", "trembles", "with a trembling voice", "voice shaking", "in a shaky voice",
            "terrified", "in fear", "with fear", "shivering", "quivering", "voice trembling",
            "shaking with fear", "quavering", "in terror", "full of fear", "her voice shakes",
            "his voice shakes",
        ),
        ("shaking all over", "with a quaver", "panic-stricken", "voice quivering with fear", "tremulous"),
    ),
    "hesitant": Direction(
        "feeling",
        Manner(pace=0.92, melody=0.9, pauses=0.24, drawn=0.12, level_db=-1.0, energy=-0.2),
        (
            "hesitant", "hesitantly", "haltingly", "unsure", "uncertain", "uncertainly", "doubtful",
            "reluctantly",
        ),
        (
            "hesitating", "with hesitation", "halting", "searching for words", "faltering", "stammering",
            "not sure", "choosing his words", "choosing her words", "groping for words", "thinking it over",
            "stumbling over the words", "with many pauses", "in doubt", "falters",
        ),
        ("full of doubt", "looking for the right words", "with long pauses", "tentatively", "wavering"),
    ),
    "urgent": Direction(
        "feeling",
        Manner(pace=1.24, melody=1.2, pitch=1.08, energy=0.4, tilt_db=2.0, level_db=2.5),
        ("urgent", "urgently", "insistent", "insistently", "alarmed", "desperately", "pressing"),
        (
            "with urgency", "in alarm", "pleading", "imploring", "there is no time", "panicking",
            "in a panic", "more urgent", "hurry", "pressing him", "running out of time", "frantic",
            "begging him to come",
        ),
        (
            "as if there were no time left", "frantically", "with great urgency", "time is short",
            "urging her on",
        ),
    ),
    "laughing": Direction(
        "feeling",
        Manner(pace=1.04, melody=1.25, pitch=1.06, energy=0.2),
        (),
        (
            "laughing", "with a laugh", "laughs", "laughing a little", "chuckling", "amused", "giggling",
            "with a chuckle", "laughing softly at him", "unable to stop laughing",
        ),
        ("bursting into laughter", "through laughter", "with a giggle"),
        laughs=True,
    ),
}  # fmt: skip
NAMES = tuple(DIRECTIONS)
# What contradicts itself, or cannot be heard together.
APART = {
    frozenset(pair)
    for pair in (
        ("slow", "urgent"), ("slow", "excited"), ("quick", "hesitant"), ("quick", "sad"), ("soft", "angry"),
        ("whispering", "flat"), ("whispering", "trembling"), ("whispering", "angry"),
        ("whispering", "laughing"), ("shouting", "sad"), ("loud", "sad"), ("shouting", "hesitant"),
        ("soft", "excited"), ("slow", "laughing"), ("soft", "urgent"), ("shouting", "flat"),
    )
}  # fmt: skip
PAIRS = [
    (a, b)
    for i, a in enumerate(NAMES)
    for b in NAMES[i + 1 :]
    if DIRECTIONS[a].kind != DIRECTIONS[b].kind and frozenset((a, b)) not in APART
]

STRENGTHS = (1.0, 0.5, 1.55)  # plain word, "a little", "very"
LITTLE = ("a little {}", "slightly {}", "a bit {}", "somewhat {}", "rather {}", "{}, but only a little")
VERY = ("very {}", "extremely {}", "really {}", "very, very {}", "so {}", "terribly {}", "most {}")
LITTLE_HELD_OUT, VERY_HELD_OUT = ("just a little {}", "a touch {}"), ("as {} as possible", "incredibly {}")

SOUNDLESS = (
    "without looking up", "to Anna", "to the children", "aside", "reading", "reading a letter", "off",
    "sitting down", "standing up", "rising", "turning away", "at the door", "at the window", "on the phone",
    "into the phone", "after a moment", "beat", "pointing", "nodding", "to the audience", "entering",
    "leaving", "exiting", "waiting", "looking at her hands", "looking around", "looking away",
    "with her back to him", "over his shoulder", "handing him the book", "taking off his coat",
    "pouring tea", "lighting the lamp", "closing the book", "from the kitchen", "in the garden",
    "in the dark", "by the fire", "still standing", "not moving", "kneeling", "holding the letter",
    "opening the box", "putting down the cup", "seeing the map", "folding the paper", "to no one",
    "to the dog", "to the judge", "to Mister Holt", "to both of them", "counting coins",
)  # fmt: skip
DOING = (
    "crossing to", "looking at", "pointing at", "walking to", "sitting by", "leaning on", "turning to",
    "reaching for", "picking up", "putting away", "opening", "closing", "moving", "watching", "touching",
    "passing", "cleaning",
)  # fmt: skip
THINGS = (
    "the window", "the door", "the table", "the chair", "the lamp", "the letter", "the fire", "a glass",
    "the map", "her bag", "his hat", "the clock", "the stairs", "the curtain", "the box", "the knife",
    "the garden", "the book",
)  # fmt: skip
SOUNDLESS_HELD_OUT = (
    "glancing at the clock", "to her brother", "hands in his pockets", "stirring the soup",
    "behind the curtain", "buttoning his coat", "facing the wall", "to Captain Reed", "feeding the cat",
    "with the keys in his hand",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a line was performed with: up to two names, and the strength of the first (index of STRENGTHS)."""

    names: tuple[str, ...] = ()
    strength: int = 0

    def manner(self) -> Manner:
        return manner_of(self)


@functools.cache  # of a few hundred different ones
def manner_of(asked: Asked) -> Manner:
    out = PLAIN
    for i, name in enumerate(asked.names):
        out = out + DIRECTIONS[name].manner.scaled(STRENGTHS[asked.strength] if i == 0 else 1.0)
    return out


def draw(rng: random.Random) -> Asked:
    """A direction, two at once, or one with a strength."""
    kind = rng.random()
    if kind < 0.25:
        return Asked(rng.choice(PAIRS))
    if kind < 0.5:
        name = rng.choice([n for n in NAMES if DIRECTIONS[n].graded])
        return Asked((name,), rng.choice((1, 2)))
    return Asked((rng.choice(NAMES),))


def contrary(rng: random.Random, asked: Asked) -> Asked:
    """What a line performed as `asked` is not: often nothing at all, or the other strength."""
    if asked.strength and rng.random() < 0.5:
        return replace(asked, strength=3 - asked.strength)
    if asked.names and rng.random() < 0.35:
        return Asked()
    while True:
        other = Asked((rng.choice(NAMES),))
        if other.names[0] not in asked.names and not _alike(asked.names, other.names[0]):
            return other


def _alike(names: tuple[str, ...], other: str) -> bool:
    """Whether a line may well sound as `other` although it wasn't asked to."""
    near = ({"loud", "shouting", "angry"}, {"soft", "sad"}, {"quick", "urgent", "excited"}, {"slow", "sad"})
    near += ({"slow", "hesitant"}, {"excited", "laughing"}, {"whispering", "soft"})
    return any(other in group and group & set(names) for group in near)


def phrase(rng: random.Random, asked: Asked, held_out: bool = False) -> str:
    """Words for `asked`; for nothing, and now and then besides, those that mean no sound."""
    if not asked.names:
        return soundless(rng, held_out)
    words = [_one(rng, DIRECTIONS[asked.names[0]], asked.strength, held_out)]
    words += [_one(rng, DIRECTIONS[name], 0, held_out) for name in asked.names[1:]]
    rng.shuffle(words)
    if rng.random() < (0.12 if len(words) == 1 else 0.05):
        words.insert(rng.choice((0, len(words))), soundless(rng, held_out))
    return _written(rng, rng.choice((", ", ", ", ", ", " and ", ", and ", "; ")).join(words))


def soundless(rng: random.Random, held_out: bool = False) -> str:
    if held_out:
        return rng.choice(SOUNDLESS_HELD_OUT)
    return rng.choice(SOUNDLESS) if rng.random() < 0.6 else f"{rng.choice(DOING)} {rng.choice(THINGS)}"


def _one(rng: random.Random, direction: Direction, strength: int, held_out: bool) -> str:
    if strength:
        known, new = ((LITTLE, LITTLE_HELD_OUT), (VERY, VERY_HELD_OUT))[strength - 1]
        return rng.choice(new if held_out else known).format(rng.choice(direction.graded))
    return rng.choice(direction.held_out if held_out else direction.graded + direction.phrases)


def _written(rng: random.Random, words: str) -> str:
    """As people write: now and then with a capital or a full stop."""
    kind = rng.random()
    if kind < 0.12:
        words = words[0].upper() + words[1:]
    return words + ("." if rng.random() < 0.06 else "")
