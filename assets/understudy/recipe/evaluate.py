"""Measure a checkpoint on a CPU: WER, speaker similarity, obedience, speed, stops.

What is measured are takes of the app's engine, by the checkpoint in DIR: the sound that a listener gets.

    python evaluate.py --model DIR --whisper DIR --held-out held_out.json \
                       --references DIR --out DIR [--real DIR] [--publish 1]

Writes report.json; with --publish also lines.txt (20 held-out lines) and expected.json: six
requests with the codes that their seeds give on a CPU.  Its speed is that of whole takes: frames, and seconds
of sound, a second of all threads together, prompt and codec included (``frames_per_cpu_second``,
``times_real_time``).
A folder without a language model: only the codec is measured.  --references is what make_references.py wrote;
--real a folder of clips of living people in the same form (NAME.wav, 24 kHz; NAME.json: voice, text).
Needs the whole repository and (only for measuring) faster-whisper with Whisper base, resemblyzer, speechmos,
librosa.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import directions as D
import measures as M
import numpy as np
import soundfile as sf
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from engine.drama3.codec import Codec
from engine.engine import Engine
from engine.models import load_family
from engine.take import Audio, Character, Reference, Sampling, Spoken, TakeFailed, TakeRequest
from prompts.drama3 import directed

PLAIN_SEEDS = 4  # plain takes of a line: a direction without a sound must stay within their spread
INTERJECTIONS = {"a", "ah", "aha", "eh", "ha", "hah", "haha", "he", "heh", "hey", "hm", "hmm", "hu", "huh"}
INTERJECTIONS |= {"hum", "mm", "mhm", "oh", "ooh", "uh", "um"}


def normal(text: str) -> str:
    text = text.lower().replace("—", " ").replace("-", " ").replace("mr.", "mister").replace("dr.", "doctor")
    return re.sub(r"\s+", " ", re.sub(r"[^a-z' ]", " ", text)).replace("'", "").strip()


class Listener:
    def __init__(self, folder: str) -> None:
        from faster_whisper import WhisperModel

        self.model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=2)

    def __call__(self, audio: np.ndarray) -> str:
        segments = self._segments(audio, without_timestamps=True)
        return " ".join(s.text for s in segments)

    def _segments(self, audio: np.ndarray, **timestamps: bool) -> Iterable:
        """What Whisper hears in samples at 24 kHz, greedily."""
        import librosa

        audio = librosa.resample(audio.astype(np.float32), orig_sr=24000, target_sr=16000)
        segments, _ = self.model.transcribe(
            audio, language="en", beam_size=1, condition_on_previous_text=False, temperature=0.0, **timestamps
        )
        return segments

    def words(self, audio: np.ndarray) -> list[tuple[float, float, str]]:
        """Start and end in seconds of every word that is heard."""
        segments = self._segments(audio, word_timestamps=True)
        return [(w.start, w.end, w.word) for s in segments for w in s.words]


def mos(takes: list[np.ndarray]) -> float:
    """Mean DNSMOS, overall."""
    import librosa
    from speechmos import dnsmos

    at_16k = [
        librosa.resample(a.astype(np.float32), orig_sr=24000, target_sr=16000).clip(-1, 1) for a in takes
    ]
    return float(np.mean([dnsmos.run(a, 16000)["ovrl_mos"] for a in at_16k]))


def word_errors(said: str, heard: str) -> tuple[int, int]:
    a, b = normal(said).split(), normal(heard).split()
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i, *row[1:]], row
        for j, y in enumerate(b, 1):
            row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
    return row[-1], len(a)


def words_lost(said: str, heard: str) -> int:
    """Words of the text that are neither heard nor misheard: what is left out in the best alignment."""
    a, b = normal(said).split(), normal(heard).split()
    best = [(j, 0) for j in range(len(b) + 1)]  # errors, of them left out
    for x in a:
        row = [(best[0][0] + 1, best[0][1] + 1)]
        for j, y in enumerate(b):
            left_out = (best[j + 1][0] + 1, best[j + 1][1] + 1)
            row.append(min((best[j][0] + (x != y), best[j][1]), left_out, (row[j][0] + 1, row[j][1])))
        best = row
    return best[-1][1]


def melody_of(audio: np.ndarray) -> np.ndarray:
    """F0 in Hz every 20 ms by pYIN, NaN where it hears no voice."""
    import librosa

    f0, voiced, _ = librosa.pyin(audio, fmin=60, fmax=400, sr=24000, frame_length=2048, hop_length=480)
    return np.where(voiced, f0, np.nan)


def pitch_of(audio: np.ndarray) -> float:
    """Median F0 in Hz; NaN, which obeys nothing, where hardly a voice is heard."""
    f0 = melody_of(audio)
    return float(np.nanmedian(f0)) if np.isfinite(f0).mean() > 0.1 else float("nan")


def embedder() -> Callable[[np.ndarray], np.ndarray]:
    """Resemblyzer's place of a voice, a unit vector."""
    from resemblyzer import VoiceEncoder, preprocess_wav

    encoder = VoiceEncoder("cpu", verbose=False)
    return lambda audio: encoder.embed_utterance(preprocess_wav(audio, source_sr=24000))


