"""Train the understudy's language model on encoded teacher speech.

    python train_lm.py --plan DIR --codes DIR --out DIR --seconds 500 [--resume DIR]

``--codes`` is where encode.py writes codesNNN.bin (10-bit packed) and linesNNN.npz; files that appear while
training runs join it.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import time
from pathlib import Path

import directions as D
import layouts as P
import numpy as np
import torch
import torch.multiprocessing as mp
from direct import CUES
from encode import unpack10
from model import Understudy
from muon import Muon
from perform import Plan

FRAME, SLOT = 1024, 600  # samples in a codec frame, in one of the teacher's 40 Hz frames
PLAIN = D.Asked()
SOUNDLESS = 0.15  # share of the lines that nothing was asked of which have a direction all the same
MANY_LINES, SEAM_ROWS = (
    20,
    50,
)  # a session of so many is also told as one long history; rows of a turn's words


def found(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("lines*.npz"))


class Lines:
    """Encoded lines, grouped by session, with phoneme and letter of every frame."""

    def __init__(self, plan: Plan, folder: str, books: int) -> None:
        self.plan = plan
        parts = []
        for path in found(folder):
            z = np.load(path)
            packed = np.fromfile(path.with_name(path.stem.replace("lines", "codes") + ".bin"), np.uint8)
            parts.append(
                (
                    z["line"],
                    z["frames"],
                    z["heard"],
                    z["trim"],
                    z["span"],
                    unpack10(packed, int(z["frames"].sum()) * books).reshape(-1, books),
                )
            )
        self.line, self.frames, heard, trim, span, self.codes = (
            np.concatenate(x) for x in zip(*parts, strict=False)
        )
        self.start = np.concatenate([[0], np.cumsum(self.frames)[:-1]])
        # token 0 and the last one are the teacher's silent ends
        tokens = plan.count[self.line] + 2
        token_start = np.concatenate([[0], np.cumsum(tokens)[:-1]])
        ends = np.cumsum(span.astype(np.int64))
        slot_start = np.concatenate([[0], ends])[token_start]
        slot_end = ends[token_start + tokens - 1]
        owner = np.repeat(np.arange(len(self.line)), self.frames)
        frame = np.arange(len(owner)) - self.start[owner]
        slot = (frame * FRAME + FRAME // 2 + trim[owner]) // SLOT + slot_start[owner]
        token = (
            np.searchsorted(ends, np.minimum(slot, slot_end[owner] - 1), side="right") - token_start[owner]
        )
        silent = (token <= 0) | (token >= tokens[owner] - 1)
        at = plan.start[self.line][owner] + (token - 1).clip(0, tokens[owner] - 3)
        self.phone = np.where(silent, 0, plan.phones[at]).astype(np.uint8)
        self.letter = plan.letter[at].astype(np.int16)
        self.by_session: dict[int, list[int]] = {}
        for i, line in enumerate(self.line):
            self.by_session.setdefault(int(plan.session[line]), []).append(i)
        self.plain = (plan.names[self.line, 0] < 0) & (plan.mark[self.line] == 0)
        self.pitch = self.pitches(heard)

    def pitches(self, heard: np.ndarray) -> list[str]:
        """low, mid or high for every line: the lowest and the highest quarter of its gender and accent.

        ``heard`` [lines]: pitch in Hz of what the codec makes of the codes, 0 for no voice. A line that isn't
        plain is as deep or high as its session's plain ones: who shouts has no high voice."""
        kind = np.array([s["gender"] + s["accent"] for s in self.plan.sessions])
        kind = kind[self.plan.session[self.line]]
        usual = np.where(self.plain, heard, 0.0)
        for own in self.by_session.values():
            known = [usual[i] for i in own if usual[i] > 0]
            usual[[i for i in own if not self.plain[i]]] = np.median(known) if known else 0.0
        out = np.full(len(heard), "mid", object)
        for k in np.unique(kind):
            mine = (kind == k) & (usual > 0)
            low, high = np.quantile(usual[mine & self.plain], [0.25, 0.75]) if mine.any() else (0, 0)
            out[mine & (usual < low)], out[mine & (usual > high)] = "low", "high"
        return out.tolist()

    def text(self, i: int) -> str:
        return self.plan.texts[self.line[i]]

    def part(self, i: int) -> slice:
        return slice(int(self.start[i]), int(self.start[i] + self.frames[i]))

    def get(self, i: int):
        return self.text(i), self.codes[self.part(i)]

    def asked(self, i: int) -> D.Asked:
        return self.plan.asked(self.line[i])

    def then(self, i: int) -> D.Asked:
        """The direction of a later sentence of a line."""
        n = self.plan.then[self.line[i]]
        return D.Asked((D.NAMES[n],) if n >= 0 else ())

    def words(self, rng: random.Random, i: int, held_out: bool = False) -> str:
        """What was asked for in a line, in words; "" for nothing."""
        asked = self.asked(i)
        return D.phrase(rng, asked, held_out) if asked.names or rng.random() < SOUNDLESS else ""

    def turn(self, rng: random.Random, i: int, held_out: bool = False):
        """A line as the prompt has it, and its codes."""
        text, codes = self.get(i)
        return P.directed(text, self.words(rng, i, held_out)), codes

    def whisper(self, s: int) -> float:
        session = self.plan.sessions[s]
        names = self.plan.voices[session["gender"] + session["accent"]]
        return sum(w for v, w in session["timbre"].items() if names[int(v)] == "nicole")


