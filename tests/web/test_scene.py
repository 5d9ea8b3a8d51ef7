"""A scene as the page's handlers and as programs have it: performed, stopped, retaken, kept, forgotten. With
the tiny checkpoint, in process.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import soundfile as sf
from gradio_client import Client
from gradio_client.exceptions import AppError

from engine.engine import Engine
from engine.scene import Scene
from engine.take import Character, Trouble
from web import gpu, rooms
from web.cast_stage import CastStage
from web.casting import FILE, Voice
from web.rooms import Rooms
from web.scene_calls import SceneCalls
from web.scene_stage import SceneStage

SCRIPT = "MARA: Go on.\nFINN (low): No.\n(beat)\nMARA: Stay.\nFINN: Why?"
TWELVE = "\n".join(f"{name}: Go {number}." for number, name in enumerate(["MARA", "FINN"] * 6, 1))
CAST = {"MARA": {"description": "a weary keeper"}, "Finn": {"description": "a boy"}}


@pytest.fixture
def client(house) -> Client:
    return Client(house.address, verbose=False)


@pytest.fixture
def visitor(house):
    return Visitor(house)


class Visitor:
    """Somebody on the page, without the browser: their key, and what they do."""

    def __init__(self, house, script: str = SCRIPT) -> None:
        self.scenes, self.casts = house.scenes, house.casts
        self.key, *_ = self.scenes.enter(None)
        self.request = SimpleNamespace(session_hash=self.key[:8])
        self.scenes.begin(self.room, Scene(7), {}, script)

    @property
    def room(self):
        return self.scenes.rooms.room(self.key)

    def write(self, script: str):
        return self.scenes.write_script(self.key, script, self.request)

    def does(self, handler, **said):
        """What a handler with an event answers; a stream is heard to its end."""
        more = (False,) if handler.__name__ == "perform_from" else ()
        answer = handler(self.key, *more, self.request, gr.EventData(None, said))
        return list(answer) if hasattr(answer, "__next__") else answer

    def performs(self, anew: bool = False) -> list[dict]:
        return [each[0] for each in self.scenes.perform_all(self.key, anew, self.request)]

    def sounds(self) -> list[bytes]:
        accepted = [self.room.scene.accepted_take(line.id) for line in self.room.scene.lines]
        return [self.room.sound(take.id).tobytes() if take else b"" for take in accepted]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """No listener is waited for."""
    monkeypatch.setattr("web.director.AHEAD_S", 1e9)


def streamed(client: Client, endpoint: str, *given, **named) -> list:
    job = client.submit(*given, **named, api_name=endpoint)
    outputs = list(job)
    job.result()
    return outputs


def joined(messages: list[dict]) -> np.ndarray:
    parts = [base64.b64decode(each["pcm"]) for each in messages if each.get("kind") == "audio"]
    return np.frombuffer(b"".join(parts), np.int16)


def test_a_scene_streams_as_one_take_and_ends_with_the_mix_that_was_heard(client):
    outputs = streamed(client, "/perform_scene", SCRIPT, CAST, "7", {})
    messages = [each[0] for each in outputs]
    _, wav, scene = outputs[-1]
    samples, rate = sf.read(wav, dtype="int16")
    marks = [each for each in messages if each["kind"] == "mark"]
    assert [each["kind"] for each in messages].count("config") == 1
    assert np.array_equal(joined(messages), samples)
    assert [each["lines"] for each in marks if each["lines"]] == [["L1"], ["L2"], ["L3"], ["L4"]]
    beat = next(each["at"] for each in marks if each["lines"] == ["L3"]) - marks[3]["at"]
    assert beat == round((0.25 + 0.8) * rate)
    assert len(scene["takes"]) == 4


def test_the_same_call_gives_the_same_scene(client):
    first, second = (
        streamed(client, "/perform_scene", "MARA: Go.\nFINN: No.", CAST, "9", {})[-1] for _ in range(2)
    )
    assert first[2] == second[2]
    assert sf.read(first[1])[0].tobytes() == sf.read(second[1])[0].tobytes()


def test_a_retake_leaves_the_takes_before_it_and_marks_those_that_heard_the_older_one(client):
    *_, (_, _, before) = streamed(client, "/perform_scene", TWELVE, CAST, "3", {})
    *_, (_, wav, told) = streamed(client, "/retake", 5, "colder")
    *_, (_, _, after) = streamed(client, "/perform_scene", "", {}, "", {})
    changed = {line for line, take in after["accepted"].items() if take != before["accepted"][line]}
    assert changed == {"L5"}
    assert after["takes"][:12] == before["takes"]
    assert told["stale"] == {str(number): "heard an older line 5" for number in (7, 9, 11)}
    assert told["text"].startswith("[colder]")
    assert len(sf.read(wav)[0])


def test_candidates_read_one_line_each_in_their_own_voice_or_seed(client):
    streamed(client, "/perform_scene", "MARA: Go on.", CAST, "7", {})
    facts, wavs = client.predict(
        1, [{"seed": "5"}, {"voice": "am_onyx", "seed": "5"}], api_name="/casting_call"
    )
    assert [each["candidate"] for each in facts] == ["A", "B"]
    assert [each["seed"] for each in facts] == ["5", "5"]
    assert sf.read(wavs[0])[0].tobytes() != sf.read(wavs[1])[0].tobytes()


BROKEN = {"codes": {"type": "array", "dtype": "i4,(", "shape": [1], "bytes": "AAAA"}, "words": "x"}
REFUSED = [
    ("/perform_scene", ("",), "no line to perform"),
    ("/perform_scene", (SCRIPT, {"MARA": {"voice": "/etc/passwd"}}), "There is no voice"),
    ("/perform_scene", (SCRIPT, {"MARA": {"voice": "../../etc/x.voice.json"}}), "There is no voice"),
    (
        "/perform_scene",
        (SCRIPT, {"MARA": {"voice": [{"clip": "file:///etc/passwd", "words": "x"}]}}),
        "shape",
    ),
    ("/perform_scene", (SCRIPT, {"MARA": {"path": "x"}}), "another shape"),
    ("/perform_scene", (SCRIPT, [1]), "The cast is no object"),
    ("/perform_scene", (SCRIPT, {}, "x"), "The seed is 'x'"),
    ("/perform_scene", (SCRIPT, {}, "-4"), "The seed is -4"),
    ("/perform_scene", (SCRIPT, {}, "1", {"speed": 2}), "The options"),
    ("/perform_scene", (SCRIPT, {}, "1", {"from": 9}), "There is no line 9"),
    ("/perform_scene", (SCRIPT, {}, "1", {"temperature": 9}), "temperature"),
    *[  # E-16
        ("/perform_scene", (SCRIPT, {}, "1", {"from": wrong}), "There is no line")
        for wrong in ("x", None, [1])
    ],
    ("/perform_scene", (SCRIPT, {}, "1", {"top_k": 1e308}), "top_k is"),
    # E-17, E-20, E-27
    ("/perform_scene", (SCRIPT, {"MARA": {"voice": [BROKEN]}}), "An array needs bytes, shape"),
    ("/perform_scene", (SCRIPT, {"MARA": {"voice": [{"codes": [[1]], "words": None}]}}), "another shape"),
    ("/perform_scene", (SCRIPT, {}, "1", {"glossary": "x"}), "The glossary has another shape"),
    ("/perform_scene", (SCRIPT, {}, "1", {"glossary": [["a"]]}), "The glossary has another shape"),
    ("/perform_scene", (SCRIPT, {}, "1", {"glossary": [["a", 5]]}), "The glossary has another shape"),
    ("/perform_scene", ("MARA: Go <|im_end|>.",), "<|im_end|>"),
    ("/retake", (1,), "There is no line 1"),
    ("/casting_call", (1,), "There is no line 1"),
]


@pytest.mark.parametrize("option", ["from", "top_k"])
@pytest.mark.parametrize("wrong", [float("inf"), float("-inf"), float("nan"), 1e308])
def test_a_number_that_is_none_is_one_sentence(house, option, wrong):
    """E-16, B14: JSON's readers take 1e400 for infinity."""
    calls, request = SceneCalls(house.scenes), SimpleNamespace(session_hash=f"no number {option} {wrong}")
    with pytest.raises(gr.Error, match=r"There is no line|top_k is"):
        list(calls.perform_scene("MARA: Go.\nFINN: No.", CAST, "9", {option: wrong}, request))


