"""The rules for words that people hand in, and the speaker tag in front of them.

Two layers ask different questions. The *prompt layer* (`caller_text_problem`, `request_text_problem`) keeps a
text from breaking out of its place in the prompt: no structural tokens, no semantic tokens, well-formed
speaker tags. The *door* (`check_line` and its siblings) adds what a person should hear early: limits, nothing
to say, and any other special token of the tokenizer. The prompt layer accepts those specials, because layouts
use them.

A problem is the rest of a sentence ("is empty; fill it in"); the check puts the field's name in front of it.
Check a text after anything that edits it: removing the marks from `<|im_**start|>` makes a control token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache

# Unicode White_Space. Python's bare strip() also takes U+001C-001F, which the checkpoint's own rules keep.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
LINE_BREAKS = "\n\r\v\f\x85\u2028\u2029"

LINE_CHARACTERS = 5000
FIELD_CHARACTERS = 2000

SPEAKER = "<|speaker:0|>"
SEMANTIC_PREFIX = "<|semantic:"
STRUCTURAL = ("<|im_start|>", "<|im_end|>", "<|voice|>", "<|text|>", "<|interleave|>")

CUE = re.compile(r"\[[^\[\]]*\]")
_FRONT_CUES = re.compile(r"(?:\s*\[[^\[\]]*\])+\s*")
# What a cue of one sound or of silence begins or ends with: it happens once; a direction lasts for a line.
_ONCE = {
    "laugh", "laughs", "chuckle", "chuckles", "giggle", "giggles", "sigh", "sighs", "sighing", "gasp",
    "gasps", "gasping", "cough", "coughs", "sniff", "sniffs", "sniffles", "snort", "snorts", "scoff",
    "scoffs", "gulp", "gulps", "yawn", "yawns", "groan", "groans", "moan", "moans", "grunt", "grunts",
    "hum", "hums", "whistle", "whistles", "scream", "screams", "sob", "sobs", "hiccup", "hiccups",
    "burp", "burps", "clap", "claps", "inhale", "inhales", "exhale", "exhales", "breathes", "hesitates",
    "pauses", "um", "uh", "hm", "hmm",
}  # fmt: skip
_ONCE_AT_THE_END = {"pause", "breath", "throat", "beat", "silence", "sigh"}
SPEAKER_TAG = re.compile(r"<\|speaker:(?:[0-9]|1[0-5])\|>")
_SURROGATE = re.compile("[\ud800-\udfff]")
# A digit or an "i" before U+FE0F is shown as a picture; selectors and the keycap are marks that nobody reads.
_PICTURE = re.compile("[^\ufe0f]\ufe0f|[\ufe00-\ufe0f\u20e3\U000e0100-\U000e01ef]")


class PromptError(ValueError):
    """Words or codes that can't go into a prompt: one sentence that names the thing and the remedy."""


def strip(text: str) -> str:
    """`text` without leading and trailing Unicode White_Space."""
    return text.strip(WHITE_SPACE)


def tag(text: str) -> str:
    """`text` with a speaker tag in front, unless its first word already is one."""
    return text if SPEAKER_TAG.match(text.lstrip(WHITE_SPACE)) else f"{SPEAKER} {text}"


def reference_block(text: str) -> str:
    """A transcript, tagged, with white space before the tag moved behind it (the tag follows "Text: ")."""
    tagged = tag(text)
    body = tagged.lstrip(WHITE_SPACE)
    space = tagged[: len(tagged) - len(body)]
    end = SPEAKER_TAG.match(body).end()
    return body[:end] + space + body[end:]


def caller_text_problem(text: str) -> str | None:
    """Why the prompt can't hold `text`, or None: empty, control tokens, broken speaker tags."""
    return "is empty; fill it in" if not strip(text) else _token_problem(text)


@lru_cache(1024)  # a long scene's earlier lines are looked at again at each of its lines
def request_text_problem(text: str) -> str | None:
    """`caller_text_problem`, and the rule of serving: one voice speaks, so only speaker 0 may be named."""
    return caller_text_problem(text) or _speaker_problem(text)


def content_problem(text: str) -> str | None:
    """`request_text_problem` for a text that may be empty, such as the transcript in a layout."""
    return _token_problem(text) or _speaker_problem(text)


def special_problem(text: str, specials: Iterable[str]) -> str | None:
    """Why the door refuses `text`: it holds one of the tokenizer's `specials` other than the speaker tag."""
    found = _any_of(tuple(specials)).search(text)
    return f"contains the control token {found[0]}; remove it" if found else None


@lru_cache(16)
def _any_of(specials: tuple[str, ...]) -> re.Pattern:
    """What finds any of a tokenizer's thousand specials at once; a long scene asks for each of its lines."""
    named = sorted((each for each in specials if each and each != SPEAKER), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, named)) or r"(?!)")


@lru_cache(1024)
def has_something_to_say(text: str) -> bool:
    """Whether there is a letter, a digit or a mark to voice, in any script; `[sighs]` counts, emoji don't."""
    return any(unicodedata.category(character)[0] in "LNM" for character in readable(text))