def example(
    rng: random.Random, lines: Lines, s: int, progress: float = 1.0, held_out: bool = False, longest: int = 0
):
    """One training example: segments ending with the codes and the end token, and the lines heard in it.

    It begins with short lines on their own, then long ones; voices, history and described
    characters join after a third of the training. Voices are plain, all other lines as they were asked for,
    in words that are ``held_out`` or not. A session of many lines is told as one long history half of the
    time, if ``longest`` rows leave room for it."""
    own = lines.by_session[s]
    session = lines.plan.sessions[s]
    kind = rng.random()
    if progress < 0.33:
        kind *= 0.3
    elif longest and len(own) >= MANY_LINES and rng.random() < 0.5:
        return long_history(rng, lines, own, longest)
    picks = rng.sample(own, min(len(own), 5))
    if progress < 0.1:
        picks.sort(key=lambda i: lines.frames[i])
    target, rest = picks[0], picks[1:]
    voices, history, character, scene = [], [], None, None
    plain = [i for i in rest if lines.plain[i]]
    if kind < 0.30:
        pass
    elif kind < 0.58:
        voices = plain[: 1 if rng.random() < 0.75 else 2]
    elif kind < 0.70:
        voices = plain[:1]
        history = [i for i in rest if i not in voices][: rng.choice([1, 1, 2])]
    elif kind < 0.78:
        history = rest[: rng.choice([1, 2, 3])]
    else:
        names = P.NAMES[session["gender"]] if rng.random() < 0.6 else P.ANY
        character = (rng.choice(names), P.describe(rng, session, lines.pitch[target], lines.whisper(s)))
        scene = rng.choice(P.PLACES) if rng.random() < 0.4 else None
        if rng.random() < 0.35:
            history = rest[: rng.choice([1, 1, 2])]
    return assembled(rng, lines, target, voices, history, character, scene, held_out)


def assembled(rng, lines: Lines, target: int, voices, history, character=None, scene=None, held_out=False):
    """Segments and lines heard, as above, of lines by number."""
    text, codes = lines.turn(rng, target, held_out)
    turns = [lines.turn(rng, i, held_out) for i in history]
    segments = P.layout(text, [lines.get(i) for i in voices], turns, character, scene)
    return [*segments, codes, P.END], [*voices, *history, target]


