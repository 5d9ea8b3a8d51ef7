"""Before a training: does the teacher do what a direction asks, and does it survive the codec?

    python check_directions.py --plan PLAN --teacher teacher.safetensors --kokoro DIR --codec DIR --out OUT

PLAN is one without directions. Some of its held-back lines are performed in every manner, and measured as the
teacher's sound and as the codec's. OUT/check.json has the figures, OUT/check.npz the codes, for listening.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing as mp
import random
import time
from pathlib import Path

import direct
import directions as D
import measures as M
import numpy as np
import torch
from codec import Codec
from encode import encode
from perform import Plan, perform
from teacher import Teacher, load_vocab


def chosen(plan: Plan, count: int) -> list[int]:
    """Lines of middle length from as many held-back sessions."""
    rng, seen, out = random.Random(5), set(), []
    fit = [i for i, t in enumerate(plan.texts) if plan.session[i] % 61 == 7 and 35 <= len(t) <= 85]
    for i in rng.sample(fit, len(fit)):
        if plan.session[i] not in seen and len(out) < count:
            seen.add(plan.session[i]), out.append(i)
    return out


def cases() -> dict[str, tuple[D.Asked, bool, str | None]]:
    out: dict = {"plain": (D.Asked(), False, None), "stress": (D.Asked(), True, None)}
    out |= {name: (D.Asked((name,)), False, None) for name in D.NAMES}
    for name in M.GRADES:
        out |= {
            f"{name} {word}": (D.Asked((name,), s), False, None) for s, word in ((1, "little"), (2, "very"))
        }
    for pair in D.PAIRS[::4]:
        out[" + ".join(pair)] = (D.Asked(pair), False, None)
    return out | {cue: (D.Asked(), False, cue) for cue in direct.SOUNDS}


def measured(waves: list[np.ndarray]) -> list[M.Sound]:
    with mp.get_context("spawn").Pool(initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return pool.map(M.sound_of, waves, chunksize=8)


def figures(sounds: dict[str, list[M.Sound | None]]) -> dict:
    out: dict = M.pair_figures(sounds)
    both = lambda a, b: [(x, y) for x, y in zip(sounds[a], sounds[b], strict=True) if x and y]  # noqa: E731
    out["obeyed"] = {n: float(np.mean([M.obeyed(n, *pair) for pair in both(n, "plain")])) for n in D.NAMES}
    out["in_order"] = {}
    for name in M.GRADES:
        rows = zip(*(sounds[n] for n in (f"{name} little", name, f"{name} very")), strict=True)
        out["in_order"][name] = float(np.mean([M.in_order(name, *row) for row in rows if all(row)]))
    out["two"] = {
        each: {n: float(np.mean([M.obeyed(n, *p) for p in both(each, "plain")])) for n in each.split(" + ")}
        for each in sounds
        if " + " in each
    }
    out["median"] = {
        name: {
            f.name: float(np.nanmedian([getattr(s, f.name) for s in row if s]))
            for f in dataclasses.fields(M.Sound)
        }
        for name, row in sounds.items()
    }
    return out


def main() -> None:
    p = argparse.ArgumentParser()
    for name in ("plan", "teacher", "kokoro", "codec", "vocab", "out"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--device", default="cuda"), p.add_argument("--count", type=int, default=40)
    args = p.parse_args()
    out, started = Path(args.out), time.time()
    out.mkdir(parents=True, exist_ok=True)
    direct.alphabet(load_vocab(args.vocab))
    plan = Plan(args.plan)
    lines, manners = chosen(plan, args.count), cases()
    items = [(i, *how) for how in manners.values() for i in lines]
    directed = direct.in_memory(plan, items)
    teacher = Teacher(args.teacher, args.kokoro).to(args.device)
    half = args.device == "cuda"
    speech = perform(directed, teacher, np.arange(len(items)), args.device, 600.0 if half else 24.0, half)
    print(
        f"performed {len(speech['audio']) / 24000:.0f} s of sound, {time.time() - started:.0f} s", flush=True
    )
    codec = Codec.load(args.codec).to(args.device)
    codes, frames = encode(codec, speech, args.device)
    ends = np.cumsum(frames)
    waves, again = [], []
    for n, (start, length) in enumerate(zip(speech["start"], speech["length"], strict=True)):
        waves.append(speech["audio"][start : start + length].numpy().astype(np.float32) / 32768)
        mine = torch.from_numpy(codes[ends[n] - frames[n] : ends[n]]).to(args.device).long()
        with torch.no_grad():
            again.append(codec.decode(mine.T[None]).reshape(-1).float().cpu().numpy())
    np.savez_compressed(out / "check.npz", line=speech["line"], frames=frames, codes=codes)
    report = dict(texts=[plan.texts[i] for i in lines], cases=list(manners))
    for side, sounds in (("teacher", measured(waves)), ("codec", measured(again))):
        grid: dict = {name: [None] * len(lines) for name in manners}
        for number, sound in zip(speech["line"], sounds, strict=True):
            grid[list(manners)[number // len(lines)]][number % len(lines)] = sound
        report[side] = figures(grid)
        (out / "check.json").write_text(json.dumps(report, indent=1))
    print(f"measured, {time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
