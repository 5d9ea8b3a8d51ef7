"""Published figures follow from their samples, and a figure that doesn't is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import full_size, report
from bench.check import RESULTS, problem

RUNS = sorted(RESULTS.glob("*.json"))


def test_there_are_published_runs():
    assert RUNS


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_published_run_follows_from_its_samples(path):
    assert problem(path) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: run["ratios"].update({"rtf understudy / piper": 0.5}), "its samples say"),
        (lambda run: run.update(dirty=True), "in no commit"),
        (lambda run: run.pop("commit"), "doesn't say its commit"),
        (lambda run: run.update(ratios={}), "publishes no ratio"),
    ],
)
def test_a_wrong_run_is_named(tmp_path, change, told):
    run = json.loads((RESULTS / "epyc2-cpu.json").read_text())
    change(run)
    path = tmp_path / "epyc2-cpu.json"
    path.write_text(json.dumps(run))
    assert told in problem(path)


FACTS = dict.fromkeys(("date", "command", "commit", "cpu", "cores", "torch"), "") | {"dirty": False}
GPU_RUN = FACTS | {
    "bytes": {"1024": {"all": 4_000_000}},
    "copy_bytes_s": [4e9],
    "floor_ms": {"1024": 1.0},
    "step_over_floor": {"kernels 1024": 2.0},
    "ratios": {"step_ms kernels 8192 / kernels 1024": 1.5, "frames decoded / heard": 1.0},
    "medians": {"kernels 1024": {"step_ms": 2.0}},
    "means": {"kernels 1024": {"host_ms": 0.5}},
    "slopes": {"first_pcm_ms by turns": 2.0},
    "peak_above_weights_gib": 2.0,
    "samples": {
        "kernels 1024": {"step_ms": [2.0, 2.0, 9.0], "host_ms": [0.1, 0.1, 1.3]},
        "kernels 8192": {"step_ms": [3.0]},
        "memory": {"loaded_bytes": [1 << 30], "peak_bytes": [3 << 30]},
        "decoded": {"frames": [20, 40]},
        "heard": {"frames": [20.0, 40.0]},
        "turns 0": {"first_pcm_ms": [40.0, 41.0, 90.0]},
        "turns 5": {"first_pcm_ms": [51.0]},
        "turns 10": {"first_pcm_ms": [61.0]},
    },
}


def problem_of(run: dict, folder: Path) -> str | None:
    (folder / "run.json").write_text(json.dumps(run))
    return problem(folder / "run.json")


def test_all_figures_of_a_run_follow_from_its_samples(tmp_path):
    assert problem_of(GPU_RUN, tmp_path) is None


@pytest.mark.parametrize(
    ("where", "name", "wrong", "told"),
    [
        ("step_over_floor", "kernels 1024", 1.5, "kernels 1024 is 1.500, its samples say 2.000"),
        ("floor_ms", "1024", 1.2, "floor_ms 1024 is 1.200, its samples say 1.000"),
        ("ratios", "step_ms kernels 8192 / kernels 1024", 1.1, "is 1.100, its samples say 1.500"),
        ("ratios", "frames decoded / heard", 1.2, "is 1.200, its samples say 1.000"),
        ("ratios", "step_ms kernels 4096 / kernels 1024", 1.0, "figure without samples: 'kernels 4096'"),
        ("ratios", "joy kernels 8192 / kernels 1024", 1.0, "figure without samples: 'joy'"),
        ("ratios", "kernels", 1.0, "figure without samples"),
        ("medians", "kernels 1024", {"step_ms": 3.0}, "step_ms is 3.000, its samples say 2.000"),
        ("means", "kernels 1024", {"host_ms": 0.1}, "host_ms is 0.100, its samples say 0.500"),
        ("slopes", "first_pcm_ms by turns", 0.5, "is 0.500, its samples say 2.000"),
        ("slopes", "first_pcm_ms by candles", 0.5, "figure without samples"),
    ],
)
def test_a_wrong_figure_or_one_without_samples_is_found(tmp_path, where, name, wrong, told):
    assert told in problem_of({**GPU_RUN, where: {**GPU_RUN[where], name: wrong}}, tmp_path)


def test_a_wrong_peak_of_memory_is_found(tmp_path):
    told = problem_of({**GPU_RUN, "peak_above_weights_gib": 1.0}, tmp_path)
    assert "peak_above_weights_gib is 1.000, its samples say 2.000" in told


def test_a_commit_is_told_by_whoever_copied_the_sources_or_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.delenv("TABLEREAD_COMMIT", raising=False)
    assert (report.facts()["commit"], report.facts()["dirty"]) == (None, True)
    assert "doesn't say its commit" in problem_of({**GPU_RUN, "commit": None}, tmp_path)
    monkeypatch.setenv("TABLEREAD_COMMIT", "c0ffee")
    assert (report.facts()["commit"], report.facts()["dirty"]) == ("c0ffee", False)
    monkeypatch.setenv("TABLEREAD_DIRTY", "1")
    assert report.facts()["dirty"]


def test_the_floor_of_full_size_is_what_the_notes_say():
    """Of one shared tower layer of width 6,144 they count 5,718 MB behind 2,048 rows; three more are 441."""
    told = full_size.outline().step_bytes(2048)
    assert told["linear attention"] / 1e6 == pytest.approx(2023.1, abs=0.1)
    assert told["chosen experts"] / 1e6 == pytest.approx(1006.9, abs=0.1)
    assert sum(told.values()) / 1e6 == pytest.approx(5718 + 441, rel=0.01)
