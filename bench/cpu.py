"""How fast does a CPU speak: the stand-in beside a checkpoint with frames, voice cached against a new clip?

    python bench/cpu.py [--model FOLDER] [--rounds N]

Every round speaks each sentence with each model in turn, sound consumed. A model that clones follows a clip
of about 10 s which the stand-in spoke; `cached` requests bring its codes, the `encode` row is what a new
clip costs besides. Parts are seconds per take, taken by driving the same functions a take calls.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import last_line, median_p95
from engine.engine import Engine
from engine.family import Piece
from engine.models import load_family
from engine.references import prepare
from engine.take import Audio, Character, Clip, Done, Reference, Sampling, TakeRequest
from prompts.duration import frame_cap

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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", action="append", default=[], help="a further model; kokoro always speaks")
    options.add_argument("--rounds", type=int, default=3)
    args = options.parse_args()
    engines = {name: Engine(load_family(name)) for name in ("kokoro", *args.model)}
    pcm, _ = spoken(engines["kokoro"], TakeRequest(CLIP_WORDS))
    clip = Clip(pcm.astype(np.float32) / 32768, engines["kokoro"].family.sample_rate)
    samples: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in engines}
    for turn in range(args.rounds + 1):  # the first is warm-up
        for name, engine in engines.items():
            one = measure(engine, clip, turn)
            for key, values in one.items() if turn else ():
                samples[name][key] += values
    for name, rows in samples.items():
        print(f"\n{Path(name).name} ({len(rows['rtf_cached'])} takes)")
        for key, values in rows.items():
            print("  {:<20} median {:9.4f}   p95 {:9.4f}".format(key, *median_p95(values)))
    medians = {name: {key: median_p95(v)[0] for key, v in rows.items()} for name, rows in samples.items()}
    ratios = {
        f"rtf {Path(name).name} / kokoro": medians[name]["rtf_cached"] / medians["kokoro"]["rtf_cached"]
        for name in args.model
    }
    last_line(
        {"clip_s": len(pcm) / clip.sample_rate, "ratios": ratios, "medians": medians, "samples": samples}
    )


def measure(engine: Engine, clip: Clip, turn: int) -> dict[str, list[float]]:
    """One round of one model: lists of RTF, TTFA in ms, and the parts."""
    found: dict[str, list[float]] = defaultdict(list)
    character = Character()
    if engine.family.capabilities.clone:
        ready = prepare(clip, engine.family.sample_rate)
        began = time.perf_counter()
        codes = engine.family.encode(ready.samples)
        found["encode_s"].append(time.perf_counter() - began)
        character = Character(voice=(Reference(codes, CLIP_WORDS),))
    for number, text in enumerate(SENTENCES):
        seed = 100 * turn + number
        _, done = spoken(engine, TakeRequest(text, character, seed=seed))
        found["rtf_cached"].append(done.timings.rtf)
        found["ttfa_cached_ms"].append(1e3 * done.timings.first_pcm_s)
        if engine.family.num_codebooks:
            for key, value in parts(engine.family, character, text, seed).items():
                found[key].append(value)
    return found


if __name__ == "__main__":
    main()