def long_history(rng: random.Random, lines: Lines, own: list[int], longest: int):
    """As many lines of one speaker as the rows allow, forty if they are short."""
    room, picks = rng.uniform(0.15, 1.0) * longest, []
    for i in sorted(own, key=lambda i: lines.frames[i] * rng.uniform(0.5, 2.0)):
        room -= int(lines.frames[i]) + len(lines.text(i)) + SEAM_ROWS
        if room < 0:
            break
        picks.append(i)
    rng.shuffle(picks)
    voices = [i for i in picks if lines.plain[i]][: rng.choice((0, 1))]
    history = [i for i in picks if i not in voices]
    if not history:
        return assembled(rng, lines, rng.choice(own), [], [])
    return assembled(rng, lines, history[-1], voices, history[:-1])


def twins(rng: random.Random, lines: Lines, s: int):
    """A deep or high line as described, and under a false description (deep for high, now and then a man's
    for a woman's): two examples as above, or None if all plain lines of the session are in between."""
    own = [i for i in lines.by_session[s] if lines.pitch[i] != "mid" and lines.plain[i]]
    if not own:
        return None
    session, target = lines.plan.sessions[s], rng.choice(own)
    name, scene = rng.choice(P.ANY), rng.choice(P.PLACES) if rng.random() < 0.3 else None
    text, codes = lines.get(target)
    wording, true = rng.getrandbits(32), (session, lines.pitch[target])
    false = P.opposite(*true, "gender" if rng.random() < 0.2 else "pitch")
    return [
        (
            [
                *P.layout(
                    text,
                    character=(name, P.describe(random.Random(wording), *v, lines.whisper(s), True)),
                    scene=scene,
                ),
                codes,
                P.END,
            ],
            [target],
        )
        for v in (true, false)
    ]


def direction_twins(rng: random.Random, lines: Lines, s: int, held_out: bool = False):
    """A take under what was asked for, and under what was not: another direction or none, the other strength,
    the stars around another word or none, another sound. Two examples as above."""
    own = lines.by_session[s]
    target = rng.choice(own)
    text, codes = lines.get(target)
    asked = lines.asked(target)
    true = false = lines.words(rng, target, held_out)
    other = altered(rng, text, lines.then(target)) if rng.random() < 0.6 else None
    if other is None:
        wrong = D.contrary(rng, asked)
        false = D.phrase(rng, wrong, held_out) if wrong.names or rng.random() < 0.3 else ""
    rest = [i for i in own if i != target]
    plain = [i for i in rest if lines.plain[i]]
    kind, session, voices, history, character = rng.random(), lines.plan.sessions[s], [], [], None
    if kind < 0.35:
        voices = plain[:1]
    elif kind < 0.45:
        history = rest[:1]
    elif kind < 0.6:
        described = P.describe(rng, session, lines.pitch[target], lines.whisper(s))
        character = (rng.choice(P.ANY), described)
    voices_said, history_said = (
        [lines.get(i) for i in voices],
        [lines.turn(rng, i, held_out) for i in history],
    )
    said = (P.directed(text, true), P.directed(other or text, false))
    return [
        ([*P.layout(each, voices_said, history_said, character), codes, P.END], [*voices, *history, target])
        for each in said
    ]


def altered(rng: random.Random, text: str, then: D.Asked = PLAIN) -> str | None:
    """The same words, the stars elsewhere or gone, another sound, or instead of the direction ``then`` within
    another one or none; None for a text with nothing of it."""
    if then.names:
        wrong = D.contrary(rng, then)
        words = f"[{D.phrase(rng, wrong)}] " if wrong.names else ""
        return re.sub(r"\[[^]]*\] ", words, text, count=1)
    if "*" in text:
        return text.replace("*", "") if rng.random() < 0.35 else moved_star(rng, text)
    for name, cues in CUES.items():
        for cue in cues:
            if f"[{cue}]" in text:
                other = rng.choice(CUES[rng.choice([n for n in CUES if n != name])])
                return text.replace(f"[{cue}]", f"[{other}]")
    return None


def moved_star(rng: random.Random, text: str) -> str | None:
    """The same text with its stars around another word; None for a text without."""
    starred = re.search(r"\*([A-Za-z']+)\*", text)
    if not starred:
        return None
    bare = text.replace("*", "")
    words = [w for w in re.finditer(r"[A-Za-z']{2,}", bare) if w.start() != starred.start()]
    if not words:
        return None
    a, b = rng.choice(words).span()
    return f"{bare[:a]}*{bare[a:b]}*{bare[b:]}"