@pytest.mark.parametrize("wrong", [1, None, "x", [1]])
def test_a_candidate_of_another_kind_is_refused(client, wrong):
    """E-27."""
    streamed(client, "/perform_scene", SCRIPT)
    with pytest.raises(AppError, match="Candidate 2 is no object"):
        client.predict(1, [{"seed": "5"}, wrong], api_name="/casting_call")


@pytest.mark.parametrize(("endpoint", "given", "named"), REFUSED)
def test_a_mistake_is_one_sentence(client, endpoint, given, named):
    with pytest.raises(AppError) as refused:
        streamed(client, endpoint, *given)
    assert named in str(refused.value)
    assert "Traceback" not in str(refused.value)


OVERTAKEN = [
    ("E-08", "retake", (1, "", "", ""), "retake"),
    ("E-09", "perform_scene", ("", {}, "", {}), "retake"),
    ("E-10", "casting_call", (1, []), "casting_call"),
]


@pytest.mark.parametrize(("case", "first", "given", "second"), OVERTAKEN)
def test_an_overtaken_call_ends_with_one_sentence(house, case, first, given, second):
    """E-08, E-09, E-10: a call in whose place another one of its session performs is no success."""
    calls, request = SceneCalls(house.scenes), SimpleNamespace(session_hash=f"overtaken {case}")
    list(calls.perform_scene("MARA: Go.\nFINN: No.", CAST, "9", {}, request))
    room = house.scenes.room(None, request)
    perform = house.scenes.director.heard
    begun = []

    def overtaken(*given, **named):
        begun.append(second)
        if len(begun) == 1:
            room.begin()
        return (yield from perform(*given, **named))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(house.scenes.director, "heard", overtaken)
        if first == "perform_scene":
            room.casts.clear()  # so that its lines are made anew
        with pytest.raises(gr.Error, match="Another call of this session took the place of this one"):
            list(getattr(calls, first)(*given, request))


