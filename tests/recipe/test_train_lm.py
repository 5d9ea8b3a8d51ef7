"""What the language model is shown: every row of speech with its phoneme and the letter that it speaks.

Lines are made so that mistakes show: no two lines of a session share a letter, and the phoneme that speaks a
letter has that letter's number.
"""

from __future__ import annotations

import copy
import json
import random
import string
from types import SimpleNamespace

import numpy as np
import pytest

BOOKS, HOP, SLOT = 6, 1024, 600
SESSIONS = [
    dict(gender="m", accent="us", speed=1.0, timbre={"0": 1.0}),
    dict(gender="f", accent="gb", speed=1.3, timbre={"0": 0.4, "1": 0.6}),
    dict(gender="f", accent="gb", speed=0.8, timbre={"0": 1.0}),
]
LINES_A_SESSION, LETTERS = 6, 8
SPOKEN = (0, 1, 3, 4, 6, 7)  # of a line's letters; the others are mute


@pytest.fixture(scope="module")
def plan(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    alphabet = [string.ascii_letters[i * LETTERS :][:LETTERS] for i in range(LINES_A_SESSION)]
    texts = alphabet * len(SESSIONS)
    phones = [ord(text[letter]) for text in texts for letter in SPOKEN]
    np.savez(
        folder / "plan.npz",
        text=np.frombuffer("\n".join(texts).encode(), np.uint8),
        phone_count=np.full(len(texts), len(SPOKEN)),
        session=np.repeat(np.arange(len(SESSIONS)), LINES_A_SESSION),
        phones=np.array(phones, np.uint8),
    )
    np.savez(folder / "align.npz", letter=np.tile(SPOKEN, len(texts)).astype(np.uint16))
    voices = {"mus": ["adam"], "fgb": ["emma", "nicole"]}
    (folder / "sessions.json").write_text(json.dumps(dict(sessions=SESSIONS, voices=voices)))
    return recipe.perform.Plan(folder, styles=False)


@pytest.fixture(scope="module")
def encoded() -> list[dict]:
    """Two files of lines in a random order; spans count the teacher's slots, silent ends included."""
    rng = np.random.default_rng(0)
    files = []
    for numbers in np.split(rng.permutation(len(SESSIONS) * LINES_A_SESSION), [7]):
        span = rng.integers(1, 12, (len(numbers), len(SPOKEN) + 2)).astype(np.uint8)
        span[0, 2] = 255  # what a slot count can hold
        trim = rng.integers(0, SLOT, len(numbers)).astype(np.int32)
        frames = -(-(span.sum(1, dtype=np.int64) * SLOT - trim) // HOP)
        codes = rng.integers(0, 1024, (int(frames.sum()), BOOKS)).astype(np.int16)
        heard = rng.uniform(90, 250, len(numbers)).astype(np.float32)
        files.append(dict(line=numbers, frames=frames, span=span, trim=trim, heard=heard, codes=codes))
    return files


@pytest.fixture(scope="module")
def lines(recipe, plan, encoded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("codes")
    for number, file in enumerate(encoded):
        rest = {k: v for k, v in file.items() if k != "codes"} | dict(span=file["span"].ravel())
        recipe.encode.write(folder, f"{number:03d}", file["codes"], rest)
    return recipe.train_lm.Lines(plan, folder, BOOKS)


@pytest.fixture(scope="module")
def builder(recipe, lines):
    tokenizer = recipe.layouts.build_tokenizer()
    return recipe.train_lm.Builder(lines, tokenizer, recipe.layouts.build_config(tokenizer, books=BOOKS))


def examples(recipe, lines, progress: float = 1.0, count: int = 40):
    """(session, segments, lines heard) of many examples."""
    for seed in range(count):
        session = seed % len(SESSIONS)
        yield session, *recipe.train_lm.example(random.Random(seed), lines, session, progress)


def test_a_frame_has_the_phoneme_and_the_letter_of_its_middle(lines, plan, encoded):
    i = 0
    for file in encoded:
        facts = (file[name] for name in ("line", "span", "trim", "frames"))
        for number, span, trim, frames in zip(*facts, strict=True):
            spoken = np.repeat(np.arange(len(span)), span)  # token of every slot
            for frame in range(frames):
                slot = (frame * HOP + HOP // 2 + trim) // SLOT
                token = spoken[min(slot, len(spoken) - 1)]
                place = plan.start[number] + min(max(token - 1, 0), len(SPOKEN) - 1)
                silent = token in (0, len(span) - 1)
                at = lines.start[i] + frame
                assert lines.phone[at] == (0 if silent else plan.phones[place])
                assert lines.letter[at] == plan.letter[place]
            i += 1


def test_a_line_has_the_text_and_the_codes_that_were_written(lines, plan, encoded):
    numbers = np.concatenate([file["line"] for file in encoded])
    codes = [part for file in encoded for part in np.split(file["codes"], np.cumsum(file["frames"])[:-1])]
    for i, (number, wanted) in enumerate(zip(numbers, codes, strict=True)):
        text, got = lines.get(i)
        assert text == plan.texts[number]
        np.testing.assert_array_equal(got, wanted)


def test_deep_and_high_are_the_outer_quarters_of_a_gender_and_accent(lines):
    heard = np.zeros(len(lines.line))
    kinds = np.array([SESSIONS[s]["gender"] for s in lines.plan.session[lines.line]])
    for kind, base in (("m", 100.0), ("f", 200.0)):
        mine = np.flatnonzero(kinds == kind)
        heard[mine] = base + np.arange(len(mine))
    heard[np.flatnonzero(kinds == "m")[0]] = 0.0  # no voice heard: nobody is promised one
    got = np.array(lines.pitches(heard))
    assert got[kinds == "f"].tolist() == ["low"] * 3 + ["mid"] * 6 + ["high"] * 3
    assert got[kinds == "m"].tolist() == ["mid", "low", "mid", "mid", "mid", "high"]


def test_a_row_of_speech_points_at_the_letter_that_it_speaks(recipe, lines, builder):
    kinds = set()
    for _, segments, heard in examples(recipe, lines, count=60):
        rows, spots, phones = builder.item(segments, heard)
        speech = (rows[:, 0] >= builder.first) & (rows[:, 0] <= builder.last)
        np.testing.assert_array_equal(speech, spots >= 0)
        np.testing.assert_array_equal(speech, phones >= 0)
        owner = np.repeat(heard, [lines.frames[i] for i in heard])
        letters = "".join(builder.encode.tokenizer.decode([rows[spot, 0]]) for spot in spots[speech])
        for letter, phone, line in zip(letters, phones[speech], owner, strict=True):
            assert letter in lines.text(line)
            assert phone in (0, ord(letter))
        assert (phones[speech] > 0).any()
        kinds.add((len(heard), any("Characters" in s for s in segments if isinstance(s, str))))
    assert len(kinds) >= 5  # alone, with voices, with history, described


def test_a_line_whose_words_end_an_earlier_line_points_at_its_own(recipe, builder):
    texts, letter = ["Say no.", "no.", "no."], np.zeros(6, np.int16)
    three = SimpleNamespace(
        text=texts.__getitem__, part=lambda i: slice(2 * i, 2 * i + 2), letter=letter, phone=letter
    )
    segments = [part for text in texts for part in (text, np.zeros((2, BOOKS), np.int16))]
    spots, _ = recipe.train_lm.labels(segments, [0, 1, 2], three, builder.encode, 19)
    assert spots.tolist() == [-1] * 7 + [0, 0] + [-1] * 3 + [9, 9] + [-1] * 3 + [14, 14]


def test_an_example_ends_with_the_take_and_holds_the_codes_of_what_is_heard(recipe, lines):
    for session, segments, heard in examples(recipe, lines):
        codes = [segment for segment in segments if not isinstance(segment, str)]
        assert segments[-1] == recipe.layouts.END
        assert segments[-2] is codes[-1]
        assert segments[-5].endswith(lines.text(heard[-1]))
        assert len(set(heard)) == len(heard) == len(codes)
        for i, said in zip(heard, codes, strict=True):
            assert lines.plan.session[lines.line[i]] == session
            np.testing.assert_array_equal(said, lines.get(i)[1])


def test_training_begins_with_short_lines_alone(recipe, lines):
    shortest = []
    for session, segments, heard in examples(recipe, lines, progress=0.05):
        assert segments[:4] == ["<|im_start|>", "system\n", recipe.layouts.TTS, recipe.layouts.END]
        assert len(heard) == 1
        own = sorted(lines.frames[i] for i in lines.by_session[session])
        shortest.append(lines.frames[heard[0]] <= own[1])  # five of six lines are drawn
    assert all(shortest)
    assert all(len(heard) == 1 for _, _, heard in examples(recipe, lines, progress=0.3))


@pytest.fixture(scope="module")
def pairs(recipe, lines) -> list:
    drawn = (recipe.train_lm.twins(random.Random(seed), lines, seed % len(SESSIONS)) for seed in range(60))
    return [pair for pair in drawn if pair]


def descriptions(pair) -> tuple[str, str]:
    """The true and the false one, in small letters: all in which the two texts may differ."""
    (true, _), (false, _) = pair
    texts = [(a, b) for a, b in zip(true, false, strict=True) if isinstance(a, str) and a != b]
    ((a, b),) = texts
    return a.split(": ", 1)[1].lower(), b.split(": ", 1)[1].lower()


def is_deep(description: str) -> bool:
    return any(words in description for words in ("deep", "low voice"))


def is_a_man(description: str) -> bool:
    return any(word in f" {description}" for word in (" man", " gentleman", " male", " fellow"))


def in_general(description: str) -> str:
    """The same with a man for a woman and low for high, each word by the one in its place."""
    for men, women in (("man", "woman"), ("gentleman", "lady"), ("male", "female"), ("fellow", "girl")):
        description = description.replace(women, men)
    for low, high in (("low", "bright, high"), ("deep", "high"), ("deep, dark", "light")):
        description = description.replace(f"{high} voice", f"{low} voice")
    return description


def test_twins_are_one_take_under_two_descriptions(pairs, lines):
    for pair in pairs:
        (true, heard), (false, again) = pair
        assert heard == again
        assert len({in_general(description) for description in descriptions(pair)}) == 1
        for codes in (true[-2], false[-2]):
            np.testing.assert_array_equal(codes, lines.get(heard[0])[1])


def test_one_description_is_true_and_the_other_false_in_pitch_or_now_and_then_in_gender(pairs, lines):
    genders = 0
    for pair in pairs:
        line, (true, false) = pair[0][1][0], descriptions(pair)
        session = SESSIONS[lines.plan.session[lines.line[line]]]
        assert is_deep(true) == (lines.pitch[line] == "low")
        assert is_a_man(true) == (session["gender"] == "m")
        assert (is_deep(true) != is_deep(false)) != (is_a_man(true) != is_a_man(false))
        genders += is_a_man(true) != is_a_man(false)
    assert 0 < genders < len(pairs) / 2


def test_a_session_between_deep_and_high_has_no_twins(recipe, lines, monkeypatch):
    monkeypatch.setattr(lines, "pitch", ["mid"] * len(lines.pitch))
    assert recipe.train_lm.twins(random.Random(0), lines, 0) is None


def test_a_batch_asks_for_every_row_that_is_heard_and_for_no_other(recipe, lines, builder):
    items = [builder.item(*rest) for _, *rest in examples(recipe, lines, count=4)]
    width = max(len(item[0]) for item in items) + 5
    rows, where, count, blurred, spots, phones = builder.batch(items, width, np.random.default_rng(0))
    asked = set(where[:count].tolist())
    for i, (own, own_spots, own_phones) in enumerate(items):
        np.testing.assert_array_equal(rows[i, : len(own)], own)
        assert (rows[i, len(own) :, 0] == builder.pad).all()
        for whole, mine in ((spots[i], own_spots), (phones[i], own_phones)):
            np.testing.assert_array_equal(whole, np.pad(mine, (0, width - len(own)), constant_values=-1))
        for at in range(width - 1):
            speaks = builder.first <= rows[i, at, 0] <= builder.last
            follows = builder.first <= rows[i, at + 1, 0] <= builder.last
            heard = follows or (speaks and rows[i, at + 1, 0] == builder.eos)
            assert (i * (width - 1) + at in asked) == heard
    np.testing.assert_array_equal(blurred, rows)


def test_of_a_batch_full_of_speech_some_rows_are_asked_for_and_of_twins_all(recipe, builder):
    rows = np.full((40, 1 + BOOKS), builder.first, np.int16)
    none = np.full(40, -1, np.int16)
    for share, wanted in ((0.75, 60), (1.0, 78)):
        _, where, count, *_ = builder.batch(
            [(rows, none, none)] * 2, 40, np.random.default_rng(0), share=share
        )
        assert count == wanted
        assert len(set(where[:count].tolist())) == wanted


def test_the_last_take_alone_can_be_asked_for(recipe, lines, builder):
    chosen = next(rest for _, *rest in examples(recipe, lines) if len(rest[1]) > 2)
    item = builder.item(*chosen)
    width = len(item[0])
    _, where, count, *_ = builder.batch([item], width, np.random.default_rng(0), last_only=True)
    take = lines.frames[chosen[1][-1]]
    ends = len(builder.encode(recipe.layouts.END))
    assert where[:count].tolist() == list(range(width - ends - take - 1, width - ends))


def test_blurred_rows_are_other_rows_of_speech(recipe, lines, builder):
    items = [builder.item(*rest) for _, *rest in examples(recipe, lines, count=12)]
    width = max(len(item[0]) for item in items)
    rows, _, _, blurred, _, _ = builder.batch(items, width, np.random.default_rng(0), blur=0.3)
    changed = (rows != blurred).any(-1)
    speech = (rows[..., 0] >= builder.first) & (rows[..., 0] <= builder.last)
    assert not (changed & ~speech).any()
    assert 0.1 < changed.sum() / speech.sum() < 0.5
    known = {tuple(row) for row in rows[speech].tolist()}
    assert all(tuple(row) in known for row in blurred[changed].tolist())


@pytest.fixture(scope="module")
def directed_lines(recipe, lines):
    """The same lines, every second one directed and every third starred."""
    plan = copy.copy(lines.plan)
    count = len(plan.texts)
    plan.names, plan.strength = np.full((count, 2), -1), np.zeros(count, int)
    plan.names[::2, 0], plan.mark = np.arange(count)[::2] % 3, (np.arange(count) % 3 == 0).astype(int)
    plan.texts = [
        f"Oh {t[:4]} *{t[4:]}* then" if m else t for t, m in zip(plan.texts, plan.mark, strict=True)
    ]
    out = copy.copy(lines)
    out.plan = plan
    out.plain = (plan.names[out.line, 0] < 0) & (plan.mark[out.line] == 0)
    return out


def test_a_line_is_asked_for_in_words_of_its_direction(recipe, directed_lines):
    rng = random.Random(0)
    for i in range(len(directed_lines.line)):
        names = directed_lines.asked(i).names
        text, _ = directed_lines.turn(rng, i)
        assert text.endswith(directed_lines.text(i))
        assert text.startswith("[") >= bool(names)


def test_voices_are_plain_and_history_as_it_was_asked_for(recipe, directed_lines):
    seen = 0
    for seed in range(120):
        segments, heard = recipe.train_lm.example(random.Random(seed), directed_lines, seed % len(SESSIONS))
        told = [s for s in segments if isinstance(s, str)]
        voices = sum("\n\n[Reference " in s for s in told)
        for i in heard[:voices]:
            assert directed_lines.plain[i]
        seen += voices > 0
    assert seen > 10


def test_twins_of_directions_are_one_take_under_two_requests(recipe, directed_lines):
    stars = 0
    for seed in range(120):
        session = seed % len(SESSIONS)
        (true, heard), (false, again) = recipe.train_lm.direction_twins(
            random.Random(seed), directed_lines, session
        )
        assert heard == again
        assert true[-2] is false[-2]
        differ = [(a, b) for a, b in zip(true, false, strict=True) if isinstance(a, str) and a != b]
        assert len(differ) <= 1
        for a, b in differ:
            moved = a.replace("*", "") == b.replace("*", "")
            stars += moved
            assert moved or a.split("] ")[-1].endswith(directed_lines.text(heard[-1]))
    assert stars > 3


def test_a_moved_star_is_around_another_word(recipe):
    text = "We saw a *light* upon the hill"
    for seed in range(10):
        moved = recipe.train_lm.moved_star(random.Random(seed), text)
        assert moved != text
        assert moved.replace("*", "") == text.replace("*", "")
        assert moved.count("*") == 2
    assert recipe.train_lm.moved_star(random.Random(0), "No stars here") is None


def test_altered_marks_leave_the_words(recipe):
    seen = set()
    for seed in range(20):
        rng = random.Random(seed)
        seen.add(recipe.train_lm.altered(rng, "We *saw* a light").count("*"))
        other = recipe.train_lm.altered(rng, "[sighs] We saw a light")
        cue, words = other.split("] ")
        assert words == "We saw a light"
        assert cue[1:] not in recipe.direct.CUES["sighs"]
    assert seen == {0, 2}
    then, text = recipe.directions.Asked(("sad",)), "We saw it. [sadly] It was a light"
    for seed in range(20):
        other = recipe.train_lm.altered(random.Random(seed), text, then)
        assert other != text
        assert other.startswith("We saw it. ")
        assert other.endswith("It was a light")
    assert recipe.train_lm.altered(random.Random(0), "We saw a light") is None


def test_a_session_of_many_lines_is_told_as_one_long_history_within_its_room(recipe, lines, builder):
    own = list(range(len(lines.line)))
    sizes = set()
    for seed in range(20):
        segments, heard = recipe.train_lm.long_history(random.Random(seed), lines, own, 900)
        rows, spots, _ = builder.item(segments, heard)
        assert len(rows) <= 900
        assert len(set(heard)) == len(heard)
        speech = (rows[:, 0] >= builder.first) & (rows[:, 0] <= builder.last)
        np.testing.assert_array_equal(speech, spots >= 0)
        sizes.add(len(heard))
    assert max(sizes) > 4


def test_who_shouts_has_no_high_voice(recipe, directed_lines):
    heard = np.where(directed_lines.plain, 150.0, 400.0)
    assert set(directed_lines.pitches(heard)) == {"mid"}
