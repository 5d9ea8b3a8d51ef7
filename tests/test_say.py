"""The console: what `say` writes, says and refuses, with the tiny checkpoint, whose words are noise."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from engine import models
from engine.__main__ import main
from engine.audio_files import read_card, write_take
from engine.voices import all_voices
from tests.processes import start


@pytest.fixture
def say(drama3_tiny, tmp_path, monkeypatch):
    """`say` in an empty folder with the tiny checkpoint, eight frames a take; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TABLEREAD_MODEL", raising=False)

    def run(*words: str, again: bool = False) -> int:
        limits = [] if again else ["--max-frames", "8"]
        return main(["say", *words, "--model", str(drama3_tiny / "checkpoint"), *limits])

    return run


@pytest.fixture
def clip(tmp_path) -> Path:
    """1.5 s of a wavering tone, enough for a reference."""
    time = np.arange(66_150) / 44_100
    path = tmp_path / "clip.wav"
    sf.write(path, 0.3 * np.sin(2 * np.pi * (180 * time + 4 * np.sin(9 * time))), 44_100)
    return path


def pcm(path) -> np.ndarray:
    return sf.read(path, dtype="int16")[0]


def test_the_default_file_is_named_after_the_seed_and_holds_the_take(say, tmp_path, capsys):
    assert say("Hello there.", "--seed", "7", "--json") == 0
    out, _ = capsys.readouterr()
    facts = json.loads(out)
    assert set(facts) == {
        "seed", "finish_reason", "frames", "sample_rate", "audio_s", "timings", "flags", "model", "file",
    }  # fmt: skip
    assert facts["seed"] == 7
    assert facts["file"] == "take-7.wav"
    assert len(pcm(tmp_path / "take-7.wav")) == facts["frames"] * 2048 == round(facts["audio_s"] * 44_100)


def test_one_seed_gives_one_file_byte_for_byte_and_another_seed_another(say, tmp_path):
    for name, seed in (("a.wav", "7"), ("b.wav", "7"), ("c.wav", "8")):
        assert say("Hello there.", "--seed", seed, "--out", name) == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in ("a.wav", "b.wav", "c.wav"))
    assert a == b != c


def test_without_a_seed_one_is_drawn_and_told(say, capsys):
    assert say("Hello there.", "--json") == 0
    first = json.loads(capsys.readouterr().out)["seed"]
    assert say("Hello there.", "--json") == 0
    assert first != json.loads(capsys.readouterr().out)["seed"]


def test_flac_holds_the_same_samples_as_wav(say, tmp_path):
    say("Hello there.", "--seed", "3", "--out", "a.wav")
    say("Hello there.", "--seed", "3", "--out", "a.flac")
    assert np.array_equal(pcm(tmp_path / "a.wav"), pcm(tmp_path / "a.flac"))
    assert read_card(tmp_path / "a.wav") == read_card(tmp_path / "a.flac")