class Stage:
    """Performs takes by the engine as it is shipped, and counts what they cost. Codes are int64 [codebooks,
    frames], samples float32 [n].

    ``seconds`` of all threads, prompts and codec included, went into ``frames`` of takes.  ``engine`` is None
    where the folder holds a codec only."""

    def __init__(self, folder: str) -> None:
        self.engine: Engine | None = None
        if (Path(folder) / "config.json").exists():
            self.engine = Engine(load_family(folder, torch.device("cpu")))
        self.codec = self.engine.family.codec if self.engine else Codec.load(Path(folder))
        self.frame = self.codec.hop / self.codec.sample_rate
        self.seed = self.frames = 0
        self.seconds = 0.0

    def codes_of(self, audio: np.ndarray) -> np.ndarray:
        return self.codec.encode(audio).numpy()

    def wave(self, codes: np.ndarray) -> np.ndarray:
        return self.codec.decode(codes).numpy()

    def say(
        self,
        text,
        voices=(),
        history=(),
        character=("", None),
        scene=None,
        temperature=0.8,
        top_k=30,
        top_p=0.9,
        limit=500,
        seed=None,
    ):
        """Codes, samples and whether the take ended by itself.  voices, history: (text, codes) pairs;
        character: (name, description); limit: frames, where the engine's own cap for the text is no lower.
        A take without a frame is one frame of silence."""
        name, description = character
        voice = tuple(Reference(codes, said) for said, codes in voices) or None
        self.seed += 1
        request = TakeRequest(
            text,
            Character(name, voice, description, scene),
            tuple(Spoken(said, codes) for said, codes in history),
            Sampling(temperature, top_p, top_k),
            self.seed if seed is None else seed,
            limit,
        )
        started = time.process_time()
        try:
            *events, done = self.engine.perform(request)
        except TakeFailed as failure:
            print(failure, flush=True)
            silence = np.zeros(self.codec.hop, np.float32)
            return np.zeros((self.codec.num_codebooks, 0), np.int64), silence, True
        finally:
            self.seconds += time.process_time() - started
        self.frames += done.frames
        pcm = np.concatenate([event.pcm for event in events if isinstance(event, Audio)])
        return done.codes, pcm.astype(np.float32) / 32767, done.finish_reason == "stop"


def decode_speed(stage: Stage, codes: np.ndarray) -> float:
    """Seconds of one core per second of sound, median of five whole takes."""
    threads, times = torch.get_num_threads(), []
    torch.set_num_threads(1)
    stage.wave(codes)
    for _ in range(5):
        started = time.process_time()
        stage.wave(codes)
        times.append(time.process_time() - started)
    torch.set_num_threads(threads)
    return float(np.median(times)) / (codes.shape[1] * stage.frame)