def test_two_sessions_take_turns_line_by_line_and_hear_only_their_own(house, monkeypatch):
    order, through = [], house.scenes.main.gate.through

    def watched(session, *rest):
        for event in through(session, *rest):
            if type(event).__name__ == "Done":
                order.append(session)
            yield event

    alone = {}
    clients = {seed: Client(house.address, verbose=False) for seed in ("21", "22")}
    for seed, each in clients.items():
        alone[seed] = joined([out[0] for out in streamed(each, "/perform_scene", SCRIPT, CAST, seed, {})])
    monkeypatch.setattr(house.scenes.main.gate, "through", watched)
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            seed: pool.submit(streamed, each, "/perform_scene", SCRIPT, CAST, seed, {})
            for seed, each in clients.items()
        }
    for seed, job in jobs.items():
        assert np.array_equal(joined([out[0] for out in job.result()]), alone[seed])
    middle = order[1:-1]
    assert len(order) == 8
    assert sum(one != other for one, other in itertools.pairwise(middle)) >= 4


def test_a_stopped_line_is_kept_as_cut_and_the_scene_goes_on_as_if_nothing_had_been(house):
    whole = Visitor(house)
    whole.performs()
    stopped = Visitor(house)
    steps = stopped.scenes.perform_all(stopped.key, False, stopped.request)
    for message, _ in steps:
        if message.get("kind") == "audio" and stopped.room.making == "L2":
            break
    steps.close()
    rows = stopped.scenes.stopped(stopped.key, stopped.request)["rows"]
    assert [bool(row["take"]) for row in rows] == [True, True, False, False]
    assert rows[1]["take"]["cut"]
    assert stopped.room.making is None
    stopped.does(stopped.scenes.perform_from, line="L2")
    assert stopped.sounds() == whole.sounds()


def test_of_a_stopped_line_exactly_what_was_sent_is_kept(visitor, monkeypatch):
    monkeypatch.setattr("web.reel.BLOCK_S", 0.05)  # a chunk of the model's is several messages
    steps, sent = (
        visitor.scenes.perform_from(visitor.key, False, visitor.request, gr.EventData(None, {"line": "L1"})),
        [],
    )
    for message, _ in steps:
        if message.get("kind") == "audio":
            sent.append(message)
            if len(sent) == 5:
                break
    steps.close()
    (take,) = visitor.room.scene.takes_of("L1")
    assert np.array_equal(visitor.room.sound(take.id), joined(sent))
    assert take.frames == take.num_samples // visitor.scenes.main.family.hop


