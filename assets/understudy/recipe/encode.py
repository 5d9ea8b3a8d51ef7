"""Turn files of speech into codes for the language model, as they appear.

    python encode.py --speech SPEECH --codec DIR --out CODES

Waits for DIR/codes_final, then writes CODES/codesNNN.bin (10 bits a code, frame after frame) and
CODES/linesNNN.npz (line, frames, pitch, heard, trim, span) for every SPEECH/NNN.pt until SPEECH/finished is
there.  ``pitch`` is the teacher's, ``heard`` that of what the codec makes of the codes: who is promised a
deep voice hears the codec, and a codec that wasn't asked for the pitch kept it so badly that within a gender
the two correlated by half.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import codec as codec_module
import numpy as np
import torch
from codec import Codec
from judges import Periodicity

FRAME, RATE = 1024, 24000
HEARD_FRAMES = 48  # two seconds tell a line's pitch as well as all of it does (correlation 0.98)


@torch.no_grad()
def encode(codec, speech: dict, device: str, batch_seconds: float = 900.0):
    """Codes of every line, [total frames, codebooks] int16, and frames per line."""
    length, start = speech["length"], speech["start"]
    audio = speech["audio"].to(device)
    frames = (length + FRAME - 1) // FRAME
    first = np.concatenate([[0], np.cumsum(frames)[:-1]])
    out = torch.zeros(int(frames.sum()), codec.config["num_codebooks"], dtype=torch.int16, device=device)
    order = np.argsort(length)
    while len(order):
        n = max(1, int(np.searchsorted(length[order] * np.arange(1, len(order) + 1), batch_seconds * 24000)))
        batch, order = order[:n], order[n:]
        on_device = lambda a, batch=batch: torch.as_tensor(a[batch], device=device)[:, None]  # noqa: E731
        grid = torch.arange(int(frames[batch].max()) * FRAME, device=device)[None]
        inside = grid < on_device(length)
        wave = audio[(on_device(start) + grid).clamp(max=len(audio) - 1)].float() / 32768 * inside
        codes = codec.encode(wave).transpose(1, 2).to(torch.int16)  # [lines, frames, books]
        place = torch.arange(codes.shape[1], device=device)[None]
        real = place < on_device(frames)
        out[(on_device(first) + place)[real]] = codes[real]
    return out.cpu().numpy(), frames


@torch.no_grad()
def heard(codec, codes: np.ndarray, frames: np.ndarray, device: str, batch_seconds: float = 300.0):
    """Median F0 [lines] float32 in Hz of what the codec makes of each line's first two seconds; 0: no voice.

    codes [total frames, codebooks]."""
    listen, first = Periodicity(RATE).to(device), np.concatenate([[0], np.cumsum(frames)[:-1]])
    codes, place = torch.from_numpy(codes), torch.arange(HEARD_FRAMES)
    size, out = max(1, int(batch_seconds * RATE / (HEARD_FRAMES * FRAME))), []
    for at in range(0, len(frames), size):
        start, length = (torch.from_numpy(a[at : at + size])[:, None] for a in (first, frames))
        picked = codes[start + torch.minimum(place, length - 1)].to(device).long()
        inside = (place < length).repeat_interleave(FRAME, 1).to(device)
        wave = codec.decode(picked.transpose(1, 2)) * inside
        hz, voiced = listen.pitch(wave)
        hz = torch.where(voiced, hz, torch.nan)
        out.append(hz.nanmedian(-1).values.nan_to_num(0.0).float().cpu())
    return torch.cat(out).numpy()


def pack10(codes: np.ndarray) -> np.ndarray:
    """int16 codes < 1024 -> 10 bits each."""
    flat = codes.astype(np.uint16).ravel()
    flat = np.pad(flat, (0, -len(flat) % 4)).reshape(-1, 4).astype(np.uint64)
    word = flat[:, 0] | flat[:, 1] << 10 | flat[:, 2] << 20 | flat[:, 3] << 30
    return (
        np.stack([(word >> np.uint64(8 * i)) & np.uint64(255) for i in range(5)], 1).astype(np.uint8).ravel()
    )


def unpack10(data: np.ndarray, count: int) -> np.ndarray:
    word = sum(data.reshape(-1, 5)[:, i].astype(np.uint64) << np.uint64(8 * i) for i in range(5))
    out = np.stack([(word >> np.uint64(10 * i)) & np.uint64(1023) for i in range(4)], 1).astype(np.int16)
    return out.ravel()[:count]


def books_of(path: Path) -> Path:
    """The codes that a file of lines is about."""
    return path.with_name(path.stem.replace("lines", "codes") + ".bin")


def write(out: Path, name: str, codes: np.ndarray, lines: dict) -> None:
    """Codes first: a file of lines that can be seen is complete."""
    pack10(codes).tofile(out / f"codes{name}.bin")
    np.savez_compressed(out / "part.npz", **lines)
    os.replace(out / "part.npz", out / f"lines{name}.npz")


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--speech", required=True, type=Path), p.add_argument("--codec", required=True, type=Path)
    p.add_argument("--out", required=True, type=Path), p.add_argument("--device", default="cuda")
    p.add_argument(
        "--known", type=Path, help="codes of an earlier run with this codec, which join the others"
    )
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    while not (args.codec / "codes_final").exists():
        time.sleep(0.2)
    codec = Codec.load(args.codec).to(args.device)
    if args.device == "cuda":
        codec_module._kernels["snake"] = torch.compile(codec_module._snake, dynamic=True)
        torch._dynamo.config.recompile_limit = 64
    done, started, frames_done = set(), time.time(), 0

    def fresh(folder: Path | None, pattern: str) -> list[Path]:
        return sorted(set(folder.glob(pattern)) - done) if folder else []

    def note(name: str, frames: np.ndarray) -> None:
        nonlocal frames_done
        frames_done += int(frames.sum())
        hours, seconds = frames_done * FRAME / RATE / 3600, time.time() - started
        print(f"{name}: {hours:.1f} h encoded, {seconds:.0f} s", flush=True)

    while True:
        last = (args.speech / "finished").exists()
        known = [path for path in fresh(args.known, "lines*.npz") if books_of(path).exists()]
        for path in known[:1]:
            done.add(path)
            lines = dict(np.load(path))
            packed = np.fromfile(books_of(path), np.uint8)
            count = codec.config["num_codebooks"]
            codes = unpack10(packed, int(lines["frames"].sum()) * count).reshape(-1, count)
            if "heard" not in lines:
                lines["heard"] = heard(codec, codes, lines["frames"], args.device)
            write(args.out, path.stem.removeprefix("lines"), codes, lines)
            note(path.stem, lines["frames"])
        speech_files = fresh(args.speech, "*.pt")
        for path in speech_files[:1]:
            done.add(path)
            speech = torch.load(path, weights_only=False)
            codes, frames = encode(codec, speech, args.device)
            lines = dict(
                line=speech["line"].astype(np.int32),
                frames=frames.astype(np.int32),
                pitch=speech["pitch"].astype(np.float16),
                heard=heard(codec, codes, frames, args.device),
                trim=speech["trim"],
                span=speech["span"],
            )
            write(args.out, ("more" if args.known else "") + path.stem, codes, lines)
            note(path.stem, frames)
        if not known and not speech_files:
            if last and not fresh(args.known, "lines*.npz"):
                break
            time.sleep(0.5)
    (args.out / "finished").touch()


if __name__ == "__main__":
    main()
