"""How fast can this GPU's memory be read, and how long must a decode step take for that alone?

    python bench/floor.py [--layers 40] [--rows 0 1024 2048 8192 16000]

The floor of a step is the bytes it must read, by part, over the bandwidth of a large device-to-device copy
(read and written together). A sum that only reads is measured beside it, round by round. No weights are made:
the bytes are those of Drama 3's shape.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import full_size
from bench.report import last_line, median_p95

COPIED_BYTES = 4 << 30  # 70 times the second-level cache of an H200
WARM_UP = 2


def device_ms(work: Callable[[], object]) -> float:
    """Milliseconds on the device from before to behind what `work` queues."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def bandwidths(num_bytes: int = COPIED_BYTES, rounds: int = 12) -> dict[str, list[float]]:
    """Bytes a second of each round: `copy` reads and writes, `read` sums up."""
    source = torch.zeros(num_bytes // 4, device="cuda")
    target, found = torch.empty_like(source), {"copy": [], "read": []}
    for turn in range(rounds + WARM_UP):
        copy = 2 * num_bytes / (1e-3 * device_ms(lambda: target.copy_(source)))
        read = num_bytes / (1e-3 * device_ms(source.sum))
        if turn >= WARM_UP:
            found["copy"].append(copy)
            found["read"].append(read)
    return found


def copy_bandwidth() -> list[float]:
    """Bytes a second, read and written together, of each of some large copies."""
    return bandwidths(rounds=8)["copy"]


def floor(
    rows: list[int], step_bytes: Callable[[int], dict[str, int]], copies: list[float]
) -> dict[str, Any]:
    """What a bench publishes of the floor: bandwidth, bytes by part and milliseconds, by row count."""
    speed = median_p95(copies)[0]
    parts = {count: step_bytes(count) for count in rows}
    return {
        "floor_gb_s": speed / 1e9,
        "copy_bytes_s": copies,
        "bytes": parts,
        "floor_ms": {count: 1e3 * sum(each.values()) / speed for count, each in parts.items()},
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--layers", type=int, default=40)
    options.add_argument("--rows", type=int, nargs="+", default=[0, 1024, 2048, 8192, 16_000])
    args = options.parse_args()
    found = bandwidths()
    for name, values in found.items():
        print(f"{name:<5}{median_p95(values)[0] / 1e9:>8.0f} GB/s, slowest round {min(values) / 1e9:.0f}")
    told = floor(args.rows, full_size.outline(args.layers).step_bytes, found["copy"])
    print(f"\n{'MB by rows':<28}" + "".join(f"{rows:>9}" for rows in args.rows))
    for part in told["bytes"][args.rows[0]]:
        print(f"{part:<28}" + "".join(f"{told['bytes'][rows][part] / 1e6:>9.1f}" for rows in args.rows))
    print(f"{'floor, ms':<28}" + "".join(f"{told['floor_ms'][rows]:>9.3f}" for rows in args.rows))
    samples = {name: {"bytes_s": values} for name, values in found.items()}
    ratio = median_p95(found["read"])[0] / median_p95(found["copy"])[0]
    last_line({"layers": args.layers, **told, "ratios": {"bytes_s read / copy": ratio}, "samples": samples})


if __name__ == "__main__":
    main()
