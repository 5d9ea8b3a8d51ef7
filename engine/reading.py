"""What a model gets to see of a request: the words that it can read, and a sentence about the others.

A family says which characters it reads. For one that names them every text on its way to the prompt - the
line, earlier lines, transcripts, descriptions - goes through `prompts.spoken`, so that nothing reaches the
model that it never learnt, and nothing is lost in silence. A request made from an older card (`letters`
false) goes through as it went then.
"""

from __future__ import annotations

import dataclasses
import functools

from engine.family import Capabilities, Family
from engine.take import Character, Reference, RequestError, Spoken, TakeRequest
from prompts import text as words
from prompts.changes import Wording
from prompts.spoken import spoken

_LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "ja": "Japanese",
}


def writes_numbers(able: Capabilities, numbers: bool | None) -> bool:
    """Whether numbers are written out: as asked for, else where the family doesn't read digits."""
    return not able.reads_digits if numbers is None else numbers


@functools.lru_cache(4096)  # a long scene's earlier lines are read anew at each of its lines
def wording(text: str, able: Capabilities, numbers: bool | None = None) -> Wording:
    """`text` as a family reads it, each change with its place."""
    return spoken(
        text,
        clean=False,
        numbers=writes_numbers(able, numbers),
        language=(able.languages or ("en",))[0],
        cues=able.direct,
        sounds=able.sounds,
        characters=able.characters,
    )


def performed(request: TakeRequest, family: Family) -> str:
    """The words of the line as the model gets to see them."""
    if request.performed is not None:
        return request.performed
    if not request.letters:
        return family.performed(request.text)
    return wording(request.text, family.capabilities, request.numbers).text


def as_read(request: TakeRequest, family: Family) -> TakeRequest:
    """The request in the words that the model gets to see. Raises RequestError where a text has none."""
    text = performed(request, family)
    if not request.letters:
        history = tuple(_reworded(turn, family.performed(turn.text)) for turn in request.history)
        return dataclasses.replace(request, text=text, history=history)
    able = family.capabilities
    if not words.has_something_to_say(text):
        raise _refusal(family, "the line", request.text)
    history = tuple(
        _reworded(turn, _read(turn.text, request, family, f"history turn {number}"))
        for number, turn in enumerate(request.history, 1)
    )
    character = _character(request, family) if able.characters else request.character
    return dataclasses.replace(request, text=text, history=history, character=character)


def unread(request: TakeRequest, family: Family) -> tuple[str, ...]:
    """What of the line is left out because the family can't read it, as it was written."""
    if not request.letters:
        return ()
    return wording(request.text, family.capabilities, request.numbers).unread


def told_unread(family_name: str, left_out: tuple[str, ...]) -> str:
    """A sentence about what is left out, or ""."""
    if not left_out:
        return ""
    named = ", ".join(f"“{each[:40]}”" for each in left_out[:5]) + (", ..." if len(left_out) > 5 else "")
    return f"{family_name} can't read {named}; left out."


def _character(request: TakeRequest, family: Family) -> Character:
    """The character with everything in it that reaches the prompt as the model reads it."""
    who = request.character
    voice = tuple(
        Reference(each.audio, _read(each.transcript, request, family, f"transcript {number}"))
        for number, each in enumerate(who.voice or (), 1)
    )
    who = dataclasses.replace(who, voice=voice or who.voice)
    if who.description is None or not family.capabilities.reads_descriptions:
        return who
    return dataclasses.replace(
        who,
        name=wording(who.name, family.capabilities).text.strip(),
        description=_read(who.description, request, family, "the description"),
        scene=who.scene and _read(who.scene, request, family, "the scene"),
    )


def _reworded(turn: Spoken, text: str) -> Spoken:
    return turn if text == turn.text else dataclasses.replace(turn, text=text)


def _read(text: str, request: TakeRequest, family: Family, field: str) -> str:
    said = wording(text, family.capabilities, request.numbers).text
    if words.has_something_to_say(text) and not words.has_something_to_say(said):
        raise _refusal(family, field, text)
    return said


def _refusal(family: Family, field: str, text: str) -> RequestError:
    able = family.capabilities
    if not able.characters or not words.has_something_to_say(words.without_cues(text)):
        name = field[:1].upper() + field[1:]
        return RequestError(f"{name} has no words that {family.name} can perform; add words to it.")
    languages = " and ".join(_LANGUAGES.get(each, each) for each in able.languages) or "known"
    what = "letters" if able.reads_digits else "letters only"
    return RequestError(
        f"{family.name} reads {languages} {what}, and {field} has none; "
        f"write it in {languages} or choose another model."
    )