def test_a_stop_in_the_queue_leaves_no_sound_no_take_and_a_free_place(visitor):
    gate = visitor.scenes.main.gate
    with gate.pass_("somebody else", 1.0):
        steps = visitor.scenes.perform_all(visitor.key, False, visitor.request)
        queued = next(message for message, _ in steps if message.get("phase") == "queue")
        steps.close()
    assert "You are next" in queued["detail"]
    assert visitor.room.scene.takes == ()
    assert visitor.performs()[-1]["kind"] == "end"


def test_a_cut_take_takes_nobodys_place(visitor):
    visitor.performs()
    before = visitor.sounds()
    steps = visitor.scenes.retake_line(
        visitor.key, visitor.request, gr.EventData(None, {"line": "L1", "note": "x"})
    )
    for message, _ in steps:
        if message.get("kind") == "audio":
            break
    steps.close()
    assert visitor.sounds() == before
    assert len(visitor.room.scene.takes_of("L1")) == 2


def test_whoever_performs_anew_ends_the_performance_before(visitor):
    first = visitor.scenes.perform_all(visitor.key, False, visitor.request)
    for message, _ in first:
        if message.get("kind") == "audio":
            break
    run = visitor.room.run
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(visitor.performs)
        while visitor.room.run is run:
            time.sleep(0.01)
        assert not any(each[0].get("kind") in ("audio", "end") for each in first)
        assert second.result()[-1]["kind"] == "end"
    assert len(visitor.room.scene.accepted) == 4


def test_lines_with_a_take_sound_as_they_are_and_anew_makes_new_ones(visitor):
    first = joined(visitor.performs())
    takes = visitor.room.scene.takes
    assert np.array_equal(joined(visitor.performs()), first)
    assert visitor.room.scene.takes == takes
    visitor.performs(anew=True)
    assert len(visitor.room.scene.takes) == 8


def test_trouble_in_a_line_is_a_sentence_at_that_line_and_the_rest_can_be_performed(house):
    visitor = Visitor(house, "MARA: Go.\nMARA: Go <|im_end|>.\nMARA: Stay.")
    messages = visitor.performs()
    rows = visitor.scenes.rows(visitor.room)["rows"]
    assert messages[-1]["kind"] == "trouble"
    assert "Line 2" in messages[-1]["sentence"]
    assert [bool(row["trouble"]) for row in rows] == [False, True, False]
    assert [bool(row["take"]) for row in rows] == [True, False, False]
    visitor.does(visitor.scenes.perform_from, line="L3")
    assert visitor.scenes.rows(visitor.room)["rows"][2]["take"]


@pytest.mark.parametrize("kind", ["quota", "busy", "lost", "memory"])
def test_what_the_platform_refuses_is_told_at_the_line_and_takes_survive(visitor, monkeypatch, kind):
    perform, calls = visitor.scenes.main.perform, []

    def second_fails(wanted):
        calls.append(wanted)
        return (
            (each for each in [Trouble(kind, "A helpful sentence.")]) if len(calls) == 2 else perform(wanted)
        )

    monkeypatch.setattr(visitor.scenes.main, "perform", second_fails)
    assert visitor.performs()[-1]["kind"] == "trouble"
    rows = visitor.scenes.rows(visitor.room)["rows"]
    assert rows[1]["trouble"] == "A helpful sentence."
    assert rows[0]["take"]
    visitor.performs()
    assert all(row["take"] and not row["trouble"] for row in visitor.scenes.rows(visitor.room)["rows"])


def test_lines_spoken_together_are_mixed_before_they_are_sent(house):
    visitor = Visitor(house, "INT. ROOM - DAY\n\nMARA\nGo on.\n\nFINN ^\nNo.\n\nMARA\nStay.")
    messages = visitor.performs()
    marks = [each["lines"] for each in messages if each.get("kind") == "mark" and each["lines"]]
    path, missing = visitor.scenes.mix_of(visitor.room)
    assert marks == [["L1", "L2"], ["L3"]]
    assert missing == []
    assert np.array_equal(joined(messages), sf.read(path, dtype="int16")[0])


