"""Labels and made-up codes for some lines of a plan: does the language model's training learn to read?

    python rehearse.py PLAN OUT --lines 3000
    python train_lm.py --plan PLAN --codes OUT --out OUT/run --device cpu --half 0 \
        --hidden 128 --layers 4 --books 2 ...

No audio: durations are drawn, code 0 stands for a phoneme (with the place in it, the speaker's
group and some noise), the others are noisy functions of code 0 and the speaker.
"""

import argparse
from pathlib import Path

import numpy as np
from encode import pack10
from perform import Plan

FRAME, SLOT = 1024, 600
p = argparse.ArgumentParser()
p.add_argument("plan"), p.add_argument("out"), p.add_argument("--lines", type=int, default=3000)
(
    p.add_argument("--books", type=int, default=2),
    p.add_argument("--noise", type=float, default=0.1),
    p.add_argument("--groups", type=int, default=4, help="of speakers"),
)
p.add_argument("--longest", type=int, default=70, help="characters of the longest line")
args = p.parse_args()
rng = np.random.default_rng(0)
plan = Plan(args.plan, styles=False)
chosen = [i for i, t in enumerate(plan.texts) if 12 <= len(t) <= args.longest][: args.lines]
mean = np.full(178, 3.4)  # 40 Hz frames
mean[[1, 2, 3, 4, 5, 6, 9]] = 8.0
mean[[16, 156, 157, 158]] = 1.2
kind = np.unique(plan.phones, return_inverse=True)[1] + 1  # 57 phonemes in use, 0 is silence
spans, frames, codes = [], [], []
for i in chosen:
    part = slice(plan.start[i], plan.start[i] + plan.count[i])
    phones = np.concatenate([[0], plan.phones[part], [0]])
    span = np.clip(
        np.round(
            mean[phones] * rng.lognormal(0, 0.25, len(phones)) / plan.sessions[plan.session[i]]["speed"]
        ),
        1,
        60,
    ).astype(np.uint8)
    kinds = np.concatenate([[0], kind[part], [0]])
    ends = np.cumsum(span.astype(int))
    count = ends[-1] * SLOT // FRAME
    slot = (np.arange(count) * FRAME + FRAME // 2) // SLOT
    token = np.searchsorted(ends, slot, side="right").clip(max=len(phones) - 1)
    late = (ends[token] - slot) * 2 <= span[token]
    group = plan.session[i] % args.groups
    code = np.zeros((count, args.books), np.int64)
    code[:, 0] = kinds[token] * 8 + late * 4 + group
    wild = rng.random(count) < args.noise
    code[wild, 0] = rng.integers(0, 512, int(wild.sum()))
    for b in range(1, args.books):
        code[:, b] = (code[:, b - 1] * 37 + 11 * group + rng.integers(0, 6, count)) % 1024
    spans.append(span), frames.append(count), codes.append(code)
out = Path(args.out)
out.mkdir(parents=True, exist_ok=True)
pack10(np.concatenate(codes).astype(np.int16)).tofile(out / "codes000.bin")
np.savez_compressed(
    out / "lines000.npz",
    line=np.array(chosen, np.int32),
    frames=np.array(frames, np.int32),
    span=np.concatenate(spans),
    trim=np.zeros(len(chosen), np.int32),
    heard=rng.normal(150, 30, len(chosen)).astype(np.float32),
)
print(len(chosen), "lines", sum(frames) * FRAME / 24000 / 3600, "h")
