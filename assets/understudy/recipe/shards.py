"""Checkpoint files small enough for a plain git repository.

python shards.py OUT DEST      a training's OUT -> the checkpoint in DEST, no file above 9.5 MB
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

LIMIT_BYTES = 9_500_000


def read(folder: str | Path, stem: str) -> dict:
    """All tensors of stem.safetensors or of its shards, in float32."""
    paths = sorted(Path(folder).glob(f"{stem}.safetensors")) or sorted(
        Path(folder).glob(f"{stem}-*-of-*.safetensors")
    )
    return {k: v.float() for path in paths for k, v in load_file(str(path)).items()}


def split(source: Path, target: Path, stem: str) -> None:
    """Shards and their index, tensors in the order of the file."""
    parts, sizes = [{}], [0]
    for key, tensor in load_file(str(source / f"{stem}.safetensors")).items():
        size = tensor.numel() * tensor.element_size()
        if sizes[-1] + size > LIMIT_BYTES:
            parts.append({}), sizes.append(0)
        parts[-1][key] = tensor
        sizes[-1] += size
    names = [f"{stem}-{i:05d}-of-{len(parts):05d}.safetensors" for i in range(1, len(parts) + 1)]
    for name, part in zip(names, parts, strict=False):
        save_file(part, str(target / name))
        (target / name).chmod(0o644)
    where = {key: name for name, part in zip(names, parts, strict=False) for key in part}
    (target / f"{stem}.safetensors.index.json").write_text(
        json.dumps(dict(metadata=dict(total_size=sum(sizes)), weight_map=where))
    )


def main(source: str, target: str) -> None:
    source, target = Path(source), Path(target)
    target.mkdir(parents=True, exist_ok=True)
    for stem, companions in (("model", ("config.json", "tokenizer.json")), ("codec", ("codec.json",))):
        if (source / f"{stem}.safetensors").exists():
            split(source, target, stem)
            for name in companions:
                shutil.copyfile(source / name, target / name)


if __name__ == "__main__":
    main(*sys.argv[1:3])
