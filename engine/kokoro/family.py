"""Kokoro-82M int8 on a CPU: the stand-in, so that any machine speaks at once.

A family without frames: a sentence of phonemes and a style vector go in, the samples of the whole sentence
come out. Kokoro plans its durations on a grid of 600 samples (25 ms at 24 kHz), which is what the rest of
the house calls a hop here. It is deterministic: nothing is drawn, so a seed or a sampling setting is
accepted and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engine.family import Capabilities, Piece, PieceEnd, PromptSize, Sound
from engine.kokoro import weights
from engine.kokoro.characters import CHARACTERS
from engine.kokoro.voices import Voice, choose, read_voices
from engine.take import Character, RequestError, Spoken, Status
from engine.vocoder import pcm16
from prompts.letters import fold
from prompts.text import check_character_field, check_line, cues, without_cues

if TYPE_CHECKING:
    import onnxruntime

    from engine.kokoro.phrases import Phrase

SAMPLE_RATE = 24_000
HOP = 600
MAX_PIECE_FRAMES = 2_400  # 60 s: about what 1,200 frames of Drama 3 last

# A hop is silence around a sentence while its peak stays 40 dB below the sentence's own. Kokoro leaves 0.2 to
# 0.4 s of it in front and 0.5 to 0.8 s behind; a little stays, for breath and decay.
QUIET = 0.01
LEAD_HOPS, TAIL_HOPS = 1, 3

WORK_S_PER_PHONEME = 0.05  # of one core (measured: 0.045), for the promise in a Status

_ANOTHER = "use --model with a checkpoint that can"


class KokoroFamily:
    """The loaded stand-in: one session, a handful of voices. Takes share it and leave nothing in it."""

    name = "kokoro"
    revision = weights.REVISION
    capabilities = Capabilities(
        clone=False,
        describe=True,
        direct=False,
        history=False,
        seeds=False,
        languages=("en",),
        characters=CHARACTERS,
        reads_descriptions=False,
    )
    sample_rate = SAMPLE_RATE
    hop = HOP
    num_codebooks = 0
    codebook_size = 0
    max_piece_frames = MAX_PIECE_FRAMES
    longest_piece_s = 20.0

    def __init__(self, session: onnxruntime.InferenceSession, voices: tuple[Voice, ...]) -> None:
        # Late, like all that needs the runtime's packages: `load` says in one sentence when they are missing.
        from kokoro_onnx.config import DEFAULT_VOCAB

        self.voices = voices
        self._session = session
        self._ids = DEFAULT_VOCAB

    @classmethod
    def load(cls, threads: int | None = None) -> KokoroFamily:
        """Join the weights in memory and open them on the CPU, with `threads` or as many as there are cores.

        Raises RequestError naming the package to install where one is missing.
        """
        model = weights.read()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        # Threads that spin while they wait took 30 % longer on two cores shared with other work.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return cls(session, read_voices())

    def check(self, text: str, character: Character, history: tuple[Spoken, ...]) -> None:
        """Raise RequestError or PromptError for what Kokoro can't speak: clips, other scripts, bare cues.

        A scene is accepted and changes nothing.
        """
        check_line(text)
        if character.voice:
            raise RequestError(
                f"The stand-in voice can't follow a reference clip; describe a voice, or {_ANOTHER}."
            )
        if history:
            raise RequestError(
                f"The stand-in voice can't continue earlier lines; leave them out, or {_ANOTHER}."
            )
        for field in ("name", "description"):
            if getattr(character, field):
                check_character_field(getattr(character, field), field)
        _check_words(text)

    def performed(self, text: str) -> str:
        """All of it; cues are left out where words become phonemes."""
        return text

    def directed(self, text: str, direction: str) -> str:
        """Raises RequestError: Kokoro plays every line alike."""
        raise RequestError(f"The stand-in voice can't be directed; {_ANOTHER}.")

    def encode(self, samples: np.ndarray) -> np.ndarray:
        """Raises RequestError: Kokoro has no codes."""
        raise RequestError(f"The stand-in voice can't follow a reference clip; {_ANOTHER}.")

    def prepare(self, major: int, minor: int) -> None:
        pass

    def warm(self) -> None:
        pass

    def forget(self) -> int:
        """Nothing is remembered of a take."""
        return 0

    def measure(self, piece: Piece) -> PromptSize:
        """There are no rows: every line is read for itself."""
        return PromptSize(0, (), 0, 0)

    def speak(self, piece: Piece) -> Iterator[Status | Sound]:
        """Perform one piece, a `Sound` a sentence with the pause before it; returns the PieceEnd.

        The deadline and a close() are seen between sentences; at `max_frames` the sound is cut. A piece of
        cues alone ends without a sound.
        """
        from engine.kokoro.phrases import phrases

        began = piece.clock.now()
        voice, speed = choose(self.voices, piece.character.description)
        parts = phrases(piece.text, voice.accent)
        piece.clock.add("prompt", piece.clock.now() - began)
        frames = 0
        for number, phrase in enumerate(parts, 1):
            if piece.due():
                return PieceEnd("deadline", frames, None)
            if frames == piece.max_frames:
                return PieceEnd("length", frames, None)
            work_s = WORK_S_PER_PHONEME * len(phrase.phonemes) / speed
            yield Status(
                "speaking", f"Sentence {number} of {len(parts)}, about {max(1, round(work_s))} s of work."
            )
            samples = self._sound(phrase, voice, speed)
            room = piece.max_frames - frames
            if len(samples) > room * HOP:
                yield Sound(pcm16(samples[: room * HOP]), room)
                return PieceEnd("length", piece.max_frames, None)
            frames += len(samples) // HOP
            yield Sound(pcm16(samples), len(samples) // HOP)
        return PieceEnd("stop", frames, None)

    def _sound(self, phrase: Phrase, voice: Voice, speed: float) -> np.ndarray:
        """Samples float32 [whole hops] of one phrase, its pause before it."""
        ids = [self._ids[sound] for sound in phrase.phonemes if sound in self._ids]
        (samples,) = self._session.run(
            None,
            {
                "tokens": np.array([[0, *ids, 0]], np.int64),
                "style": voice.styles[len(ids) - 1][None],
                "speed": np.array([speed], np.float32),
            },
        )
        pause = np.zeros(round(phrase.pause_s * SAMPLE_RATE / HOP) * HOP, np.float32)
        return np.concatenate([pause, np.clip(trim(samples), -1.0, 1.0)])


def trim(samples: np.ndarray) -> np.ndarray:
    """Whole hops of `samples` float32 [n]; of the silence around, `LEAD_HOPS` and `TAIL_HOPS` are left."""
    hops = samples[: len(samples) // HOP * HOP].reshape(-1, HOP)
    peaks = np.abs(hops).max(1)
    (loud,) = np.nonzero(peaks > QUIET * peaks.max())
    if not len(loud):
        return hops.reshape(-1)
    return hops[max(0, loud[0] - LEAD_HOPS) : loud[-1] + 1 + TAIL_HOPS].reshape(-1)


def _check_words(text: str) -> None:
    """Raise RequestError where nothing is left to say, or in a script that Kokoro's English can't read."""
    from engine.kokoro.phrases import phrases

    for letter in "".join(fold(without_cues(text), CHARACTERS).unread):
        if letter.isalpha():
            raise RequestError(f"The stand-in voice reads English only, not {letter!r}; {_ANOTHER}.")
    if not phrases(text, "american"):
        what = f"perform a cue alone, such as {cues(text)[0]}" if cues(text) else "say a line without words"
        raise RequestError(f"The stand-in voice can't {what}; add words to the line, or {_ANOTHER}.")
