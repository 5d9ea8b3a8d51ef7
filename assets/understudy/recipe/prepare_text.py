"""Choose the sentences, speakers and settings the teacher will perform.

Reads public-domain prose and plays (Project Gutenberg texts as pg<number>.txt, and the
LJ Speech transcripts, themselves public domain) and writes one compact plan:

    plan.npz   texts, phoneme ids, session of each line
    sessions   timbre/prosody mixtures, pace, pitch factor, accent, gender

A session is one speaker saying 4-8 lines that follow each other in the book, so that
reference clips, history turns and described characters can be drawn from it later.
"""

from __future__ import annotations

import argparse
import glob
import json
import random
import re
from pathlib import Path

import numpy as np
from g2p import Phonemiser

VOICES = {
    ("f", "us"): [
        "heart",
        "bella",
        "nicole",
        "aoede",
        "kore",
        "sarah",
        "nova",
        "sky",
        "alloy",
        "jessica",
        "river",
    ],
    ("m", "us"): ["michael", "fenrir", "puck", "echo", "eric", "liam", "onyx", "adam"],
    ("f", "gb"): ["emma", "isabella", "alice", "lily"],
    ("m", "gb"): ["george", "fable", "lewis", "daniel"],
}
PREFIX = {"us": "a", "gb": "b"}
ABBREVIATIONS = r"(?:Mr|Mrs|Ms|Dr|St|Esq|Rev|Hon|Capt|Col|Gen|Jr|Sr|No|vol|chap|etc|viz|[A-Z])"


def clean(text: str) -> str:
    text = text.replace("\r", "")
    for old, new in (
        ("’", "'"),
        ("‘", "'"),
        ("“", '"'),
        ("”", '"'),
        ("--", "—"),
        ("_", ""),
        ("*", ""),
        ("…", "..."),
    ):
        text = text.replace(old, new)
    return text


def sentences_of(path: str) -> list[str]:
    raw = Path(path).read_text(encoding="utf-8", errors="ignore")
    if Path(path).name.startswith("ljs_"):
        return [clean(line.split("|")[1].strip()) for line in raw.splitlines() if "|" in line]
    start = re.search(r"\*\*\* ?START OF.*?\*\*\*", raw, re.S)
    end = re.search(r"\*\*\* ?END OF", raw)
    raw = clean(raw[start.end() if start else 0 : end.start() if end else None])
    out = []
    for paragraph in re.split(r"\n\s*\n", raw):
        paragraph = re.sub(r"\s+", " ", paragraph).strip()
        paragraph = re.sub(r"\[[^\]]*\]", "", paragraph)  # stage directions, footnotes
        paragraph = (
            re.sub(r"^[A-Z][a-zA-Z. ]{1,20}\. (?=[A-Z])", "", paragraph)
            if "pg844" in path or "pg1513" in path
            else paragraph
        )
        paragraph = paragraph.replace('"', "").replace("(", ", ").replace(")", ", ")
        paragraph = re.sub(rf"\b({ABBREVIATIONS})\. ", lambda m: m.group(1) + "\x00 ", paragraph)
        for sentence in re.split(r"(?<=[.!?])['’]? +(?=[A-Z'])", paragraph):
            out.append(sentence.replace("\x00", ".").strip(" ,'"))
    return out


TITLES = {"Mr.": "Mister", "Mrs.": "Missus", "Dr.": "Doctor", "St.": "Saint"}


def usable(sentence: str) -> bool:
    letters = [c for c in sentence if c.isalpha()]
    return (
        2 <= len(sentence) <= 190
        and bool(letters)
        and re.fullmatch(r"[A-Za-z ,.;:!?'—-]+", sentence) is not None
        and sum(c.isupper() for c in letters) <= 0.4 * len(letters) + 1
        and sentence[-1] in ".!?,;:—"
        and sentence[0].isalpha()
        and not re.search(r"\b[IVXLC]{2,}\b|\b(CHAPTER|Gutenberg|Footnote)\b", sentence)
    )


def tidy(sentence: str) -> str:
    sentence = re.sub(r" *— *", "—", sentence)
    sentence = re.sub(r" +([,.;:!?])", r"\1", sentence)
    sentence = re.sub(r",(?: *,)+", ",", sentence)
    for short, spoken in TITLES.items():
        sentence = sentence.replace(short + " ", spoken + " ")
    return re.sub(r"\s+", " ", sentence).strip()