def publish(stage: Stage, sentences: list[str], clips, out: Path) -> None:
    """What a developer compares an engine with."""
    (out / "lines.txt").write_text("\n".join(sentences[:20]) + "\n")
    said = [(text, stage.codes_of(audio)) for _, text, audio in clips[:2]]
    robin, scene = ("Robin", "British woman, deep voice."), "A railway station at night."
    requests = [
        dict(text=sentences[0], seed=1),
        dict(text=sentences[3], seed=2**40 + 7, temperature=1.0),
        dict(text=sentences[5], seed=3, voices=said[:1]),
        dict(text=sentences[8], seed=4, voices=said[:1], history=said[1:]),
        dict(text=sentences[9], seed=5, character=robin),
        dict(text=sentences[12], seed=6, character=robin, scene=scene),
    ]
    for request in requests:
        settings = dict(temperature=0.8, top_k=30, top_p=0.9, limit=250) | {
            k: v for k, v in request.items() if k != "text"
        }
        codes, _, ended = stage.say(request["text"], **settings)
        plain = lambda pairs: [dict(text=t, codes=c.tolist()) for t, c in pairs]  # noqa: E731
        request.update(settings, ended=ended, codes=codes.tolist())
        request.update({k: plain(request[k]) for k in ("voices", "history") if k in request})
    (out / "expected.json").write_text(json.dumps(requests))


def clips_of(folder: Path) -> list[tuple[str, str, np.ndarray]]:
    """(voice, text, samples) of every clip."""
    out = []
    for path in sorted(folder.glob("*.json")):
        meta = json.loads(path.read_text())
        out.append((meta["voice"], meta["text"], sf.read(path.with_suffix(".wav"), dtype="float32")[0]))
    return out


def measure_codec(stage: Stage, listen: Listener, clips, out: Path) -> dict:
    errors = words = teacher = 0
    again = [stage.wave(stage.codes_of(audio)) for _, _, audio in clips]
    for (_, text, audio), through in zip(clips, again, strict=False):
        e, n = word_errors(text, listen(through))
        errors, words, teacher = errors + e, words + n, teacher + word_errors(text, listen(audio))[0]
    for i, through in enumerate(again[:6]):
        sf.write(out / f"codec{i}.wav", through, 24000)
    return dict(
        clips=len(clips),
        words=words,
        wer=errors / words,
        teacher_wer=teacher / words,
        dnsmos=mos(again[:20]),
        teacher_dnsmos=mos([audio for _, _, audio in clips[:20]]),
        decode_rtf=decode_speed(stage, stage.codes_of(clips[0][2])),
        pitch=measure_pitch([audio for _, _, audio in clips[:24]], again[:24]),
    )


def measure_pitch(clips: list[np.ndarray], again: list[np.ndarray]) -> dict:
    """How well the codec keeps the melody, where pYIN hears a voice before and after."""
    apart, kept, alike = [], [], []
    for clip, through in zip(clips, again, strict=True):
        before, after = melody_of(clip), melody_of(through[: len(clip)])
        both = np.isfinite(before) & np.isfinite(after)
        apart.append(12 * np.abs(np.log2(after[both] / before[both])))
        kept.append(both.sum() / np.isfinite(before).sum())
        alike.append(np.corrcoef(before[both], after[both])[0, 1])
    return dict(
        semitones_off=float(np.median(np.concatenate(apart))),
        within_a_semitone=float((np.concatenate(apart) < 1).mean()),
        voice_still_heard=float(np.mean(kept)),
        correlation_in_a_line=float(np.mean(alike)),
    )


def measure_takes(
    say: Callable, listen: Listener, name: str, items, out: Path
) -> tuple[dict, list[np.ndarray]]:
    """Speaks every (text, options): word errors, ends; and the takes themselves."""
    errors = words = runaway = early = 0
    takes = []
    for i, (text, options) in enumerate(items):
        codes, audio, ended = say(text, **options)
        heard = listen(audio)
        e, n = word_errors(text, heard)
        errors, words, runaway = errors + min(e, n), words + n, runaway + (not ended)
        early += len(audio) / 24000 < len(text) / 32
        takes.append(audio)
        if i < 6:
            sf.write(out / f"{name}{i}.wav", audio, 24000)
        print(
            f"{name} [{codes.shape[1]}f {'ok' if ended else 'RUN'}] {e}/{n}  {text}  ->  {heard.strip()}",
            flush=True,
        )
    return dict(
        wer=errors / words, takes=len(items), runaway=runaway, early=early, dnsmos=mos(takes[:20])
    ), takes


