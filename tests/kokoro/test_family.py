"""How the stand-in performs: a sentence at a time, the same each time, within its limits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from engine.engine import Engine
from engine.family import Piece, PieceEnd, Sound
from engine.kokoro.family import HOP, KokoroFamily, trim
from engine.take import (
    Character,
    Clip,
    Reference,
    RequestError,
    Sampling,
    Spoken,
    Status,
    TakeFailed,
    TakeRequest,
)
from prompts.text import PromptError

TWO = "No. Why?"


@pytest.fixture(scope="module")
def family():
    return KokoroFamily.load()


def piece(
    text: str, description: str | None = None, seed: int = 7, max_frames: int = 2400, due=lambda: False
) -> Piece:
    return Piece(text, 0, Character(description=description), (), Sampling(), seed, max_frames, due)


def perform(family, wanted: Piece) -> tuple[list[Status | Sound], PieceEnd]:
    units, speech = [], family.speak(wanted)
    while True:
        try:
            units.append(next(speech))
        except StopIteration as stop:
            return units, stop.value


def samples_of(units) -> list[np.ndarray]:
    return [unit.pcm for unit in units if isinstance(unit, Sound)]


def test_each_sentence_is_announced_and_is_one_sound_of_whole_frames(family):
    units, end = perform(family, piece(TWO))

    assert [type(unit) for unit in units] == [Status, Sound, Status, Sound]
    assert all(len(unit.pcm) == unit.frames * HOP for unit in units[1::2])
    assert (end.reason, end.frames, end.codes) == ("stop", units[1].frames + units[3].frames, None)


def test_sound_is_int16_not_too_quiet_and_starts_and_ends_quietly(family):
    units, _ = perform(family, piece("Ha!"))
    (pcm,) = samples_of(units)
    samples = pcm / 32767

    assert pcm.dtype == np.int16
    assert np.abs(samples).max() > 0.05
    assert max(np.abs(samples[:HOP]).max(), np.abs(samples[-HOP:]).max()) < 0.02
    assert len(samples) < 2 * family.sample_rate


def test_the_same_line_is_the_same_samples_whatever_the_seed(family):
    first, second = (np.concatenate(samples_of(perform(family, piece(TWO, seed=seed))[0])) for seed in (1, 2))

    assert not family.capabilities.seeds
    assert np.array_equal(first, second)


def test_one_thread_and_two_make_the_same_samples(family):
    alone = KokoroFamily.load(threads=1)
    one, more = (np.concatenate(samples_of(perform(each, piece("No."))[0])) for each in (alone, family))

    assert np.array_equal(one, more)


def test_a_pace_in_the_description_changes_how_long_a_line_takes(family):
    slow, fast = (
        perform(family, piece("Come over here.", f"a {pace} man"))[1].frames for pace in ("slow", "fast")
    )

    assert slow > 1.2 * fast


def test_the_frame_cap_cuts_the_sound_and_says_length(family):
    units, end = perform(family, piece(TWO, max_frames=9))

    assert (end.reason, end.frames) == ("length", 9)
    assert [len(samples) for samples in samples_of(units)] == [9 * HOP]


def test_a_cap_at_the_end_of_a_sentence_ends_there(family):
    _, whole = perform(family, piece("No."))
    units, end = perform(family, piece(TWO, max_frames=whole.frames))

    assert (end.reason, end.frames, len(samples_of(units))) == ("length", whole.frames, 1)


def test_a_deadline_ends_the_piece_behind_the_sentence_under_way(family):
    answers = iter([False, True])
    units, end = perform(family, piece(TWO, due=lambda: next(answers)))

    assert (end.reason, len(samples_of(units))) == ("deadline", 1)
    assert end.frames > 0


def test_closing_stops_before_the_next_sentence(family, monkeypatch):
    spoken = []
    sound = KokoroFamily._sound
    monkeypatch.setattr(KokoroFamily, "_sound", lambda *args: spoken.append(1) or sound(*args))
    speech = family.speak(piece("No. Why? Ha!"))
    next(speech), next(speech)
    speech.close()

    assert len(spoken) == 1
    assert list(speech) == []


def test_a_piece_of_cues_alone_ends_without_a_sound(family):
    units, end = perform(family, piece("[sighs]"))

    assert (units, end.reason, end.frames) == ([], "stop", 0)


def test_what_it_can_say_passes_the_check(family):
    for text in ("No.", "Dr. Okafor, flat 4B, owes 1,250.50 by 7:05 on 3/11.", "Wait [sighs], Zoë!", "4"):
        family.check(text, Character(name="Ann", description="a woman"), ())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[sighs]", r"can't perform a cue alone, such as \[sighs\]; add words to the line"),
        ("こんにちは", "reads English only, not 'こ'; use --model"),
        ("Say مرحبا to her.", "reads English only"),
    ],
)
def test_words_it_cannot_speak_are_refused_in_one_sentence(family, text, sentence):
    with pytest.raises(RequestError, match=sentence):
        family.check(text, Character(), ())


@pytest.mark.parametrize("text", ["", "  ", "...", "<|im_end|>"])
def test_the_rules_for_any_line_hold_here_too(family, text):
    with pytest.raises(PromptError):
        family.check(text, Character(), ())


def test_a_clip_and_a_history_are_refused_with_what_can_follow_them(family):
    clip = Reference(Clip(np.zeros(24_000, np.float32), 24_000), "Hello.")
    with pytest.raises(RequestError, match="can't follow a reference clip; describe a voice, or use --model"):
        family.check("Hello.", Character(voice=(clip,)), ())
    with pytest.raises(RequestError, match="can't continue earlier lines; leave them out, or use --model"):
        family.check("Hello.", Character(), (Spoken("Hi.", np.zeros((1, 1), np.int64)),))
    with pytest.raises(RequestError, match="can't follow a reference clip"):
        family.encode(np.zeros(24_000, np.float32))


def test_trim_keeps_whole_hops_with_a_little_air_and_bears_silence():
    sound = np.zeros(20 * HOP + 17, np.float32)
    sound[8 * HOP : 10 * HOP] = 0.5

    assert len(trim(sound)) == (1 + 2 + 3) * HOP
    assert len(trim(np.zeros(5 * HOP, np.float32))) == 5 * HOP


def test_importing_the_family_imports_no_runtime():
    code = "import sys, engine.kokoro.family; print({'onnxruntime', 'kokoro_onnx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_a_deadline_before_the_first_sentence_says_so(family):
    with pytest.raises(TakeFailed, match="deadline passed before there was a sound"):
        list(Engine(family).perform(TakeRequest("Hello there.", deadline=1e-9)))