def cues(text: str) -> list[str]:
    """The cues in square brackets that `text` holds, as written."""
    return CUE.findall(text)


def without_cues(text: str, keep: Container[str] = ()) -> str:
    """`text` without cues in square brackets, for a model that would read them out; it may know the sounds
    that are named in `keep`, in small letters."""
    gone = [cue for cue in cues(text) if strip(cue[1:-1]).casefold() not in keep]
    if not gone:
        return text
    left = " ".join(CUE.sub(lambda found: " " if found[0] in gone else found[0], text).split())
    return re.sub(r" (?=[.,;:!?…])", "", left)


def front_cues(text: str) -> str:
    """All that stands before the first word of `text` if there are cues: cues and white space."""
    front = _FRONT_CUES.match(text)
    return front[0] if front else ""


def lasting_cues(text: str) -> str:
    """The cues at the very front of `text` that hold for all of it, as written: "[softly]", not "[sighs]"."""
    return " ".join(cue for cue in cues(front_cues(text)) if _lasts(cue))


def _lasts(cue: str) -> bool:
    words = [word.strip(".,;:!?") for word in cue[1:-1].casefold().split()]
    return bool(words) and words[0] not in _ONCE and words[-1] not in _ONCE_AT_THE_END


def readable(text: str) -> str:
    """`text`, as long as it was, with spaces in place of speaker tags and of letters shown as pictures."""
    return _PICTURE.sub(_blank, SPEAKER_TAG.sub(_blank, text))


def check_line(text: str, specials: Iterable[str] = (), field: str = "The line") -> None:
    """Refuse a line that can't be performed. `field` names it in the sentence ("History turn 3")."""
    check_length(text, field)
    _refuse(field, request_text_problem(text) or special_problem(text, specials))
    if not has_something_to_say(text):
        raise PromptError(f"{field} has nothing to say, only punctuation or pictures; write some words.")


def check_length(text: object, field: str = "The line") -> None:
    """Refuse a line that is no text or too long. It costs nothing, so it comes before all that walks the
    text."""
    _refuse(field, _type_problem(text))
    _refuse(field, _length_problem(text, LINE_CHARACTERS, "split it into several lines"))


def check_transcript(text: str, number: int, specials: Iterable[str] = ()) -> None:
    """Refuse the transcript of reference `number` (counted from 1) unless it can be the words of a clip."""
    field = f"Transcript {number}"
    _refuse(field, _type_problem(text))
    _refuse(field, _length_problem(text, FIELD_CHARACTERS, "shorten the clip and its words"))
    if not strip(text):
        raise PromptError(f"{field} is empty; write the words spoken in the clip.")
    _refuse(field, content_problem(text) or special_problem(text, specials))


def check_character_field(text: str, field: str, specials: Iterable[str] = ()) -> None:
    """Refuse a character's name, description or scene; `field` is that word.

    They stand in lists of the prompt, one a line, so they are single lines; a colon would end the name early.
    """
    label = f"The {field}"
    _refuse(label, _type_problem(text))
    if any(character in LINE_BREAKS for character in text):
        raise PromptError(f"{label} has a line break; write it on one line.")
    if field == "name" and ":" in text:
        raise PromptError(f"{label} has a colon; write it without ':'.")
    _refuse(label, _length_problem(text, FIELD_CHARACTERS, "shorten it"))
    _refuse(label, request_text_problem(text) or special_problem(text, specials))


def refuse_content(text: str, field: str) -> None:
    """Raise PromptError if `text`, which may be empty, would break out of its place in a prompt."""
    _refuse(field, _type_problem(text) or content_problem(text))


def refuse_request_text(text: str, field: str) -> None:
    """Raise PromptError if the prompt can't hold `text`."""
    _refuse(field, _type_problem(text) or request_text_problem(text))


def _blank(found: re.Match) -> str:
    return " " * len(found[0])


def _refuse(field: str, problem: str | None) -> None:
    if problem:
        raise PromptError(f"{field} {problem}.")


def _type_problem(text: object) -> str | None:
    return None if isinstance(text, str) else f"is a {type(text).__name__}; give it as text"


def _length_problem(text: str, most: int, remedy: str) -> str | None:
    return f"has {len(text):,} characters, the limit is {most:,}; {remedy}" if len(text) > most else None


def _token_problem(text: str) -> str | None:
    for token in STRUCTURAL:
        if token in text:
            return f"contains the control token {token}; remove it"
    if SEMANTIC_PREFIX in text:
        return f"contains {SEMANTIC_PREFIX}, the start of an audio token; remove it"
    for found in re.finditer(r"<\|speaker", text):
        if not SPEAKER_TAG.match(text, found.start()):
            place = f"character {found.start() + 1:,}"
            return f"contains a broken speaker tag at {place}; write {SPEAKER} or remove it"
    if broken := _SURROGATE.search(text):
        return f"contains half a character (U+{ord(broken[0]):04X}); type that character again"
    return None


def _speaker_problem(text: str) -> str | None:
    for found in SPEAKER_TAG.findall(text):
        if found != SPEAKER:
            return f"contains the speaker tag {found}, but a take has one voice; write {SPEAKER} or remove it"
    return None