def measure_seeds(say: Callable, listen: Listener, items, seeds: int) -> dict:
    """Every (text, options) by several seeds: word errors, and how often the first word isn't heard at the
    beginning."""
    errors = words = missed = 0
    for text, options in items:
        for seed in range(seeds):
            heard = listen(say(text, seed=1000 + seed, **options)[1])
            e, n = word_errors(text, heard)
            errors, words = errors + min(e, n), words + n
            missed += first_missed(text, heard)
    return dict(wer=errors / words, takes=len(items) * seeds, first_words_missed=missed)


def first_missed(said: str, heard: str) -> bool:
    """Whether the first word is neither the first nor the second that was heard."""
    return normal(said).split()[0] not in normal(heard).split()[:2]


def likeness(places: list[np.ndarray], owners: list[str], centre: dict[str, np.ndarray]):
    """Similarity of takes at ``places`` to their owners [takes] and to all other voices [takes, others]."""
    own = [place @ centre[owner] for place, owner in zip(places, owners, strict=True)]
    others = [
        [place @ c for voice, c in centre.items() if voice != owner]
        for place, owner in zip(places, owners, strict=True)
    ]
    return np.array(own), np.array(others)


def measure_voices(takes: list[np.ndarray], owners: list[str], clips) -> dict:
    """Resemblyzer: is a cloned take nearer to its own speaker's other clip than to the other speakers'?

    Pitch: do takes of the lowest and the highest voice lie near that voice's clip?"""
    place = embedder()
    first, second = ({voice: audio for voice, _, audio in part} for part in (clips[0::2], clips[1::2]))
    centre = {v: place(a) for v, a in second.items()}
    own, others = likeness([place(take) for take in takes], owners, centre)
    pitch = {v: pitch_of(a) for v, a in first.items()}
    ends = {
        v: np.nanmedian([pitch_of(t) for t, o in zip(takes, owners, strict=False) if o == v]) / pitch[v]
        for v in (min(pitch, key=pitch.get), max(pitch, key=pitch.get))
    }
    return dict(
        own=float(own.mean()),
        others=float(others.mean()),
        above_others=float((own > others.mean(1)).mean()),
        nearest=float((own > others.max(1)).mean()),
        teacher_own=float(np.mean([place(first[v]) @ centre[v] for v in centre])),
        pitch_ratio={v: float(r) for v, r in ends.items()},
    )


@dataclass(frozen=True)
class Take:
    """One of the takes that are compared: `name` says what was asked, `line` which sentence and voice."""

    name: str
    line: int
    words: str
    text: str
    audio: np.ndarray
    sound: M.Sound


def directed_items(count: int) -> list[tuple[str, int, str]]:
    """(name, line, words) of the directed takes of ``count`` lines: every direction in words of the training;
    of half of the lines in words held back, of the other half in three strengths; pairs; words without a
    sound."""
    items = []
    for line in range(count):
        rng = random.Random(line)
        items += [(f"plain {seed}", line, "") for seed in range(PLAIN_SEEDS)]
        for name, each in D.DIRECTIONS.items():
            items.append((name, line, rng.choice(each.bare + each.phrases)))
            if line % 2 == 0:
                items.append((f"{name} held out", line, rng.choice(each.held_out)))
            elif name in M.GRADES:
                word = rng.choice(each.graded)
                wordings = dict(word="{}", little=rng.choice(D.LITTLE), very=rng.choice(D.VERY))
                items += [(f"{name} {k}", line, form.format(word)) for k, form in wordings.items()]
        for pair in rng.sample(D.PAIRS, 2):
            words = [rng.choice(D.DIRECTIONS[n].bare + D.DIRECTIONS[n].phrases) for n in pair]
            items.append((" + ".join(pair), line, ", ".join(words)))
        items.append(("soundless", line, rng.choice(D.SOUNDLESS_HELD_OUT)))
    return items


