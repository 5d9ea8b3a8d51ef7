"""The page as a program sees it: endpoints, their messages, their refusals. With the tiny checkpoint, in
process.
"""

from __future__ import annotations

import base64
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import httpx
import numpy as np
import pytest
import soundfile as sf
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

import app
from engine.audio_files import read_card
from engine.take import TakeRequest

LINE = "Go on."
README = Path(app.__file__).with_name("README.md")


@pytest.fixture
def client(house) -> Client:
    return Client(house.address, verbose=False)


def write_tone(path: Path) -> None:
    """1.5 s of a wavering tone, enough for a reference."""
    time = np.arange(66_150) / 44_100
    sf.write(path, 0.3 * np.sin(2 * np.pi * (180 * time + 4 * np.sin(9 * time))), 44_100)


def streamed(client: Client, **given) -> list:
    job = client.submit(api_name="/perform", **given)
    outputs = list(job)
    job.result()
    return outputs


def joined(messages: list[dict]) -> np.ndarray:
    parts = [base64.b64decode(each["pcm"]) for each in messages if each["kind"] == "audio"]
    return np.frombuffer(b"".join(parts), np.int16)


def test_the_endpoints_are_these_and_no_others(client):
    named = client.view_api(return_format="dict")["named_endpoints"]
    found = {
        name: [(each["parameter_name"], each["parameter_has_default"]) for each in endpoint["parameters"]]
        for name, endpoint in named.items()
    }
    knobs = [(name, True) for name in ("seed", "temperature", "top_p", "top_k")]
    who = [(name, True) for name in ("direction", "describe", "name", "scene", "ready", "voice", "history")]
    assert found == {
        "/perform": [("text", False), *who, *knobs],
        "/say": [("text", False), ("describe", True), ("seed", True)],
        "/encode": [("clip", False)],
        "/perform_scene": [(name, True) for name in ("script", "cast", "seed", "options")],
        "/retake": [(name, True) for name in ("line", "note", "direction", "seed")],
        "/casting_call": [("line", True), ("candidates", True)],
    }


def test_text_and_seed_alone_stream_a_take_and_end_with_its_file(client):
    outputs = streamed(client, text=LINE, seed="7")
    messages = [each[0] for each in outputs]
    kinds = [each["kind"] for each in messages]
    assert kinds.index("config") < kinds.index("audio")
    assert kinds[-1] == "end"
    assert [each["seq"] for each in messages if each["kind"] == "audio"] == list(range(kinds.count("audio")))
    _, wav, card = outputs[-1]
    assert np.array_equal(joined(messages), sf.read(wav, dtype="int16")[0])
    assert card["seed"] == "7"
    assert read_card(wav)["text"] == LINE


def test_one_seed_is_one_take_from_every_endpoint(client):
    wav, card = client.predict(LINE, seed="7", api_name="/say")
    assert card["seed"] == "7"
    assert np.array_equal(
        sf.read(wav, dtype="int16")[0], joined([each[0] for each in streamed(client, text=LINE, seed="7")])
    )


def test_a_clip_goes_through_encode_and_its_codes_make_the_voice(client, tmp_path):
    write_tone(tmp_path / "clip.wav")
    heard = client.predict(handle_file(tmp_path / "clip.wav"), api_name="/encode")
    voice = [{"codes": heard["codes"], "words": "A tone."}]
    mine = joined([each[0] for each in streamed(client, text=LINE, seed="7", voice=voice)])
    plain = joined([each[0] for each in streamed(client, text=LINE, seed="7")])
    assert len(heard["codes"]) == 4
    assert not np.array_equal(mine[: len(plain)], plain[: len(mine)])