def test_the_next_line_waits_until_the_listener_has_little_left(visitor, monkeypatch):
    monkeypatch.setattr("web.director.AHEAD_S", 0.2)
    began, asked = time.monotonic(), []
    perform = visitor.scenes.main.perform
    monkeypatch.setattr(
        visitor.scenes.main, "perform", lambda wanted: asked.append(time.monotonic()) or perform(wanted)
    )
    sent = 0.0
    for message, _ in visitor.scenes.perform_all(visitor.key, False, visitor.request):
        if message.get("kind") == "audio":
            sent += len(base64.b64decode(message["pcm"])) / 2 / visitor.scenes.main.family.sample_rate
    assert len(asked) == 4
    assert asked[-1] - began > 0.5 * sent


def test_after_a_reload_script_cast_and_takes_are_back(visitor):
    visitor.performs()
    visitor.does(visitor.casts.cast, who="mara", kind="described", description="a judge", scene="")
    key, source, seed, _, _, _, rows, cast, _ = visitor.scenes.enter(visitor.key)
    assert (key, source) == (visitor.key, SCRIPT)
    assert seed == str(visitor.room.scene.seed)
    assert all(row["take"] for row in rows["rows"])
    assert next(each for each in cast["cards"] if each["name"] == "MARA")["description"] == "a judge"


@pytest.mark.parametrize("key", [None, "", "x" * 32, 7, {"a": 1}, "../../etc/passwd-aaaaaaaaaaaaaaa"])
def test_another_key_opens_nobodys_room(house, key):
    fresh, *_ = house.scenes.enter(key)
    assert fresh != key
    assert len(fresh) == 32


def test_an_edit_keeps_the_takes_of_the_lines_that_stayed(visitor):
    visitor.performs()
    rows, *_ = visitor.write("MARA: Wait.\n" + SCRIPT.replace("Stay.", "Stay here."))
    assert [bool(row["take"]) for row in rows["rows"]] == [False, True, True, False, True]


def test_a_recast_line_is_performed_in_the_new_voice(visitor):
    before = joined(visitor.performs())
    visitor.does(visitor.casts.cast, who="mara", kind="described", description="a stern judge", scene="")
    after = joined(visitor.performs())
    assert not np.array_equal(before, after)
    assert [len(visitor.room.scene.takes_of(line)) for line in ("L1", "L2", "L3", "L4")] == [2, 1, 2, 1]


def test_numbers_and_respellings_are_shown_in_the_row_and_spoken(house):
    visitor = Visitor(house, "MARA: **Go** to 4 Okafor.")
    glossary = [["Okafor", "oh-KAH-for"], ["", ""]]
    rows = visitor.scenes.change_reading(visitor.key, "5", True, True, glossary, visitor.request)["rows"]
    assert rows[0]["text"] == "**Go** to 4 Okafor."
    assert rows[0]["spoken"] == "Go to four oh-KAH-for."
    assert rows[0]["steps"] == "glossary, numbers, stage marks"
    visitor.performs()
    (take,) = visitor.room.scene.takes
    assert take.text == "Go to four oh-KAH-for."
    assert visitor.room.scene.seed == 5


def test_memory_is_shown_pinned_and_forgotten(visitor):
    visitor.performs()
    opened = visitor.does(visitor.scenes.open_line, line="L3")["open"]
    assert [each["how"] for each in opened["memory"]["lines"]] == ["remembered"]
    assert opened["memory"]["told"].startswith("MARA remembers 1 earlier line:")
    opened = visitor.does(visitor.scenes.remember, line="L1", how="forgotten")["open"]
    assert [each["how"] for each in opened["memory"]["lines"]] == ["forgotten"]
    assert visitor.does(visitor.scenes.remember, line="L1", how="pinned")["rows"][0]["memory"] == "pinned"
    assert visitor.does(visitor.scenes.remember, line="L1", how="")["rows"][0]["memory"] == ""


