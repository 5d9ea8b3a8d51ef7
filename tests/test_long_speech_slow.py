"""Do words and voice last? Long speeches and long scenes by the understudy, spoken and listened to."""

from __future__ import annotations

import lzma

import numpy as np
import pytest

from engine.engine import Engine
from engine.models import load_family
from engine.scene import Reading
from engine.take import Audio, Character, Done, Reference, Spoken, TakeRequest
from engine.voices import all_voices, ready_character
from prompts.script import parse
from tests.conftest import DATA
from tests.recogniser import hear, why_deaf, word_errors, words_lost

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_deaf()), reason=str(why_deaf()))]

SHOP = (
    "My brother kept a shop at the end of the road. He sold bread and paper and candles. On winter mornings "
    "he lit the stove before anybody else was awake. People came in to get warm and stayed to talk about the "
    "weather. He never asked them to buy anything."
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_family("understudy"))


@pytest.fixture(scope="module")
def speeches() -> list[str]:
    """What is said in a comedy, speech by speech, none of it a word or a tirade."""
    script = parse(lzma.decompress((DATA / "comedy" / "pg844.txt.xz").read_bytes()).decode())
    said = (Reading().words(line.text) for line in script.lines)
    return [text for text in said if 5 <= len(text.split()) <= 30]


def performed(engine: Engine, request: TakeRequest) -> tuple[np.ndarray, Done]:
    events = list(engine.perform(request))
    pcm = np.concatenate([event.pcm for event in events if isinstance(event, Audio)])
    return pcm.astype(np.float32) / 32768, events[-1]


def cloned(engine: Engine) -> Character:
    who = ready_character(all_voices()["bf_emma"], engine.family.capabilities)
    (reference,) = who.voice
    return Character(voice=(Reference(engine.encode(reference.audio).codes, reference.transcript),))


@pytest.mark.parametrize("voice", ["its own", "a clip's"])
def test_a_speech_of_fifty_words_loses_none(engine, record_property, voice):
    """C-02."""
    who, lost, words = Character() if voice == "its own" else cloned(engine), 0, 0
    for seed in (1, 2, 3, 4):
        sound, _ = performed(engine, TakeRequest(SHOP, who, seed=seed))
        missing, count = words_lost(SHOP, hear(sound, engine.family.sample_rate, "en"))
        lost, words = lost + missing, words + count
    record_property("words_lost", f"{lost} of {words}")
    assert lost <= 0.02 * words


def test_the_seventieth_line_of_a_scene_is_as_intelligible_as_the_first(engine, speeches, record_property):
    """C-23: one character who remembers all lines before."""
    who, history, errors = cloned(engine), (), []
    for number, text in enumerate(speeches[:80]):
        sound, done = performed(engine, TakeRequest(text, who, history, seed=number))
        history = (*history, Spoken(text, done.codes))
        errors.append(word_errors(text, hear(sound, engine.family.sample_rate, "en")))
    early, late = (np.sum(part, 0) for part in (errors[:30], errors[50:]))
    record_property("words_wrong", f"{early[0]} of {early[1]}, then {late[0]} of {late[1]}")
    assert late[0] / late[1] <= early[0] / early[1] + 0.04  # of some 300 words, half a dozen by chance


def test_every_quarter_of_a_speech_of_900_words_is_intelligible(engine, speeches, record_property):
    """C-24: its own pieces are history to each other."""
    parts, words = [], 0
    for text in speeches:
        if sum(map(len, parts)) + len(parts) + len(text) > 4_800:
            break
        parts.append(text)
    speech = " ".join(parts)
    sound, _ = performed(engine, TakeRequest(speech, cloned(engine), seed=5))
    heard = hear(sound, engine.family.sample_rate, "en").split()
    words = speech.split()
    shares = []
    for quarter in range(4):
        want, got = (
            each[quarter * len(each) // 4 : (quarter + 1) * len(each) // 4] for each in (words, heard)
        )
        shares.append(np.divide(*word_errors(" ".join(want), " ".join(got))))
    record_property("words_wrong_by_quarter", " ".join(f"{share:.3f}" for share in shares))
    assert max(shares) <= 0.18  # cut at a quarter of the words heard, some at its ends count as wrong
