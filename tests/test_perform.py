"""The command `perform`: what it leaves in its folder, and that a mistake leaves nothing."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile as sf

from engine.__main__ import main
from engine.audio_files import read_card
from engine.engine import Engine
from engine.perform import _Performance
from engine.scene import LINE_GAP_S, Scene
from engine.scene_file import from_json
from engine.take import Audio, Character, Done, TakeFailed, Timings
from prompts.script import parse
from tests.processes import start

SCRIPT = "MARA: Who is there?\nFINN (whispers): Only me.\n(beat)\nMARA: Come in."
CAST = {
    "MARA": {"description": "a weary lighthouse keeper"},
    "FINN": {"voice": [{"clip": "finn.wav", "words": "What it says."}]},
}


@pytest.fixture
def perform(drama3_tiny, tmp_path, monkeypatch):
    """`perform` in a folder with script, cast and clip, with the tiny checkpoint; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TABLEREAD_MODEL", raising=False)
    (tmp_path / "script.txt").write_text(SCRIPT)
    (tmp_path / "cast.json").write_text(json.dumps(CAST))
    sf.write(tmp_path / "finn.wav", 0.3 * np.sin(1200 * np.arange(66_150) / 44_100), 44_100)

    def run(*words: str, script: str = "script.txt", out: str = "out", seed: str = "7") -> int:
        fixed = ["--cast", "cast.json", "--out", out, "--seed", seed]
        return main(["perform", script, *fixed, "--model", str(drama3_tiny / "checkpoint"), *words])

    return run


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pcm(path: Path) -> np.ndarray:
    return sf.read(path, dtype="int16")[0]


class TestFolder:
    def test_it_holds_the_mix_every_take_and_the_scene(self, perform, tmp_path, capsys):
        assert perform("--json") == 0
        out, err = capsys.readouterr()
        facts = json.loads(out)
        assert set(facts) == {"lines", "takes", "files", "audio_s", "timings"}
        assert files(tmp_path / "out").keys() == {
            "mix.wav", "scene.json", "takes/001-MARA.wav", "takes/002-FINN.wav", "takes/003-MARA.wav",
        }  # fmt: skip
        assert {str(Path("out") / name) for name in files(tmp_path / "out")} == set(facts["files"])
        assert [set(take) for take in facts["takes"]] == [
            {"line", "seed", "frames", "finish_reason", "flags"}
        ] * 3
        assert (facts["lines"], [take["line"] for take in facts["takes"]]) == (3, [1, 2, 3])
        assert facts["audio_s"] == len(pcm(tmp_path / "out/mix.wav")) / 44_100
        assert [row.partition(":")[0] for row in err.splitlines() if row.startswith("Line")] == [
            "Line 1 (row 1, MARA)",
            "Line 2 (row 2, FINN)",
            "Line 3 (row 4, MARA)",
        ]

    def test_the_mix_is_the_takes_with_their_silence(self, perform, tmp_path):
        assert perform() == 0
        one, two, three = (pcm(path) for path in sorted((tmp_path / "out/takes").iterdir()))
        gaps = [np.zeros(round(seconds * 44_100), np.int16) for seconds in (LINE_GAP_S, LINE_GAP_S + 0.8)]
        assert np.array_equal(
            pcm(tmp_path / "out/mix.wav"), np.concatenate([one, gaps[0], two, gaps[1], three])
        )

    def test_same_script_cast_seed_and_model_give_the_same_bytes(self, perform, tmp_path):
        for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
            assert perform(out=name, seed=seed) == 0
        a, b, c = (files(tmp_path / name) for name in "abc")
        assert a == b
        assert all(a[name] != c[name] for name in a)

    def test_files_tell_no_clock_no_path_and_no_private_voice(self, perform, tmp_path):
        perform()
        everything = b"".join(files(tmp_path / "out").values())
        for word in (str(tmp_path).encode(), b"finn.wav", b"What it says.", b"total_s", b"cast.json"):
            assert word not in everything

    def test_takes_carry_their_card_and_the_scene_can_be_read_again(self, perform, tmp_path):
        perform()
        scene = from_json((tmp_path / "out/scene.json").read_bytes())
        take = scene.accepted_take("L3")
        card = read_card(tmp_path / "out/takes/003-MARA.wav")
        assert (card["seed"], card["text"], card["name"]) == (take.seed, "Come in.", "MARA")
        assert [heard for heard, _ in take.heard] == ["L1"]
        assert read_card(tmp_path / "out/mix.wav")["seed"] == scene.seed == 7

    def test_without_a_seed_one_is_drawn_and_told(self, perform, drama3_tiny, tmp_path, capsys):
        fixed = ["--cast", "cast.json", "--out", "out", "--model", str(drama3_tiny / "checkpoint")]
        assert main(["perform", "script.txt", *fixed]) == 0
        seed = from_json((tmp_path / "out/scene.json").read_bytes()).seed
        out, err = capsys.readouterr()
        assert f"the seed {seed}." in err
        assert f"seed {seed}," in out

    def test_a_dash_reads_the_script_from_standard_input(self, perform, tmp_path, monkeypatch):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(SCRIPT.encode("utf-8-sig"))))
        assert perform(script="-", out="a") == perform(out="b") == 0
        assert files(tmp_path / "a") == files(tmp_path / "b")

    def test_an_empty_folder_will_do_even_the_one_we_are_in(self, perform, tmp_path, monkeypatch):
        (tmp_path / "empty").mkdir()
        assert perform(out="empty") == 0
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        assert perform("--cast", "../cast.json", script="../script.txt", out=".") == 0
        assert files(tmp_path / "here") == files(tmp_path / "empty")