def labels(segments, heard: list[int], lines: Lines, encode, total: int):
    """Per row: position of the letter being spoken and phoneme, -1 outside speech."""
    spots, phones = np.full(total, -1, np.int16), np.full(total, -1, np.int16)
    at, said = 0, {}
    order = iter(heard)
    for segment in segments:
        if isinstance(segment, str):
            at += len(encode(segment))
            said[at] = segment
            continue
        i = next(order)
        text = lines.text(i)
        part = lines.part(i)
        phones[at : at + len(segment)] = lines.phone[part]
        home = max((e for e, t in said.items() if t.endswith(text)), default=None)
        size = len(text.encode())
        if home is not None and len(encode(text)) == size:
            spots[at : at + len(segment)] = home - size + lines.letter[part]
        at += len(segment)
    return spots, phones


WIDTHS = (128, 192, 256, 320, 384, 512, 704, 960, 1344, 2048, 3072, 4608, 6144)
TWIN_WIDTHS, EXAM_ROWS = 1344, 960  # of the longest twin, of the longest example of an exam


class Builder:
    """Rows of examples -> the arrays of one batch."""

    def __init__(self, lines, tokenizer, config) -> None:
        self.lines, self.encode = lines, P.Encoder(tokenizer)
        self.first, self.last = config["semantic_start_token_id"], config["semantic_end_token_id"]
        self.books, self.eos, self.pad = (
            config["audio_decoder_config"]["num_codebooks"],
            config["eos_token_id"],
            config["pad_token_id"],
        )

    def one(self, rng, sessions, progress, held_out=False, longest=WIDTHS[-1]):
        return example(rng, self.lines, rng.choice(sessions), progress, held_out, longest)

    def item(self, segments, heard):
        rows = P.rows(segments, self.encode, self.first, self.books)
        return rows, *labels(segments, heard, self.lines, self.encode, len(rows))

    def pair(self, rng, sessions, directed=False, held_out=False):
        """Rows of two examples, the same take truly and falsely described, or directed."""
        make = (lambda s: direction_twins(rng, self.lines, s, held_out)) if directed else None
        while (
            found := make(rng.choice(sessions)) if make else twins(rng, self.lines, rng.choice(sessions))
        ) is None:
            pass
        true, (rows, spots, phones) = (self.item(*example) for example in found)
        return true, (rows, np.full_like(spots, -1), np.full_like(phones, -1))

    def batch(self, items, width, rng, blur=0.0, last_only=False, share=0.75):
        """``share`` of the rows may be asked for; of more, that many at random, which twins can't have."""
        size = len(items)
        rows = np.zeros((size, width, 1 + self.books), np.int16)
        rows[..., 0] = self.pad
        spots, phones = np.full((size, width), -1, np.int16), np.full((size, width), -1, np.int16)
        for i, (r, s, p) in enumerate(items):
            rows[i, : len(r)], spots[i, : len(r)], phones[i, : len(r)] = r, s, p
        token = rows[..., 0]
        speech = (token >= self.first) & (token <= self.last)
        heard = speech[:, 1:] | (speech[:, :-1] & (token[:, 1:] == self.eos))
        if last_only:  # the take itself, not the clips before it
            for line in heard:
                gaps = np.flatnonzero(~line[: np.flatnonzero(line)[-1]])
                line[: gaps[-1] + 1] = False
        where = np.flatnonzero(heard)
        room = max(1, int(share * size * width))
        if len(where) > room:
            where = np.sort(rng.permutation(where)[:room])
        padded = np.zeros(room, np.int32)
        padded[: len(where)] = where
        # Blur what was heard: otherwise a small corpus is recognised by its sound and the
        # text is never read.  Each example draws its own share of replaced frames.
        blurred = rows.copy()
        if blur:
            share = rng.choice([0.0, blur / 2, blur, 2 * blur], size=(size, 1))
            hit = speech & (rng.random(speech.shape) < share)
            blurred[hit] = rows[speech][rng.integers(0, max(1, int(speech.sum())), int(hit.sum()))]
        return rows, padded, len(where), blurred, spots, phones


