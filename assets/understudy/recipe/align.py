"""Which byte of the text does each phoneme speak?  Used only to guide attention in training.

    python align.py PLAN vocab.json        adds PLAN/align.npz to a plan

A monotone best path between letters and phonemes under a coarse table of likely spellings.
Exactness is not needed: the training signal accepts a few letters to either side.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numba
import numpy as np

SPELLINGS = {
    "ʃ": "stcih",
    "ʧ": "cth",
    "ʤ": "jgd",
    "ŋ": "ng",
    "θ": "th",
    "ð": "th",
    "ɹ": "r",
    "ɡ": "g",
    "k": "kcqxh",
    "s": "scxz",
    "z": "zsx",
    "j": "yuie",
    "w": "wuoh",
    "ʒ": "sgz",
    "f": "fpg",
    "t": "td",
    "T": "td",
    "d": "d",
    "v": "vf",
    "h": "hw",
    "I": "iy",
    "A": "aei",
    "O": "oa",
    "Q": "o",
    "W": "ou",
    "Y": "oi",
    "i": "eiy",
    "u": "uow",
    "a": "a",
    "ɑ": "oa",
    "ɒ": "oa",
    "æ": "a",
    "ɔ": "oa",
    "ə": "aeiou",
    "ɜ": "eiuo",
    "ɛ": "ea",
    "ɪ": "iey",
    "ʊ": "uo",
    "ʌ": "uo",
    "ᵻ": "ei",
    "ᵊ": "leo",
}
VOWELS = "IAOQWYiuaɑɒæɔəɜɛɪʊʌᵻᵊ"


def table(vocab: dict[str, int]) -> np.ndarray:
    score = np.full((178, 256), -1.5, np.float32)
    for phone, i in vocab.items():
        if phone in "ˈˌː":
            score[i] = -0.2
        if phone in VOWELS:
            score[i, [ord(c) for c in "aeiouyAEIOUY"]] = 0.7
        for c in SPELLINGS.get(phone, phone if phone.isalpha() and phone.isascii() else ""):
            score[i, [ord(c), ord(c.upper())]] = 2.0
        if phone in ";:,.!? ":
            score[i, ord(phone)] = 3.0
    score[vocab["—"], list("—".encode())] = 3.0
    score[vocab[" "], ord("-")] = 1.0
    score[vocab[" "], list("—".encode())] = 1.0
    return score


@numba.njit(cache=False)
def path_of(letters, sounds, score, skip):
    """Monotone path: for every sound the index of its letter; letters in between may be left out."""
    n, m = len(letters), len(sounds)
    best = np.empty((m, n), np.float32)
    back = np.zeros((m, n), np.int16)
    out = np.zeros(m, np.uint8)
    for j in range(m):
        lead, origin, missed = np.float32(-1e9), 0, np.float32(0)  # best way to arrive from an earlier letter
        for i in range(n):
            if j == 0:
                come = -missed
            else:
                come, back[j, i] = best[j - 1, i] - np.float32(0.3), i
                if lead > come:
                    come, back[j, i] = lead, origin
                lead -= skip[letters[i]]
                if best[j - 1, i] > lead:
                    lead, origin = best[j - 1, i], i
            missed += skip[letters[i]]
            best[j, i] = score[sounds[j], letters[i]] + come
    at, top, missed = n - 1, np.float32(-1e9), np.float32(0)
    for i in range(n - 1, -1, -1):
        if best[m - 1, i] - missed > top:
            top, at = best[m - 1, i] - missed, i
        missed += skip[letters[i]]
    for j in range(m - 1, -1, -1):
        out[j] = at
        at = back[j, at]
    return out


def main(folder: str, vocab_path: str) -> None:
    z = np.load(Path(folder) / "plan.npz")
    score = table(json.loads(Path(vocab_path).read_text(encoding="utf-8"))["vocab"])
    skip = np.full(256, 0.4, np.float32)  # a silent letter is cheaper than a lost word border
    skip[list(b" ,.;:!?-")] = 0.8
    texts = [np.frombuffer(t.encode(), np.uint8) for t in z["text"].tobytes().decode().split("\n")]
    phones, start = z["phones"], np.concatenate([[0], np.cumsum(z["phone_count"])])
    letter = [path_of(t, phones[a:b], score, skip) for t, a, b in zip(texts, start, start[1:], strict=False)]
    np.savez_compressed(Path(folder) / "align.npz", letter=np.concatenate(letter))


if __name__ == "__main__":
    main(*sys.argv[1:3])
