"""A saved voice comes back as it was, for the model that made it, and nothing else comes back at all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.engine import Engine, Receipt
from engine.scene import voice_key
from engine.take import Character, Clip, Reference, RequestError, TakeRequest
from engine.voice_file import MAX_BYTES, SavedVoice, character_of, read_voice, saved_voice, write_voice

CODES = np.random.default_rng(2).integers(0, 16, (4, 40))
MARA = Character("Mara", (Reference(CODES, "What the clip says."), Reference(CODES[:, :9], "More.")))


@pytest.fixture
def voice(tiny_family) -> SavedVoice:
    return saved_voice("Mara", MARA, tiny_family, note="hoarse, from the attic")


@pytest.fixture
def path(tmp_path, voice):
    write_voice(tmp_path / "mara.voice.json", voice)
    return tmp_path / "mara.voice.json"


def test_a_voice_comes_back_and_speaks_as_before(path, voice, tiny_family):
    again = read_voice(path)
    assert (again.name, again.note, again.model) == ("Mara", "hoarse, from the attic", tiny_family.name)
    character = character_of(again, tiny_family, "Mara")
    assert voice_key(character) == voice_key(MARA)
    takes = [
        list(Engine(tiny_family).perform(TakeRequest("Hello.", who, seed=1, max_frames=6)))[-1]
        for who in (MARA, character)
    ]
    assert np.array_equal(takes[0].codes, takes[1].codes)


def test_two_writes_of_one_voice_are_equal_bytes(path, voice, tmp_path):
    write_voice(tmp_path / "b.voice.json", voice)
    assert path.read_bytes() == (tmp_path / "b.voice.json").read_bytes()


@pytest.mark.parametrize("other", [{"model": "drama-9"}, {"revision": "abc"}])
def test_the_voice_of_another_model_is_refused_in_words(path, tiny_family, other):
    data = json.loads(path.read_text()) | other
    path.write_text(json.dumps(data))
    with pytest.raises(RequestError, match=rf"{next(iter(other.values()))}.* and tiny .*clone it again"):
        character_of(read_voice(path), tiny_family, "Mara")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d.pop("tableread_voice"), "no voice file"),
        (lambda d: d.update(tableread_voice=2), "schema 2"),
        (lambda d: d.update(path="/etc"), "'path' is unknown"),
        (lambda d: d.pop("note"), "'note' is missing"),
        (lambda d: d.update(name=3), "text"),
        (lambda d: d.update(note="x" * 2001), "2,000 characters"),
        (lambda d: d.update(references=[]), "0 clips"),
        (lambda d: d.update(references=d["references"] * 3), "6 clips"),
        (lambda d: d["references"][0].update(codes="abc"), "codes"),
        (lambda d: d["references"][0]["codes"].update(shape=[2, 3]), "shape"),
    ],
)
def test_a_file_that_is_not_one_of_ours_gets_one_sentence(path, change, named):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RequestError, match=named):
        read_voice(path)


@pytest.mark.parametrize(
    ("codes", "named"),
    [
        (CODES[:3], r"shape \[3, 40\]"),
        (CODES + 5000, "codebook 0"),
        (np.zeros((4, 2000), np.int64), "longer than 60 s"),
    ],
)
def test_codes_that_no_clip_of_this_model_has_are_refused(tmp_path, tiny_family, codes, named):
    odd = saved_voice("Mara", Character("", (Reference(codes, "Words."),)), tiny_family)
    write_voice(tmp_path / "odd.voice.json", odd)
    with pytest.raises(RequestError, match=named):
        character_of(read_voice(tmp_path / "odd.voice.json"), tiny_family, "Mara")


def test_a_huge_file_is_not_read(tmp_path):
    (tmp_path / "a.voice.json").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(RequestError, match="5 MB"):
        read_voice(tmp_path / "a.voice.json")
    with pytest.raises(RequestError, match=r"no file b\.voice\.json"):
        read_voice(tmp_path / "b.voice.json")


def test_only_a_voice_made_of_clips_can_be_saved_and_only_under_its_suffix(tiny_family, tmp_path, voice):
    clip = Clip(np.zeros(9, np.float32), 8000)
    for who in (Character(description="low"), Character(), Character("", (Reference(clip, "Words."),))):
        with pytest.raises(RequestError, match="made from clips"):
            saved_voice("A", who, tiny_family)
    with pytest.raises(RequestError, match=r"\.voice\.json"):
        write_voice(tmp_path / "mara.json", voice)
    with pytest.raises(RequestError, match="cannot be written"):
        write_voice(tmp_path / "nowhere" / "mara.voice.json", voice)


def test_a_forgotten_voice_leaves_a_receipt_and_other_voices_keep_their_codes(tiny_family):
    rng = np.random.default_rng(3)
    clips = [Clip(rng.normal(0, 0.1, 60_000).astype(np.float32), 44_100) for _ in range(2)]
    engine = Engine(tiny_family)
    tiny_family.forget()
    mine, other = map(engine.encode, clips)
    list(engine.perform(TakeRequest("Hi.", MARA, seed=1, max_frames=2)))
    assert engine.forget_voice([mine.key, mine.key, "never heard"]) == Receipt(clips=1, states=1)
    assert engine.cache.get(mine.key) is None
    assert engine.cache.get(other.key) is not None
    assert tiny_family.prefixes.num_bytes == 0
    assert engine.forget_voice([mine.key]) == Receipt(clips=0, states=0)
