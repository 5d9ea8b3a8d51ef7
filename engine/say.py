"""`say`: from the words of a command line to a take in a file, and back again from its card."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from engine.audio_files import check_target, read_card, read_clip, write_take
from engine.card import card, codes_of
from engine.engine import Engine
from engine.limits import check_sampling
from engine.models import is_here, load_family
from engine.reading import performed, unread
from engine.take import (
    Audio,
    Character,
    Done,
    Encoded,
    Reference,
    RequestError,
    Sampling,
    Spoken,
    Status,
    TakeRequest,
    fresh_seed,
)
from engine.voices import ReadyVoice, all_voices, ready_character
from prompts.text import PromptError

FROM_CARD = (
    "text", "describe", "name", "scene", "seed", "temperature", "top_p", "top_k", "max_frames", "numbers",
)  # fmt: skip


def say(args: argparse.Namespace) -> None:
    """Perform the line and write its file. RequestError, before any model work, if it can't be done."""
    before = _recall(args) if args.again else None
    _check_pairs(args)
    if args.text == "-":
        args.text = sys.stdin.read()
    if args.text is None:
        raise RequestError(
            "There is no line to say; write it behind `say`, or - to read it from standard input."
        )
    args.seed = fresh_seed() if args.seed is None else args.seed
    target = args.out or Path(f"take-{args.seed}.wav")
    check_target(target)
    sampling = _sampling(args)
    check_sampling(sampling)
    voice = tuple(
        Reference(read_clip(clip, tell=_tell), words)
        for clip, words in zip(args.voice, args.words, strict=True)
    )
    ready = _ready(args.ready) if args.ready is not None else None
    engine = Engine(load_family(args.model))
    who = Character(args.name or "", voice or None, args.describe, args.scene)
    request = TakeRequest(
        text=_directed(args.text, args.direction, engine) if args.direction else args.text,
        character=ready_character(ready, engine.family.capabilities) if ready else who,
        history=_history(engine, args.history) if args.history else (),
        sampling=sampling,
        seed=args.seed,
        max_frames=args.max_frames,
        numbers=args.numbers,
        letters=before is None or "performed" in before,
        performed=_performed_before(args.again, before) if before else None,
    )
    pcm, done, encoded = _perform(engine, request)
    made = card(engine.family, request, done, encoded)
    if before:
        _check_same(before, made)
    write_take(target, pcm, engine.family.sample_rate, made)
    _report(args, engine, request, done, len(pcm), target)


def _ready(id: str) -> ReadyVoice:
    voices = all_voices()
    if id not in voices:
        raise RequestError(
            f"There is no ready voice {id!r}; assets/voices/voices.json lists them: {', '.join(voices)}."
        )
    return voices[id]


def _directed(text: str, direction: str, engine: Engine) -> str:
    """The line with the direction in front. Raises RequestError where the family takes none."""
    if not engine.family.capabilities.direct:
        raise RequestError(f"{engine.family.name} can't be directed; leave --direction out.")
    try:
        return engine.family.directed(text, direction)
    except PromptError as problem:
        raise RequestError(str(problem)) from None


def _perform(engine: Engine, request: TakeRequest) -> tuple[np.ndarray, Done, list[Encoded]]:
    """(pcm int16 [n], how it ended, the references that were encoded)."""
    chunks, encoded, done = [], [], None
    for event in engine.perform(request):
        if isinstance(event, Audio):
            chunks.append(event.pcm)
        elif isinstance(event, Encoded):
            encoded.append(event)
            if event.note:
                _tell(event.note)
        elif isinstance(event, Status) and event.phase == "reading":
            _tell(event.detail)
        elif isinstance(event, Done):
            done = event
    return np.concatenate(chunks), done, encoded


def _check_pairs(args: argparse.Namespace) -> None:
    if len(args.voice) != len(args.words):
        raise RequestError(
            f"{len(args.voice)} --voice and {len(args.words)} --words don't pair; give each clip its words."
        )
    if args.ready is not None and (args.voice or args.describe is not None):
        raise RequestError("--ready is a voice by itself; leave --voice and --describe out.")
    if args.voice and args.describe is not None:
        raise RequestError(
            "A voice is cloned with --voice or made up with --describe; leave one of them out."
        )
    if args.describe is None and (args.name is not None or args.scene is not None):
        raise RequestError(
            "--name and --scene belong to a described voice; add --describe or leave them out."
        )


