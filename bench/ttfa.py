"""How long until the first sound: with a new clip, with its codes known, with its prefix known?

    python bench/ttfa.py [--model understudy | full-size] [--rounds N]

The same line of about 60 tokens with a reference of 10 s, in three states of the caches that take turns:
`cold clip` encodes the clip and reads it, `codes cached` reads it, `prefix cached` finds the state behind it.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import last_line, median_p95
from bench.takes import clip, engine_of, performed, request


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="understudy")
    options.add_argument("--rounds", type=int, default=10)
    args = options.parse_args()
    engine = engine_of(args.model)
    family, samples = engine.family, defaultdict(list)
    for turn in range(args.rounds + 2):  # the first two are warm-up: kernels compile, graphs are captured
        engine.forget()
        new = clip(10.0, family.sample_rate, seed=turn)
        takes = {
            "cold clip": request(family, audio=new, seed=turn),
            "codes cached": request(family, seed=turn),
            "prefix cached": request(family, seed=1000 + turn),
        }
        for name, wanted in takes.items():
            done, _ = performed(engine, wanted)
            timings = done.timings
            if turn > 1:
                samples[f"{name} first_pcm_ms"].append(1e3 * timings.first_pcm_s)
                samples[f"{name} first_codes_ms"].append(1e3 * timings.first_codes_s)
                samples[f"{name} prefill_ms"].append(1e3 * timings.prefill_s)
                samples[f"{name} reference_ms"].append(1e3 * timings.reference_s)
    medians = {name: median_p95(values)[0] for name, values in samples.items()}
    for name, values in samples.items():
        print("{:<32} median {:8.1f}   p95 {:8.1f}".format(name, *median_p95(values)))
    last_line({"model": family.name, "medians": medians, "samples": samples})


if __name__ == "__main__":
    main()