def directed_takes(say: Callable, stage: Stage, sentences: list[str], clips, count: int) -> list[Take]:
    """Cloned takes, the six voices in turn; the first plain take and all directed ones of a line share a
    seed."""
    voices = [(text, stage.codes_of(audio)) for _, text, audio in clips[0::2]]
    out = []
    for name, line, words in directed_items(count):
        text, seed = sentences[line], 500 + line
        if name.startswith("plain"):
            seed += 1000 * int(name.split()[1])
        voice = voices[line % len(voices)]
        _, audio, _ = say(directed(text, words), voices=[voice], seed=seed)
        out.append(Take(name, line, words, text, audio, M.sound_of(audio)))
    return out


def directed_figures(takes: list[Take], count: int) -> dict:
    """What of the directions' table the sound alone can tell."""
    grid: dict[str, list] = {}
    for take in takes:
        grid.setdefault(take.name, [None] * count)[take.line] = take.sound
    grid["plain"] = grid["plain 0"]
    out: dict = M.pair_figures(grid)
    obeys = lambda asked, names: [  # noqa: E731
        [M.obeyed(n, take, plain) for n in names]
        for take, plain in zip(grid[asked], grid["plain"], strict=True)
        if take
    ]
    known = {n: obeys(n, (n,)) for n in D.NAMES}
    new = {n: obeys(f"{n} held out", (n,)) for n in D.NAMES}
    out["obeyed"] = {n: float(np.mean(rows)) for n, rows in known.items()}
    out["obeyed_held_out"] = {n: float(np.mean(rows)) for n, rows in new.items()}
    out["held_out_share"] = float(np.mean(list(out["obeyed_held_out"].values()))) / float(
        np.mean(list(out["obeyed"].values()))
    )
    pairs = [row for name in grid if " + " in name for row in obeys(name, name.split(" + "))]
    out["two_each_obeyed"] = float(np.mean(pairs))
    order = {
        n: [
            M.in_order(n, *row)
            for row in zip(*(grid[f"{n} {k}"] for k in ("little", "word", "very")), strict=True)
            if all(row)
        ]
        for n in M.GRADES
    }
    out["in_order"] = float(np.mean([each for rows in order.values() for each in rows]))
    out["in_order_of"] = {n: float(np.mean(rows)) for n, rows in order.items()}
    return out | measure_soundless(grid)


def measure_soundless(grid: dict[str, list]) -> dict:
    """Share of takes with a direction without a sound whose pitch, pace and level lie within twice the spread
    of plain takes of the same line by other seeds."""
    what = {
        "pitch": lambda s: 12 * np.log2(s.pitch_hz),
        "pace": lambda s: np.log(s.seconds),
        "level": lambda s: s.level_db,
    }
    inside = {}
    for name, of in what.items():
        plain = np.array([[of(s) for s in grid[f"plain {k}"]] for k in range(PLAIN_SEEDS)])
        spread = np.sqrt(np.nanmean(np.nanvar(plain, axis=0, ddof=1)))
        away = np.abs(np.array([of(s) for s in grid["soundless"]]) - np.nanmean(plain, axis=0))
        inside[name] = float(np.mean(away <= 2 * spread * np.sqrt(1 + 1 / PLAIN_SEEDS)))
    return dict(soundless_within=inside)


def directed_words(listen: Listener, takes: list[Take]) -> dict:
    """Word errors by direction, a laugh's "ha ha" left out where one was asked for, and takes in which a word
    of the direction is heard that the line hasn't."""
    errors: dict[str, list[int]] = {}
    spoken = []
    for take in takes:
        heard = listen(take.audio)
        if any(D.DIRECTIONS[name].laughs for name in take.name.split(" + ") if name in D.DIRECTIONS):
            heard = " ".join(w for w in normal(heard).split() if w not in INTERJECTIONS)
        e, n = word_errors(take.text, heard)
        sums = errors.setdefault(take.name, [0, 0])
        sums[0], sums[1] = sums[0] + min(e, n), sums[1] + n
        asked = {w for w in normal(take.words).split() if len(w) > 3} - set(normal(take.text).split())
        if asked & set(normal(heard).split()):
            spoken.append(f"[{take.words}] {take.text} -> {heard}")
    directed_sums = [s for name, s in errors.items() if not name.startswith(("plain", "soundless"))]
    return dict(
        wer={name: e / n for name, (e, n) in errors.items()},
        wer_directed=sum(e for e, _ in directed_sums) / max(1, sum(n for _, n in directed_sums)),
        takes=len(takes),
        direction_spoken=len(spoken),
        spoken=spoken,
    )


