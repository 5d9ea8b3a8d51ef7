"""What is measured are the engine's takes, and what is published are its codes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from engine.models import UNDERSTUDY
from engine.take import Sampling, TakeFailed
from tests.published import EXACT_FRAMES


@pytest.fixture
def stage(recipe, family, monkeypatch):
    monkeypatch.setattr(recipe.evaluate, "load_family", lambda folder, device: family)  # loaded once
    return recipe.evaluate.Stage(str(UNDERSTUDY))


def test_as_a_script_it_finds_the_projects_modules_and_not_the_recipes(recipe):
    script = Path(recipe.evaluate.__file__)
    command = [sys.executable, script.name, "--help"]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--publish" in done.stdout


def test_no_test_finds_the_recipes_modules_by_an_import(recipe):
    for name in ("codec", "layouts", "model", "perform"):
        assert name not in sys.modules
        assert importlib.util.find_spec(name) is None


def test_publishing_the_checkpoint_again_writes_what_is_published(recipe, stage, expected, tmp_path):
    lines = (UNDERSTUDY / "lines.txt").read_text().splitlines()
    said = [expected[3]["voices"][0], expected[3]["history"][0]]
    clips = [("voice", each["text"], np.array(each["codes"])) for each in said]
    stage.codes_of = lambda codes: codes  # the clips themselves are not published
    recipe.evaluate.publish(stage, lines, clips, tmp_path)
    assert (tmp_path / "lines.txt").read_text() == (UNDERSTUDY / "lines.txt").read_text()
    for got, wanted in zip(json.loads((tmp_path / "expected.json").read_text()), expected, strict=True):
        codes, published = np.array(got.pop("codes")), np.array(wanted["codes"])
        np.testing.assert_array_equal(codes[:, :EXACT_FRAMES], published[:, :EXACT_FRAMES])
        assert got == {k: v for k, v in wanted.items() if k != "codes"}
    assert stage.seed == 6


def test_takes_have_the_next_seed_and_are_counted(stage):
    text = "The plain facts."
    first, sound, ended = stage.say(text)
    again, *_ = stage.say(text, seed=1)
    assert np.array_equal(first, again)
    assert not np.array_equal(stage.say(text)[0][:, :8], first[:, :8])
    assert stage.seed == 3
    assert stage.frames > 3 * 8
    assert stage.seconds > 0
    assert ended
    assert sound.dtype == np.float32
    assert len(sound) == first.shape[1] * 1024
    assert 0.05 < np.abs(sound).max() <= 1


def test_the_sound_of_a_take_is_that_of_its_codes(stage):
    codes, sound, _ = stage.say("The plain facts.", limit=12)
    assert codes.shape == (6, 12)
    assert np.abs(sound - stage.wave(codes)).max() < 1e-4  # 16 bits a sample


def test_a_take_that_makes_no_sound_is_a_frame_of_silence(stage, monkeypatch):
    asked = []

    def fails(request):
        asked.append(request)
        raise TakeFailed("No sound.")

    monkeypatch.setattr(stage.engine, "perform", fails)
    codes, sound, ended = stage.say("The plain facts.")
    (request,) = asked
    assert (request.sampling, request.seed, request.max_frames) == (Sampling(0.8, 0.9, 30), 1, 500)
    assert codes.shape == (6, 0)
    assert len(sound) == 1024
    assert not sound.any()
    assert ended


@pytest.fixture
def codec_alone(tmp_path) -> Path:
    """A folder that holds the embedded codec and no language model."""
    (tmp_path / "codec").mkdir()
    for path in UNDERSTUDY.glob("codec*"):
        (tmp_path / "codec" / path.name).symlink_to(path)
    return tmp_path / "codec"


def test_a_codec_without_a_language_model_is_measured(recipe, codec_alone, tmp_path, monkeypatch):
    clips = tmp_path / "references" / "clips"
    clips.mkdir(parents=True)
    noise = 0.05 * np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    sf.write(clips / "a.wav", noise, 24_000)
    (clips / "a.json").write_text(json.dumps(dict(voice="a", text="Two words.")))
    monkeypatch.setattr(recipe.evaluate, "Listener", lambda folder: lambda audio: "two birds")
    monkeypatch.setattr(recipe.evaluate, "mos", lambda takes: float(len(takes)))
    monkeypatch.setattr(recipe.evaluate, "measure_pitch", lambda clips, again: [clips[0].size, again[0].size])
    held_out = Path(recipe.evaluate.__file__).with_name("held_out.json")
    out, references = tmp_path / "out", clips.parent
    options = dict(model=codec_alone, whisper="", references=references, out=out) | {"held-out": held_out}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *words])
    recipe.evaluate.main()
    report = json.loads((out / "report.json").read_text())
    assert report.keys() == {"temperature", "top_p", "codec"}
    assert 0 < report["codec"].pop("decode_rtf") < 10
    wanted = dict(clips=1, words=2, wer=0.5, teacher_wer=0.5, dnsmos=1.0, teacher_dnsmos=1.0)
    wanted["pitch"] = [24_000, 24 * 1024]
    assert report["codec"] == wanted
    assert len(sf.read(out / "codec0.wav")[0]) == 24 * 1024


def test_the_melody_is_compared_where_a_voice_is_heard_before_and_after(recipe, monkeypatch):
    monkeypatch.setattr(recipe.evaluate, "melody_of", lambda melody: melody)
    before = np.array([100.0, 110.0, np.nan, 120.0, 130.0])
    after = np.array([100 * 2 ** (0.5 / 12), np.nan, 90.0, 120 / 2 ** (2 / 12), 130.0, 140.0])
    got = recipe.evaluate.measure_pitch([before], [after])
    kept = [0, 3, 4]
    assert got["semitones_off"] == pytest.approx(0.5)
    assert got["within_a_semitone"] == pytest.approx(2 / 3)
    assert got["voice_still_heard"] == pytest.approx(3 / 4)
    assert got["correlation_in_a_line"] == pytest.approx(np.corrcoef(before[kept], after[kept])[0, 1])


def test_a_take_is_near_its_own_voice_or_not_whatever_the_order_of_voices(recipe, monkeypatch):
    monkeypatch.setattr(recipe.evaluate, "embedder", lambda: lambda place: place)
    monkeypatch.setattr(recipe.evaluate, "pitch_of", lambda place: 100 + 100 * place[0])
    ann, bob, cat = np.eye(3)
    clips = [(name, "", place) for name, place in zip("abc", (ann, bob, cat), strict=True) for _ in range(2)]
    takes = [np.array([0.8, 0.6, 0.0]), np.array([0.8, 0.6, 0.0]), np.array([0.1, 0.2, 0.9])]
    got = recipe.evaluate.measure_voices(takes, ["a", "b", "c"], clips)
    assert got["own"] == pytest.approx((0.8 + 0.6 + 0.9) / 3)
    assert got["others"] == pytest.approx((0.3 + 0.4 + 0.15) / 3)
    assert got["above_others"] == 1.0
    assert got["nearest"] == pytest.approx(2 / 3)
    assert got["pitch_ratio"] == {"b": pytest.approx(1.8), "a": pytest.approx(0.9)}


@pytest.mark.parametrize(
    ("said", "heard", "lost"),
    [
        ("one two three", "one two three", 0),
        ("one two three", "one three", 1),
        ("one two three", "one too three", 0),
        ("one two three", "", 3),
        ("one two", "well one two", 0),
        ("I insist on it", "Insist on that thing", 1),
    ],
)
def test_a_word_is_lost_that_is_neither_heard_nor_misheard(recipe, said, heard, lost):
    assert recipe.evaluate.words_lost(said, heard) == lost


@pytest.mark.parametrize(
    ("said", "heard", "missed"),
    [
        ("I insist.", "Insist.", True),
        ("I insist.", "I insist.", False),
        ("I insist.", "And I insist.", False),
    ],
)
def test_a_first_word_is_missed_that_is_not_heard_at_the_beginning(recipe, said, heard, missed):
    assert recipe.evaluate.first_missed(said, heard) == missed
