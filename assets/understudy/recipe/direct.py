"""Give a plan its directions: which line is performed how, what is stressed, where somebody sighs.

    python direct.py PLAN OUT        a plan with align.npz -> a plan that has directed.npz too

About half of all lines stay plain. Some neighbours are joined to long lines (up to 300 letters), and some
sessions to one speaker's forty lines and more; held-back sessions (number 7 modulo 61) are never joined to
others. Numbers of lines are new: codes of the former plan don't fit. directed.npz:

    names [lines, 2]    indices of directions.NAMES, -1 for none; strength [lines] of the first
    mark [lines]        0 nothing, 1 a word in *stars*, 2 a sound in [brackets], 3 both, 4 a direction within
    turn, then [lines]  the phoneme from which another direction holds, and its index; turn 0 for none
    fixed, stretch, bend, voice, push [phonemes]    what teacher.Curves does to them, in `Plan`'s units
"""

from __future__ import annotations

import copy
import math
import random
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import directions as D
import numpy as np
from perform import BEND_STEPS, FASTEST, PUSH_STEPS, SLOWEST, STRETCH_STEPS, Plan

SPACE, COMMA, STOP, PRIMARY, SECONDARY = 16, 3, 4, 156, 157
H, M, AH, UH, SCHWA, EH = 50, 55, 69, 138, 83, 86  # "hm" and the vowels of "ha", "uh", "a", "eh"
VOWELS: set[int] = set()  # filled by `alphabet`
LONGEST, MOST_PHONES = 300, 395
DIRECTED, STRESSED, SOUNDING, JOINED = 0.45, 0.13, 0.09, 0.1
ALONE = 0.42  # of the lines with a sound other than a pause: a third of all
TURNING = 0.4  # of the plain lines with two sentences: the second one has a direction in front
TURNS = (
    "whispering",
    "soft",
    "loud",
    "shouting",
    "slow",
    "quick",
    "sad",
    "angry",
    "urgent",
)  # without contour
MERGED_EVERY, MERGED = 5, 8  # every fifth session goes into groups of eight
CURVES = ("fixed", "stretch", "bend", "voice", "push")


@dataclass
class Score:
    """A line for the teacher: text, phonemes with the byte that each speaks, what is done to each of them."""

    text: bytes
    phones: list[int]
    letter: list[int]
    fixed: list[float] = field(default_factory=list)  # 40 Hz frames, 0: as the teacher likes
    stretch: list[float] = field(default_factory=list)
    bend: list[float] = field(default_factory=list)  # semitones
    voice: list[float] = field(default_factory=list)
    push: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.fixed:
            n = len(self.phones)
            self.fixed, self.stretch, self.bend = [0.0] * n, [1.0] * n, [0.0] * n
            self.voice, self.push = [1.0] * n, [0.0] * n

    def insert(self, at: int, notes: list[Note], letters: list[int]) -> None:
        """Notes in front of phoneme `at`, each with the byte that it speaks."""
        self.phones[at:at] = [n.phone for n in notes]
        self.letter[at:at] = letters
        for name in CURVES:
            getattr(self, name)[at:at] = [getattr(n, name) for n in notes]

    def write(self, at: int, words: bytes) -> None:
        """Words into the text that no phoneme speaks."""
        self.text = self.text[:at] + words + self.text[at:]
        self.letter = [i + len(words) * (i >= at) for i in self.letter]

    def words(self) -> list[tuple[int, int, list[int]]]:
        """Bytes from, to, and phonemes of every word whose phonemes follow each other."""
        out = []
        for found in re.finditer(rb"[A-Za-z']+", self.text):
            a, b = found.span()
            own = [i for i, at in enumerate(self.letter) if a <= at < b and self.phones[i] != SPACE]
            if own and own[-1] - own[0] == len(own) - 1:
                out.append((a, b, own))
        return out


@dataclass(frozen=True)
class Note:
    """One phoneme of a sound."""

    phone: int
    fixed: float
    bend: float = 0.0
    voice: float = 1.0
    push: float = 0.0
    stretch: float = 1.0


SEAM = Note(SPACE, 1, voice=0.0)  # without it the word behind a rest loses its first sound


def rest(frames: float) -> Note:
    return Note(COMMA, frames, voice=0.0, push=-3.0)


def laugh(rng: random.Random) -> list[Note]:
    """Ha ha ha: five or six a second, falling."""
    vowel, top, out = rng.choice((AH, AH, UH, EH)), rng.uniform(3.0, 6.0), []
    for i in range(rng.choice((3, 4, 4, 5))):
        out += [
            Note(H, 3, voice=0.0, push=-1.5),
            Note(vowel, rng.choice((4, 4, 5)), top - 1.6 * i, 1.0, -0.3 * i),
        ]
    return [*out, rest(7)]


