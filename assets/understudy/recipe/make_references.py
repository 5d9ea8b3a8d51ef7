"""Let stock teacher voices perform held-out sentences on a CPU, for evaluate.py.

    python make_references.py teacher.safetensors KOKORO_DIR VOICES_DIR vocab.json held_out.json OUT

OUT/clips: two clips of each of six voices, saying twelve of the last fourteen sentences: references, and
what the codec is measured with.  OUT/lines: the first 50 sentences, voices in turn, for the teacher's own
word errors.
"""

import json
import sys
from pathlib import Path

import numpy as np
import soundfile as sf
import torch
from g2p import Phonemiser
from teacher import Teacher, load_vocab

VOICES = ("af_heart", "am_michael", "bf_emma", "bm_george", "af_bella", "am_fenrir")
weights, package, voices, vocab_path, held_out, out = sys.argv[1:7]
torch.set_num_threads(2)
vocab, say, teacher = load_vocab(vocab_path), Phonemiser(), Teacher(weights, package)
sentences = json.loads(Path(held_out).read_text())


def perform(voice: str, text: str, path: Path) -> None:
    if path.with_suffix(".json").exists():
        return
    table = np.fromfile(f"{voices}/{voice}.bin", np.float32).reshape(-1, 256)
    ids = [vocab[c] for c in say(text, voice[0] == "b") if c in vocab]
    audio, valid = teacher(
        torch.tensor([[0, *ids, 0]]),
        torch.tensor([len(ids) + 2]),
        torch.from_numpy(table[len(ids) - 1])[None],
        torch.ones(1),
    )
    wave = audio[0, : int(valid)].numpy()
    loud = np.flatnonzero(np.abs(wave) > 0.02)
    wave = wave[max(0, loud[0] - 1440) : loud[-1] + 3600]
    wave = wave * (0.07 / np.sqrt(np.mean(wave[np.abs(wave) > 0.005] ** 2)))
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path.with_suffix(".wav"), np.clip(wave, -1, 1), 24000)
    path.with_suffix(".json").write_text(json.dumps(dict(voice=voice, text=text)))
    print(path.stem, text, len(wave) / 24000, flush=True)


for i, voice in enumerate(VOICES):
    for take in range(2):
        perform(voice, sentences[-14:][2 * i + take], Path(out) / "clips" / f"{voice}_{take}")
for i, text in enumerate(sentences[:50]):
    perform(VOICES[i % 6], text, Path(out) / "lines" / f"{i:02d}")
