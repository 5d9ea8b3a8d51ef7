"""Published figures follow from their samples, and a figure that doesn't is found."""

from __future__ import annotations

import json

import pytest

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


def test_a_step_is_held_against_its_floor(tmp_path):
    path = tmp_path / "step.json"
    run = dict.fromkeys(("date", "command", "commit", "cpu", "cores", "torch"), "") | {
        "dirty": False,
        "bytes": {"1024": {"all": 4_000_000}},
        "copy_bytes_s": [4e9],
        "samples": {"kernels 1024": {"step_ms": [2.0, 2.0, 9.0]}},
    }
    path.write_text(json.dumps(run | {"step_over_floor": {"kernels 1024": 2.0}}))
    assert problem(path) is None
    path.write_text(json.dumps(run | {"step_over_floor": {"kernels 1024": 1.5}}))
    assert "kernels 1024 is 1.500, its samples say 2.000" in problem(path)
