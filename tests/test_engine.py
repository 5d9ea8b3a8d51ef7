"""The one loop, on the tiny checkpoint: what is heard is what was drawn, and nothing else ever matters."""

from __future__ import annotations

import copy
import gc
import itertools
import logging
import math
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from engine.drama3.host import host_weights
from engine.drama3.model import TakeState
from engine.engine import SENTENCE_GAP_S, Engine
from engine.family import Piece
from engine.prefix import PrefixCache
from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    Encoded,
    Reference,
    RequestError,
    Sampling,
    Spoken,
    Status,
    TakeFailed,
    TakeRequest,
)
from engine.vocoder import ThreadVocoder, pcm16

RATE, HOP = 44_100, 2048  # of the tiny checkpoint
LINE = "Hello there."
THREE = "The door was open. Nobody had been here for years, as far as I could tell. I left."
CODES = np.random.default_rng(0).integers(0, 16, (4, 30))
MARA = Character("Mara", description="a weary lighthouse keeper", scene="A storm at night.")
TURNS = (Spoken("It came up the stairs.", CODES[:, :12]), Spoken("I hid.", CODES[:, 12:]))


@dataclass
class Heard:
    """A take that was heard to its end."""

    events: list

    @property
    def done(self) -> Done:
        return self.events[-1]

    @property
    def chunks(self) -> list[Audio]:
        return [event for event in self.events if isinstance(event, Audio)]

    @property
    def pcm(self) -> np.ndarray:
        return np.concatenate([chunk.pcm for chunk in self.chunks])


def request(text: str = LINE, seed: int | None = 3, max_frames: int | None = 12, **fields) -> TakeRequest:
    return TakeRequest(text, seed=seed, max_frames=max_frames, **fields)


def hear(engine: Engine, wanted: TakeRequest) -> Heard:
    return Heard(list(engine.perform(wanted)))


def assert_same(a: Heard, b: Heard) -> None:
    """The same take: codes, sound, chunks and verdict."""
    assert np.array_equal(a.done.codes, b.done.codes)
    assert (a.done.finish_reason, a.done.frames, a.done.flags) == (
        b.done.finish_reason,
        b.done.frames,
        b.done.flags,
    )
    assert [chunk.seq for chunk in a.chunks] == [chunk.seq for chunk in b.chunks]
    assert np.array_equal(a.pcm, b.pcm)


def assert_nearly_same_sound(a: np.ndarray, b: np.ndarray) -> None:
    """Equal but for rounding: two schedules differ by 1e-6 of full scale at most (see `codec.py`), that is by
    0.03 of a step of int16, so truncation parts at most three samples of 100, by one step."""
    assert a.dtype == b.dtype == np.int16
    assert len(a) == len(b)
    difference = np.abs(a.astype(int) - b)
    assert difference.max() <= 1
    assert difference.mean() < 0.03