def test_takes_are_starred_used_again_and_heard_equally_loud(visitor):
    visitor.performs()
    visitor.does(visitor.scenes.retake_line, line="L1", note="", direction="", seed="99")
    first, second = visitor.room.scene.takes_of("L1")
    assert second.seed == 99
    assert visitor.room.scene.accepted["L1"] == second.id
    rows = visitor.does(visitor.scenes.accept, line="L1", take=first.id)["rows"]
    assert rows[0]["take"]["id"] == first.id
    assert visitor.does(visitor.scenes.star, line="L1", take=first.id)["rows"][0]["take"]["star"]
    heard = [each[0] for each in visitor.does(visitor.scenes.play, line="L1", take=second.id)]
    assert len(joined(heard)) == second.num_samples


@pytest.mark.parametrize("said", [{}, {"line": 3}, {"line": "L99"}, {"line": {"a": 1}, "take": ["x"]}])
def test_an_event_that_names_nothing_here_is_a_sentence(visitor, said):
    before = visitor.room.scene
    for handler in (visitor.scenes.retake_line, visitor.scenes.play):
        (answer,) = visitor.does(handler, **said)
        assert answer[1]["note"]
    for handler in (visitor.scenes.accept, visitor.scenes.star, visitor.scenes.remember):
        assert visitor.does(handler, **said)["note"]
    assert visitor.room.scene is before


def test_a_casting_call_names_nobody_until_one_is_chosen(visitor):
    *_, (_, call) = [
        each
        for each in visitor.does(visitor.casts.hold_casting_call, who="mara", by="seeds")
        if "asked" in each[1]
    ]
    assert [each["letter"] for each in call["candidates"]] == list("ABCD")
    assert not any(each["about"] for each in call["candidates"])
    call, _, rows = visitor.does(visitor.casts.choose_candidate, letter="C")
    assert all(each["about"].startswith("seed ") for each in call["candidates"])
    assert rows["rows"][0]["take"]["seed"] == call["candidates"][2]["about"].removeprefix("seed ")
    assert len(joined([each[0] for each in visitor.does(visitor.casts.hear_candidate, letter="A")]))


def write_tone(path, hz: float = 180) -> None:
    seconds = np.arange(66_150) / 44_100
    sf.write(path, 0.3 * np.sin(2 * np.pi * (hz * seconds + 4 * np.sin(9 * seconds))), 44_100)


def test_a_voice_of_clips_is_saved_loaded_and_forgotten_with_a_receipt(visitor, tmp_path):
    write_tone(tmp_path / "clip.wav")
    given = (visitor.key, "MARA", visitor.request, str(tmp_path / "clip.wav"), "A tone.")
    cast, _ = visitor.casts.give_clips(*given)
    assert "one clip" in cast["note"]
    assert not any(isinstance(each, float) for each in visitor.room.voices["mara"].keys)
    path, _ = visitor.casts.save_voice(visitor.key, "MARA", visitor.request)
    assert path.endswith("MARA.voice.json")
    visitor.performs()
    cloned = visitor.sounds()
    cast, _ = visitor.does(visitor.casts.forget_voice, who="mara")
    assert "1 clip, the codes and words of 1, 2 copies" in cast["note"]
    assert not (tmp_path / "clip.wav").exists()
    assert "mara" not in visitor.room.scene.cast
    visitor.casts.load_voice(visitor.key, "MARA", path, visitor.request)
    visitor.room.change(lambda scene: dataclasses.replace(scene, takes=(), accepted={}))
    visitor.performs()
    assert visitor.sounds() == cloned


def test_up_to_four_clips_make_one_voice(visitor, tmp_path):
    fields = []
    for number in range(4):
        write_tone(tmp_path / f"{number}.wav", 150 + 40 * number)
        fields += [str(tmp_path / f"{number}.wav"), f"Tone {number}."]
    cast, _ = visitor.casts.give_clips(visitor.key, "MARA", visitor.request, *fields)
    assert "4 clips" in cast["note"]
    (played,) = visitor.room.voices["mara"].played.values()
    assert [each.transcript for each in played.voice] == [f"Tone {number}." for number in range(4)]
    assert len({each.audio.tobytes() for each in played.voice}) == 4