def main() -> None:
    parser = argparse.ArgumentParser()
    (
        parser.add_argument("texts"),
        parser.add_argument("voices"),
        parser.add_argument("vocab"),
        parser.add_argument("out"),
    )
    parser.add_argument("--hours", type=float, default=100.0)
    args = parser.parse_args()
    rng = random.Random(20)
    vocab = json.loads(Path(args.vocab).read_text(encoding="utf-8"))["vocab"]
    books = []
    seen: set[str] = set()
    for path in sorted(glob.glob(args.texts + "/*.txt")):
        lines = []
        for s in (tidy(clean(s)) for s in sentences_of(path)):
            if usable(s) and s.lower() not in seen:
                seen.add(s.lower())
                lines.append(s)
        print(path, len(lines), sum(map(len, lines)))
        books.append(lines)
    held_out = [
        s
        for s in books[
            next(i for i, p in enumerate(sorted(glob.glob(args.texts + "/*.txt"))) if "pg844" in p)
        ]
        if 30 <= len(s) <= 120
    ][-80:]
    held = set(held_out)
    # neighbouring lines are sometimes joined, so that length varies from a word to ~12 s
    lines: list[str] = []
    for book in books:
        i = 0
        while i < len(book):
            s = book[i]
            i += 1
            while (
                i < len(book) and len(s) + len(book[i]) < 170 and rng.random() < 0.3 and book[i] not in held
            ):
                s += " " + book[i]
                i += 1
            if s not in held:
                lines.append(s)
    print("lines", len(lines), "characters", sum(map(len, lines)))
    blocks = []
    i = 0
    while i < len(lines):
        n = rng.randint(4, 8)
        blocks.append(lines[i : i + n])
        i += n
    rng.shuffle(blocks)
    tables = {
        p: [
            np.fromfile(f"{args.voices}/{PREFIX[p[1]]}{p[0]}_{v}.bin", np.float32).reshape(-1, 256)
            for v in VOICES[p]
        ]
        for p in VOICES
    }
    for p, v in VOICES.items():
        print(p, len(tables[p]), v)
    phonemise = Phonemiser()
    texts, phones, session_of, sessions = [], [], [], []
    characters = 0
    for block in blocks:
        gender = rng.choice("fm")
        accent = "us" if rng.random() < 0.62 else "gb"
        n = len(VOICES[gender, accent])

        def mixture(n=n):
            k = rng.choice([1, 2, 2, 3])
            picks = rng.sample(range(n), k)
            weights = np.random.default_rng(rng.getrandbits(32)).dirichlet([1.0] * k)
            return {p: float(w) for p, w in zip(picks, weights, strict=False)}

        timbre = mixture()
        prosody = timbre if rng.random() < 0.7 else mixture()
        speed = rng.choice([0.8, 0.88, 1.0, 1.0, 1.0, 1.1, 1.2, 1.32])
        pitch = float(np.clip(np.exp(rng.gauss(0, 0.09)), 0.8, 1.25))
        index = len(sessions)
        sessions.append(
            dict(gender=gender, accent=accent, timbre=timbre, prosody=prosody, speed=speed, pitch=pitch)
        )
        for s in block:
            ids = [vocab[c] for c in phonemise(s, accent == "gb") if c in vocab]
            if 1 < len(ids) <= 400:
                texts.append(s), phones.append(ids), session_of.append(index)
                characters += len(s)
        if characters / 15.0 / 3600 > args.hours:  # ~15 characters a second
            break
    print("chosen", len(texts), "lines", len(sessions), "sessions", characters, "characters")
    Path(args.out).mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        args.out + "/plan.npz",
        text=np.frombuffer("\n".join(texts).encode(), np.uint8),
        phones=np.concatenate([np.array(p, np.uint8) for p in phones]),
        phone_count=np.array([len(p) for p in phones], np.int32),
        session=np.array(session_of, np.int32),
    )
    Path(args.out + "/sessions.json").write_text(
        json.dumps(dict(sessions=sessions, voices={f"{g}{a}": VOICES[g, a] for g, a in VOICES}))
    )
    np.savez_compressed(
        args.out + "/styles.npz",
        **{
            f"{g}{a}_{v}": t[:410].astype(np.float16)
            for (g, a) in VOICES
            for v, t in zip(VOICES[g, a], tables[g, a], strict=False)
        },
    )
    Path(args.out + "/held_out.json").write_text(json.dumps(held_out, indent=1))


if __name__ == "__main__":
    main()