def test_the_readmes_client_code_runs_as_it_stands(house, tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```py\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    write_tone(tmp_path / "clip.wav")
    exec(code.replace("http://127.0.0.1:7860", house.address), {})
    kinds = capsys.readouterr().out.split()
    assert kinds[-1] == "end"
    assert "audio" in kinds


def test_a_ready_voice_is_its_clip_for_a_model_that_clones(client, house):
    voice = house.stage.voices["am_onyx"]
    heard = client.predict(handle_file(voice.clip), api_name="/encode")
    by_codes = [{"codes": heard["codes"], "words": voice.words}]
    by_id = joined([each[0] for each in streamed(client, text=LINE, seed="7", ready="am_onyx")])
    assert len(by_id)
    assert np.array_equal(
        by_id, joined([each[0] for each in streamed(client, text=LINE, seed="7", voice=by_codes)])
    )


def test_a_take_becomes_history_by_its_card(client):
    _, card = client.predict(LINE, seed="7", api_name="/say")
    history = [{"text": LINE, "codes": card["codes"]}]
    after = joined([each[0] for each in streamed(client, text="And then?", seed="8", history=history)])
    alone = joined([each[0] for each in streamed(client, text="And then?", seed="8")])
    assert len(after)
    assert not np.array_equal(after[: len(alone)], alone[: len(after)])


def test_a_direction_stands_as_a_cue_before_the_words(client):
    *_, (_, _, card) = streamed(client, text=LINE, seed="7", direction="colder, slower")
    assert card["text"] == f"[colder, slower] {LINE}"


REFUSED = [
    ({"text": LINE, "direction": "a] b"}, "The direction has a bracket"),
    ({"text": ""}, "The line is empty"),
    ({"text": "Go <|im_end|>"}, "<|im_end|>"),
    ({"text": LINE, "seed": "x"}, "The seed is 'x'"),
    ({"text": LINE, "seed": "-1"}, "The seed is -1"),
    ({"text": LINE, "temperature": 3}, "temperature"),
    ({"text": LINE, "top_p": 0}, "top_p"),
    ({"text": LINE, "top_k": -1}, "top_k"),
    ({"text": LINE, "voice": [{"codes": [[1]], "words": "x"}]}, "codes of reference 1"),
    ({"text": LINE, "voice": [{"codes": [[1], [2, 3]], "words": "x"}]}, "voice has another shape"),
    ({"text": LINE, "ready": "x"}, "There is no voice 'x'; use one of"),
    ({"text": LINE, "voice": {"codes": 1}}, "voice has another shape"),
    ({"text": LINE, "history": [{"text": "x"}]}, "history has another shape"),
    ({"text": LINE, "scene": "Night."}, "scene"),
]


@pytest.mark.parametrize(("given", "named"), REFUSED)
def test_a_mistake_is_one_sentence_and_no_take(client, house, given, named):
    with pytest.raises(AppError) as refused:
        streamed(client, **given)
    assert named in str(refused.value)
    assert "Traceback" not in str(refused.value)


FORGED = ["/etc/passwd", "../../../../etc/passwd", "file:///etc/passwd", "http://169.254.169.254/latest"]


@pytest.mark.parametrize("path", FORGED)
@pytest.mark.parametrize("key", ["path", "url"])
def test_a_forged_file_is_no_clip_and_tells_nothing(house, path, key):
    data = {"path": "x.wav", key: path, "meta": {"_type": "gradio.FileData"}}
    call = f"{house.address}gradio_api/call/encode"
    asked = httpx.post(call, json={"data": [data]})
    answer = asked.text
    if asked.status_code != 400:  # no address, so it is for the page to refuse
        answer = httpx.get(f"{call}/{asked.json()['event_id']}", timeout=20).text
        assert answer.startswith("event: error")
    assert "root:" not in answer
    assert path not in answer


def test_two_listeners_at_once_each_hear_their_own_take(house):
    lines = {"7": "Go on.", "8": "Stay where you are, please."}
    clients = {seed: Client(house.address, verbose=False) for seed in lines}
    alone = {
        seed: joined([each[0] for each in streamed(clients[seed], text=lines[seed], seed=seed)])
        for seed in lines
    }
    with ThreadPoolExecutor(2) as pool:
        jobs = {seed: pool.submit(streamed, clients[seed], text=lines[seed], seed=seed) for seed in lines}
    for seed, job in jobs.items():
        assert np.array_equal(joined([each[0] for each in job.result()]), alone[seed])


def test_without_a_recogniser_a_new_clip_empties_the_words(house, monkeypatch, tmp_path):
    write_tone(tmp_path / "clip.wav")
    monkeypatch.setattr("web.handlers.why_deaf", lambda: "not installed")
    assert house.stage.words_of(str(tmp_path / "clip.wav")) == ""


def test_with_a_recogniser_a_new_clip_brings_its_words_and_no_clip_none(house, monkeypatch, tmp_path):
    write_tone(tmp_path / "clip.wav")
    heard = []
    monkeypatch.setattr("web.handlers.why_deaf", lambda: None)
    monkeypatch.setattr(
        "web.handlers.hear", lambda samples, rate: heard.append((samples.shape, rate)) or "Words."
    )
    assert house.stage.words_of(str(tmp_path / "clip.wav")) == "Words."
    assert house.stage.words_of(None) == ""
    assert heard == [((66_150,), 44_100)]


def test_the_newest_take_lies_ready_and_nothing_does_where_there_is_none(house):
    key, request = "k" * 32, SimpleNamespace(session_hash="newest")
    wav, flac, card, listed = house.stage.list_takes(key, request)
    assert (wav["interactive"], flac["interactive"], card, listed) == (False, False, {}, [])
    for seed in (1, 2):
        list(house.stage._perform(key, f"take-{seed}", TakeRequest(LINE, seed=seed)))
    wav, flac, card, listed = house.stage.list_takes(key, request)
    assert wav["interactive"]
    assert read_card(wav["value"])["seed"] == 2
    assert sf.info(flac["value"]).format == "FLAC"
    assert card["seed"] == "2"
    assert [each["facts"][-6:] for each in listed] == ["seed 2", "seed 1"]


def test_a_take_that_is_cut_counts_the_frames_that_were_heard(house):
    stage = house.stage
    wanted = TakeRequest("Words and words. " * 20, seed=3)
    performing = stage._perform("cut", "cut-take", wanted)
    messages = (message for message, _ in performing)
    heard = list(itertools.islice((each for each in messages if each["kind"] == "audio"), 2))
    performing.close()
    (take,) = stage.shelf.takes("cut")
    assert take.card["finish_reason"] == "cancelled"
    assert take.card["frames"] * stage.family.hop == len(joined(heard))


def test_a_cancelled_take_frees_the_gate_for_the_next(client):
    job = client.submit(text="Words and words. " * 40, seed="3", api_name="/perform")
    for output in job:
        if output[0]["kind"] == "audio":
            break
    job.cancel()
    _, card = client.predict(LINE, seed="7", api_name="/say")
    assert card["finish_reason"] in ("stop", "length")


def test_what_a_page_shows_is_never_a_template_of_somebodys_words(house):
    blocks = app.build(house.stage, "why")
    templates = [block for block in blocks.blocks.values() if isinstance(block, gr.HTML)]
    assert templates
    assert all("{{" not in block.html_template and "${" not in block.html_template for block in templates)