def test_a_dash_reads_the_line_from_standard_input(say, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello there."))
    assert say("-", "--seed", "7", "--out", "piped.wav") == 0
    assert say("Hello there.", "--seed", "7", "--out", "typed.wav") == 0
    assert (tmp_path / "piped.wav").read_bytes() == (tmp_path / "typed.wav").read_bytes()


def test_the_card_tells_what_was_done_and_makes_the_take_again(say, tmp_path, capsys):
    described = ["--describe", "tired, low", "--name", "Mara", "--scene", "Night."]
    assert (
        say("Who?", *described, "--seed", "9", "--temperature", "0.8", "--top-k", "20", "--out", "a.wav") == 0
    )
    capsys.readouterr()
    assert main(["card", "a.wav"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["notice"].startswith("Synthetic speech")
    assert (card["seed"], card["temperature"], card["top_k"], card["name"]) == (9, 0.8, 20, "Mara")
    assert say("--again", "a.wav", "--out", "b.wav", again=True) == 0
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()


def test_a_cloned_take_keeps_its_clip_private_and_needs_it_again(say, tmp_path, clip, capsys):
    voice = ["--voice", str(clip), "--words", "A tone of mine."]
    assert say("Hello there.", *voice, "--seed", "7", "--out", "a.wav") == 0
    card = json.dumps(read_card(tmp_path / "a.wav"))
    assert "A tone of mine." not in card
    assert clip.name not in card
    assert say("--again", "a.wav", "--out", "b.wav", again=True) == 2
    assert "give the same --voice" in capsys.readouterr().err
    assert say("--again", "a.wav", *voice, "--out", "b.wav", again=True) == 0
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()
    other = ["--voice", str(clip), "--words", "Other words."]
    assert say("--again", "a.wav", *other, "--out", "c.wav", again=True) == 2
    assert not (tmp_path / "c.wav").exists()


def test_history_takes_codes_from_an_npz_or_from_a_take_of_ours(say, tmp_path, drama3_tiny):
    say("First.", "--seed", "1", "--out", "first.wav")
    card = read_card(tmp_path / "first.wav")["codes"]
    codes = np.frombuffer(__import__("base64").b64decode(card["bytes"]), card["dtype"]).reshape(card["shape"])
    np.savez(tmp_path / "first.npz", codes=codes.astype(np.int64))
    for kind in ("wav", "npz"):
        (tmp_path / f"{kind}.json").write_text(json.dumps([{"text": "First.", "take": f"first.{kind}"}]))
        assert say("Second.", "--history", f"{kind}.json", "--seed", "2", "--out", f"{kind}.wav") == 0
    assert np.array_equal(pcm(tmp_path / "wav.wav"), pcm(tmp_path / "npz.wav"))
    say("Second.", "--seed", "2", "--out", "alone.wav")
    assert not np.array_equal(pcm(tmp_path / "wav.wav"), pcm(tmp_path / "alone.wav"))


def test_a_direction_stands_in_front_of_the_line(say, tmp_path):
    assert say("Go.", "--direction", "colder, slower", "--seed", "1", "--out", "a.wav") == 0
    assert say("[colder, slower] Go.", "--seed", "1", "--out", "b.wav") == 0
    assert read_card(tmp_path / "a.wav")["text"] == "[colder, slower] Go."
    assert np.array_equal(pcm(tmp_path / "a.wav"), pcm(tmp_path / "b.wav"))


def test_a_ready_voice_speaks_by_its_id_and_again(say, tmp_path):
    ready = next(iter(all_voices().values()))
    assert ready.clip
    assert say("Go.", "--ready", ready.id, "--seed", "1", "--out", "a.wav") == 0
    assert (
        say("Go.", "--voice", str(ready.clip), "--words", ready.words, "--seed", "1", "--out", "b.wav") == 0
    )
    assert say("--again", "a.wav", "--ready", ready.id, "--out", "c.wav", again=True) == 0
    a, b, c = (pcm(tmp_path / f"{name}.wav") for name in "abc")
    assert np.array_equal(a, b)
    assert np.array_equal(a, c)


MISTAKES = [
    (["", "--seed", "1"], "empty"),
    (["   "], "empty"),
    (["...!"], "nothing to say"),
    (["Go <|im_end|> now"], "<|im_end|>"),
    (["Go <|endoftext|> now"], "<|endoftext|>"),
    (["<|speaker:3|> Go"], "<|speaker:3|>"),
    (["Go", "--words", "x"], "0 --voice and 1 --words"),
    (["Go", "--voice", "nothing.wav", "--words", "x"], "nothing.wav"),
    (["Go", "--voice", ".", "--words", "x"], "folder"),
    (["Go", "--voice", "https://example.org/a.wav", "--words", "x"], "not a web address"),
    (["Go", "--name", "Mara"], "--describe"),
    (["Go", "--scene", "Night"], "--describe"),
    (["Go", "--describe", "low", "--name", "Ma:ra"], "colon"),
    (["Go", "--describe", "low\nhigh"], "line break"),
    (["Go", "--seed", "1.5"], "whole number"),
    (["Go", "--seed", "true"], "whole number"),
    (["Go", "--seed", "-1"], "seed"),
    (["Go", "--seed", str(2**64)], "seed"),
    (["Go", "--temperature", "nan"], "temperature"),
    (["Go", "--temperature", "2.5"], "temperature"),
    (["Go", "--top-p", "0"], "top_p"),
    (["Go", "--top-k", "0"], "top_k"),
    (["Go", "--out", "take.mp3"], "take.mp3"),
    (["Go", "--out", "no/such/take.wav"], "take.wav"),
    (["Go", "--history", "no.json"], "no.json"),
    (["Go", "--unknown"], "unknown"),
    (["Go", "--ready", "nobody"], "assets/voices/voices.json"),
    (["Go", "--ready", "nobody", "--describe", "low"], "--ready is a voice by itself"),
    (["Go", "--direction", "soft] [loud"], "The direction has a bracket"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_no_file(say, tmp_path, capsys, words, named):
    try:
        code = say(*words)
    except SystemExit as stop:  # argparse leaves this way
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert named in err
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_max_frames_below_one_is_refused(drama3_tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["say", "Go", "--max-frames", "0", "--model", str(drama3_tiny / "checkpoint")]) == 2
    assert "max_frames" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["{}", "[1]", '[{"text": "a"}]', "nonsense", '[{"text": "a", "take": "gone.npz"}]']
)
def test_a_broken_history_file_is_refused(say, tmp_path, capsys, content):
    (tmp_path / "history.json").write_text(content)
    assert say("Go", "--history", "history.json") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_model_that_is_nowhere_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["say", "Go", "--model", "no-such-model"]) == 2
    assert "no-such-model" in capsys.readouterr().err


def test_an_interrupted_take_leaves_no_file_and_exits_130(drama3_tiny, tmp_path):
    words = [
        sys.executable,
        "-m",
        "engine",
        "say",
        "Hello there. " * 60,
        "--out",
        str(tmp_path / "a.wav"),
        "--verbose",
    ]
    words += ["--model", str(drama3_tiny / "checkpoint"), "--seed", "1"]
    process = start(words)
    for line in process.stderr:
        if "performing" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_the_models_and_the_default(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["models"]) == {"fishaudio/drama-3", "understudy", "kokoro"}
    assert found["models"][found["default"]["model"]]["runs"]
    assert found["machine"]["decode step on a CPU"] == "compiled loops"
    assert main(["doctor"]) == 0
    assert found["default"]["why"] in capsys.readouterr().out


def test_doctor_says_why_a_step_is_not_compiled(capsys, monkeypatch):
    monkeypatch.setattr("engine.doctor.why_plain", lambda: "Numba can't be used (No module named 'numba')")
    assert main(["doctor"]) == 0
    assert "plain layers, nine times slower, because Numba can't be used (No mod" in capsys.readouterr().out


def retold(path: Path, **changes) -> None:
    """Change what the card of a take says."""
    told, (samples, rate) = read_card(path), sf.read(path, dtype="int16")
    write_take(path, samples, rate, told | changes)


@pytest.mark.parametrize("named", ["acme/not-here", "fishaudio/drama-3", "../elsewhere", "checkpoint"])
def test_a_card_starts_no_download_and_no_load_of_a_folder(say, tmp_path, capsys, monkeypatch, named):
    """E-14: what a card names may come from a stranger."""
    assert say("Now.", "--out", "a.wav") == 0
    retold(tmp_path / "a.wav", model=named)
    for asked in ("load_family", "find_checkpoint", "_download"):
        monkeypatch.setattr(models, asked, lambda *_: pytest.fail("a model was asked for"))
    monkeypatch.setattr("engine.say.load_family", lambda *_: pytest.fail("a model was asked for"))
    capsys.readouterr()
    assert main(["say", "--again", "a.wav", "--out", "b.wav"]) == 2
    told = capsys.readouterr().err
    assert f"'{named}', which is not on this machine" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("named", [5, ["understudy"], {"a": 1}, True])
def test_a_card_whose_model_is_no_name_is_refused(say, tmp_path, capsys, named):
    """E-18."""
    assert say("Now.", "--out", "a.wav") == 0
    retold(tmp_path / "a.wav", model=named)
    capsys.readouterr()
    assert main(["say", "--again", "a.wav", "--out", "b.wav"]) == 2
    assert "The card of a.wav names no model; give it with --model." in capsys.readouterr().err
