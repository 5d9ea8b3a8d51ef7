"""Which model runs, and what is said when it can't. The hub and its refusals are stand-ins: tests have no
network.
"""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

from engine import models
from engine.take import Character, Reference, RequestError
from engine.voice_file import character_of, saved_voice


@pytest.fixture
def hub(monkeypatch):
    """Make the hub answer every download with an error, after no local copy was found."""

    def answers(error: Exception) -> None:
        def snapshot_download(repo, *, local_files_only=False, **_):
            raise LocalEntryNotFoundError("not here") if local_files_only else error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)

    return answers


def refusal(kind):
    return kind("no", response=SimpleNamespace(headers={}, request=None, status_code=403))


def test_a_folder_is_loaded_by_the_model_type_of_its_config(drama3_tiny):
    family = models.load_family(str(drama3_tiny / "checkpoint"))
    assert (family.name, family.revision) == ("checkpoint", models.fingerprint(drama3_tiny / "checkpoint"))
    assert family.sample_rate == 44_100


def test_weights_have_a_fingerprint_wherever_they_lie_and_other_weights_have_another(drama3_tiny, tmp_path):
    mine = models.fingerprint(drama3_tiny / "checkpoint")
    copy = tmp_path / "copy"
    shutil.copytree(drama3_tiny / "checkpoint", copy)
    (copy / "NOTES.json").write_text("{}")
    assert models.fingerprint(copy) == mine
    assert len(mine) == 12
    for name in ("model.safetensors", "codec.pth"):
        weights = (copy / name).read_bytes()
        for place in (0, len(weights) // 2 + 7, len(weights) - len(weights) // 16 + 7):
            (copy / name).write_bytes(weights[:place] + bytes([weights[place] ^ 1]) + weights[place + 1 :])
            assert models.fingerprint(copy) != mine
        (copy / name).write_bytes(weights + b"\0")
        assert models.fingerprint(copy) != mine
        (copy / name).write_bytes(weights)
    assert models.fingerprint(copy) == mine


def test_a_voice_of_other_weights_of_the_same_name_is_refused(drama3_tiny, tmp_path):
    """A voice saved with one codec is noise in another; both were called understudy, embedded, once."""
    shutil.copytree(drama3_tiny / "checkpoint", tmp_path / "checkpoint")
    old, new = (models.load_family(str(each / "checkpoint")) for each in (drama3_tiny, tmp_path))
    character = Character("Mara", (Reference(np.zeros((old.num_codebooks, 5), np.int64), "Words."),))
    voice = saved_voice("Mara", character, old)
    assert character_of(voice, new, "Mara").voice[0].transcript == "Words."
    codec = tmp_path / "checkpoint" / "codec.pth"
    tensors = torch.load(codec, weights_only=True)
    torch.save({name: 1.01 * tensor for name, tensor in tensors.items()}, codec)
    with pytest.raises(RequestError, match="clone it again"):
        character_of(voice, models.load_family(str(tmp_path / "checkpoint")), "Mara")


def test_weights_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(RequestError, match="can't be read"):
        models.load_family(str(tmp_path))


def test_a_named_model_wins_over_every_default(monkeypatch):
    monkeypatch.setenv("TABLEREAD_MODEL", "somewhere/else")
    assert models.default_model().model == "somewhere/else"


def test_without_a_big_model_the_understudy_runs_if_there_is_one_and_else_the_stand_in(monkeypatch, tmp_path):
    monkeypatch.delenv("TABLEREAD_MODEL", raising=False)
    monkeypatch.setattr(models, "local_snapshot", lambda repo, revision: None)
    monkeypatch.setattr(models, "UNDERSTUDY", tmp_path)
    assert models.default_model().model == "kokoro"
    (tmp_path / "config.json").write_text("{}")
    assert models.default_model().model == "understudy"


def test_an_absent_understudy_says_what_else_there_is(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "UNDERSTUDY", tmp_path)
    with pytest.raises(RequestError, match="--model kokoro"):
        models.load_family("understudy")


def test_a_gated_model_says_whose_access_to_ask_for(hub):
    hub(refusal(GatedRepoError))
    with pytest.raises(RequestError, match="ask fishaudio for access"):
        models.load_family("fishaudio/drama-3")


def test_an_unknown_hub_name_and_an_unreachable_hub_are_told_apart(hub):
    hub(refusal(RepositoryNotFoundError))
    with pytest.raises(RequestError, match="has no model owner/thing"):
        models.load_family("owner/thing")
    hub(LocalEntryNotFoundError("no network"))
    with pytest.raises(RequestError, match="hub can't be reached"):
        models.load_family("owner/thing")


@pytest.mark.parametrize(
    "name", ["", "nonsense", "../x", "a/b/c", "owner/na me", "/no/such/folder", "~nobody/x"]
)
def test_what_is_no_model_at_all_is_refused_in_one_sentence(name, monkeypatch, hub):
    hub(LocalEntryNotFoundError("no network"))
    monkeypatch.setenv("TABLEREAD_MODEL", "kept/away")
    with pytest.raises(RequestError) as refused:
        models.find_checkpoint(name)
    assert str(refused.value).count(". ") == 0


def test_another_model_type_is_named(drama3_tiny, tmp_path):
    config = json.loads((drama3_tiny / "checkpoint/config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    with pytest.raises(RequestError, match="model_type 'llama'"):
        models.load_family(str(tmp_path))


@pytest.mark.parametrize("content", [None, "nonsense", "[]", "{}"])
def test_a_folder_without_a_usable_config_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(RequestError, match=r"config\.json"):
        models.load_family(str(tmp_path))


def test_a_checkpoint_larger_than_the_memory_is_refused_before_loading(drama3_tiny, monkeypatch):
    monkeypatch.setattr(models, "free_memory_bytes", lambda: 1 << 20)
    with pytest.raises(RequestError, match="GiB of memory"):
        models.load_family(str(drama3_tiny / "checkpoint"), torch.device("cpu"))


@pytest.mark.parametrize("missing", ["tokenizer.json", "codec.pth", "model.safetensors"])
def test_a_checkpoint_that_misses_a_file_names_it(drama3_tiny, tmp_path, missing):
    folder = tmp_path / "copy"
    shutil.copytree(drama3_tiny / "checkpoint", folder)
    (folder / missing).unlink()
    with pytest.raises(RequestError, match=r"safetensors" if missing.endswith("safetensors") else missing):
        models.load_family(str(folder))