def test_a_card_without_its_clip_says_so_when_it_is_to_speak(visitor):
    visitor.does(visitor.casts.cast, who="mara", kind="clips")
    assert "MARA has no clip yet" in visitor.performs()[-1]["sentence"]


@pytest.mark.parametrize(
    ("clip", "words", "named"),
    [(None, "x", "There is no clip"), ("short", "x", "0.4 s"), ("clip", " ", "no words")],
)
def test_a_clip_that_gives_no_voice_is_refused_in_the_cast(visitor, tmp_path, clip, words, named):
    write_tone(tmp_path / "clip.wav")
    sf.write(tmp_path / "short.wav", 0.1 * np.ones(17_640), 44_100)
    path = clip and str(tmp_path / f"{clip}.wav")
    cast, _ = visitor.casts.give_clips(visitor.key, "MARA", visitor.request, path, words)
    assert named in cast["note"]


def test_a_saved_scene_comes_back_with_its_script_and_makes_the_same_takes(house, visitor):
    visitor.performs()
    path, _ = visitor.scenes.export_scene(visitor.key, visitor.request)
    other = Visitor(house, "FINN: Other.")
    source, *_ = other.scenes.open_scene(other.key, path, other.request)
    assert source == SCRIPT
    other.performs()
    assert other.sounds() == visitor.sounds()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"tableread_page": 2}', '{"tableread_page": 1, "script": 3}']
)
def test_another_file_is_no_scene_and_changes_nothing(visitor, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    answer = visitor.scenes.open_scene(visitor.key, str(tmp_path / "x.json"), visitor.request)
    assert "x.json" in answer[5]["note"]
    assert answer[0] == SCRIPT


def test_deleting_everything_leaves_nothing_behind(visitor, tmp_path):
    write_tone(tmp_path / "clip.wav")
    given = (visitor.key, "MARA", visitor.request, str(tmp_path / "clip.wav"), "A tone.")
    visitor.casts.give_clips(*given)
    visitor.does(visitor.casts.cast, who="mara", kind="own")
    visitor.performs()
    folder, old = visitor.room._folder, visitor.key
    key, *_ = visitor.scenes.delete_everything(old)
    assert key != old
    assert not folder.exists()
    assert not (tmp_path / "clip.wav").exists()
    assert visitor.scenes.rooms.get(old) is None


def test_the_page_is_told_facts_and_no_codes_or_sound(visitor):
    visitor.performs()
    visitor.does(visitor.scenes.open_line, line="L3")
    told = json.dumps([visitor.scenes.rows(visitor.room), *visitor.scenes.enter(visitor.key)[7:]])
    assert "bytes" not in told
    assert len(told) < 12_000


def test_a_rehearsal_is_labelled_and_its_codes_stay_out_of_the_models_memory(house, tiny_family, monkeypatch):
    other = Engine(named(tiny_family, "other"))
    monkeypatch.setattr(gpu, "_house", dataclasses.replace(gpu._house, understudy=other))
    scenes = SceneStage(house.scenes.stage, house.scenes.rooms, other)
    visitor = Visitor(SimpleNamespace(scenes=scenes, casts=CastStage(scenes)))
    visitor.room.voices["finn"] = Voice(FILE, played={scenes.main.model: Character()})  # no voice for it
    list(scenes.rehearse(visitor.key, False, visitor.request))
    assert {take.model for take in visitor.room.scene.takes} == {"other"}
    assert visitor.room.scene.takes[2].heard
    visitor.does(scenes.perform_from, line="L3")
    third = visitor.room.scene.accepted_take("L3")
    assert (third.model, third.heard) == (scenes.main.family.name, ())
    with pytest.raises(Exception, match="one model"):
        scenes.mix_of(visitor.room)


def named(family, name: str):
    """The same model under another name."""
    other = copy.copy(family)
    other.name = name
    return other


def test_rooms_are_few_young_and_small(monkeypatch):
    kept = Rooms()
    monkeypatch.setattr(rooms, "ROOMS", 3)
    for number in range(5):
        kept.room(str(number)).put("a", np.zeros(1000, np.int16))
    assert [kept.get(str(number)) is not None for number in range(5)] == [False, False, True, True, True]
    assert len(list(kept._root.iterdir())) == 3
    monkeypatch.setattr(rooms, "HOUSE_BYTES", 4500)
    kept.room("4")
    assert [kept.get(str(number)) is not None for number in range(2, 5)] == [False, True, True]
    kept.room("3").touched = time.monotonic() - rooms.KEPT_S - 1
    kept._rooms.move_to_end("3", last=False)
    assert kept.get("4") is not None
    kept.close()


def test_takes_of_a_line_and_bytes_of_a_room_are_bounded_and_chosen_ones_stay(visitor, monkeypatch):
    monkeypatch.setattr(rooms, "TAKES_PER_LINE", 3)
    visitor.performs()
    first = visitor.room.scene.accepted["L1"]
    visitor.does(visitor.scenes.star, line="L1", take=first)
    for seed in range(5):
        visitor.does(visitor.scenes.retake_line, line="L1", seed=str(seed))
    takes = visitor.room.scene.takes_of("L1")
    assert [take.seed for take in takes[1:]] == [3, 4]
    assert takes[0].id == first
    assert len(list(visitor.room._folder.glob("*.pcm"))) == 3 + 3
    monkeypatch.setattr(rooms, "ROOM_BYTES", 1)
    visitor.room.change(lambda scene: scene)
    assert [take.seed for take in visitor.room.scene.takes_of("L1")[1:]] == [4]


def test_a_scene_of_two_hundred_lines_tells_the_page_little(visitor):
    lines = [f"{name}: This is the line number {number}." for number, name in enumerate(["A", "B"] * 100, 1)]
    rows, *_ = visitor.write("\n".join(lines).replace("A:", "ANNE:").replace("B:", "BEN:"))
    assert len(rows["rows"]) == 200
    assert len(json.dumps(rows)) < 100_000


ACTS = "ACT ONE\n\nMARA: Go on.\n\nFINN: No.\n\nACT TWO\n\nMARA: Stay.\n"
LONG = "ACT ONE\n\n" + "MARA: a\n\n" * 300 + "ACT TWO\n\n" + "FINN: b\n\n" * 201


class TestParts:
    def test_a_part_is_chosen_and_its_takes_are_there_on_return(self, visitor):
        visitor.write(ACTS)
        visitor.does(visitor.scenes.choose_part, part="ACT ONE")
        assert [line.text for line in visitor.room.scene.lines] == ["Go on.", "No."]
        visitor.performs()
        sounds = visitor.sounds()
        visitor.does(visitor.scenes.choose_part, part="ACT TWO")
        assert [line.text for line in visitor.room.scene.lines] == ["Stay."]
        assert visitor.sounds() == [b""]
        visitor.does(visitor.scenes.choose_part, part="ACT ONE")
        assert visitor.sounds() == sounds
        visitor.does(visitor.scenes.choose_part, part="")
        assert len(visitor.room.scene.lines) == 3

    def test_a_script_that_is_too_long_begins_with_its_first_part(self, visitor):
        rows = visitor.write(LONG)[0]
        assert [(each["name"], each["chosen"]) for each in rows["parts"]] == [
            ("ACT ONE", True),
            ("ACT TWO", False),
        ]
        assert "“ACT ONE”" in rows["note"]
        assert len(visitor.room.scene.lines) == 300

    def test_another_script_forgets_the_parts_of_the_last(self, visitor):
        visitor.write(ACTS)
        visitor.does(visitor.scenes.choose_part, part="ACT TWO")
        visitor.write(SCRIPT)
        assert visitor.room.part == ""
        assert len(visitor.room.scene.lines) == 4

    def test_programs_choose_a_part_by_an_option(self, client):
        *_, (_, _, scene) = streamed(client, "/perform_scene", ACTS, CAST, "7", {"part": "act two"})
        assert [take["text"] for take in scene["takes"]] == ["Stay."]

    @pytest.mark.parametrize(
        ("script", "part", "told"),
        [
            (ACTS, "ACT FIVE", "no part “ACT FIVE”"),
            (LONG, "", "choose one of its parts by the option part"),
            (ACTS, 5, "give it as text"),
        ],
    )
    def test_a_part_that_is_not_there_is_refused_in_a_sentence(self, client, script, part, told):
        with pytest.raises(AppError, match=told):
            streamed(client, "/perform_scene", script, CAST, "7", {"part": part})
