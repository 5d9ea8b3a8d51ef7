"""What does memory cost: lines of history, further references, a longer script, a long evening?

    python bench/history.py [--model understudy | full-size] [--rounds N] [--lines N]

First sound of one line with so many turns of history, references and sentences, variants taking turns. The
prefix is known up to the last turn, as within a session: so a take with history should start hardly later
than one without. The slopes are milliseconds for one more turn, reference or sentence.

Then scenes of `--lines` lines with one, two, four and eight characters, each of whom remembers their own.
The lines are those of a comedy, `TENTH` of them, spoken again and again, so that the tenths of a scene are
alike but for what lies behind them: a line of the last tenth should cost what one of the second does, be
heard as soon, and with `--hear` be understood as well as one of the first (words wrong, by Whisper base).
Memory is told for each tenth, and lines that `missed`: more than the turn before them had to be read, as is
right for a character's first line only.
"""

from __future__ import annotations

import argparse
import lzma
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.check import Samples, ratios, slopes
from bench.report import last_line, show
from bench.takes import LINE, SAMPLING, engine_of, performed, random_codes, request
from engine.engine import Engine
from engine.prefix import PrefixCache, Snapshot
from engine.scene import Reading
from engine.take import Audio, Character, Done, Encoded, Reference, Spoken, TakeRequest
from engine.voices import ready_character, ready_voices
from prompts.script import parse

VARIANTS = {
    **{f"turns {count}": {"turns": count} for count in (0, 5, 10, 20, 30)},
    **{f"references {count}": {"references": count} for count in (1, 2, 4)},
    **{f"sentences {count}": {"text": " ".join([LINE] * count)} for count in (1, 8, 48)},
}
COMEDY = Path(__file__).resolve().parent.parent / "tests" / "data" / "comedy" / "pg844.txt.xz"
TENTH = 50  # different lines of a scene
WORDS = range(4, 30)  # of a line
CASTS = (1, 2, 4, 8)


def starts(engine: Engine, rounds: int) -> Samples:
    """Milliseconds to the first sound, and of a frame, of each variant."""
    samples: Samples = defaultdict(lambda: {"first_pcm_ms": [], "frame_ms": []})
    for turn in range(rounds + 1):
        for name, how in VARIANTS.items():
            performed(engine, request(engine.family, **how, seed=turn))  # the session's earlier line
            done, _ = performed(engine, request(engine.family, **how, seed=100 + turn))
            if turn:
                samples[name]["first_pcm_ms"].append(1e3 * done.timings.first_pcm_s)
                samples[name]["frame_ms"].append(1e3 / done.timings.frames_per_s)
        print(f"round {turn} of {rounds}", flush=True)
    return dict(samples)


def memory() -> dict[str, float]:
    """MiB that are held now: of the GPU, where there is one, and of the process."""
    with open("/proc/self/statm") as told:
        resident = int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    found = {"host_mib": resident / 2**20}
    if torch.cuda.is_available():
        found["memory_mib"] = torch.cuda.memory_allocated() / 2**20
        found["reserved_mib"] = torch.cuda.memory_reserved() / 2**20
    return found


def comedy_lines() -> list[str]:
    """The first `TENTH` speeches of the comedy that are neither a word nor a tirade, as they are spoken."""
    script = parse(lzma.decompress(COMEDY.read_bytes()).decode())
    spoken = (Reading().words(line.text) for line in script.lines)
    return [text for text in spoken if len(text.split()) in WORDS][:TENTH]