def changed(**content: str | None):
    return content


MISTAKES = [
    (changed(script="MARA: Hi.\nFINN: Go <|im_end|> now."), [], "Line 2 (row 2, FINN)"),
    (changed(script="MARA: Hi.\nFINN: Go <|endoftext|> now."), [], "<|endoftext|>"),
    (changed(script="* * *\n\n"), [], "no line to perform"),
    (changed(script=""), [], "no line to perform"),
    (changed(script="MARA: Hi.\nEVE: Ho."), [], "no voice for EVE; it has MARA, FINN"),
    (changed(script="\n".join(f"MARA: Line {n}." for n in range(501))), [], "501 lines"),
    (changed(cast="[]"), [], "no cast"),
    (changed(cast='{"MARA": {"voice": "af_nicole"}, "FINN": {"voice": "bf_emma"}}'), [], "can't be cloned"),
    (changed(), ["--seed", "-1"], "seed"),
    (changed(), ["--model", "no-such-model"], "no-such-model"),
    (changed(), ["--out", "full"], "full is not empty"),
    (changed(), ["--out", "script.txt"], "script.txt cannot be written"),
    (changed(), ["--out", "no/such"], "does not exist"),
    (changed(), ["--cast", "gone.json"], "no file gone.json"),
]


@pytest.mark.parametrize(("content", "words", "named"), MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(perform, tmp_path, capsys, content, words, named):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    if "script" in content:
        (tmp_path / "script.txt").write_text(content["script"])
    if "cast" in content:
        (tmp_path / "cast.json").write_text(content["cast"])
    before = files(tmp_path)
    assert perform(*words) == 2
    out, err = capsys.readouterr()
    assert named in err.splitlines()[-1]
    assert "Traceback" not in err
    assert out == ""
    assert files(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_script_that_is_no_text_is_refused(perform, tmp_path, capsys):
    (tmp_path / "script.txt").write_bytes(b"MARA: \xff")
    assert perform() == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_what_is_odd_in_a_script_is_told_by_row_and_column_and_stops_nothing(perform, tmp_path, capsys):
    (tmp_path / "script.txt").write_text(f"{SCRIPT}\nFINN: I /* wait.")
    assert perform() == 0
    assert "script.txt, row 5, column 9: This boneyard is never closed" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence_and_leaves_nothing(perform, tmp_path, monkeypatch, capsys):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("engine.audio_files.os.fsync", full)
    assert perform() == 2
    assert "001-MARA.wav cannot be written (No space left on device)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_take_that_fails_ends_the_scene_and_names_its_line(perform, tmp_path, monkeypatch, capsys):
    whole = Engine.perform

    def failing(engine, request):
        if "Come in" in request.text:
            raise TakeFailed("No sound; try another seed.")
        return whole(engine, request)

    monkeypatch.setattr(Engine, "perform", failing)
    assert perform() == 1
    assert "Line 3 (row 4, MARA): No sound; try another seed." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_scene_leaves_no_folder_and_exits_130(perform, drama3_tiny, tmp_path, asked):
    """E-22."""
    (tmp_path / "script.txt").write_text("MARA: Hello there.\n" * 400)
    words = [sys.executable, "-m", "engine", "perform", str(tmp_path / "script.txt"), "--seed", "1"]
    words += ["--cast", str(tmp_path / "cast.json"), "--out", str(tmp_path / "out")]
    words += ["--model", str(drama3_tiny / "checkpoint")]
    process = start(words)
    for row in process.stderr:
        if row.startswith("Line 2"):
            break
    assert [path.name.startswith(".perform-") for path in (tmp_path / "out").iterdir()] == [True]
    process.send_signal(asked)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_200_lines_are_never_held_in_memory(tiny_family, tmp_path):
    """Ten seconds a line are 176 MB in all."""

    def perform(request):
        for number in range(2):
            yield Audio(np.zeros(5 * 44_100, np.int16), 44_100, 0, number)
        yield Done("stop", 3, request.seed, Timings(), np.zeros((4, 3), np.int64))

    (tmp_path / "takes").mkdir()
    engine = SimpleNamespace(family=tiny_family, perform=perform)
    scene = Scene.of(parse("MARA: Hello.\n" * 200), 7, {"MARA": Character(description="low")})
    tracemalloc.start()
    num_parts = sum(1 for _ in _Performance(engine, scene, tmp_path).parts())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_parts == 200
    assert peak < 10 << 20  # one line is 0.9 MB, and its file is made of some copies of it


class TestParts:
    ACTS = "ACT ONE\n\nMARA: Who is there?\n\nACT TWO\n\nFINN: Only me.\n\nMARA: Come in.\n"

    def test_one_act_is_performed(self, perform, tmp_path, capsys):
        (tmp_path / "play.txt").write_text(self.ACTS)
        assert perform("--part", "act two", script="play.txt") == 0
        assert sorted(path.name for path in (tmp_path / "out" / "takes").iterdir()) == [
            "001-FINN.wav", "002-MARA.wav",
        ]  # fmt: skip
        assert "Line 1 (row 7, FINN)" in capsys.readouterr().err

    def test_a_part_that_is_not_there_is_answered_with_those_that_are(self, perform, tmp_path, capsys):
        (tmp_path / "play.txt").write_text(self.ACTS)
        assert perform("--part", "ACT FIVE", script="play.txt") == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "ACT FIVE" in told
        assert "ACT ONE" in told
        assert "ACT TWO" in told
        assert not (tmp_path / "out").exists()

    def test_a_script_without_acts_has_no_parts(self, perform, capsys):
        assert perform("--part", "ACT ONE") == 2
        assert "it has no acts or scenes" in capsys.readouterr().err

    def test_a_script_of_more_than_500_lines_is_offered_by_its_parts(self, perform, tmp_path, capsys):
        (tmp_path / "play.txt").write_text(
            "ACT ONE\n\n" + "MARA: a\n\n" * 300 + "ACT TWO\n\n" + "FINN: b\n\n" * 201
        )
        assert perform(script="play.txt") == 2
        told = capsys.readouterr().err
        assert "has 501 lines, the limit of a scene is 500; choose one of its parts with --part" in told
        assert "ACT ONE" in told
        assert "ACT TWO" in told


class TestEncodings:
    """C-20."""

    LINE = "MARA: It’s late – very late."

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_a_script_is_read_as_its_mark_says(self, perform, tmp_path, capsys, encoding):
        (tmp_path / "play.txt").write_bytes(self.LINE.encode(encoding))
        assert perform(script="play.txt") == 0
        assert "Windows" not in capsys.readouterr().err
        assert json.loads((tmp_path / "out/scene.json").read_text())["lines"][0]["text"] == self.LINE[6:]

    def test_windows_1252_is_a_guess_that_is_told(self, perform, tmp_path, capsys):
        (tmp_path / "play.txt").write_bytes(self.LINE.encode("cp1252"))
        assert perform(script="play.txt") == 0
        assert "read as Windows-1252" in capsys.readouterr().err
        assert json.loads((tmp_path / "out/scene.json").read_text())["lines"][0]["text"] == self.LINE[6:]

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b"%PDF-1.7 ...", "is a PDF, not text"),
            (b"PK\x03\x04....", "is a Word or zip file, not text"),
            (b"{\\rtf1 MARA: Hi.}", "is an RTF file, not text"),
            (b"MARA: \x00\x01\x02\xff", "is not UTF-8 text"),
            (b"\xff\xfeM", "is not UTF-8 text"),
        ],
    )
    def test_what_is_no_text_is_refused(self, perform, tmp_path, capsys, data, told):
        (tmp_path / "play.txt").write_bytes(data)
        assert perform(script="play.txt") == 2
        assert told in capsys.readouterr().err