def measure_stress(
    say: Callable, stage: Stage, listen: Listener, sentences: list[str], clips, count: int
) -> dict:
    """A word in stars against itself without, same line, voice, seed: is it longer, and higher or louder?"""
    voices = [(text, stage.codes_of(audio)) for _, text, audio in clips[0::2]]
    longer, more, both = [], [], []
    for line, text in enumerate(sentences[:count]):
        words = list(re.finditer(r"[A-Za-z']{3,}", text))[1:-1]
        if not words:
            continue
        a, b = random.Random(line).choice(words).span()
        options = dict(voices=[voices[line % len(voices)]], seed=700 + line)
        pair = []
        for said in (text, f"{text[:a]}*{text[a:b]}*{text[b:]}"):
            audio = say(said, **options)[1]
            pair.append(word_sound(listen, audio, text[a:b]))
        if not all(pair):
            continue
        (seconds, hz, db), (seconds2, hz2, db2) = pair
        longer.append(seconds2 > seconds), more.append(hz2 > hz or db2 > db)
        both.append(longer[-1] and more[-1])
    return dict(
        pairs=len(both), longer=float(np.mean(longer)), more=float(np.mean(more)), both=float(np.mean(both))
    )


def word_sound(listen: Listener, audio: np.ndarray, word: str) -> tuple[float, float, float] | None:
    """Seconds, median pitch in Hz and level in dB of a word where Whisper hears it; None where it doesn't."""
    for start, end, heard in listen.words(audio):
        if normal(heard) == normal(word) and end - start > 0.05:
            part = audio[int(start * 24000) : int(end * 24000)]
            hz, voiced, *_ = M.melody(part)
            pitch = float(np.median(hz[voiced])) if voiced.any() else 0.0
            return end - start, pitch, float(10 * np.log10(np.mean(np.square(part)) + 1e-9))
    return None


def measure_sounds(say: Callable, stage: Stage, listen: Listener, clips, count: int) -> dict:
    """Cues on their own: breath without a voice, bursts of laughter, no words but "ah" and its like."""
    voices = [(text, stage.codes_of(audio)) for _, text, audio in clips[0::2]]
    out = {}
    for cue in ("sighs", "gasps", "laughs", "hesitates"):
        good, silent, heard_all = [], [], []
        for i in range(count):
            audio = say(f"[{cue}]", voices=[voices[i % len(voices)]], seed=900 + i)[1]
            heard = listen(audio)
            sound = M.sound_of(audio)
            good.append(3 <= M.beats_hz(audio) <= 7 if cue == "laughs" else sound.voiced < 0.25)
            silent.append(set(normal(heard).split()) <= INTERJECTIONS)
            heard_all.append(heard.strip())
        out[cue] = dict(as_asked=float(np.mean(good)), no_word=float(np.mean(silent)), heard=heard_all)
    return out


def measure_memory(say: Callable, stage: Stage, listen: Listener, sentences: list[str], clips) -> dict:
    """Word errors of short lines alone with their voice and behind forty earlier lines of it."""
    short = sorted(sentences, key=len)
    errors = {}
    for (_, said, audio), offset in zip(clips[0:6:2], (0, 1, 2), strict=True):
        voice = [(said, stage.codes_of(audio))]
        turns = []
        for k in range(40):
            text = short[(k * 3 + offset) % 48]
            turns.append((text, say(text, voices=voice, seed=300 + k)[0]))
        for k, text in enumerate(sentences[20 + 8 * offset : 28 + 8 * offset]):
            for name, history in (("alone", []), ("behind 40", turns)):
                heard = listen(say(text, voices=voice, history=history, seed=400 + k)[1])
                e, n = word_errors(text, heard)
                sums = errors.setdefault(name, [0, 0])
                sums[0], sums[1] = sums[0] + min(e, n), sums[1] + n
    return {name: e / n for name, (e, n) in errors.items()}