def sigh(rng: random.Random) -> list[Note]:
    """A long breath out without voice, fading."""
    vowel, long = rng.choice((AH, SCHWA, UH)), rng.uniform(5, 8)
    breath = [Note(vowel, round(long), voice=0.0, push=-2.0 - 0.8 * i) for i in range(3)]
    return [Note(H, 6, voice=0.0, push=-1.5), *breath, rest(10)]


def gasp(rng: random.Random) -> list[Note]:
    """A short breath without voice, and a stop."""
    return [
        Note(H, rng.choice((5, 6)), voice=0.0, push=-2.0),
        Note(rng.choice((AH, UH)), rng.choice((3, 4)), voice=0.0, push=-1.0),
        rest(rng.choice((9, 12))),
    ]


def hesitation(rng: random.Random) -> list[Note]:
    """Uh, or um."""
    long = rng.uniform(12, 18)
    hum = [Note(M, round(0.6 * long), -2.0)] if rng.random() < 0.4 else []
    return [Note(UH, round(long * (0.7 if hum else 1)), -1.5), *hum, rest(rng.choice((8, 12)))]


def pause(rng: random.Random) -> list[Note]:
    return [rest(rng.uniform(24, 38))]


SOUNDS: dict[str, Callable[[random.Random], list[Note]]] = {
    "laughs": laugh,
    "sighs": sigh,
    "gasps": gasp,
    "hesitates": hesitation,
    "pause": pause,
}
CUES = {
    "laughs": ("laughs", "laughs", "laughs", "laugh", "laughing", "chuckles", "giggles"),
    "sighs": ("sighs", "sighs", "sighs", "sigh", "sighing", "exhales"),
    "gasps": ("gasps", "gasps", "gasps", "gasp", "gasping"),
    "hesitates": ("hesitates", "hesitates", "um", "hesitating"),
    "pause": ("pause", "pause", "pauses", "a pause", "long pause", "beat"),
}


def sound(score: Score, rng: random.Random, name: str) -> None:
    """A cue in front of the line, or between two words, and the sound that it stands for."""
    words = score.words()
    notes = [*SOUNDS[name](rng), SEAM]
    at, place = 0, 0  # in the text, among the phonemes
    if len(words) > 3 and rng.random() < 0.45:
        a, _, own = rng.choice(words[1:])
        if score.text[a - 1 : a] == b" " and score.phones[own[0] - 1] == SPACE:
            at, place, notes = a, own[0], [rest(5), *notes]
    cue = f"[{rng.choice(CUES[name])}] ".encode()
    score.write(at, cue)
    spread = np.linspace(at + 1, at + len(cue) - 3, len(notes)).round().astype(int)
    score.insert(place, notes, spread.tolist())


def alone(rng: random.Random, name: str) -> Score:
    cue, notes = f"[{rng.choice(CUES[name])}]".encode(), SOUNDS[name](rng)[:-1]
    score = Score(cue, [], [])
    score.insert(
        0, [*notes, Note(STOP, 4)], np.linspace(1, len(cue) - 2, len(notes) + 1).round().astype(int).tolist()
    )
    return score


def laugh_in_front(score: Score, rng: random.Random) -> None:
    """Who laughs because a direction says so laughs before the first word."""
    notes = [*laugh(rng), SEAM]
    score.insert(0, notes, [score.letter[0]] * len(notes))


def stress(score: Score, rng: random.Random) -> bool:
    """A word in stars: longer, higher, louder. Returns whether there was one that could be."""
    words = [w for w in score.words() if w[1] - w[0] >= 2 and any(score.phones[i] in VOWELS for i in w[2])]
    if len(words) < 3:
        return False
    a, b, own = rng.choice(words)
    vowels = [i for i in own if score.phones[i] in VOWELS]
    main = next((i for i in vowels if i and score.phones[i - 1] == PRIMARY), vowels[0])
    for i in own:
        score.stretch[i], score.bend[i], score.push[i] = 1.35, 2.5, 0.5
    for i in (main, *(j for j in (main - 1,) if j in own)):
        score.stretch[i], score.bend[i], score.push[i] = 1.7, 4.5, 0.9
    score.write(b, b"*"), score.write(a, b"*")
    return True


