"""A scene: edits keep what stayed, takes remember what they heard, and nothing changes in place."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.attempt import attempt_for, perform_attempt, perform_lines, remembered_at
from engine.engine import Engine
from engine.scene import LINE_GAP_S, Scene, SceneTake, seed_for, voice_key
from engine.scene_file import MAX_BYTES, from_json, to_json
from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    Encoded,
    Reference,
    RequestError,
    Sampling,
    Status,
    TakeFailed,
    Timings,
    Trouble,
)
from prompts.script import parse

ROOT = Path(__file__).resolve().parent.parent
CODES = np.random.default_rng(1).integers(0, 16, (4, 40))
MARA = Character("MARA", description="a weary lighthouse keeper")
FINN = Character("FINN", voice=(Reference(CODES, "What the clip says."),))
CAST = {"MARA": MARA, "FINN": FINN}
SCRIPT = """MARA: Who is there?
FINN (whispers): Only me.
(beat)
MARA: Come in.
FINN: Thank you.
MARA: Sit down."""
TWELVE = "\n".join(f"{name}: Line number {number}." for number, name in enumerate(["MARA", "FINN"] * 6, 1))


def scene_of(source: str = SCRIPT, seed: int = 7, **cast: Character) -> Scene:
    return Scene.of(parse(source), seed, cast or CAST)


def made(scene: Scene, line_id: str, family, **facts) -> SceneTake:
    """A take that some model might have made of a line."""
    attempt = attempt_for(scene, line_id, family)
    rng = np.random.default_rng(attempt.request.seed % 2**32)
    codes = rng.integers(0, 16, (4, 20))
    done = Done("stop", 20, attempt.request.seed, Timings(), codes)
    return dataclasses.replace(attempt.take(done, 44_100, 20 * 2048), **facts)


def all_made(scene: Scene, family) -> Scene:
    for line in scene.lines:
        scene = scene.with_take(made(scene, line.id, family))
    return scene


def performed(scene: Scene, engine: Engine) -> tuple[Scene, dict[str, np.ndarray]]:
    """(the scene with a take of every line, sound int16 by take)."""
    chunks, sounds = [], {}
    for _, event in perform_lines(scene, engine.family, engine.perform):
        if isinstance(event, Audio):
            chunks.append(event.pcm)
        elif isinstance(event, SceneTake):
            scene, sounds[event.id], chunks = scene.with_take(event), np.concatenate(chunks), []
    return scene, sounds


def ids(scene: Scene) -> list[str]:
    return [line.id for line in scene.lines]


class TestLines:
    def test_numbers_count_spoken_lines_and_beats_are_silence_before_a_line(self):
        scene = scene_of()
        assert [line.number for line in scene.lines] == [1, 2, 3, 4, 5]
        assert [line.row for line in scene.lines] == [1, 2, 4, 5, 6]
        gap = LINE_GAP_S
        assert [line.gap_s for line in scene.lines] == pytest.approx([0, gap, gap + 0.8, gap, gap])

    def test_beats_add_and_those_before_the_first_line_are_none(self):
        scene = scene_of("(beat)\nMARA: One.\n(beat)\n(beat)\nMARA: Two.\n(beat)")
        assert [line.gap_s for line in scene.lines] == pytest.approx([0, LINE_GAP_S + 1.6])

    def test_a_dual_line_has_no_silence_of_its_own(self):
        scene = scene_of("INT. ROOM\n\nFRANK\nStop.\n\nOLIVE ^\nNo.\n\nFRANK\nWell.")
        assert [(line.dual, line.gap_s) for line in scene.lines] == [
            (False, 0.0),
            (True, 0.0),
            (False, LINE_GAP_S),
        ]

    def test_a_script_of_501_lines_is_refused(self):
        with pytest.raises(RequestError, match="501 lines, the limit is 500"):
            scene_of("\n".join(f"MARA: Line {number}." for number in range(501)))

    def test_the_same_script_gives_the_same_ids_and_seeds(self):
        assert ids(scene_of()) == ids(scene_of()) == ["L1", "L2", "L3", "L4", "L5"]
        assert len({seed_for(7, line, retake) for line in ids(scene_of()) for retake in range(9)}) == 45
        assert seed_for(7, "L1", 0) == 10647924666484509324


class TestEdits:
    def test_an_edited_row_gets_a_new_id_and_the_others_keep_id_and_takes(self, tiny_family):
        before = all_made(scene_of(), tiny_family)
        after = before.edited(parse(SCRIPT.replace("Come in.", "Come in, quick.")))
        assert ids(after) == ["L1", "L2", "L6", "L4", "L5"]
        assert [take.id for take in after.takes] == [t.id for t in before.takes if t.line_id != "L3"]
        assert after.accepted.keys() == {"L1", "L2", "L4", "L5"}

    def test_an_id_is_never_given_twice(self):
        scene, other = scene_of(), SCRIPT.replace("Come in.", "Go away.")
        for _ in range(3):
            scene = scene.edited(parse(other)).edited(parse(SCRIPT))
        assert ids(scene) == ["L1", "L2", "L11", "L4", "L5"]

    def test_a_line_that_moved_keeps_its_takes(self, tiny_family):
        rows = SCRIPT.split("\n")
        scene = all_made(scene_of(), tiny_family).edited(parse("\n".join([*rows[1:], rows[0]])))
        assert ids(scene) == ["L2", "L3", "L4", "L5", "L1"]
        assert len(scene.takes) == 5

    def test_a_name_that_is_spelled_otherwise_is_the_same_actor(self, tiny_family):
        scene = all_made(scene_of(), tiny_family).edited(parse(SCRIPT.replace("MARA", "Mara")))
        assert ids(scene) == ["L1", "L2", "L3", "L4", "L5"]
        assert len(scene.history_of("L5", tiny_family.name, tiny_family.revision)) == 2

    def test_what_belonged_to_a_line_goes_with_it(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        scene = scene.star(scene.accepted["L1"]).pin("L1").forget("L3")
        scene = scene.edited(parse("MARA: Come in."))
        assert (ids(scene), len(scene.takes), scene.starred, scene.memory) == (
            ["L3"],
            1,
            frozenset(),
            {"L3": "forgotten"},
        )

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from("abcd"), max_size=9), st.lists(st.sampled_from("abcd"), max_size=9))
    def test_as_many_lines_are_kept_as_both_scripts_share(self, old, new):
        scripts = ["\n".join(f"MARA: Word {word}." for word in words) for words in (old, new)]
        before = scene_of(scripts[0])
        after = before.edited(parse(scripts[1]))
        kept = {line.id: line.text for line in before.lines}
        assert len(set(ids(after))) == len(new)
        assert all(kept.get(line.id, line.text) == line.text for line in after.lines)
        shared = sum(min(old.count(word), new.count(word)) for word in "abcd")
        assert len(kept.keys() & set(ids(after))) == shared

    def test_500_equal_lines_are_edited_at_once(self):
        scene = scene_of("MARA: No.\n" * 500)
        assert (
            len(ids(scene.edited(parse("MARA: No.\n" * 250 + "MARA: Yes.\n" + "MARA: No.\n" * 249)))) == 500
        )


class TestChoices:
    def test_every_change_is_another_scene_and_the_old_one_stays(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        before = to_json(scene)
        take = made(scene, "L3", tiny_family)
        changes = [
            scene.edited(parse("MARA: Other.")),
            scene.recast("mara", FINN),
            scene.with_take(take),
            scene.star(scene.accepted["L2"]),
            scene.pin("L1"),
            scene.forget("L1"),
        ]
        assert all(to_json(changed) != before for changed in changes)
        assert to_json(scene) == before

    def test_a_new_take_is_accepted_and_an_older_one_can_be_chosen_again(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        first = scene.accepted["L3"]
        scene = scene.with_take(second := made(scene, "L3", tiny_family))
        assert scene.accepted["L3"] == second.id != first
        assert [take.retake for take in scene.takes_of("L3")] == [0, 1]
        assert scene.accept("L3", first).accepted["L3"] == first
        with pytest.raises(RequestError, match="another line"):
            scene.accept("L1", first)

    def test_the_same_take_made_again_is_kept_once(self, tiny_family):
        scene = scene_of()
        take = made(scene, "L1", tiny_family)
        assert len(scene.with_take(take).with_take(dataclasses.replace(take)).takes) == 1

    def test_a_star_comes_and_goes(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        take = scene.accepted["L1"]
        assert scene.star(take).starred == {take}
        assert scene.star(take).star(take).starred == frozenset()

    @pytest.mark.parametrize("change", ["pin", "forget", "remember", "takes_of", "star"])
    def test_what_is_not_in_the_scene_is_refused(self, change):
        scene = scene_of()
        if change == "takes_of":
            assert scene.takes_of("L9") == ()
        else:
            with pytest.raises(RequestError, match="no longer in the"):
                getattr(scene, change)("L9")

    def test_a_scene_survives_a_process_border(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        assert to_json(pickle.loads(pickle.dumps(scene))) == to_json(scene)


class TestMemory:
    def heard(self, scene: Scene, line_id: str, family) -> list[str]:
        return [take.line_id for take in scene.history_of(line_id, family.name, family.revision)]

    def test_an_actor_remembers_the_accepted_takes_of_their_own_lines_before(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        assert [self.heard(scene, line, tiny_family) for line in ids(scene)] == [
            [],
            [],
            ["L1"],
            ["L2"],
            ["L1", "L3"],
        ]
        (turn,) = attempt_for(scene, "L4", tiny_family).request.history
        assert turn.text == "[whispers] Only me."
        assert np.array_equal(turn.codes, scene.accepted_take("L2").codes)

    def test_a_forgotten_line_is_left_out_and_a_pinned_one_says_so(self, tiny_family):
        scene = all_made(scene_of(), tiny_family).forget("L1").pin("L3")
        assert self.heard(scene, "L5", tiny_family) == ["L3"]
        assert [turn.pinned for turn in attempt_for(scene, "L5", tiny_family).request.history] == [True]
        assert self.heard(scene.remember("L1"), "L5", tiny_family) == ["L1", "L3"]

    @pytest.mark.parametrize(
        "facts", [{"model": "other"}, {"revision": "other"}, {"voice": "other"}, {"codes": None}]
    )
    def test_takes_of_another_model_another_voice_or_without_codes_are_not_remembered(
        self, tiny_family, facts
    ):
        scene = all_made(scene_of(), tiny_family)
        scene = scene.with_take(made(scene, "L1", tiny_family, **facts))
        assert self.heard(scene, "L5", tiny_family) == ["L3"]

    def test_a_voice_is_its_codes_whatever_the_clone_is_called_and_all_words_of_a_description(self):
        assert voice_key(FINN) == voice_key(dataclasses.replace(FINN, name="Somebody"))
        for other in ({"name": "EVE"}, {"description": "a child"}, {"scene": "Night."}):
            assert voice_key(MARA) != voice_key(dataclasses.replace(MARA, **other))

    def test_an_actor_who_gets_another_voice_starts_afresh(self, tiny_family):
        scene = all_made(scene_of(), tiny_family).recast("MARA", Character(description="a child"))
        assert self.heard(scene, "L5", tiny_family) == []

    def test_rows_are_counted_as_the_prompt_has_them(self, tiny_family):
        engine = Engine(tiny_family)
        scene = all_made(scene_of(), tiny_family)
        alone, both = (remembered_at(scene, line, engine) for line in ("L1", "L5"))
        assert alone.lines == ()
        assert both.lines == ("L1", "L3")
        frames = sum(scene.accepted_take(line).frames for line in both.lines)
        assert frames < both.rows - alone.rows < frames + 120
        assert both.rows < both.room < tiny_family.max_prompt_rows

    def test_what_does_not_fit_is_told_and_pinned_lines_stay(self, tiny_family, monkeypatch):
        engine = Engine(tiny_family)
        scene = all_made(scene_of("\n".join(f"MARA: Line {number}." for number in range(6))), tiny_family)
        whole = remembered_at(scene, "L6", engine)
        monkeypatch.setattr(tiny_family, "history_rows", whole.rows - 1)
        tight, pinned = (remembered_at(each, "L6", engine) for each in (scene, scene.pin("L1")))
        assert tight.dropped[0] == "L1"
        assert tight.rows <= 0.6 * tight.room
        assert "L1" in pinned.lines
        assert pinned.dropped[0] == "L2"
        assert (*tight.dropped, *tight.lines) == whole.lines

    def test_the_engine_drops_what_was_foretold(self, tiny_family, monkeypatch):
        engine = Engine(tiny_family)
        scene = all_made(scene_of("\n".join(f"MARA: Line {number}." for number in range(5))), tiny_family)
        rows = remembered_at(scene, "L5", engine).rows
        monkeypatch.setattr(tiny_family, "history_rows", rows - 1)
        foretold = remembered_at(scene, "L5", engine)
        *_, take = perform_attempt(attempt_for(scene, "L5", tiny_family), engine.perform)
        assert f"history_dropped({len(foretold.dropped)})" in take.flags
        assert tuple(line for line, _ in take.heard) == foretold.lines

    def test_a_take_heard_what_was_not_dropped(self, tiny_family):
        scene = all_made(scene_of("\n".join(f"MARA: Line {number}." for number in range(5))), tiny_family)
        attempt = attempt_for(scene.pin("L1"), "L5", tiny_family)
        done = Done("stop", 20, 1, Timings(), CODES[:, :20], ("history_dropped(2)",))
        assert [line for line, _ in attempt.take(done, 44_100, 1).heard] == ["L1", "L4"]


class TestRetakes:
    def test_a_retake_marks_exactly_the_takes_that_heard_the_older_one(self, tiny_family):
        """A-18: of twelve lines, odd ones MARA's, the fifth is taken again."""
        engine = Engine(tiny_family)
        before, sounds = performed(scene_of(TWELVE), engine)
        attempt = attempt_for(before, "L5", tiny_family, note="colder, slower")
        chunks = []
        for event in perform_attempt(attempt, engine.perform):
            if isinstance(event, Audio):
                chunks.append(event.pcm)
        after = before.with_take(event)
        assert after.accepted["L5"] != before.accepted["L5"]
        assert not np.array_equal(np.concatenate(chunks), sounds[before.accepted["L5"]])
        for line in set(ids(before)) - {"L5"}:
            assert after.accepted_take(line) is before.accepted_take(line)
        assert {line: mark.sentence for line, mark in after.stale().items()} == dict.fromkeys(
            ("L7", "L9", "L11"), "heard an older line 5"
        )
        assert before.stale() == {}
        assert after.accept("L5", before.accepted["L5"]).stale() == {}

    def test_a_marked_line_taken_again_is_no_longer_marked(self, tiny_family):
        scene = all_made(scene_of(TWELVE), tiny_family)
        scene = scene.with_take(made(scene, "L5", tiny_family))
        for line in list(scene.stale()):
            scene = scene.with_take(made(scene, line, tiny_family))
        assert scene.stale() == {}

    def test_a_line_that_was_reworded_is_gone_for_those_that_heard_it(self, tiny_family):
        scene = all_made(scene_of(), tiny_family).edited(parse(SCRIPT.replace("Who is there?", "Who?")))
        assert {line: mark.sentence for line, mark in scene.stale().items()} == {
            "L3": "heard a line that is gone",
            "L5": "heard a line that is gone",
        }

    def test_a_note_is_added_to_the_direction_and_the_seed_is_another(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        first, again = scene.accepted_take("L2"), attempt_for(scene, "L2", tiny_family, note="colder")
        assert again.request.text == "[whispers, colder] Only me."
        assert again.request.seed == seed_for(7, "L2", 1) != first.seed
        other = attempt_for(scene, "L2", tiny_family, direction="shouts", seed=3)
        assert (other.request.text, other.request.seed) == ("[shouts] Only me.", 3)

    def test_a_direction_that_would_end_the_cue_is_refused(self, tiny_family):
        with pytest.raises(RequestError, match="direction"):
            attempt_for(scene_of(), "L1", tiny_family, note="low] and")


class TestPerforming:
    @pytest.fixture
    def engine(self, tiny_family) -> Engine:
        return Engine(tiny_family)

    def test_two_performances_are_byte_for_byte_the_same(self, engine):
        first, sounds = performed(scene_of(), engine)
        second, again = performed(scene_of(), engine)
        assert to_json(first) == to_json(second)
        assert sounds.keys() == again.keys()
        assert all(np.array_equal(sounds[take], again[take]) for take in sounds)

    def test_a_take_can_be_made_again_from_the_scene(self, engine):
        scene, sounds = performed(scene_of(), engine)
        before = scene_of()
        for take in scene.takes[:4]:
            before = before.with_take(take)
        *_, take = perform_attempt(attempt_for(before, "L5", engine.family), engine.perform)
        assert take.id == scene.accepted["L5"]
        assert take.num_samples == len(sounds[take.id])

    def test_trouble_in_one_line_is_told_and_the_others_are_performed(self, engine):
        def perform(request):
            if "Only me" in request.text:
                raise TakeFailed("No sound.")
            if "Come in" in request.text:
                yield Trouble("memory", "No memory.")
                return
            yield from engine.perform(request)

        found = list(perform_lines(scene_of(MARA=MARA, FINN=FINN), engine.family, perform))
        ends = {line.id: event for line, event in found if isinstance(event, (Trouble, SceneTake))}
        assert {line: getattr(end, "kind", "take made") for line, end in ends.items()} == {
            "L1": "take made",
            "L2": "take",
            "L3": "memory",
            "L4": "take made",
            "L5": "take made",
        }
        assert [line for line, _ in ends["L5"].heard] == ["L1"]

    def test_an_actor_without_a_voice_is_trouble_of_their_lines_only(self, engine):
        kinds = [
            (line.id, type(event).__name__)
            for line, event in perform_lines(scene_of(MARA=MARA), engine.family, engine.perform)
            if isinstance(event, (Trouble, SceneTake))
        ]
        assert kinds == [(f"L{n}", "SceneTake" if n % 2 else "Trouble") for n in range(1, 6)]

    def test_some_lines_can_be_performed_alone(self, engine):
        found = perform_lines(scene_of(), engine.family, engine.perform, ["L4", "L2"])
        assert [line.id for line, event in found if isinstance(event, SceneTake)] == ["L4", "L2"]

    def test_closing_ends_the_line_under_way_and_what_was_heard_can_be_kept(self, engine):
        closed = []

        def perform(request):
            try:
                yield from engine.perform(request)
            finally:
                closed.append(request.text)

        scene = scene_of()
        show = perform_lines(scene, engine.family, perform)
        line, audio = next((line, event) for line, event in show if isinstance(event, Audio))
        show.close()
        assert closed == ["Who is there?"]
        attempt = attempt_for(scene, line.id, engine.family)
        cut = Done("cancelled", 1, attempt.request.seed, Timings(), None)
        take = attempt.take(cut, audio.sample_rate, len(audio.pcm))
        assert scene.with_take(take).accepted_take("L1").finish_reason == "cancelled"

    def test_nothing_is_held_while_somebody_listens_to_a_take(self, engine):
        under_way = []

        def perform(request):
            under_way.append(request)
            try:
                yield from engine.perform(request)
            finally:
                under_way.clear()

        ends = 0
        for _, event in perform_lines(scene_of(), engine.family, perform, ["L1", "L2"]):
            assert bool(under_way) != isinstance(event, SceneTake)
            ends += isinstance(event, SceneTake)
        assert ends == 2

    def test_a_family_that_takes_no_direction_says_so_and_reads_the_bare_words(self, engine, monkeypatch):
        able = dataclasses.replace(engine.family.capabilities, direct=False, history=False)
        monkeypatch.setattr(engine.family, "capabilities", able)
        scene = all_made(scene_of(), engine.family)
        attempt = attempt_for(scene, "L2", engine.family)
        assert (attempt.request.text, attempt.request.history) == ("Only me.", ())
        first = next(perform_attempt(attempt, engine.perform))
        assert isinstance(first, Status)
        assert "can't be directed" in first.detail
        assert attempt_for(scene, "L4", engine.family).hint == ""

    def test_a_cloned_actor_sends_codes_and_nothing_is_encoded(self, engine):
        events = list(perform_lines(scene_of(), engine.family, engine.perform, ["L2"]))
        assert not any(isinstance(event, Encoded) for _, event in events)


class TestJson:
    def test_a_scene_comes_back_whole(self, tiny_family):
        scene = all_made(scene_of(), tiny_family).pin("L1").forget("L2")
        scene = scene.star(scene.accepted["L3"]).with_take(made(scene, "L1", tiny_family))
        again = from_json(to_json(scene))
        assert to_json(again) == to_json(scene)
        assert again.lines == scene.lines
        assert again.stale() == scene.stale()
        assert voice_key(again.cast["finn"]) == voice_key(FINN)
        assert np.array_equal(again.takes[0].codes, scene.takes[0].codes)

    def test_the_next_take_is_the_same_after_a_reload(self, tiny_family):
        scene = dataclasses.replace(all_made(scene_of(), tiny_family), sampling=Sampling(1, 0.8, 20))
        again = from_json(to_json(scene))
        assert made(again, "L5", tiny_family).id == made(scene, "L5", tiny_family).id

    def test_without_voices_cloned_actors_stay_out_and_described_ones_in(self, tiny_family):
        scene = all_made(scene_of(), tiny_family)
        text = to_json(scene, voices=False)
        assert "What the clip says." not in text
        bare = from_json(text)
        assert bare.cast.keys() == {"mara"}
        assert to_json(bare.recast("FINN", FINN)) == to_json(scene)

    def test_no_sound_is_ever_in_it(self):
        clip = Character("FINN", voice=(Reference(Clip(np.zeros(9, np.float32), 8000), "Words."),))
        with pytest.raises(TypeError, match="no sound"):
            scene_of(FINN=clip)

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            (lambda d: d.pop("tableread_scene"), "no scene of Tableread"),
            (lambda d: d.update(tableread_scene=0), "schema 0"),
            (lambda d: d.update(tableread_scene=2), "schema 2"),
            (lambda d: d.update(extra=1), "'extra' is unknown"),
            (lambda d: d.pop("seed"), "'seed' is missing"),
            (lambda d: d.update(seed=-1), "seed"),
            (lambda d: d.update(seed=True), "whole number"),
            (lambda d: d.update(lines={}), "a list"),
            (lambda d: d["lines"][0].update(number=2), "line 1"),
            (lambda d: d["lines"][0].update(id="L2"), "share an id"),
            (lambda d: d["lines"][0].update(id="L99"), "never given"),
            (lambda d: d["lines"][0].update(gap_s=-1), "-1 s"),
            (lambda d: d["lines"][0].update(gap_s=10**400), "a number"),
            (lambda d: d["lines"][0].update(text="x" * 5001), "too long"),
            (lambda d: d["lines"][0].update(text="\ud800"), "half a character"),
            (lambda d: d.update(lines=d["lines"] * 101), "505 lines"),
            (lambda d: d["takes"][0].update(line_id="L9"), "without a line"),
            (lambda d: d["takes"][0].update(frames=3), "as many as its frames"),
            (lambda d: d["takes"][0].update(num_samples=-3), "below zero"),
            (lambda d: d["takes"][0].update(heard=[["L1"]]), "must hold 2"),
            (lambda d: d["takes"][0]["codes"].update(shape=[4, 9999]), "shape"),
            (lambda d: d["takes"][0]["codes"].update(dtype="object"), "dtype"),
            (lambda d: d["takes"][0]["codes"].update(dtype="<f4", shape=[2, 20]), "codes"),
            (lambda d: d["takes"][0].update(codes=[1]), "codes"),
            (lambda d: d["takes"].append(d["takes"][0]), "same take twice"),
            (lambda d: d["takes"][0].update(seed=5), "accepted take"),
            (lambda d: d.update(accepted={"L1": "no"}), "accepted take"),
            (lambda d: d.update(starred=["no"]), "star"),
            (lambda d: d.update(memory={"L9": "pinned"}), "memory"),
            (lambda d: d.update(memory={"L1": "dear"}), "memory"),
            (lambda d: d["sampling"].update(top_p=2), "top_p"),
            (lambda d: d["cast"]["finn"].update(description="both"), "kind of voice"),
            (lambda d: d["cast"]["finn"]["voice"][0].update(audio=None), "audio is nothing"),
            (lambda d: d["cast"]["finn"]["voice"][0].update(audio={"type": "Clip"}), "Clip"),
        ],
    )
    def test_a_hostile_or_older_file_gets_one_sentence(self, tiny_family, change, named):
        data = json.loads(to_json(all_made(scene_of(), tiny_family)))
        change(data)
        with pytest.raises(RequestError, match=named) as refused:
            from_json(json.dumps(data))
        assert len(str(refused.value)) < 300

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("", "not JSON"),
            ("[" * 100_000, "nested"),
            ('{"a": 1, "a": 2}', "twice"),
            ('{"a": NaN}', "NaN"),
            (b"\xff\xfe\xfa", "UTF-8"),
            ("[]", "no scene"),
            (" " * (MAX_BYTES + 1), "20 MB"),
        ],
    )
    def test_what_is_no_scene_is_refused(self, text, named):
        with pytest.raises(RequestError, match=named):
            from_json(text)


def test_a_scene_its_file_and_its_mix_need_neither_torch_nor_audio_files():
    code = (
        "import sys, engine.scene, engine.scene_file, engine.mix\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'soundfile', 'gradio')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