def measure_long(
    say: Callable, stage: Stage, listen: Listener, sentences: list[str], clips, seeds: int = 4
) -> dict:
    """Speeches of about fifty words in one piece: shares of the words that are lost, and lost or wrong."""
    voices = [(text, stage.codes_of(audio)) for _, text, audio in clips[0::2]]
    errors = words = lost = 0
    for number in range(4):
        text, k = "", number * 9
        while len(text.split()) < 46:
            text, k = f"{text} {sentences[k]}".strip(), k + 1
        for seed in range(seeds):
            heard = listen(say(text, voices=[voices[number]], seed=600 + seed, limit=700)[1])
            e, n = word_errors(text, heard)
            errors, words, lost = errors + min(e, n), words + n, lost + words_lost(text, heard)
    return dict(words=words, lost=lost / words, wer=errors / words)


def measure_directed_voices(takes: list[Take], clips) -> float:
    """Share of directed cloned takes that are nearer to their own speaker than to the others' mean."""
    place, names = embedder(), [voice for voice, _, _ in clips[0::2]]
    centre = {voice: place(audio) for voice, _, audio in clips[1::2]}
    chosen = [t for t in takes if t.name in D.NAMES]
    own, others = likeness(
        [place(t.audio) for t in chosen], [names[t.line % len(names)] for t in chosen], centre
    )
    return float((own > others.mean(1)).mean())


def measure_real(
    stage: Stage, say: Callable, listen: Listener, sentences: list[str], clips, out: Path
) -> dict:
    """Six takes after each clip of a living person: words, pitch against the clip's, similarity to it and to
    the other clips."""
    place, report = embedder(), {}
    centre = {voice: place(audio) for voice, _, audio in clips}
    for voice, text, audio in clips:
        options = dict(voices=[(text, stage.codes_of(audio))])
        figures, takes = measure_takes(
            say, listen, f"real_{voice}", [(s, options) for s in sentences[:6]], out
        )
        own, others = likeness([place(take) for take in takes], [voice] * len(takes), centre)
        report[voice] = figures | dict(
            clip_s=len(audio) / 24000,
            own=float(own.mean()),
            others=float(others.mean()),
            pitch_ratio=float(np.nanmedian([pitch_of(take) for take in takes]) / pitch_of(audio)),
        )
    return report


def measure_described(say: Callable, sentences: list[str], out: Path, count: int) -> dict:
    """Share of pairs (same line, same accent) in which the description is obeyed."""
    pitch, pace = {}, {}
    for person in ("man", "woman"):
        for trait in ("", ", deep voice", ", high voice", ", speaks slowly", ", speaks quickly"):
            for i in range(count):
                text, accent = sentences[(i * 5 + 3) % len(sentences)], ("American", "British")[i % 2]
                _, audio, _ = say(text, character=("Robin", f"{accent} {person}{trait}."))
                pitch[person, trait, i], pace[person, trait, i] = (
                    pitch_of(audio),
                    len(text) / (len(audio) / 24000),
                )
                if i == 0:
                    sf.write(
                        out / f"described_{person}{trait.replace(', ', '_').replace(' ', '_')}.wav",
                        audio,
                        24000,
                    )
    both = [(p, i) for p in ("man", "woman") for i in range(count)]
    share = lambda pairs: float(np.mean([a < b for a, b in pairs]))  # noqa: E731
    return dict(
        man_below_woman=share(
            [(pitch["man", t, i], pitch["woman", t, i]) for _, t, i in pitch if _ == "man"]
        ),
        deep_below_high=share([(pitch[p, ", deep voice", i], pitch[p, ", high voice", i]) for p, i in both]),
        slow_below_quick=share(
            [(pace[p, ", speaks slowly", i], pace[p, ", speaks quickly", i]) for p, i in both]
        ),
        no_voice_heard=int(np.isnan(list(pitch.values())).sum()),
        pitch={
            p: float(np.nanmean([v for (q, _, _), v in pitch.items() if q == p])) for p in ("man", "woman")
        },
        pitch_of={
            p + t: float(np.nanmedian([pitch[p, t, i] for i in range(count)]))
            for p in ("man", "woman")
            for t in (", deep voice", ", high voice")
        },
        characters_per_second={
            trait: float(np.mean([v for (_, t, _), v in pace.items() if t == trait]))
            for trait in (", speaks slowly", ", speaks quickly")
        },
    )