def hesitate(score: Score, rng: random.Random, manner: D.Manner) -> None:
    """Pauses behind some words, others drawn out; never fewer pauses than the share says, and never none."""
    words = score.words()
    least = max(1, int(manner.pauses * len(words)))
    words = words[:-1]
    chosen = [w for w in words if rng.random() < manner.pauses]
    others = [w for w in words if w not in chosen]
    chosen += rng.sample(others, min(len(others), max(0, least - len(chosen))))
    for a, b, own in reversed(words):
        if rng.random() < manner.drawn or (a, b, own) in chosen:
            for i in own:
                score.stretch[i] = max(score.stretch[i], 1.9 if score.phones[i] in VOWELS else 1.2)
        if (a, b, own) in chosen:
            score.insert(own[-1] + 1, [rest(rng.uniform(9, 20))], [score.letter[own[-1]]])


def turn(score: Score, rng: random.Random, speed: float) -> tuple[int, int]:
    """A direction in front of a later sentence, in brackets: the phoneme from which it holds and its index,
    0 and -1 for a line of one sentence. Level and tilt are `perform.turned`'s."""
    seams = [m.end() for m in re.finditer(rb"[a-z][.!?] (?=[A-Z])", score.text)]
    places = [next((i for i, at in enumerate(score.letter) if at >= seam), 0) for seam in seams]
    fit = [k for k, place in enumerate(places) if 12 <= place <= len(score.phones) - 12]
    if not fit:
        return 0, -1
    k, name = rng.choice(fit), rng.choice(TURNS)
    manner, place = D.DIRECTIONS[name].manner, places[k]
    pace = min(max(manner.pace, SLOWEST / speed), FASTEST / speed)
    for i in range(place, len(score.phones)):
        score.stretch[i] /= pace
        score.bend[i] += 12 * math.log2(manner.pitch)
        score.push[i] += manner.energy
        score.voice[i] *= not manner.breath
    score.write(seams[k], f"[{D.phrase(rng, D.Asked((name,)))}] ".encode())
    return place, D.NAMES.index(name)


def score_of(
    text: str, phones, letter, asked: D.Asked, rng: random.Random, stars: bool, cue: str | None
) -> tuple:
    """A line's score, and its mark."""
    score = Score(text.encode(), [int(p) for p in phones], [int(i) for i in letter])
    starred = stars and stress(score, rng)
    manner = asked.manner()
    if manner.pauses:
        hesitate(score, rng, manner)
    if cue:
        sound(score, rng, cue)
    elif any(D.DIRECTIONS[name].laughs for name in asked.names):
        laugh_in_front(score, rng)
    return score, starred + 2 * bool(cue)


def joined(plan: Plan, numbers: list[int], rng: random.Random) -> list[tuple[str, list[int], list[int]]]:
    """(text, phonemes, letters) of a session's lines, some neighbours made one."""
    out: list[tuple[str, list[int], list[int]]] = []
    growing = False
    for i in numbers:
        part = slice(plan.start[i], plan.start[i] + plan.count[i])
        text, phones, letter = plan.texts[i], plan.phones[part].tolist(), plan.letter[part].tolist()
        growing = rng.random() < (0.7 if growing else JOINED) and bool(out)
        if growing:
            before, earlier, spoken = out[-1]
            size = len(before.encode()) + 1
            if size + len(text) <= LONGEST and len(earlier) + 1 + len(phones) <= MOST_PHONES:
                letter = [*spoken, size - 1, *(at + size for at in letter)]
                out[-1] = (f"{before} {text}", [*earlier, SPACE, *phones], letter)
                continue
            growing = False
        out.append((text, phones, letter))
    return out


def merged(plan: Plan) -> np.ndarray:
    """The session whose speaker says a session's lines."""
    speaker = np.arange(len(plan.sessions))
    for accent in ("us", "gb"):
        pool = [
            s
            for s, session in enumerate(plan.sessions)
            if session["accent"] == accent and s % 61 != 7 and s % MERGED_EVERY == 0
        ]
        for k in range(0, len(pool) - MERGED + 1, MERGED):
            speaker[pool[k : k + MERGED]] = pool[k]
    return speaker


def alphabet(vocab: dict[str, int]) -> None:
    """Which phonemes are vowels; to be called first."""
    VOWELS.update(vocab[c] for c in "IAOQWYiuaɑɒæɔəɜɛɪʊʌᵻᵊ")