class Batches:
    """Batches of a few fixed shapes, about ``tokens`` rows each, made by forked workers: (arrays, twins).

    ``pairs``: share of the batches that are twins, once described characters have joined; ``directed``: share
    of the twins whose directions differ, not their descriptions."""

    def __init__(self, builder, tokens, sessions, workers, blur, pairs, directed, progress) -> None:
        self.directed = directed
        self.builder, self.tokens, self.sessions, self.blur, self.pairs, self.progress = (
            builder,
            tokens,
            sessions,
            blur,
            pairs,
            progress,
        )
        context = mp.get_context("fork")
        self.q = context.Queue(maxsize=32)
        self.workers = [
            context.Process(target=self.work, args=(w + int(time.time()) * 100,), daemon=True)
            for w in range(workers)
        ]
        for worker in self.workers:
            worker.start()

    def work(self, seed: int) -> None:
        torch.set_num_threads(1)
        rng, rng_np = random.Random(seed), np.random.default_rng(seed)
        waiting: dict[tuple, list] = {(w, twins): [] for w in WIDTHS for twins in (False, True)}
        while True:
            # a pair has two rows, so this many of the draws make the wanted share of the batches
            paired = self.progress.value >= 0.33 and rng.random() < self.pairs / (2 - self.pairs)
            if paired:
                items = self.builder.pair(rng, self.sessions, directed=rng.random() < self.directed)
            else:
                items = [self.builder.item(*self.builder.one(rng, self.sessions, self.progress.value))]
            longest = max(len(item[0]) for item in items)
            width = next((w for w in WIDTHS if w >= longest), None)
            if width is None or (paired and width > TWIN_WIDTHS):
                continue
            group = waiting[width, paired]
            group.append(items)
            if len(group) * len(items) >= max(1, self.tokens // width) - paired:
                ordered = [item for side in zip(*group, strict=True) for item in side]  # all true ones first
                how = dict(share=1.0) if paired else dict(blur=self.blur)
                self.q.put((self.builder.batch(ordered, width, rng_np, **how), paired))
                group.clear()

    def stop(self) -> None:
        for worker in self.workers:
            worker.terminate()


def told_exam(builder, sessions, tokens: int, directed: bool):
    """Twins from sessions never trained on, in words never trained on."""
    rng, pairs = random.Random(7), []
    while sum(len(true[0]) for true, _ in pairs) < tokens:
        pairs.append(builder.pair(rng, sessions, directed, held_out=True))
    items = [item for side in zip(*pairs, strict=True) for item in side]
    return builder.batch(items, max(len(i[0]) for i in items), np.random.default_rng(7), share=1.0)


def exam(builder, sessions, count: int, tokens: int):
    """Pairs of batches from sessions never trained on: with the right text and with another line's."""
    rng, rng_np = random.Random(7), np.random.default_rng(7)
    pairs = []
    for n in range(count):
        right, wrong = [], []
        progress = 0.2 if n % 2 == 0 else 1.0  # half of them single lines
        while sum(len(r[0]) for r in right) < tokens:
            segments, heard = builder.one(rng, sessions, progress, held_out=True, longest=0)
            other = builder.lines.text(rng.choice(builder.lines.by_session[rng.choice(sessions)]))
            mine = builder.lines.text(heard[-1])
            at = max(i for i, s in enumerate(segments) if isinstance(s, str) and s.endswith(mine))
            a = builder.item(segments, heard)
            b = builder.item([*segments[:at], segments[at][: -len(mine)] + other, *segments[at + 1 :]], heard)
            if max(len(a[0]), len(b[0])) <= EXAM_ROWS:
                right.append(a), wrong.append(b)
        pairs.append(
            [
                builder.batch(items, max(len(i[0]) for i in items), rng_np, last_only=True)
                for items in (right, wrong)
            ]
        )
    return pairs


class Trainer:
    """Forward and backward of one shape, replayed as a CUDA graph after its first use."""

    def __init__(self, model, listener, args) -> None:
        self.model, self.listener, self.args, self.device = model, listener, args, args.device
        self.half, self.graphs = bool(args.half), bool(args.graphs) and args.device == "cuda"
        self.captured: dict = {}
        self.pool = torch.cuda.graph_pool_handle() if self.graphs else None
        self.parameters = list(model.parameters()) + list(listener.parameters())
        self.weights = torch.tensor([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.5], device=self.device)
        self.guide = torch.tensor(args.guide, device=self.device)
        for q in self.parameters:
            q.grad = torch.zeros_like(q)

    def losses(self, rows, where, count, blurred, spots, phones, smoothing=0.0, twins=False):
        with torch.autocast(
            torch.device(self.device).type, dtype=torch.bfloat16, enabled=self.half, cache_enabled=False
        ):
            return self.model(rows, where, count, blurred, spots, phones, self.listener, smoothing, twins)

    def drop(self, share: float) -> None:
        for module in self.model.modules():
            if hasattr(module, "drop"):
                module.drop = share

    def compute(self, *batch, twins=False):
        """Twins differ by a nat or two: neither chance in dropout nor smoothing may come between them."""
        torch._foreach_zero_([q.grad for q in self.parameters])
        self.drop(0.0 if twins else self.args.dropout)
        v = self.losses(*batch, smoothing=0.0 if twins else self.args.smoothing, twins=twins)
        layers = self.model.model.language_model.layers
        balance = sum(layer.mlp.balance for layer in layers)
        loss = (
            v["main"]
            + 0.3 * (v["codes"] * self.weights[: len(v["codes"])]).sum()
            + 0.01 * balance
            + self.args.phone * v["phone"]
            + self.guide * v["guide"]
            + (self.args.told * v["told"] if twins else 0.0)
        )
        loss.backward()
        return {k: x.detach() for k, x in v.items()} | {"balance": balance.detach() / len(layers)}

    def on_device(self, rows, where, count, *rest):
        as_long = lambda a: torch.from_numpy(a).to(self.device).long()  # noqa: E731
        return as_long(rows), as_long(where), torch.tensor(count, device=self.device), *map(as_long, rest)

    @torch.no_grad()
    def measure(self, pairs, told) -> dict:
        self.model.eval()
        total: dict = {}
        for right, wrong in pairs:
            a, b = self.losses(*self.on_device(*right)), self.losses(*self.on_device(*wrong))
            for k, x in dict(
                main=a["main"], codes=a["codes"].mean(), wrong=b["main"], phone=a["phone_right"], hit=a["hit"]
            ).items():
                total.setdefault(k, []).append(float(x))
        out = {k: float(np.mean(v)) for k, v in total.items()}
        for name, batch in told.items():
            v = self.losses(*self.on_device(*batch), twins=True)
            out |= {name: float(v["told"]), name + "_right": float(v["told_right"])}
        self.model.train()
        return out | {"gap": out["wrong"] - out["main"]}

    def __call__(self, batch, twins=False):
        if not self.graphs:
            return self.compute(*self.on_device(*batch), twins=twins)
        key = (*batch[0].shape, twins)
        if key not in self.captured:
            fixed = self.on_device(*batch)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.compute(*fixed, twins=twins)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                values = self.compute(*fixed, twins=twins)
            self.captured[key] = (graph, fixed, values)
        graph, fixed, values = self.captured[key]
        for i, source in enumerate(batch):
            if i != 2:
                fixed[i].copy_(torch.from_numpy(source).pin_memory(), non_blocking=True)
        fixed[2].fill_(batch[2])
        graph.replay()
        return values


def parse():
    p = argparse.ArgumentParser()
    add = p.add_argument
    add("--plan", required=True), add("--out", required=True), add("--codes", required=True)
    add("--least", type=int, default=1, help="files of codes to wait for before training starts")
    (
        add("--seconds", type=float, default=1300),
        add("--passes", type=float, default=20),
        add("--device", default="cuda"),
    )
    (
        add("--tokens", type=int, default=32768),
        add("--lr", type=float, default=2e-3),
        add("--floor", type=float, default=0.02),
    )
    (
        add("--resume", default=""),
        add("--begin", type=float, default=0.0, help="curriculum position to start from"),
    )
    (
        add("--max-steps", type=int, default=10**9),
        add("--log-every", type=int, default=100),
        add("--measure-every", type=float, default=40),
    )
    (
        add("--warmup", type=int, default=150),
        add("--half", type=int, default=1),
        add("--graphs", type=int, default=1),
        add("--workers", type=int, default=10),
    )
    (
        add("--blur", type=float, default=0.15),
        add("--dropout", type=float, default=0.1),
        add("--smoothing", type=float, default=0.05),
    )
    add("--guide", type=float, default=1.0), add("--phone", type=float, default=0.5)
    add("--told", type=float, default=0.3, help="weight of telling a true description from a false one")
    add("--pairs", type=float, default=0.2, help="share of batches that do so")
    add("--directed", type=float, default=0.7, help="share of these in which the directions differ")
    add(
        "--give-up",
        type=float,
        default=0.0,
        help="stop after this many seconds if the reading gap is below 0.3",
    )
    (
        add("--hidden", type=int, default=256),
        add("--layers", type=int, default=8),
        add("--interval", type=int, default=2),
    )
    (
        add("--books", type=int, default=6),
        add("--exams", type=int, default=4),
        add("--exam-tokens", type=int, default=8192),
    )
    return p.parse_args()


def main() -> None:
    args = parse()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)

    def log(message):
        print(message, flush=True)
        with open(out / "lm.log", "a") as book:
            print(message, file=book)

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    tokenizer = P.build_tokenizer()
    config = P.build_config(tokenizer, args.hidden, args.layers, args.interval, args.books)
    tokenizer.save(str(out / "tokenizer.json"))
    torch.manual_seed(3)
    plan = Plan(args.plan, styles=False)
    position = mp.get_context("fork").Value("d", args.begin)

    def load():
        lines = Lines(plan, args.codes, args.books)
        # which sessions are held back depends on nothing but their number
        aside = [s for s in lines.by_session if s % 61 == 7] or list(lines.by_session)[:1]
        rest = [s for s in lines.by_session if s % 61 != 7]
        unique = sum(int(lines.frames[i]) + len(lines.text(i)) for s in rest for i in lines.by_session[s])
        log(
            f"{len(lines.line)} lines in {len(lines.by_session)} sessions, "
            f"{lines.frames.sum() * FRAME / 24000 / 3600:.1f} h, {unique / 1e6:.1f} M rows a pass"
        )
        return Builder(lines, tokenizer, config), aside, rest, unique

    while len(files := found(args.codes)) < args.least and not (Path(args.codes) / "finished").exists():
        time.sleep(0.2)
    builder, aside, sessions, unique = load()
    pairs, told = (
        exam(builder, aside, args.exams, args.exam_tokens),
        {
            name: told_exam(builder, aside, args.exams * args.exam_tokens, name == "directed")
            for name in ("told", "directed")
        },
    )

    def supply():
        how = (args.blur, args.pairs, args.directed, position)
        return Batches(builder, args.tokens, sessions, args.workers, *how)

    batches = supply()
    model = Understudy.load(args.resume) if args.resume else Understudy(config)
    model = model.to(args.device).train()
    listener = torch.nn.Linear(config["text_config"]["hidden_size"], 2 * 178).to(args.device)
    if args.resume and (Path(args.resume) / "listener.pt").exists():
        listener.load_state_dict(torch.load(Path(args.resume) / "listener.pt", map_location=args.device))
    log(
        f"{sum(q.numel() for q in model.parameters()) / 1e6:.1f} M parameters, "
        f"guided layers {model.model.language_model.guided_layers()}"
    )

    # AdamW's is whatever is no plain matrix between two layers: tables, heads, routers, gates, taps, gains
    def plain(n, q):
        return (
            q.ndim >= 2 and min(q.shape[-2:]) >= 32 and not any(w in n for w in ("embed", "head", "conv1d"))
        )

    matrices = [q for n, q in model.named_parameters() if plain(n, q)]
    others = [q for n, q in model.named_parameters() if not plain(n, q)] + list(listener.parameters())
    optims = [
        Muon(matrices, args.lr),
        torch.optim.AdamW(
            others, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=args.device == "cuda"
        ),
    ]
    trainer = Trainer(model, listener, args)
    started, step, rows_seen, last, measured = time.time(), 0, 0, time.time(), time.time()
    mean: dict = {}
    best = float("inf")

    def check(note=""):
        nonlocal best
        m = trainer.measure(pairs, told)
        score = m["main"] + 0.2 * m["codes"] + 0.2 * m["told"] + 0.2 * m["directed"]
        better, best = score < best, min(score, best)
        trainer.guide.fill_(args.guide * min(1.0, max(0.1, 1.5 - m["gap"])))  # fade once it reads by itself
        log(
            f"EXAM {step} {time.time() - started:.0f}s right {m['main']:.3f} wrong {m['wrong']:.3f} "
            f"gap {m['gap']:.3f} codes {m['codes']:.3f} phone {m['phone']:.3f} hit {m['hit']:.3f} "
            f"told {m['told']:.3f} ({m['told_right']:.2f} right) "
            f"directed {m['directed']:.3f} ({m['directed_right']:.2f} right) "
            f"passes {rows_seen / unique:.1f}{' saved' if better else ''}{note}"
        )
        if (
            better or note
        ):  # at the end in any case: an exam of few pairs wavers more than the last steps gain
            model.save(out)
            torch.save(listener.state_dict(), out / "listener.pt")
        return m

    while True:
        elapsed = time.time() - started
        progress = max(elapsed / args.seconds, rows_seen / (args.passes * unique), step / args.max_steps)
        if progress >= 1:
            break
        position.value = args.begin + (1 - args.begin) * progress
        rate = (
            args.lr
            * min(1.0, (step + 1) / args.warmup)
            * (args.floor + (1 - args.floor) * 0.5 * (1 + math.cos(math.pi * progress)))
        )
        for optim in optims:
            for group in optim.param_groups:
                group["lr"] = rate
        batch, paired = batches.q.get()
        values = trainer(batch, paired)
        norm = torch.nn.utils.clip_grad_norm_(trainer.parameters, 1.0)
        for optim in optims:
            optim.step()
        rows_seen += int((batch[0][..., 0] != config["pad_token_id"]).sum())
        if step % 10 == 0:
            for k, v in (values | {"norm": norm}).items():
                mean.setdefault(k, []).append(v.float().clone())
        if step % args.log_every == 0 and mean:
            m = {k: torch.stack(v).mean(0) for k, v in mean.items()}
            mean = {}
            if not math.isfinite(float(m["norm"])):
                raise FloatingPointError("gradient is not finite")
            now = time.time()
            codes = m.pop("codes").tolist()
            log(
                f"lm {step} {elapsed:.0f}s ({(now - last) / args.log_every * 1000:.0f} ms/step, "
                f"{rows_seen / (elapsed + 1e-9) / 1e3:.0f}k rows/s, queue {batches.q.qsize()}) "
                + " ".join(f"{k} {float(v):.3f}" for k, v in m.items())
                + " codes "
                + " ".join(f"{c:.2f}" for c in codes)
            )
            last = now
        step += 1
        if time.time() - measured > args.measure_every:
            measured = time.time()
            m = check()
            if args.give_up and elapsed > args.give_up and m["gap"] < 0.3:
                log(
                    f"NOT READING: gap {m['gap']:.2f} after {elapsed:.0f} s; stopped. "
                    "Change something before going on."
                )
                break
            now = found(args.codes)
            if len(now) > 1.2 * len(files) or (
                len(now) > len(files) and (Path(args.codes) / "finished").exists()
            ):
                batches.stop()
                files = now
                builder, aside, sessions, unique = load()
                batches = supply()
                log(f"further lines joined at {elapsed:.0f} s")
    batches.stop()
    check(" at the end")
    log(f"lm: {step} steps, {rows_seen / 1e6:.0f} M rows in {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
