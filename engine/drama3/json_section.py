"""Questions asked of the objects of a checkpoint's json: every complaint names its key and what is needed."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from typing import Any

ABSENT = object()


class ConfigError(ValueError):
    """A checkpoint that this program can't run: one sentence with the key, what it says, what is needed."""


class Section:
    """One object of the json, with the questions asked of its keys. Lives while it is read."""

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self.data = data
        self.name = name

    def get(self, key: str, default: Any = ABSENT) -> Any:
        return self.data.get(key, default)

    def fail(self, key: str, needed: str) -> ConfigError:
        """The error for `key`: what it says, and that it must be `needed`."""
        value = self.get(key)
        found = "is missing" if value is ABSENT else f"is {reprlib.repr(value)}"
        return ConfigError(f"{self.name}{key} {found}; it must be {needed}.")

    def section(self, key: str) -> Section:
        value = self.get(key)
        if not isinstance(value, Mapping):
            raise self.fail(key, "an object")
        return Section(value, f"{self.name}{key}.")

    def integer(self, key: str, least: int = 1, default: Any = ABSENT) -> int:
        value = self.get(key, default)
        if not _is_integer(value) or value < least:
            raise self.fail(key, f"an integer of at least {least}")
        return value

    def optional(self, key: str) -> int | None:
        return self.integer(key) if key in self.data else None

    def integers(self, key: str, least: int = 1) -> tuple[int, ...]:
        value = self.get(key)
        if not isinstance(value, list) or not value or not all(_is_integer(n) and n >= least for n in value):
            raise self.fail(key, f"a list of integers of at least {least}")
        return tuple(value)

    def number(self, key: str, most: float = math.inf, default: Any = ABSENT) -> float:
        """A finite float above 0 and not above `most`; an integer will do."""
        value = self.get(key, default)
        number = _finite(value)
        if number is None or not 0 < number <= most:
            raise self.fail(
                key, "a finite number above 0" + ("" if most == math.inf else f" and at most {most:g}")
            )
        return number

    def truth(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def one_of(self, key: str, *allowed: str, default: Any = ABSENT) -> str:
        value = self.get(key, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.fail(key, " or ".join(f'"{each}"' for each in allowed))
        return value

    def exact(self, key: str, needed: Any, default: Any = ABSENT) -> None:
        """`needed` in value and type: 1 is not true, 1.0 is not 1."""
        value = self.get(key, default)
        if type(value) is not type(needed) or value != needed:
            raise self.fail(key, json.dumps(needed))

    def empty(self, key: str, *allowed: Any) -> None:
        """Absent, or one of `allowed`: the key stands for a thing that this program has not."""
        value = self.get(key)
        if value is not ABSENT and not any(type(value) is type(each) and value == each for each in allowed):
            raise self.fail(key, "absent or " + " or ".join(json.dumps(each) for each in allowed))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: Any) -> float | None:
    """`value` as a float if it is a finite number, else None."""
    if not isinstance(value, float) and not _is_integer(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