def main() -> None:
    p = argparse.ArgumentParser()
    (
        p.add_argument("--model", required=True),
        p.add_argument("--whisper", required=True),
        p.add_argument("--held-out", required=True),
    )
    (
        p.add_argument("--references", required=True, type=Path),
        p.add_argument("--out", required=True, type=Path),
    )
    (
        p.add_argument("--count", type=int, default=50),
        p.add_argument("--described", type=int, default=12, help="takes a description"),
    )
    (
        p.add_argument("--temperature", type=float, default=0.8),
        p.add_argument("--top-p", type=float, default=0.9),
    )
    p.add_argument("--directed", type=int, default=0, help="lines for the directions, 0: none")
    p.add_argument("--seeds", type=int, default=1, help="takes of every plain and every cloned line")
    p.add_argument("--real", type=Path, help="clips of living people")
    p.add_argument("--skip", default=""), p.add_argument("--publish", type=int, default=0)
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    stage, listen = Stage(args.model), Listener(args.whisper)
    sentences = json.loads(Path(args.held_out).read_text())[: args.count]
    clips, lines = clips_of(args.references / "clips"), clips_of(args.references / "lines")
    say = lambda text, **options: stage.say(text, temperature=args.temperature, top_p=args.top_p, **options)  # noqa: E731
    report: dict = dict(temperature=args.temperature, top_p=args.top_p)

    def note(name: str, value) -> None:
        report[name] = value
        print(name, value, flush=True)
        (args.out / "report.json").write_text(json.dumps(report, indent=1))

    if "codec" not in args.skip:
        note("codec", measure_codec(stage, listen, clips + lines, args.out))
    if not stage.engine:
        return
    if "plain" not in args.skip:
        pairs = [word_errors(text, listen(audio)) for _, text, audio in lines[: args.count]]
        note("teacher_wer", sum(e for e, _ in pairs) / max(1, sum(n for _, n in pairs)))
        note("plain", measure_takes(say, listen, "plain", [(s, {}) for s in sentences], args.out)[0])
    if "clone" not in args.skip:
        owners = [clips[2 * (i % (len(clips) // 2))] for i in range(len(sentences))]
        items = [
            (s, dict(voices=[(text, stage.codes_of(audio))]))
            for s, (_, text, audio) in zip(sentences, owners, strict=False)
        ]
        figures, takes = measure_takes(say, listen, "clone", items, args.out)
        note("clone", figures)
        note("voices", measure_voices(takes, [voice for voice, _, _ in owners], clips))
    if "described" not in args.skip:
        note("described", measure_described(say, sentences, args.out, args.described))
    if args.directed:
        takes = directed_takes(say, stage, sentences, clips, args.directed)
        note("directed", directed_figures(takes, args.directed))
        note("directed_words", directed_words(listen, takes))
        note("directed_voices", measure_directed_voices(takes, clips))
        note("stress", measure_stress(say, stage, listen, sentences, clips, args.directed))
        note("sounds", measure_sounds(say, stage, listen, clips, args.directed))
    if args.seeds > 1:
        owned = [clips[2 * (i % (len(clips) // 2))] for i in range(len(sentences))]
        cloned = [
            (s, dict(voices=[(text, stage.codes_of(audio))]))
            for s, (_, text, audio) in zip(sentences, owned, strict=True)
        ]
        note("plain_by_seeds", measure_seeds(say, listen, [(s, {}) for s in sentences], args.seeds))
        note("clone_by_seeds", measure_seeds(say, listen, cloned, args.seeds))
        note("memory", measure_memory(say, stage, listen, sentences, clips))
        note("long", measure_long(say, stage, listen, sentences, clips))
    if args.real:
        note("real", measure_real(stage, say, listen, sentences, clips_of(args.real), args.out))
    if args.publish:
        publish(stage, sentences, clips, args.out)
    note("frames_per_cpu_second", stage.frames / max(stage.seconds, 1e-9))
    note("times_real_time", report["frames_per_cpu_second"] * stage.frame)


if __name__ == "__main__":
    main()