class Scene:
    """Lines of one process, one after the other, of so many characters; `history` is what each remembers."""

    def __init__(self, engine: Engine, characters: int, frames: int | None, hear: bool) -> None:
        self.engine, self.frames, self.hear = engine, frames, hear
        self._asked: list[bool] = []  # of each prefix that was looked for: was all but the last turn unknown?
        self._watch(engine.family.prefixes)
        self.history: list[tuple[Spoken, ...]] = [()] * characters
        self.cast = [self._character(number) for number in range(characters)]

    def _watch(self, prefixes: PrefixCache) -> None:
        def watched(rows: np.ndarray, borders: tuple[int, ...]) -> Snapshot | None:
            found = PrefixCache.longest(prefixes, rows, borders)  # not the scene's before, which watched too
            self._asked.append((found.num_rows if found else 0) < borders[max(0, len(borders) - 2)])
            return found

        prefixes.longest = watched

    def _character(self, number: int) -> Character:
        """A ready voice, or one of its halves; codes of noise where the model has random weights."""
        family = self.engine.family
        if self.frames:
            return Character(voice=(Reference(random_codes(family, 10.0, number), LINE),))
        voices = list(ready_voices(family.capabilities).values())
        who = ready_character(voices[number % len(voices)], family.capabilities)
        (reference,) = who.voice
        encoded = self.engine.encode(reference.audio)
        first = encoded.codes.shape[1] * (number // len(voices)) // 3
        return Character(voice=(Reference(encoded.codes[:, first:], reference.transcript),))

    def line(self, number: int, text: str, hear: bool) -> dict[str, float]:
        """Perform line `number`: what it cost, the memory after it and, if wanted, how it was understood."""
        who = number % len(self.cast)
        wanted = TakeRequest(text, self.cast[who], self.history[who], SAMPLING, number, self.frames)
        chunks, done = [], None
        self._asked.clear()
        for event in self.engine.perform(wanted):
            if isinstance(event, Audio):
                chunks.append(event.pcm)
            elif isinstance(event, Done):
                done = event
            assert not isinstance(event, Encoded)
        self.history[who] = (*self.history[who], Spoken(text, done.codes))
        told = {"line_s": done.timings.total_s, "first_pcm_ms": 1e3 * done.timings.first_pcm_s, **memory()}
        told["missed"] = float(self._asked[0])
        if hear:
            from tests.recogniser import hear, word_errors  # late: the recogniser is another 250 MB

            sound = np.concatenate(chunks).astype(np.float32) / 32768
            told["wrong"], told["words"] = word_errors(text, hear(sound, self.engine.family.sample_rate))
        return told

    def perform(self, name: str, lines: int, seconds: float) -> Samples:
        """So many lines, or those that fit in so many seconds, by tenths of the scene."""
        began, texts, samples = time.perf_counter(), comedy_lines(), {}
        for number in range(lines):
            tenth = 10 * number // lines + 1
            metrics = samples.setdefault(f"{name} tenth {tenth}", defaultdict(list))
            hear = self.hear and tenth in (1, 10)
            for metric, value in self.line(number, texts[number % len(texts)], hear).items():
                metrics[metric].append(value)
            if 10 * (number + 1) // lines + 1 > tenth:
                show({f"{name} tenth {tenth}": metrics})
                print(f"{name}: {number + 1} lines, {time.perf_counter() - began:.0f} s", flush=True)
            if time.perf_counter() - began > seconds:
                print(f"stopped after {number + 1} lines: {seconds:.0f} s are over", flush=True)
                break
        return samples


def figures(samples: Samples) -> tuple[dict[str, float], dict[str, float]]:
    """(ratios, slopes) that the samples have something to say about."""
    names, units = [], []
    if "turns 0" in samples:
        names = [f"first_pcm_ms turns {count} / turns 0" for count in (10, 30)]
        names += ["first_pcm_ms references 4 / references 1", "first_pcm_ms sentences 48 / sentences 1"]
        units = ["first_pcm_ms by turns", "first_pcm_ms by references", "first_pcm_ms by sentences"]
    for cast in {name.partition(" tenth ")[0] for name in samples if " tenth 10" in name}:
        metrics = samples[f"{cast} tenth 10"]
        pair = f"{cast} tenth 10 / {cast} tenth 2"
        names += [f"{metric} {pair}" for metric in metrics if metric not in ("wrong", "words", "missed")]
        names.append(f"p95_line_s {pair}")
        if "wrong" in metrics:
            names += [f"wrong {cast} tenth {tenth} / {cast} tenth {tenth}" for tenth in (1, 10)]
    return ratios(names, samples), slopes(units, samples)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="understudy")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--lines", type=int, default=500)
    options.add_argument("--casts", type=int, nargs="*", default=CASTS, help="characters of each scene")
    options.add_argument("--frames", type=int, help="frames of a line, for random weights, which don't end")
    options.add_argument("--hear", action="store_true", help="count the words that Whisper base mishears")
    options.add_argument("--seconds", type=float, default=1e9, help="at most about so long for a scene")
    args = options.parse_args()
    engine = engine_of(args.model)
    samples = starts(engine, args.rounds) if args.rounds else {}
    for count in args.casts:
        engine.forget()
        scene = Scene(engine, count, args.frames, args.hear)
        samples |= scene.perform(f"cast of {count}", args.lines, args.seconds)
    show(samples)
    found, sloped = figures(samples)
    for name, value in (found | sloped).items():
        print(f"{name} = {value:.4f}")
    last_line({"model": engine.family.name, "ratios": found, "slopes": sloped, "samples": samples})


if __name__ == "__main__":
    main()