def clip(seconds: float = 1.2, seed: int = 0, rate: int = RATE) -> Clip:
    """Noise that falls with frequency and swells, at the level of speech."""
    n = round(seconds * rate)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(n)) / (1 + np.arange(n // 2 + 1) / 500)
    sound = np.fft.irfft(spectrum, n) * (1.2 + np.sin(np.arange(n) * (8 * np.pi / rate)))
    return Clip((sound * (0.1 / sound.std())).astype(np.float32), rate)


def cloned(*audio: Clip | np.ndarray) -> Character:
    return Character(voice=tuple(Reference(each, f"Words {number}.") for number, each in enumerate(audio)))


@pytest.fixture
def engine(tiny_family) -> Engine:
    return Engine(tiny_family)


@pytest.fixture
def work(monkeypatch, tiny_family) -> list[str]:
    """Every piece of model work, by name; no prefix is known yet."""
    tiny_family.prefixes.clear()
    calls, prefill, step, encode = [], TakeState.prefill, TakeState.step, tiny_family.encode
    monkeypatch.setattr(TakeState, "prefill", lambda *given: (calls.append("prefill"), prefill(*given)))
    monkeypatch.setattr(TakeState, "step", lambda *given: (calls.append("step"), step(*given)))
    monkeypatch.setattr(tiny_family, "encode", lambda samples: (calls.append("encode"), encode(samples))[1])
    return calls


@pytest.fixture
def short_pieces(monkeypatch, tiny_family) -> None:
    """Lines split as if a piece could hold 3 s: THREE becomes three pieces, the last inside a sentence."""
    monkeypatch.setattr(tiny_family, "longest_piece_s", 3.0)


class TestSound:
    @pytest.mark.parametrize(("seed", "max_frames"), [(3, 40), (1, 40), (5, 1), (6, 17)])
    def test_joined_chunks_are_the_whole_decode_of_the_codes(self, engine, seed, max_frames):
        take = hear(engine, request(seed=seed, max_frames=max_frames))
        assert take.done.codes.shape == (4, take.done.frames)
        assert len(take.pcm) == take.done.frames * HOP
        assert_nearly_same_sound(take.pcm, pcm16(engine.family.codec.decode(take.done.codes).numpy()))
        assert np.abs(take.pcm.astype(int)).max() > 1000

    @pytest.mark.parametrize("sizes", [(1,), (10, 10, 12, 32, 64), (3, 1), (100,)])
    def test_another_schedule_gives_the_same_take(self, engine, monkeypatch, sizes):
        usual = hear(engine, request(max_frames=40))
        monkeypatch.setattr(ThreadVocoder, "schedule", sizes)
        other = hear(engine, request(max_frames=40))
        assert len(other.chunks) != len(usual.chunks)
        assert np.array_equal(usual.done.codes, other.done.codes)
        assert_nearly_same_sound(usual.pcm, other.pcm)

    def test_chunks_are_numbered_and_placed(self, engine):
        chunks = hear(engine, request(max_frames=40)).chunks
        assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
        assert [chunk.first_frame for chunk in chunks] == [0, 3, 7, 13, 21, 33]
        assert [len(chunk.pcm) for chunk in chunks] == [frames * HOP for frames in (3, 4, 6, 8, 12, 7)]
        assert {chunk.sample_rate for chunk in chunks} == {RATE}

    def test_a_status_comes_before_the_first_sound_and_done_comes_last(self, engine):
        events = hear(engine, request()).events
        kinds = [type(event) for event in events]
        assert kinds[0] is Status
        assert kinds[-1] is Done
        assert kinds.count(Done) == 1
        assert {Status, Audio, Done} == set(kinds)

    def test_the_first_status_comes_before_any_model_work(self, engine, work):
        take = engine.perform(request(character=cloned(clip())))
        assert next(take).phase == "preparing"
        assert work == []

    @pytest.mark.usefixtures("prompt_vocoder")
    def test_the_first_sound_comes_after_three_frames(self, engine, work):
        take = engine.perform(request(max_frames=40))
        next(event for event in take if isinstance(event, Audio))
        assert work.count("step") == 3
        take.close()


class TestSeed:
    def test_the_same_seed_is_the_same_take_in_any_order(self, engine):
        first, other, again = (hear(engine, request(seed=seed)) for seed in (3, 4, 3))
        assert_same(first, again)
        assert_same(other, hear(engine, request(seed=4)))

    def test_a_fresh_engine_makes_the_same_take(self, engine, tiny_family):
        assert_same(hear(engine, request()), hear(Engine(tiny_family), request()))

    def test_other_seeds_are_other_takes(self, engine):
        takes = [hear(engine, request(seed=seed)).done.codes for seed in (0, 3, 2**32 + 3, 2**64 - 1)]
        for a, b in itertools.combinations(takes, 2):
            assert a.shape != b.shape or (a == b).mean() < 0.5

    def test_takes_that_take_turns_in_one_thread_do_not_touch(self, engine):
        wanted = [request(seed=3, max_frames=30), request(seed=5, character=MARA, history=TURNS)]
        alone = [hear(engine, each) for each in wanted]
        turns: tuple[list, list] = ([], [])
        for events in itertools.zip_longest(*(engine.perform(each) for each in wanted)):
            for mine, event in zip(turns, events, strict=True):
                mine.extend([event] if event is not None else [])
        for take, events in zip(alone, turns, strict=True):
            assert_same(take, Heard(events))

    def test_takes_in_two_threads_do_not_touch(self, engine):
        wanted = [request(seed=seed, max_frames=25) for seed in (3, 5, 6, 7)]
        alone = [hear(engine, each) for each in wanted]
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(lambda each: hear(engine, each), wanted))
        for a, b in zip(alone, together, strict=True):
            assert_same(a, b)

    def test_a_missing_seed_is_drawn_and_reported(self, engine):
        first, second = (hear(engine, request(seed=None, max_frames=3)) for _ in range(2))
        assert first.done.seed != second.done.seed  # equal once in 2^64
        assert 0 <= first.done.seed < 2**64
        assert_same(first, hear(engine, request(seed=first.done.seed, max_frames=3)))

    def test_settings_change_the_take_of_a_seed(self, engine):
        usual = hear(engine, request()).done.codes
        for sampling in (Sampling(temperature=0.3), Sampling(top_p=0.2), Sampling(top_k=2)):
            other = hear(engine, request(sampling=sampling)).done.codes
            assert other.shape != usual.shape or not np.array_equal(other, usual)


class TestEnd:
    def test_speech_that_ends_by_itself_is_a_stop(self, engine):
        done = hear(engine, request(seed=1, max_frames=40)).done
        assert (done.finish_reason, done.frames, done.flags) == ("stop", 8, ())

    @pytest.mark.parametrize("max_frames", [1, 2, 7])
    def test_the_callers_cap_is_a_length_without_a_flag(self, engine, max_frames):
        done = hear(engine, request(max_frames=max_frames)).done
        assert (done.finish_reason, done.frames, done.flags) == ("length", max_frames, ())

    def test_a_cap_cuts_a_take_short_and_changes_nothing_before(self, engine):
        long, short = (hear(engine, request(max_frames=frames)).done.codes for frames in (20, 9))
        assert np.array_equal(long[:, :9], short)

    def test_a_take_that_runs_into_the_cap_of_its_text_ran_long(self, engine):
        done = hear(engine, request("Hi.", seed=0, max_frames=None)).done
        # "Hi." gets the least, 2 s: 43.07 frames of 2,048 samples at 44.1 kHz.
        assert (done.finish_reason, done.frames, done.flags) == ("length", 44, ("ran_long",))

    def test_at_the_deadline_everything_decoded_is_delivered(self, engine, monkeypatch):
        whole = hear(engine, request(max_frames=40))
        now = itertools.count()
        monkeypatch.setattr("engine.family.Clock.now", lambda clock: next(now) / 10)
        take = hear(engine, request(max_frames=40, deadline=1.5))
        frames = take.done.frames
        assert take.done.finish_reason == "deadline"
        assert 0 < frames < 16
        assert len(take.pcm) == frames * HOP
        assert np.array_equal(take.done.codes, whole.done.codes[:, :frames])
        assert_nearly_same_sound(take.pcm, whole.pcm[: frames * HOP])

    def test_a_deadline_that_has_passed_gives_one_frame(self, engine):
        done = hear(engine, request(deadline=1e-9)).done
        assert (done.finish_reason, done.frames) == ("deadline", 1)

    def test_a_deadline_ends_the_line_and_not_only_its_piece(self, engine, short_pieces):
        done = hear(engine, request(THREE, deadline=1e-9)).done
        assert (done.finish_reason, done.frames) == ("deadline", 1)


class TestCancel:
    def test_closing_at_any_event_leaves_nothing(self, engine, monkeypatch, work):
        states, opened = [], TakeState.open
        monkeypatch.setattr(
            TakeState, "open", lambda *given: (state := opened(*given), states.append(weakref.ref(state)))[0]
        )
        wanted = request(THREE, character=cloned(clip()), max_frames=10)

        def forget() -> None:
            engine.cache.clear()
            engine.family.prefixes.clear()

        whole = hear(engine, wanted)
        for count in range(len(whole.events) + 1):
            forget()
            take = engine.perform(wanted)
            heard = list(itertools.islice(take, count))
            take.close()
            before = len(work)
            assert all(state() is None for state in states)
            assert [type(event) for event in heard] == [type(event) for event in whole.events[:count]]
            assert list(take) == []
            assert len(work) == before
        forget()
        assert_same(whole, hear(engine, wanted))

    def test_a_take_between_the_halves_of_a_cancelled_one_is_the_same(self, engine):
        whole = hear(engine, request(seed=5))
        broken_off = engine.perform(request(seed=3))
        list(itertools.islice(broken_off, 3))
        during = hear(engine, request(seed=5))
        broken_off.close()
        assert_same(whole, during)
        assert_same(whole, hear(engine, request(seed=5)))

    def test_a_take_that_is_dropped_unclosed_frees_its_state_too(self, engine, monkeypatch):
        states, opened = [], TakeState.open
        monkeypatch.setattr(
            TakeState, "open", lambda *given: (state := opened(*given), states.append(weakref.ref(state)))[0]
        )
        take = engine.perform(request())
        next(event for event in take if isinstance(event, Audio))
        assert states[0]() is not None
        del take
        gc.collect()
        assert states[0]() is None


class TestReferences:
    def test_a_clip_comes_back_as_codes_that_give_the_same_take(self, engine):
        take = hear(engine, request(character=cloned(clip())))
        (encoded,) = (event for event in take.events if isinstance(event, Encoded))
        # 1.2 s and 0.3 s of appended silence: 32.3 frames.
        assert encoded.codes.shape == (4, 33)
        later = hear(engine, request(character=cloned(encoded.codes)))
        assert not any(isinstance(event, Encoded) for event in later.events)
        assert_same(take, later)

    def test_the_second_time_a_clip_is_not_encoded_again(self, engine, work):
        first, second = (hear(engine, request(character=cloned(clip()))) for _ in range(2))
        assert work.count("encode") == 1
        assert_same(first, second)

    def test_a_clip_is_known_by_its_sound(self, engine, work):
        engine.encode(clip())
        louder_start = clip()
        louder_start.samples[1000] += 0.01
        assert engine.encode(clip()).key != engine.encode(louder_start).key
        assert work == ["encode", "encode"]

    def test_a_cache_without_room_encodes_again_to_the_same_codes(self, tiny_family, work):
        engine = Engine(tiny_family, cache_bytes=0)
        first, second = engine.encode(clip()), engine.encode(clip())
        assert work == ["encode", "encode"]
        assert np.array_equal(first.codes, second.codes)

    def test_spoiling_encoded_codes_does_not_spoil_the_cache(self, engine):
        before = hear(engine, request(character=cloned(clip())))
        for event in before.events:
            if isinstance(event, Encoded):
                event.codes[:] = 0
        assert_same(before, hear(engine, request(character=cloned(clip()))))

    def test_each_clip_is_announced_and_handed_back_in_order(self, engine):
        character = cloned(clip(seed=1), CODES, clip(seed=2))
        events = hear(engine, request(character=character)).events
        told = [event.detail for event in events if isinstance(event, Status) and event.phase == "reference"]
        encoded = [event for event in events if isinstance(event, Encoded)]
        assert told == ["Listening to reference 1.", "Listening to reference 3."]
        assert [event.key for event in encoded] == [engine.encode(clip(seed=seed)).key for seed in (1, 2)]
        assert events.index(encoded[1]) < events.index(next(e for e in events if isinstance(e, Audio)))

    def test_voice_description_history_and_order_all_change_the_take(self, engine):
        a, b = CODES[:, :14], CODES[:, 14:]
        characters = [Character(), cloned(a), cloned(b), cloned(a, b), cloned(b, a), MARA]
        wanted = [request(character=each) for each in characters] + [
            request(history=TURNS),
            request(history=TURNS[::-1]),
        ]
        takes = {hear(engine, each).done.codes.tobytes() for each in wanted}
        assert len(takes) == len(wanted)

    def test_a_request_is_not_changed_by_being_performed(self, engine):
        voice, turns = CODES.copy(), tuple(Spoken(turn.text, turn.codes.copy()) for turn in TURNS)
        hear(engine, request(character=cloned(voice), history=turns))
        assert np.array_equal(voice, CODES)
        assert all(np.array_equal(a.codes, b.codes) for a, b in zip(turns, TURNS, strict=True))


class TestCharacterAndHistory:
    def test_a_described_character_with_history_performs(self, engine):
        take = hear(engine, request(character=MARA, history=TURNS))
        piece = Piece(LINE, 0, MARA, TURNS, Sampling(), 3, 12)
        assert np.array_equal(take.done.codes, codes_of(engine.family, piece))
        assert take.done.flags == ()

    def test_history_that_had_to_go_is_told(self, engine, tiny_family):
        tight = copy.copy(tiny_family)
        tight.max_prompt_rows = (
            len(tiny_family.prompt(Piece(LINE, 0, MARA, TURNS, Sampling(), 3, 12)).rows) - 1
        )
        done = hear(Engine(tight), request(character=MARA, history=TURNS)).done
        (flag,) = done.flags
        assert flag in ("history_dropped(1)", "history_dropped(2)")
        kept = TURNS[int(flag[-2]) :]
        assert np.array_equal(done.codes, hear(engine, request(character=MARA, history=kept)).done.codes)

    def test_the_codes_of_a_take_can_be_the_history_of_the_next(self, engine):
        first = hear(engine, request()).done
        second = hear(engine, request("I hear you.", history=(Spoken(LINE, first.codes),))).done
        assert second.frames > 0
        alone = hear(engine, request("I hear you.")).done
        assert not np.array_equal(second.codes, alone.codes)


def codes_of(family, piece: Piece) -> np.ndarray:
    speech = family.speak(piece)
    while True:
        try:
            next(speech)
        except StopIteration as stop:
            return stop.value.codes


def listening(family):
    """(engine, pieces, ends): what its family is given to speak, and how each piece ended."""
    pieces, ends, listener = [], [], copy.copy(family)

    def speak(piece: Piece):
        pieces.append(piece)
        ends.append((yield from family.speak(piece)))
        return ends[-1]

    listener.speak = speak
    return Engine(listener), pieces, ends


@pytest.fixture(scope="module")
def spoken(tiny_family):
    """(take, pieces, ends) of a long line with history, spoken to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_family, "longest_piece_s", 3.0)
        engine, pieces, ends = listening(tiny_family)
        return hear(engine, request(THREE, seed=9, max_frames=None, history=TURNS)), pieces, ends


@pytest.mark.usefixtures("short_pieces")
class TestLongLine:
    parts = ("The door was open. ", "Nobody had been here for years, ", "as far as I could tell. I left.")

    def test_a_long_line_is_one_take_of_several_pieces(self, spoken):
        take, pieces, ends = spoken
        assert [piece.text for piece in pieces] == list(self.parts)
        assert [piece.index for piece in pieces] == [0, 1, 2]
        assert take.done.flags[0] == "split(3)"
        assert take.done.frames == sum(end.frames for end in ends)
        assert np.array_equal(take.done.codes, np.concatenate([end.codes for end in ends], 1))
        assert take.done.finish_reason == ends[-1].reason

    @pytest.mark.parametrize(
        ("front", "again"),
        [("[whispering] ", "[whispering] "), ("[sighs] [softly] ", "[softly] "), ("[sighs] ", "")],
    )
    def test_a_direction_holds_for_every_piece_and_a_sound_for_the_first(self, tiny_family, front, again):
        engine, pieces, _ = listening(tiny_family)
        hear(engine, request(front + THREE, seed=9, max_frames=None))
        first, *others = (piece.text for piece in pieces)
        assert first.startswith(front)
        assert others
        assert all(text.startswith(again) and text.count("[") == again.count("[") for text in others)
        said = "".join(text.removeprefix(again) for text in others)
        assert first.removeprefix(front) + said == THREE

    def test_an_older_card_is_performed_as_it_was(self, tiny_family):
        """Its direction stood in front of the first piece only."""
        engine, pieces, _ = listening(tiny_family)
        hear(engine, request("[whispering] " + THREE, seed=9, max_frames=None, letters=False))
        assert len(pieces) > 1
        assert "".join(piece.text for piece in pieces) == "[whispering] " + THREE

    def test_each_piece_hears_the_earlier_ones_as_history(self, spoken):
        _, pieces, ends = spoken
        for index, piece in enumerate(pieces):
            assert piece.history[:2] == TURNS
            assert [turn.text for turn in piece.history[2:]] == list(self.parts[:index])
            for turn, end in zip(piece.history[2:], ends, strict=False):
                assert np.array_equal(turn.codes, end.codes)

    def test_a_pause_stands_between_sentences_and_none_inside_one(self, spoken):
        take, _, _ = spoken
        gaps = [chunk for chunk in take.chunks if len(chunk.pcm) % HOP]
        # The first border ends a sentence, the second a clause.
        assert [len(gap.pcm) for gap in gaps] == [round(SENTENCE_GAP_S * RATE)]
        assert not gaps[0].pcm.any()
        assert len(take.pcm) == take.done.frames * HOP + len(gaps[0].pcm)
        assert take.done.timings.audio_s == pytest.approx(len(take.pcm) / RATE)

    def test_chunks_are_numbered_and_placed_across_pieces(self, spoken):
        chunks = spoken[0].chunks
        assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
        sizes = [0 if len(chunk.pcm) % HOP else len(chunk.pcm) // HOP for chunk in chunks]
        assert [chunk.first_frame for chunk in chunks] == np.cumsum([0, *sizes[:-1]]).tolist()

    def test_each_piece_is_the_whole_decode_of_its_codes(self, spoken, tiny_family):
        take, _, ends = spoken
        heard = np.concatenate([chunk.pcm for chunk in take.chunks if not len(chunk.pcm) % HOP])
        whole = [pcm16(tiny_family.codec.decode(end.codes).numpy()) for end in ends]
        assert_nearly_same_sound(heard, np.concatenate(whole))

    def test_the_pieces_of_a_line_have_noise_of_their_own(self, engine):
        twice = "No, no, no, no, no. No, no, no, no, no."
        first, second = (
            codes_of(engine.family, Piece(twice, index, Character(), (), Sampling(), 3, 10))
            for index in (0, 1)
        )
        assert first.shape != second.shape or (first == second).mean() < 0.5

    @pytest.mark.parametrize("cap", [1, 20, 60])
    def test_the_callers_cap_holds_for_the_whole_line(self, tiny_family, cap):
        engine, pieces, ends = listening(tiny_family)
        done = hear(engine, request(THREE, seed=3, max_frames=cap)).done
        assert (done.finish_reason, done.frames) == ("length", cap)
        assert [piece.max_frames for piece in pieces][-1] == cap - sum(end.frames for end in ends[:-1])

    def test_a_long_line_is_the_same_take_again(self, engine):
        assert_same(*(hear(engine, request(THREE, seed=1, max_frames=50)) for _ in range(2)))

    def test_a_line_that_can_not_be_finished_is_not_begun(self, tiny_family, work):
        tight, voice = copy.copy(tiny_family), cloned(CODES)
        rows = [
            len(tiny_family.prompt(Piece(part, 0, voice, (), Sampling(), 3, 9)).rows) for part in self.parts
        ]
        assert rows[1] > rows[0]
        tight.max_prompt_rows = rows[1] - 1
        hear(Engine(tight), request(self.parts[0], character=voice, max_frames=1))
        work.clear()
        with pytest.raises(
            RequestError, match=f"^Voice and line need {rows[1]} rows, the limit is {rows[1] - 1}; "
        ):
            hear(Engine(tight), request(THREE, character=voice))
        assert work == []

    def test_a_piece_without_a_frame_fails_the_line(self, tiny_family):
        family, mute = copy.copy(tiny_family), speechless(tiny_family)
        family.open = lambda piece, rows: (mute if piece.index == 1 else tiny_family).open(piece, rows)
        take, heard = Engine(family).perform(request(THREE, max_frames=100)), []
        with pytest.raises(TakeFailed, match=r"^The model ended 'Nobody had"):
            heard.extend(take)

    def test_history_that_is_gone_is_told_as_it_was_when_the_line_began(self, tiny_family):
        tight = copy.copy(tiny_family)
        tight.history_rows = 40  # one turn, or one of the line's own pieces
        engine, _, ends = listening(tight)
        flags = hear(engine, request(THREE, seed=9, max_frames=None, history=TURNS)).done.flags
        assert [end.flags for end in ends] == [("history_dropped(1)",), (), ()]
        assert [flag for flag in flags if flag.startswith("history_dropped(")] == ["history_dropped(1)"]


def test_a_line_cut_by_the_cap_between_two_sentences_is_no_stop(monkeypatch):
    from engine.kokoro.family import KokoroFamily  # the family whose pieces can end just at the cap

    monkeypatch.setattr(KokoroFamily, "longest_piece_s", 0.3)
    engine = Engine(KokoroFamily.load())
    first = hear(engine, TakeRequest("No.", seed=0)).done
    done = hear(engine, TakeRequest("No. Why?", seed=0, max_frames=first.frames)).done
    assert (first.finish_reason, first.flags) == ("stop", ())
    assert (done.finish_reason, done.frames, done.flags) == ("length", first.frames, ("split(2)",))


def with_model(family, change):
    """The family with a copy of its model, changed."""
    other = copy.copy(family)
    other.model, other.prefixes = copy.deepcopy(family.model), PrefixCache(0)
    change(other.model)
    other.host = host_weights(other.model)
    return other


def speechless(family):
    """The family with a model all of whose candidates are the end of speech."""

    def change(model) -> None:
        ends = torch.full_like(model.candidates, model.config.eos_token_id)
        model.candidates = torch.nn.Parameter(ends, requires_grad=False)

    return with_model(family, change)


class TestModelFault:
    def test_a_take_without_a_frame_fails_and_gives_no_sound(self, tiny_family):
        heard = []
        with pytest.raises(TakeFailed, match="before it made a sound; try another seed or other words"):
            heard.extend(Engine(speechless(tiny_family)).perform(request()))
        assert not any(isinstance(event, Audio) for event in heard)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_logits_that_are_no_numbers_fail_the_take(self, tiny_family, value):
        broken = with_model(tiny_family, lambda model: model.backbone.head[3].fill_(value))
        with pytest.raises(TakeFailed, match="not finite at frame 0; try another seed"):
            list(Engine(broken).perform(request()))

    def test_what_was_heard_before_a_fault_is_the_take_up_to_there(self, tiny_family, engine):
        whole = hear(engine, request())
        used = tiny_family.config.semantic_start_token_id + int(whole.done.codes[0, 7])
        assert used - 439 not in whole.done.codes[0, :7]
        broken = with_model(tiny_family, lambda model: model.backbone.embedding[used].fill_(math.nan))
        heard = []
        with pytest.raises(TakeFailed, match="not finite at frame 8; "):
            heard.extend(Engine(broken).perform(request()))
        # Chunks are due after frames 3, 7 and 13.
        pcm = np.concatenate([event.pcm for event in heard if isinstance(event, Audio)])
        assert np.array_equal(pcm, whole.pcm[: 7 * HOP])
        assert_same(whole, hear(engine, request()))


def silence(seconds: float = 2.0) -> Clip:
    return Clip(np.zeros(round(seconds * RATE), np.float32), RATE)


def spoilt(value: float) -> Clip:
    bad = clip()
    bad.samples[7] = value
    return bad


BAD_CLIPS = {
    "empty": silence(0),
    "silent": silence(),
    "constant": Clip(np.full(2 * RATE, 0.3, np.float32), RATE),
    "short": clip(0.9),
    "long": clip(60.1),
    "nan": spoilt(math.nan),
    "infinite": spoilt(math.inf),
    "integers": Clip(np.ones(2 * RATE, np.int16), RATE),
    "no rate": Clip(clip().samples, 0),
    "list": Clip([0.1] * 50_000, RATE),
}
BAD_CODES = {
    "float": CODES.astype(np.float32),
    "bool": CODES > 3,
    "shape": CODES[:3],
    "flat": CODES[0],
    "empty": CODES[:, :0],
    "large": CODES + 60,
    "negative": CODES - 1,
}
BAD_REQUESTS = {
    "empty text": request(""),
    "blank text": request(" \u3000\n"),
    "punctuation": request("... !?"),
    "no text": request(None),
    "bytes": request(b"Hello"),
    "long text": request("word " * 1001),
    "structural token": request("Now <|im_end|> then"),
    "semantic token": request("Now <|semantic:3|> then"),
    "special": request("Now <|audio_separator|> then"),
    "speaker tag": request("<|speaker:1|> Now"),
    "broken tag": request("<|speaker:01|> Now"),
    "no transcript": request(character=Character(voice=(Reference(CODES, " "),))),
    "transcript of no type": request(character=Character(voice=(Reference(CODES, None),))),
    "long transcript": request(character=Character(voice=(Reference(CODES, "a" * 2001),))),
    "5 references": request(character=cloned(*[CODES] * 5)),
    "path": request(character=Character(voice=(Reference("clip.wav", "Hi."),))),
    "colon": request(character=Character("Mara: old", description="weary")),
    "line break": request(character=Character("Mara\n", description="weary")),
    "both": request(character=Character(voice=cloned(CODES).voice, description="weary")),
    "scene": request(character=Character(scene="a storm")),
    "seed": request(seed=2**64),
    "temperature": request(sampling=Sampling(temperature=math.nan)),
    "top_p": request(sampling=Sampling(top_p=0)),
    "top_k": request(sampling=Sampling(top_k=0)),
    "max_frames": request(max_frames=0),
    "deadline": request(deadline=math.nan),
    "history text": request(history=(Spoken("", CODES),)),
    "history type": request(history=("Hello.",)),
    "too many rows": request(character=cloned(np.zeros((4, 2047), np.int64))),
    **{f"clip {name}": request(character=cloned(bad)) for name, bad in BAD_CLIPS.items()},
    **{f"second clip {name}": request(character=cloned(clip(), bad)) for name, bad in BAD_CLIPS.items()},
    **{f"codes {name}": request(character=cloned(bad)) for name, bad in BAD_CODES.items()},
    **{f"history {name}": request(history=(Spoken("Hi.", bad),)) for name, bad in BAD_CODES.items()},
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_is_refused_in_a_sentence_before_any_model_work(engine, work, name):
    heard = []
    with pytest.raises(RequestError) as refused:
        heard.extend(engine.perform(BAD_REQUESTS[name]))
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) > 20
    assert work == []
    assert all(isinstance(event, Status) for event in heard)


def test_a_refusal_leaves_the_engine_as_it_was(engine):
    whole = hear(engine, request())
    for name in ("empty text", "codes large", "second clip silent"):
        with pytest.raises(RequestError):
            hear(engine, BAD_REQUESTS[name])
    assert_same(whole, hear(engine, request()))


class TestTold:
    def test_the_parts_of_a_take_are_timed(self, engine):
        take = hear(engine, request(character=cloned(clip()), max_frames=20))
        told = take.done.timings
        assert 0 < told.reference_s < told.first_codes_s < told.first_pcm_s < told.total_s
        assert 0 < told.prompt_s + told.prefill_s < told.first_codes_s
        assert told.audio_s == pytest.approx(len(take.pcm) / RATE)
        assert 0.9 * told.total_s < told.rtf * told.audio_s <= told.total_s

    def test_a_take_logs_one_line_with_its_seed_and_none_of_its_words(self, engine, caplog):
        with caplog.at_level(logging.INFO, logger="engine"):  # whatever a console command set before
            hear(engine, request("Nobody must read this.", seed=77, max_frames=2))
        lines = [record.getMessage() for record in caplog.records if record.name == "engine.engine"]
        (line,) = [line for line in lines if line.startswith("take ")]
        assert "seed=77" in line
        assert "frames=2" in line
        assert not any("read this" in line for line in lines)


def test_the_time_a_listener_takes_is_not_the_engines(engine, monkeypatch):
    ticks = itertools.count()
    slept = [0.0]
    passing = SimpleNamespace(perf_counter=lambda: slept[0] + 0.001 * next(ticks))
    monkeypatch.setattr("engine.family.time", passing)
    for event in engine.perform(request(max_frames=4)):
        slept[0] += 5.0
        last = event
    assert last.timings.total_s > 5.0
    assert last.timings.rtf * last.timings.audio_s < 1.0


def test_forgetting_drops_codes_and_prompt_states_and_changes_no_take(engine):
    wanted = request(character=cloned(clip()), max_frames=6)
    whole = hear(engine, wanted)
    assert engine.cache.num_bytes > 0
    assert engine.family.prefixes.num_bytes > 0
    engine.forget()
    assert engine.cache.num_bytes == engine.family.prefixes.num_bytes == 0
    assert_same(whole, hear(engine, wanted))
