"""One piece of a frame family: what is read, what is dropped to fit, when it ends."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch

from engine.drama3.host import host_weights
from engine.drama3.model import TakeState
from engine.family import Piece, PieceEnd, Sound
from engine.prefix import PrefixCache
from engine.stepping import fit_history, speak_frames
from engine.take import Character, Reference, RequestError, Sampling, Spoken, Status, TakeFailed

RNG = np.random.default_rng(8)
TURNS = tuple(
    Spoken(f"This is what I said before, number {number}.", RNG.integers(0, 16, (4, frames)))
    for number, frames in enumerate((20, 35, 10, 28, 15))
)


def piece(**fields) -> Piece:
    plain = Piece("Hello there.", 0, Character(), (), Sampling(), seed=3, max_frames=12)
    return dataclasses.replace(plain, **fields)


def perform(family, wanted: Piece) -> tuple[list[Status | Sound], PieceEnd]:
    units, speech = [], speak_frames(family, wanted)
    while True:
        try:
            units.append(next(speech))
        except StopIteration as stop:
            return units, stop.value


def sounds(units) -> list[Sound]:
    return [unit for unit in units if isinstance(unit, Sound)]


def limited(family, **limits):
    """The same family with other limits."""
    other = copy.copy(family)
    for name, value in limits.items():
        assert hasattr(family, name)
        setattr(other, name, value)
    return other


def num_rows(family, wanted: Piece) -> int:
    return len(family.prompt(wanted).rows)


@pytest.fixture
def prefills(monkeypatch, tiny_family) -> list[int]:
    """The rows of every prefill that is called; no prefix is known yet."""
    tiny_family.prefixes.clear()
    calls, whole = [], TakeState.prefill
    monkeypatch.setattr(
        TakeState, "prefill", lambda state, rows: (calls.append(len(rows)), whole(state, rows))
    )
    return calls


def before_sound(family, wanted: Piece, prefills: list[int]) -> tuple[list[int], PieceEnd]:
    """The rows of every prefill up to the first sound of a piece, and the end of it."""
    prefills.clear()
    first, speech = None, speak_frames(family, wanted)
    while True:
        try:
            if isinstance(next(speech), Sound) and first is None:
                first = len(prefills)
        except StopIteration as stop:
            return prefills[:first], stop.value


def history_rows(family, history=TURNS) -> int:
    return num_rows(family, piece(history=history)) - num_rows(family, piece())


class TestHistory:
    def test_history_within_the_room_keeps_every_turn(self, tiny_family):
        wanted = piece(history=TURNS)
        exact = limited(tiny_family, history_rows=history_rows(tiny_family))
        fitted = fit_history(exact, wanted)
        assert np.array_equal(fitted.prompt.rows, tiny_family.prompt(wanted).rows)
        assert fitted.gone == ()

    @pytest.mark.parametrize("share", [0.999, 0.9, 0.6, 0.45])
    def test_whole_turns_go_until_the_rest_fits(self, tiny_family, share):
        wanted = piece(history=TURNS)
        room = int(share * history_rows(tiny_family))
        fitted = fit_history(limited(tiny_family, history_rows=room), wanted)
        dropped = len(fitted.gone)
        assert 0 < dropped <= 5
        assert fitted.gone == tuple(range(dropped))
        assert np.array_equal(fitted.prompt.rows, tiny_family.prompt(piece(history=TURNS[dropped:])).rows)
        assert history_rows(tiny_family, TURNS[dropped:]) <= room

    def test_the_same_turns_are_gone_whatever_the_line_and_its_frame_cap(self, tiny_family):
        tight = limited(tiny_family, history_rows=history_rows(tiny_family) - 1)
        lines = [
            piece(text=text, max_frames=cap, history=TURNS)
            for text, cap in (("No.", 1), ("Good night. " * 30, tight.max_piece_frames), ("Yes.", 90))
        ]
        assert len({fit_history(tight, line).gone for line in lines}) == 1

    def test_the_line_after_one_that_dropped_turns_finds_its_prefix_again(self, tiny_family):
        tight = limited(tiny_family, history_rows=history_rows(tiny_family) - 1)
        first = fit_history(tight, piece(history=TURNS))
        more = (*TURNS, Spoken("And this.", TURNS[2].codes))
        second = fit_history(tight, piece(text="Good night.", history=more))
        assert second.gone == first.gone
        kept = first.prompt.borders[-1]
        assert kept in second.prompt.borders
        assert np.array_equal(second.prompt.rows[:kept], first.prompt.rows[:kept])

    def test_frames_to_come_count_against_the_context(self, tiny_family):
        most = tiny_family.max_rows - num_rows(tiny_family, piece(history=TURNS))
        assert fit_history(tiny_family, piece(history=TURNS, max_frames=most)).gone == ()
        assert fit_history(tiny_family, piece(history=TURNS, max_frames=most + 1)).gone

    def test_a_line_of_more_words_than_an_eighth_lets_further_turns_go(self, tiny_family):
        wanted = piece(text="Good night. " * 40, history=TURNS)
        rows = num_rows(tiny_family, wanted)
        tight = limited(tiny_family, max_prompt_rows=rows - 1)
        assert fit_history(tight, piece(history=TURNS)).gone == ()
        fitted = fit_history(tight, wanted)
        assert 0 < len(fitted.gone) < len(TURNS)
        assert len(fitted.prompt.rows) < rows

    def test_the_take_says_how_many_turns_went(self, tiny_family):
        wanted = piece(history=TURNS)
        tight = limited(tiny_family, history_rows=history_rows(tiny_family) - 1)
        dropped = len(fit_history(tight, wanted).gone)
        end = perform(tight, wanted)[1]
        assert end.flags == (f"history_dropped({dropped})",)
        assert np.array_equal(end.codes, perform(tiny_family, piece(history=TURNS[dropped:]))[1].codes)

    def test_what_goes_for_the_sake_of_a_line_s_own_pieces_is_not_told(self, tiny_family):
        tight = limited(tiny_family, history_rows=history_rows(tiny_family) - 1)
        assert perform(tight, piece(history=TURNS, index=1))[1].flags == ()

    def test_a_pinned_turn_stays_while_others_can_go(self, tiny_family):
        pinned = (dataclasses.replace(TURNS[0], pinned=True), *TURNS[1:])
        wanted = piece(history=pinned)
        fitted = fit_history(limited(tiny_family, history_rows=history_rows(tiny_family) - 1), wanted)
        expected = piece(history=(pinned[0], *pinned[1 + len(fitted.gone) :]))
        assert fitted.gone
        assert np.array_equal(fitted.prompt.rows, tiny_family.prompt(expected).rows)

    def test_a_take_that_dropped_nothing_has_no_flag(self, tiny_family):
        assert perform(tiny_family, piece(history=TURNS))[1].flags == ()


class TestLongScene:
    """Lines one after another, each remembering all before it, with room for four of them or five."""

    @pytest.fixture
    def tight(self, tiny_family):
        tiny_family.prefixes.clear()
        return limited(tiny_family, history_rows=240)

    def play(self, family, lines: int) -> list[tuple[Piece, PieceEnd]]:
        played, history = [], ()
        for number in range(lines):
            wanted = piece(text=f"This is line {number}.", history=history, seed=number)
            played.append((wanted, perform(family, wanted)[1]))
            history = (*history, Spoken(wanted.text, played[-1][1].codes))
        return played

    def test_before_its_first_sound_a_line_reads_its_own_words_and_then_itself_twice(self, tight, prefills):
        """Once behind what it remembers, once behind what the lines after the next step will."""
        history, before, after = (), [], []
        for number in range(16):
            wanted = piece(text=f"This is line {number}.", history=history, seed=number)
            read, end = before_sound(tight, wanted, prefills)
            first, prompt = sum(read), fit_history(tight, wanted).prompt
            history = (*history, Spoken(wanted.text, end.codes))
            turn = int(np.diff(tight.prompt(piece(history=history)).borders)[-1])
            before.append(first - (len(prompt.rows) - prompt.borders[-1]))
            after.append((sum(prefills) - first) / turn)
        assert fit_history(tight, wanted).gone
        # The first line reads the voice, the second the first one, which may have been a take of its own.
        assert before[2:] == [0] * 14
        assert after[0] == 0
        assert set(after[1:]) == {1, 2}
        assert after.count(2) > 6

    def test_the_lines_are_those_of_an_engine_that_remembers_no_prefix(self, tight):
        played, bare = self.play(tight, 12), limited(tight, prefixes=PrefixCache(0))
        assert played[-1][1].flags
        for wanted, end in played:
            again = perform(bare, wanted)[1]
            assert np.array_equal(end.codes, again.codes)
            assert end.flags == again.flags

    def test_of_a_prompt_only_the_newest_state_and_the_voice_s_are_kept(self, tight):
        self.play(tight, 6)
        early = tight.prefixes.clear()
        played = self.play(tight, 20)
        steps = len({end.flags for _, end in played}) - 1
        # The voice, the prompt as the last line began and as the next one will, and that behind the next step
        # of forgetting; such a step leaves a state behind.
        assert early == 4
        assert steps > 3
        assert tight.prefixes.clear() <= 4 + steps

    def test_a_retake_of_the_newest_line_reads_its_words_alone(self, tight, prefills):
        wanted = self.play(tight, 9)[-1][0]
        for seed in (99, 100):
            read, _ = before_sound(tight, dataclasses.replace(wanted, seed=seed), prefills)
            prompt = fit_history(tight, wanted).prompt
            assert sum(read) == len(prompt.rows) - prompt.borders[-1]

    def test_the_line_after_one_in_pieces_begins_where_that_one_did(self, tight, prefills):
        wanted, end = self.play(tight, 3)[-1]
        history = (*wanted.history, Spoken(wanted.text, end.codes))
        parts, spoken = [], ()
        for index in range(3):
            part = piece(text=f"Part {index}.", index=index, history=(*history, *spoken))
            parts.append(perform(tight, part)[1].codes)
            spoken = (*spoken, Spoken(part.text, parts[-1]))
        whole = Spoken("Part 0. Part 1. Part 2.", np.concatenate(parts, 1))
        after = piece(text="Then.", history=(*history, whole))
        read, _ = before_sound(limited(tight, history_rows=4096), after, prefills)
        prompt = tight.prompt(after)
        assert sum(read) == len(prompt.rows) - prompt.borders[-2]

    def test_a_take_that_was_cut_by_its_deadline_reads_nothing_ahead(self, tight, prefills):
        wanted = self.play(tight, 8)[-1][0]
        tight.prefixes.clear()
        prefills.clear()
        perform(tight, dataclasses.replace(wanted, due=lambda: True))
        assert sum(prefills) == len(fit_history(tight, wanted).prompt.rows)


class TestTooLong:
    clone = Character(voice=(Reference(RNG.integers(0, 16, (4, 300)), "A long clip."),))

    @pytest.mark.parametrize("history", [(), TURNS])
    def test_what_does_not_fit_even_without_history_is_refused(self, tiny_family, prefills, history):
        bare = num_rows(tiny_family, piece(character=self.clone))
        tight = limited(tiny_family, max_prompt_rows=bare - 1)
        with pytest.raises(
            RequestError, match=f"^Voice and line need {bare} rows, the limit is {bare - 1}; "
        ):
            next(speak_frames(tight, piece(character=self.clone, history=history)))
        assert prefills == []

    def test_a_line_whose_later_piece_does_not_fit_is_refused_before_it_begins(self, tiny_family, prefills):
        second = piece(text="Some more words, and then some more.", index=1, character=self.clone)
        tight = limited(tiny_family, max_prompt_rows=num_rows(tiny_family, second) - 1)
        perform(tight, piece(character=self.clone, max_frames=1))
        prefills.clear()
        with pytest.raises(RequestError, match=r"^Voice and line need "):
            next(speak_frames(tight, piece(character=self.clone, later=(second,))))
        assert prefills == []


def test_a_prompt_is_always_cut_at_its_borders_and_every_so_many_rows_behind_one(
    tiny_family, prefills, monkeypatch
):
    monkeypatch.setattr("engine.stepping.PREFILL_ROWS", 40)
    wanted = piece(history=TURNS, max_frames=1)
    prompt = tiny_family.prompt(wanted)
    read, _ = before_sound(tiny_family, wanted, prefills)
    ends, parts = np.cumsum(read).tolist(), np.diff((0, *prompt.borders, len(prompt.rows)))
    assert {*prompt.borders, len(prompt.rows)} <= set(ends)
    assert ends[-1] == len(prompt.rows)
    assert max(parts) > 40
    assert read == [
        rows for part in parts for rows in [40] * ((part - 1) // 40) + [(part - 1) % 40 + 1] if part
    ]


def test_a_known_prefix_is_not_read_again(tiny_family, prefills):
    first = perform(tiny_family, piece(history=TURNS))[1]
    read, second = before_sound(tiny_family, piece(history=TURNS), prefills)
    prompt = tiny_family.prompt(piece(history=TURNS))
    assert sum(read) == len(prompt.rows) - prompt.borders[-1]
    assert np.array_equal(first.codes, second.codes)


def test_a_status_stands_before_every_prefill_call(tiny_family, prefills):
    speech, seen = speak_frames(tiny_family, piece(history=TURNS, max_frames=1)), []
    for unit in speech:
        seen.append((unit.phase if isinstance(unit, Status) else "sound", len(prefills)))
    count = len(prefills) - 1  # the last one reads the line itself, behind its sound
    assert seen == [
        *(("prefill", done) for done in range(count)),
        ("sound", count),
        ("speaking", count),
    ]


@pytest.mark.parametrize("seed", [3, 4, 21])
def test_looking_ahead_changes_nothing(tiny_family, seed):
    takes = [perform(limited(tiny_family, lookahead=ahead), piece(seed=seed)) for ahead in (0, 1, 3)]
    for units, end in takes[1:]:
        assert (end.reason, end.frames) == (takes[0][1].reason, takes[0][1].frames)
        assert np.array_equal(end.codes, takes[0][1].codes)
        for unit, first in zip(sounds(units), sounds(takes[0][0]), strict=True):
            assert np.array_equal(unit.pcm, first.pcm)


def test_looking_ahead_queues_no_step_behind_the_last_frame(tiny_family, monkeypatch):
    steps, step = [], TakeState.step
    monkeypatch.setattr(TakeState, "step", lambda state: (steps.append(1), step(state)))
    assert perform(limited(tiny_family, lookahead=3), piece(max_frames=5))[1].frames == 5
    assert len(steps) == 5


@pytest.mark.parametrize("lookahead", [0, 1])
def test_a_step_is_queued_before_the_status_of_the_one_before_is_read(tiny_family, monkeypatch, lookahead):
    order, step, status = [], TakeState.step, TakeState.status
    monkeypatch.setattr(TakeState, "step", lambda state: (order.append("step"), step(state)))
    monkeypatch.setattr(
        TakeState, "status", lambda state, frame: (order.append("read"), status(state, frame))[1]
    )
    perform(limited(tiny_family, lookahead=lookahead), piece(max_frames=3))
    ahead = ["step", "step", "read", "step", "read", "read"]
    assert order == (ahead if lookahead else ["step", "read"] * 3)


def test_end_of_speech_is_a_stop_without_its_frame(tiny_family):
    units, end = perform(tiny_family, piece(seed=1, max_frames=60))
    assert end.reason == "stop"
    assert end.frames == end.codes.shape[1] < 60
    assert sum(unit.frames for unit in sounds(units)) == end.frames
    more = perform(tiny_family, piece(seed=1, max_frames=90))[1]
    assert np.array_equal(more.codes, end.codes)


def test_the_frame_cap_is_a_length(tiny_family):
    end = perform(tiny_family, piece(max_frames=7))[1]
    assert (end.reason, end.frames, end.codes.shape) == ("length", 7, (4, 7))


@pytest.mark.parametrize("at", [1, 2, 5])
def test_at_the_deadline_the_take_ends_with_everything_delivered(tiny_family, at):
    asked = []
    units, end = perform(tiny_family, piece(due=lambda: asked.append(1) or len(asked) == at))
    assert (end.reason, end.frames) == ("deadline", at)
    assert sum(len(unit.pcm) for unit in sounds(units)) == at * tiny_family.hop
    assert np.array_equal(end.codes, perform(tiny_family, piece())[1].codes[:, :at])


@pytest.mark.usefixtures("prompt_vocoder")
def test_long_silence_between_chunks_is_broken_by_a_status(tiny_family, monkeypatch):
    monkeypatch.setattr("engine.stepping.HEARTBEAT_S", -1.0)  # as if every step took longer than it
    units, _ = perform(tiny_family, piece(max_frames=7))
    kinds = [
        "sound" if isinstance(unit, Sound) else unit.phase for unit in units if unit != Status("prefill")
    ]
    # Chunks are due after frames 3 and 7.
    assert kinds == ["speaking", "speaking", "sound", "speaking", "speaking", "speaking", "sound"]


def test_a_piece_that_ends_at_once_fails(tiny_family, monkeypatch):
    monkeypatch.setattr(TakeState, "status", lambda state, frame: (True, True))
    with pytest.raises(TakeFailed, match=r"^The model ended 'Hello there.' before it made a sound; "):
        perform(tiny_family, piece())


def test_numbers_that_are_none_end_the_take_at_their_frame(tiny_family):
    broken = limited(tiny_family, prefixes=PrefixCache(0))
    broken.model = copy.deepcopy(tiny_family.model)
    codes = perform(tiny_family, piece())[1].codes
    used = tiny_family.config.semantic_start_token_id + int(codes[0, 0])
    broken.model.backbone.embedding[used] = torch.nan  # heard when frame 0 is read, seen in frame 1
    broken.host = host_weights(broken.model)
    with pytest.raises(TakeFailed, match="not finite at frame 1; try another seed"):
        perform(broken, piece())


def test_the_parts_of_a_piece_are_timed(tiny_family):
    wanted = piece()
    perform(tiny_family, wanted)
    spans = wanted.clock.spans
    assert spans.keys() == {"prompt", "prefill"}
    assert all(seconds > 0 for seconds in spans.values())
    assert wanted.clock.stamps["first_codes"] >= sum(spans.values())
