"""Turn files of speech into codes for the language model, as they appear.

    python encode.py --speech SPEECH --codec DIR --out CODES

Waits for DIR/codes_final, then writes CODES/codesNNN.bin (10 bits a code, frame after frame) and
CODES/linesNNN.npz (line, frames, pitch, trim, span) for every SPEECH/NNN.pt until SPEECH/finished is there.
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

FRAME = 1024


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


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--speech", required=True, type=Path), p.add_argument("--codec", required=True, type=Path)
    p.add_argument("--out", required=True, type=Path), p.add_argument("--device", default="cuda")
    p.add_argument(
        "--prefix",
        default="",
        help="of the file numbers, where codes of an earlier run lie in the same folder",
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
    while True:
        last = (args.speech / "finished").exists()
        for path in sorted(set(args.speech.glob("*.pt")) - done):
            done.add(path)
            speech = torch.load(path, weights_only=False)
            codes, frames = encode(codec, speech, args.device)
            pack10(codes).tofile(args.out / f"codes{args.prefix}{path.stem}.bin")
            np.savez_compressed(
                args.out / "part.npz",
                line=speech["line"].astype(np.int32),
                frames=frames.astype(np.int32),
                pitch=speech["pitch"].astype(np.float16),
                trim=speech["trim"],
                span=speech["span"],
            )
            os.replace(args.out / "part.npz", args.out / f"lines{args.prefix}{path.stem}.npz")
            frames_done += len(codes)
            print(
                f"{path.stem}: {frames_done * FRAME / 24000 / 3600:.1f} h encoded, "
                f"{time.time() - started:.0f} s",
                flush=True,
            )
        if last:
            break
        time.sleep(0.5)
    (args.out / "finished").touch()


if __name__ == "__main__":
    main()
