"""A cast file gives every name of a script a voice, or says in one sentence why it doesn't."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile as sf

from engine.cast import MAX_BYTES, engaged, read_cast
from engine.kokoro.family import KokoroFamily
from engine.take import Character, Clip, Reference, RequestError
from engine.voice_file import saved_voice, write_voice

CODES = np.random.default_rng(2).integers(0, 16, (4, 40))


@pytest.fixture
def cast(tmp_path):
    """`cast` writes CAST.json in a folder with a clip and a voice file, and reads it for the names given."""
    folder = tmp_path / "play"
    folder.mkdir()
    time = np.arange(66_150) / 44_100
    sf.write(folder / "finn.wav", 0.3 * np.sin(1200 * time), 44_100)

    def read(content: object, *names: str):
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        (folder / "CAST.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_cast(folder / "CAST.json", names or ("MARA",), lambda sentence: None)

    return read


def test_each_kind_of_voice_is_engaged(cast, tmp_path, tiny_family):
    saved = saved_voice("Tom", Character("", (Reference(CODES, "Words."),)), tiny_family)
    write_voice(tmp_path / "play" / "tom.voice.json", saved)
    found = cast(
        {
            "MARA": {"description": "low", "scene": "night"},
            "FINN": {"voice": [{"clip": "finn.wav", "words": "What it says."}]},
            "EVE": {"voice": "bf_emma"},
            "TOM": {"voice": "tom.voice.json"},
        },
        "MARA", "FINN", "EVE", "TOM",
    )  # fmt: skip
    mara, finn, eve, tom = (engaged(name, found[name], tiny_family) for name in found)
    assert (mara.name, mara.description, mara.scene, mara.voice) == ("MARA", "low", "night", None)
    assert (finn.voice[0].transcript, finn.voice[0].audio.sample_rate) == ("What it says.", 44_100)
    assert isinstance(eve.voice[0].audio, Clip)
    assert eve.voice[0].transcript
    assert np.array_equal(tom.voice[0].audio, CODES)


def test_names_are_folded_as_the_script_folds_them(cast):
    assert cast({"old  tom": {"description": "low"}}, "OLD TOM").keys() == {"OLD TOM"}
    assert cast({"ＭＡＲＡ": {"description": "low"}, "EXTRA": 7}, "Mara").keys() == {"Mara"}


def test_a_ready_voice_is_a_description_where_nothing_is_cloned(cast):
    casting = cast({"MARA": {"voice": "af_nicole"}})["MARA"]
    assert engaged("MARA", casting, KokoroFamily).description == "af_nicole"


def test_a_ready_voice_without_a_clip_can_not_be_cloned(cast, tiny_family):
    with pytest.raises(RequestError, match=r"af_nicole can't be cloned.*use one of af_heart"):
        engaged("MARA", cast({"MARA": {"voice": "af_nicole"}})["MARA"], tiny_family)


MISTAKES = [
    ({"FINN": {"description": "low"}}, "no voice for MARA; it has FINN"),
    ({}, "it has nobody"),
    ([], "no cast"),
    ("{", "not JSON; look at row 1, column 2"),
    ("[" * 100_000, "nested"),
    (b"\xff\xfe", "not UTF-8"),
    ('{"MARA": {}, "MARA": {}}', "twice"),
    ({"MARA": {}, "mara": {}}, "two spellings"),
    (" " * (MAX_BYTES + 1), "1 MB"),
    ({"MARA": "low"}, "no object"),
    ({"MARA": {}}, "no description"),
    ({"MARA": {"scene": "night"}}, "no description"),
    ({"MARA": {"description": 3}}, "no description in words"),
    ({"MARA": {"description": "low", "scene": 3}}, "scene"),
    ({"MARA": {"description": "low", "pitch": 3}}, "'pitch'"),
    ({"MARA": {"description": "low", "voice": "bf_emma"}}, "leave one of them out"),
    ({"MARA": {"scene": "night", "voice": "bf_emma"}}, "leave one of them out"),
    ({"MARA": {"voice": "nobody"}}, "no voice nobody for MARA; use one of af_heart"),
    ({"MARA": {"voice": 3}}, "no list of clips"),
    ({"MARA": {"voice": []}}, "0 clips"),
    ({"MARA": {"voice": [{"clip": "finn.wav", "words": "a"}] * 5}}, "5 clips"),
    ({"MARA": {"voice": ["finn.wav"]}}, "clip of MARA"),
    ({"MARA": {"voice": [{"clip": "finn.wav"}]}}, "clip of MARA"),
    ({"MARA": {"voice": [{"clip": "finn.wav", "words": 3}]}}, "clip of MARA"),
    ({"MARA": {"voice": [{"clip": "gone.wav", "words": "a"}]}}, "gone.wav does not exist"),
    ({"MARA": {"voice": [{"clip": "https://example.org/a.wav", "words": "a"}]}}, "a\\.wav"),
    ({"MARA": {"voice": "gone.voice.json"}}, "no file gone.voice.json"),
    ({"MARA": {"voice": "g\0ne.voice.json"}}, r"no file g\?ne.voice.json"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "named"), MISTAKES)
def test_a_mistake_gets_one_sentence(cast, content, named):
    with pytest.raises(RequestError, match=named) as refused:
        cast(content)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RequestError, match=r"no file gone\.json"):
        read_cast(tmp_path / "gone.json", ["MARA"], print)
