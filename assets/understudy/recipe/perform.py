"""Let the teacher perform the plan on a GPU, one file of speech after another.

    python perform.py --plan plan --teacher teacher.safetensors --kokoro DIR --out SPEECH --seconds 500

Each SPEECH/NNN.pt is a dictionary of CPU tensors and arrays: ``audio`` int16, flat, with ``start``
and ``length`` per line; ``line`` (its number in the plan), mean ``pitch`` in Hz; ``label``, the phoneme
of every 40 Hz slot, with ``label_start``, ``label_count`` and ``label_shift`` (samples from the first
slot's start to the line's); ``trim``, samples cut off in front; ``span``, slots of every phoneme.
SPEECH/finished appears last.  Silence is trimmed to 60 ms before and 150 ms after the
speech and every line is brought to the same loudness.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from pathlib import Path

import directions as D
import numpy as np
import torch
from teacher import SAMPLE_RATE, SAMPLES_PER_FRAME, Curves, Teacher

TARGET_RMS = 0.07
FADE = int(0.03 * SAMPLE_RATE)  # from one direction to the next within a line
SHELF_HZ, SHELF_OCTAVES = 1000.0, 0.5  # where a tilt turns, and how fast
SLOWEST, FASTEST = 0.5, 1.55  # pace of speaker and direction together: beyond, words get lost
STRETCH_STEPS, BEND_STEPS, PUSH_STEPS = 50, 8, 16  # units of directed.npz: a factor of 1, a semitone, 1
HEAD, TAIL = int(0.06 * SAMPLE_RATE), int(0.15 * SAMPLE_RATE)


class Plan:
    """What is to be said by whom: texts, phonemes, sessions, and the styles of their speakers."""

    def __init__(self, folder: str | Path, styles: bool = True) -> None:
        folder = Path(folder)
        z = np.load(folder / "plan.npz")
        self.texts = z["text"].tobytes().decode().split("\n")
        self.count, self.session = z["phone_count"], z["session"]
        self.start = np.concatenate([[0], np.cumsum(self.count)[:-1]])
        self.phones = z["phones"]
        self.letter = np.load(folder / "align.npz")["letter"]  # byte of the text that each phoneme speaks
        meta = json.loads((folder / "sessions.json").read_text())
        self.sessions, self.voices = meta["sessions"], meta["voices"]
        self.names = np.full((len(self.texts), 2), -1, np.int8)
        self.strength = self.mark = np.zeros(len(self.texts), np.int8)
        self.turn, self.then = np.zeros(len(self.texts), np.int16), np.full(len(self.texts), -1, np.int8)
        self.curves = None  # what is done to single phonemes: float32 [phonemes] each
        if (folder / "directed.npz").exists():
            z = np.load(folder / "directed.npz")
            self.names, self.strength, self.mark = z["names"], z["strength"], z["mark"]
            if "turn" in z:
                self.turn, self.then = z["turn"], z["then"]
            if styles:
                self.curves = dict(
                    fixed=z["fixed"].astype(np.float32),
                    stretch=z["stretch"].astype(np.float32) / STRETCH_STEPS,
                    bend=2.0 ** (z["bend"].astype(np.float32) / (12 * BEND_STEPS)),
                    voice=z["voice"].astype(np.float32),
                    push=z["push"].astype(np.float32) / PUSH_STEPS,
                )
        if styles:
            tables = np.load(folder / "styles.npz")
            self.styles = {k: tables[k].astype(np.float32) for k in tables.files}

    def style(self, i: int) -> np.ndarray:
        s = self.sessions[self.session[i]]
        key = s["gender"] + s["accent"]
        row = min(int(self.count[i]) - 1, 409)
        mix = lambda m: sum(w * self.styles[f"{key}_{self.voices[key][int(v)]}"][row] for v, w in m.items())  # noqa: E731
        return np.concatenate([mix(s["timbre"])[:128], mix(s["prosody"])[128:]])

    def asked(self, i: int) -> D.Asked:
        """The directions of a line."""
        return D.Asked(tuple(D.NAMES[n] for n in self.names[i] if n >= 0), int(self.strength[i]))

    def pace(self, i: int) -> float:
        """Speaker's and direction's."""
        pace = self.sessions[self.session[i]]["speed"] * self.asked(i).manner().pace
        return min(max(pace, SLOWEST), FASTEST)

    def seconds(self) -> np.ndarray:
        """Rough length of every line, from its phonemes and its pace."""
        paces = np.array([self.pace(i) for i in range(len(self.texts))])
        return self.count / 13.0 / paces + 0.6

    @functools.cached_property
    def estimate(self) -> np.ndarray:
        return self.seconds()

    def batches(self, lines: np.ndarray, batch_seconds: float):
        """Lines of similar length together, short ones first."""
        estimate = self.estimate
        lines = lines[np.argsort(estimate[lines])]
        while len(lines):
            n = min(256, max(1, int(batch_seconds / estimate[lines[min(len(lines) - 1, 32)]])))
            yield lines[:n]
            lines = lines[n:]


def tilted(wave: torch.Tensor, tilt_db: torch.Tensor) -> torch.Tensor:
    """wave [B, n] with what lies above 1 kHz lifted by tilt_db [B] against what lies below."""
    spectrum = torch.fft.rfft(wave)
    hz = torch.fft.rfftfreq(wave.shape[1], 1 / SAMPLE_RATE).to(wave.device).clamp(min=20.0)
    side = torch.tanh(torch.log2(hz / SHELF_HZ) / SHELF_OCTAVES) / 2
    return torch.fft.irfft(spectrum * 10 ** (tilt_db[:, None] * side / 20), n=wave.shape[1])


def turned(wave, valid, start, tilt_db, level_db) -> torch.Tensor:
    """wave [B, n], from sample start [B] on tilted and level_db above the part before; start 0: unchanged."""
    time, start = torch.arange(wave.shape[1], device=wave.device)[None], start[:, None]
    wave = torch.nan_to_num(wave) * (time < valid[:, None])
    after = tilted(wave, tilt_db)
    gain = rms(wave * (time < start)) / rms(after * (time >= start)).clamp(min=1e-4) * 10 ** (level_db / 20)
    share = ((time - start) / FADE).clamp(0, 1) * (start > 0)
    return wave + share * (after * gain[:, None] - wave)


def rms(wave: torch.Tensor) -> torch.Tensor:
    """Of the loud 10 ms of every line, [B]."""
    power = wave[:, : wave.shape[1] // 240 * 240].reshape(len(wave), -1, 240).pow(2).mean(-1)
    loud = power > power.amax(-1, keepdim=True) * 2e-4
    return ((power * loud).sum(-1) / loud.sum(-1).clamp(min=1)).sqrt()


def trimmed(wave: torch.Tensor, valid: torch.Tensor, level_db: torch.Tensor):
    """int16 wave, level_db [B] above the target; first and last sample of the speech (with its margins)."""
    wave = wave[:, : wave.shape[1] // 240 * 240]
    inside = torch.arange(wave.shape[1], device=wave.device)[None] < valid[:, None]
    wave = torch.nan_to_num(wave) * inside
    power = wave.reshape(len(wave), -1, 240).pow(2).mean(-1)
    loud = power > power.amax(-1, keepdim=True) * 2e-4
    grid = torch.arange(power.shape[1], device=wave.device)
    first = torch.where(loud, grid, power.shape[1]).amin(-1) * 240 - HEAD
    last = torch.where(loud, grid, 0).amax(-1) * 240 + 240 + TAIL
    rms = ((power * loud).sum(-1) / loud.sum(-1).clamp(min=1)).sqrt()
    target = TARGET_RMS * 10 ** (level_db / 20)
    gain = torch.minimum(target / rms.clamp(min=1e-4), 0.97 / wave.abs().amax(-1).clamp(min=1e-4))
    pcm = (wave * gain[:, None] * 32767).round().clamp(-32768, 32767).to(torch.int16)
    return pcm, first.clamp(min=0), torch.minimum(last, valid)


def curves(plan: Plan, batch, manners: list[D.Manner], width: int, on_device) -> Curves:
    """What is done to the curves of a batch of lines."""
    tables = dict(
        fixed=np.zeros((len(batch), width), np.float32),
        stretch=np.ones((len(batch), width), np.float32),
        bend=np.ones((len(batch), width), np.float32),
        voice=np.ones((len(batch), width), np.float32),
        push=np.zeros((len(batch), width), np.float32),
    )
    for row, (i, manner) in enumerate(zip(batch, manners, strict=True)):
        if plan.curves:
            for name, table in tables.items():
                table[row, 1 : 1 + plan.count[i]] = plan.curves[name][
                    plan.start[i] : plan.start[i] + plan.count[i]
                ]
        tables["push"][row] += manner.energy
        if manner.breath:
            tables["voice"][row] = 0.0
    speakers = [plan.sessions[plan.session[i]]["pitch"] for i in batch]
    return Curves(
        pitch=on_device([p * m.pitch for p, m in zip(speakers, manners, strict=True)]),
        melody=on_device([m.melody for m in manners]),
        tremble=on_device([m.tremble for m in manners]),
        **{name: on_device(table) for name, table in tables.items()},
    )


def levels(manners: list[D.Manner], on_device):
    """Tilt and level of every line, dB."""
    return [on_device([getattr(m, name) for m in manners]) for name in ("tilt_db", "level_db")]


def perform(
    plan: Plan, teacher: Teacher, lines: np.ndarray, device: str, batch_seconds: float, half: bool
) -> dict:
    """One file of speech (see above)."""
    pieces, rows, labels, spans = [], [], [], []
    on_device = lambda a: torch.as_tensor(np.asarray(a, np.float32), device=device)  # noqa: E731
    for batch in plan.batches(lines, batch_seconds):
        width = int(plan.count[batch].max()) + 2
        tokens = np.zeros((len(batch), width), np.int64)
        for row, i in enumerate(batch):
            tokens[row, 1 : 1 + plan.count[i]] = plan.phones[plan.start[i] : plan.start[i] + plan.count[i]]
        manners = [plan.asked(i).manner() for i in batch]
        wave, valid = teacher(
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(plan.count[batch].astype(np.int64) + 2).to(device),
            on_device(np.stack([plan.style(i) for i in batch])),
            on_device([plan.pace(i) for i in batch]),
            half=half,
            how=curves(plan, batch, manners, width, on_device),
        )
        if plan.turn[batch].any():
            later = [D.DIRECTIONS[D.NAMES[plan.then[i]]].manner if plan.turn[i] else D.PLAIN for i in batch]
            before = torch.arange(width, device=device)[None] <= on_device(plan.turn[batch])[:, None]
            start = (teacher.duration * before).sum(-1) * SAMPLES_PER_FRAME * on_device(plan.turn[batch] > 0)
            wave = turned(wave, valid, start, *levels(later, on_device))
        tilt_db, level_db = levels(manners, on_device)
        pcm, first, last = trimmed(tilted(wave, tilt_db), valid, level_db)
        voiced = teacher.f0 > 50
        pitch = (teacher.f0 * voiced).sum(-1) / voiced.sum(-1).clamp(min=1)
        first, last, pitch = first.tolist(), last.tolist(), pitch.tolist()
        spoken = teacher.spoken.to(torch.uint8).cpu()
        duration = teacher.duration.clamp(max=255).to(torch.uint8).cpu().numpy()
        for row, i in enumerate(batch):
            length = last[row] - first[row]
            rate = len(plan.texts[i]) / max(length, 1) * SAMPLE_RATE
            if not 3 < rate < 32 or length < 0.25 * SAMPLE_RATE:
                continue  # the teacher stumbled
            slot = first[row] // SAMPLES_PER_FRAME
            pieces.append(pcm[row, first[row] : last[row]])
            labels.append(spoken[row, slot : last[row] // SAMPLES_PER_FRAME + 2])
            spans.append(duration[row, : plan.count[i] + 2])
            rows.append(
                (i, length, pitch[row], first[row], first[row] - slot * SAMPLES_PER_FRAME, len(labels[-1]))
            )
    line, length, pitch, trim, shift, count = (np.array(x) for x in zip(*rows, strict=False))
    starts = lambda sizes: np.concatenate([[0], np.cumsum(sizes)[:-1]])  # noqa: E731
    return dict(
        audio=torch.cat(pieces).cpu(),
        line=line,
        start=starts(length),
        length=length,
        pitch=pitch.astype(np.float32),
        label=torch.cat(labels),
        label_start=starts(count),
        label_count=count,
        label_shift=shift,
        trim=trim.astype(np.int32),
        span=np.concatenate(spans),
    )


def main() -> None:
    p = argparse.ArgumentParser()
    (
        p.add_argument("--plan", required=True),
        p.add_argument("--teacher", required=True),
        p.add_argument("--kokoro", required=True),
    )
    p.add_argument("--out", required=True), p.add_argument("--device", default="cuda")
    p.add_argument("--seconds", type=float, default=500), p.add_argument("--hours", type=float, default=200)
    p.add_argument("--files", type=int, default=60, help="in how many files the whole plan would lie")
    p.add_argument("--skip", default="", help="folder of codes whose lines are there already")
    (
        p.add_argument("--batch-seconds", type=float, default=800.0),
        p.add_argument("--compile", type=int, default=1),
    )
    args = p.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch._dynamo.config.recompile_limit = 64
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    plan = Plan(args.plan)
    known = [np.load(f)["line"] for f in sorted(Path(args.skip).glob("lines*.npz"))] if args.skip else []
    todo = np.setdiff1d(np.arange(len(plan.texts)), np.concatenate(known) if known else [])
    file_of = np.random.default_rng(0).integers(0, args.files, len(plan.sessions))[plan.session]
    teacher = Teacher(args.teacher, args.kokoro, compile_kernels=bool(args.compile)).to(args.device)
    print("teacher ready", flush=True)
    started, total = time.time(), 0.0
    for n in range(args.files):
        lines = todo[file_of[todo] == n]
        if not len(lines):
            continue
        speech = perform(plan, teacher, lines, args.device, args.batch_seconds, args.device == "cuda")
        torch.save(speech, out / "part")
        os.replace(out / "part", out / f"{n:03d}.pt")
        total += len(speech["audio"]) / SAMPLE_RATE / 3600
        print(
            f"file {n + 1}/{args.files}: {len(speech['line'])} lines, {total:.2f} h in all, "
            f"{time.time() - started:.0f} s",
            flush=True,
        )
        if time.time() - started > args.seconds or total > args.hours:
            break
    (out / "finished").touch()


if __name__ == "__main__":
    main()