def _sampling(args: argparse.Namespace) -> Sampling:
    given = {name: getattr(args, name) for name in ("temperature", "top_p", "top_k")}
    return Sampling(**{name: value for name, value in given.items() if value is not None})


def _history(engine: Engine, path: Path) -> tuple[Spoken, ...]:
    """Earlier lines from a JSON list; takes lie relative to it."""
    try:
        turns = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(turns, list):
            raise ValueError(turns)
        pairs = [(turn["text"], path.parent / turn["take"]) for turn in turns]
    except FileNotFoundError:
        raise RequestError(f"There is no history file {path.name}; check the name.") from None
    except (OSError, ValueError, TypeError, KeyError):
        raise RequestError(
            f'{path.name} is no history; write a list of {{"text": ..., "take": "file.wav or file.npz"}}.'
        ) from None
    return tuple(Spoken(text, _codes_of_take(engine, take)) for text, take in pairs)


def _codes_of_take(engine: Engine, path: Path) -> np.ndarray:
    """The codes of an earlier take: from an npz, from a take's own card, or else by encoding its sound."""
    if path.suffix == ".npz":
        try:
            with np.load(path) as arrays:
                return arrays["codes"]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            raise RequestError(f"{path.name} holds no array named codes; save it with numpy.savez.") from None
    try:
        codes = codes_of(read_card(path), engine.family)
    except RequestError:  # a sound file from elsewhere
        codes = None
    return engine.encode(read_clip(path, tell=_tell), path.name).codes if codes is None else codes


def _recall(args: argparse.Namespace) -> dict[str, Any]:
    """Put what the card of an earlier take says into `args`; clips and history must be given again."""
    for name in FROM_CARD:
        if getattr(args, name) is not None:
            raise RequestError(f"--again takes everything from the card; leave {name.replace('_', '-')} out.")
    if args.direction:
        raise RequestError("--again takes everything from the card; leave direction out.")
    before = read_card(args.again)
    for name in FROM_CARD:
        setattr(args, name, before.get(name))
    if before.get("voice") and not args.voice and args.ready is None:
        raise RequestError(
            f"{args.again.name} was cloned from clips; give the same --voice and --words, or --ready, again."
        )
    if before.get("history") and not args.history:
        raise RequestError(f"{args.again.name} was made with earlier lines; give the same --history again.")
    args.model = args.model or _model_before(args.again, before)
    return before


def _model_before(take: Path, card: dict[str, Any]) -> str | None:
    """The model that the card names. A card may come from anybody, so it starts no download."""
    name = card.get("model")
    if name is not None and not isinstance(name, str):
        raise RequestError(f"The card of {take.name} names no model; give it with --model.")
    if name is not None and not is_here(name):
        raise RequestError(
            f"{take.name} was made by {name!r:.80}, which is not on this machine; give it with --model."
        )
    return name


def _performed_before(take: Path, card: dict[str, Any]) -> str | None:
    """The words that the model got to see, from the card; None in a card of before they were kept."""
    words = card.get("performed")
    if words is not None and not isinstance(words, str):
        raise RequestError(f"The card of {take.name} holds no performed words; use another copy of the take.")
    return words


def _check_same(before: dict[str, Any], made: dict[str, Any]) -> None:
    for name, thing in (("voice", "clips or words"), ("history", "earlier lines"), ("revision", "model")):
        if before.get(name) != made[name]:
            raise RequestError(f"These are not the {thing} the take was made with; it would be another take.")


def _report(
    args: argparse.Namespace, engine: Engine, request: TakeRequest, done: Done, num_samples: int, target: Path
) -> None:
    audio_s = num_samples / engine.family.sample_rate
    said = performed(request, engine.family)
    if not args.json:
        if said != request.text:
            _tell(f"Spoken: {said}")
        flags = f", {', '.join(done.flags)}" if done.flags else ""
        print(
            f"{target}: {audio_s:.2f} s, seed {done.seed}, {done.finish_reason}{flags}, {engine.family.name}"
        )
        return
    facts = {
        "seed": done.seed,
        "finish_reason": done.finish_reason,
        "frames": done.frames,
        "sample_rate": engine.family.sample_rate,
        "audio_s": audio_s,
        "timings": dataclasses.asdict(done.timings),
        "flags": list(done.flags),
        "model": engine.family.name,
        "file": str(target),
    }
    if said != request.text:
        facts["performed"] = said
    if left_out := unread(request, engine.family):
        facts["unread"] = list(left_out)
    print(json.dumps(facts))


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)
