"""How long until the first sound: with a new clip, with its codes known, with its prefix known? And until
nothing runs any more, where the listener stops?

    python bench/ttfa.py [--model understudy | full-size] [--rounds N] [--stops N]

The same line of about 60 tokens with a reference of 10 s, in three states of the caches that take turns:
`cold clip` encodes the clip and reads it, `codes cached` reads it, `prefix cached` finds the state behind it.
Then takes of 60 frames are closed after so many events, at each count in turn: milliseconds from the call of
`close` until it has returned and the GPU is idle. (`codec.py` closes with a chunk just queued, on purpose.)
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.check import Samples, medians, ratios
from bench.report import last_line, show
from bench.takes import clip, engine_of, performed, request
from engine.engine import Engine
from engine.take import Audio

WARM_UP = 2  # rounds: kernels compile, graphs are captured
STATES = ("cold clip", "codes cached", "prefix cached")


def starts(engine: Engine, rounds: int) -> Samples:
    """What the clock of a take says at its first sound, in each state of the caches."""
    family = engine.family
    samples: Samples = {name: defaultdict(list) for name in STATES}
    for turn in range(rounds + WARM_UP):
        engine.forget()
        new = clip(10.0, family.sample_rate, seed=turn)
        takes = (
            request(family, audio=new, seed=turn),
            request(family, seed=turn),
            request(family, seed=1000 + turn),
        )
        for name, wanted in zip(STATES, takes, strict=True):
            timings = performed(engine, wanted)[0].timings
            for metric in ("first_pcm", "first_codes", "prefill", "reference") if turn >= WARM_UP else ():
                samples[name][f"{metric}_ms"].append(1e3 * getattr(timings, f"{metric}_s"))
        print(f"round {turn + 1} of {rounds + WARM_UP}", flush=True)
    return samples


def stops(engine: Engine, count: int) -> Samples:
    """Milliseconds until a take is over that is closed after 1, 2, 3 ... chunks of sound."""
    took = []
    for turn in range(count):
        events = engine.perform(request(engine.family, frames=60, seed=turn))
        heard = 0
        for event in events:
            heard += isinstance(event, Audio)
            if heard > turn % 5:
                break
        began = time.perf_counter()
        events.close()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        took.append(1e3 * (time.perf_counter() - began))
    return {"stop": {"idle_ms": took}}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="understudy")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--stops", type=int, default=20)
    args = options.parse_args()
    engine = engine_of(args.model)
    samples = starts(engine, args.rounds) | stops(engine, args.stops)
    show(samples)
    names = [f"first_pcm_ms {name} / prefix cached" for name in STATES[:2]]
    last_line(
        {
            "model": engine.family.name,
            "ratios": ratios(names, samples),
            "medians": medians(samples),
            "samples": samples,
        }
    )


if __name__ == "__main__":
    main()
