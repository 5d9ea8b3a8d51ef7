"""A text on its way from the script to the prompt, and what was done to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UNREAD = "can't be read"  # the step of what a model can't read at all, and what is therefore left out


@dataclass(frozen=True)
class Change:
    """`now` stands in the place of `was`, which is text[start:end]; `step` says what did it."""

    start: int
    end: int
    was: str
    now: str
    step: str


@dataclass(frozen=True)
class Wording:
    """`text` after `changes`, in order, with their places in the text before. `note`: why there are none."""

    text: str
    changes: tuple[Change, ...] = ()
    note: str = ""

    @property
    def unread(self) -> tuple[str, ...]:
        """What was left out because the model can't read it, as it was written."""
        return tuple(change.was for change in self.changes if change.step == UNREAD)


def changed(text: str, changes: Iterable[Change]) -> str:
    """`text` after `changes`, which rise and don't overlap."""
    parts, end = [], 0
    for change in changes:
        parts += [text[end : change.start], change.now]
        end = change.end
    return "".join([*parts, text[end:]])


class Trail:
    """Where each character of a text in work stood in the text as written. Lives for one text."""

    def __init__(self, text: str):
        self._places = [(index, index + 1) for index in range(len(text))]

    def follow(self, changes: Iterable[Change]) -> list[Change]:
        """`changes` of the present text with places in the text as written; goes on to the text they make."""
        written, places, end = [], [], 0
        for change in changes:
            start, stop = self._places[change.start][0], self._places[change.end - 1][1]
            written.append(Change(start, stop, change.was, change.now, change.step))
            places += self._places[end : change.start] + [(start, stop)] * len(change.now)
            end = change.end
        self._places = places + self._places[end:]
        return written