def in_memory(plan: Plan, items: list[tuple]) -> Plan:
    """A plan of certain lines of another: (number, directions, whether a word is stressed, cue or None)."""
    out, scores, marks = copy.copy(plan), [], []
    for i, asked, stars, cue in items:
        part = slice(plan.start[i], plan.start[i] + plan.count[i])
        line = plan.texts[i], plan.phones[part], plan.letter[part]
        score, mark = score_of(*line, asked, random.Random(i), stars, cue)
        scores.append(score), marks.append(mark)
    every = lambda name: np.concatenate([np.array(getattr(s, name), np.float32) for s in scores])  # noqa: E731
    out.__dict__.pop("estimate", None)
    out.texts, out.session = [s.text.decode() for s in scores], plan.session[[i for i, *_ in items]]
    out.count = np.array([len(s.phones) for s in scores])
    out.start = np.concatenate([[0], np.cumsum(out.count)[:-1]])
    out.phones, out.letter = every("phones").astype(np.uint8), every("letter").astype(np.uint16)
    out.names = np.array([indices(asked) for _, asked, *_ in items], np.int8)
    out.strength, out.mark = np.array([asked.strength for _, asked, *_ in items]), np.array(marks)
    out.turn, out.then = np.zeros(len(items), int), np.full(len(items), -1)
    out.curves = {name: every(name) for name in CURVES}
    out.curves["bend"] = 2 ** (out.curves["bend"] / 12)
    return out


def indices(asked: D.Asked) -> list[int]:
    return [D.NAMES.index(n) for n in asked.names] + [-1] * (2 - len(asked.names))


def main(folder: str, vocab_path: str, target: str) -> None:
    from teacher import load_vocab

    alphabet(load_vocab(vocab_path))
    plan, rng = Plan(folder, styles=False), random.Random(17)
    out = Path(target)
    out.mkdir(parents=True, exist_ok=True)
    speaker = merged(plan)
    own = [[] for _ in plan.sessions]
    for i, s in enumerate(plan.session):
        own[speaker[s]].append(i)
    scores, session, names, strength, mark, turns = [], [], [], [], [], []
    for s, numbers in enumerate(own):
        for text, phones, letter in joined(plan, numbers, rng):
            asked = D.draw(rng) if rng.random() < DIRECTED else D.Asked()
            cue = rng.choice(list(SOUNDS)) if rng.random() < SOUNDING else None
            stars = rng.random() < STRESSED
            if cue and cue != "pause" and rng.random() < ALONE:
                asked, score, marked = D.Asked(), alone(rng, cue), 2
            else:
                score, marked = score_of(text, phones, letter, asked, rng, stars, cue)
            turned = (0, -1)
            if not asked.names and not marked and rng.random() < TURNING:
                turned = turn(score, rng, plan.sessions[s]["speed"])
                marked = 4 * (turned[0] > 0)
            if len(score.phones) > 405:
                continue
            scores.append(score), session.append(s), mark.append(marked)
            turns.append(turned), names.append(indices(asked)), strength.append(asked.strength)
    every = lambda name: np.concatenate([np.array(getattr(s, name), np.float32) for s in scores])  # noqa: E731
    np.savez_compressed(
        out / "plan.npz",
        text=np.frombuffer(b"\n".join(s.text for s in scores), np.uint8),
        phones=every("phones").astype(np.uint8),
        phone_count=np.array([len(s.phones) for s in scores], np.int32),
        session=np.array(session, np.int32),
    )
    np.savez_compressed(out / "align.npz", letter=every("letter").astype(np.uint16))
    np.savez_compressed(
        out / "directed.npz",
        names=np.array(names, np.int8),
        strength=np.array(strength, np.int8),
        mark=np.array(mark, np.uint8),
        turn=np.array([place for place, _ in turns], np.int16),
        then=np.array([then for _, then in turns], np.int8),
        fixed=every("fixed").round().astype(np.uint8),
        stretch=(every("stretch") * STRETCH_STEPS).round().astype(np.uint8),
        bend=(every("bend") * BEND_STEPS).round().astype(np.int8),
        voice=every("voice").astype(np.uint8),
        push=(every("push") * PUSH_STEPS).round().astype(np.int8),
    )
    for name in ("sessions.json", "styles.npz", "held_out.json"):
        if (Path(folder) / name).exists():
            shutil.copyfile(Path(folder) / name, out / name)
    directed = np.array(names)[:, 0] >= 0
    print(f"{len(scores)} lines, {directed.mean():.2f} of them directed, marks {np.bincount(mark).tolist()}")
    lone = sum(re.fullmatch(rb"\[[a-z ]+\]", s.text) is not None for s in scores)
    print(f"{lone} sounds alone, {sum(place > 0 for place, _ in turns)} directions within a line")
    print(", ".join(f"{name} {(np.array(names) == n).sum()}" for n, name in enumerate(D.NAMES)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
