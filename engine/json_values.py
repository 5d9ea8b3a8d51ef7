"""Values of ours as JSON that strangers may hand back: written plainly, read by type, nothing taken on trust.

What a frozen dataclass says of its fields is what a file must hold: `read_value` checks every field's type,
every number for being one, every array for being codes. What fields mean together, their owner checks.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.take import Clip, RequestError, from_json
from engine.take import to_json as plain

CODE_BITS = np.uint16  # codes are below 65,536 in every codec we know
NEVER_WRITTEN = types.NoneType, Clip  # of a field that may be a clip or its codes, files hold the codes
LARGEST = 1e300  # a whole number may have thousands of digits, which no float holds


def read_file(path: Path, name: str, most_bytes: int) -> bytes:
    """The bytes of a file. Raises RequestError where there is none to read or it is larger than that."""
    try:
        if "\0" in str(path):
            raise FileNotFoundError
        with path.open("rb") as file:
            return read_all(file, name, most_bytes)
    except (FileNotFoundError, NotADirectoryError):
        raise RequestError(f"There is no file {name}; check the path.") from None
    except OSError as problem:
        raise RequestError(f"{name} cannot be read ({problem.strerror}); give another file.") from None


def read_all(file: BinaryIO, name: str, most_bytes: int) -> bytes:
    """All bytes of an open file. Raises RequestError if they are more than that."""
    data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise RequestError(f"{name} is larger than {most_bytes >> 20} MB, the most such a file may have.")
    return data


def parse(text: str | bytes, name: str) -> Any:
    """JSON data. Raises RequestError for what is no JSON, is nested without end or gives a name twice."""
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise RequestError(f"{name} is nested too deeply; that is no file of this kind.") from None
    except UnicodeDecodeError:
        raise RequestError(f"{name} is not UTF-8; save it as UTF-8.") from None
    except json.JSONDecodeError as problem:
        place = f"row {problem.lineno}, column {problem.colno}"
        raise RequestError(f"{name} is not JSON; look at {place}.") from None
    except ValueError as problem:
        raise RequestError(f"{name} can't be used: {problem}.") from None


def write_value(value: Any) -> Any:
    """`value` as plain JSON data: dataclasses and mappings become objects, codes 16-bit arrays."""
    if dataclasses.is_dataclass(value):
        return {each.name: write_value(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: write_value(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, (tuple, list)):
        return [write_value(item) for item in value]
    return plain(value.astype(CODE_BITS)) if isinstance(value, np.ndarray) else value


def read_value(hint: Any, data: Any, where: str) -> Any:
    """The value of type `hint` that `write_value` wrote as `data`. Raises RequestError, naming `where` in the
    file something else stands."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if data is None and types.NoneType in inner:
            return None
        (hint,) = (each for each in inner if each not in NEVER_WRITTEN)
        return read_value(hint, data, where)
    if origin is tuple:
        return tuple(_items(inner, data, where))
    if origin is frozenset:
        return frozenset(_items((*inner, ...), data, where))
    if origin is Mapping:
        return {
            key: read_value(inner[1], item, f"{where}.{key}") for key, item in _object(data, where).items()
        }
    if hint is np.ndarray:
        return _codes(data, where)
    if dataclasses.is_dataclass(hint):
        return _fields(hint, _object(data, where), where)
    return _scalar(hint, data, where)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:80]!r} stands in it twice")
        found[name] = value
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _object(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _misfit(where, "an object", data)
    return data


def _items(inner: tuple, data: Any, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise _misfit(where, "a list", data)
    if inner[-1] is ...:
        inner = (inner[0],) * len(data)
    if len(inner) != len(data):
        raise RequestError(f"{where} holds {len(data)} items; it must hold {len(inner)}.")
    return [
        read_value(hint, item, f"{where}[{at}]")
        for at, (hint, item) in enumerate(zip(inner, data, strict=True))
    ]


def _fields(kind: type, data: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(kind)
    if wrong := sorted(data.keys() ^ hints.keys()):
        fault = "is unknown" if wrong[0] in data else "is missing"
        raise RequestError(f"{where} doesn't fit: {wrong[0][:80]!r} {fault}.")
    return kind(**{name: read_value(hint, data[name], f"{where}.{name}") for name, hint in hints.items()})


def _codes(data: Any, where: str) -> np.ndarray:
    codes = from_json(data) if isinstance(data, dict) else None
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu" or codes.ndim != 2 or not codes.size:
        raise _misfit(where, "codes [codebooks, frames]", data)
    if codes.min() < 0 or codes.max() > np.iinfo(CODE_BITS).max:
        raise RequestError(f"{where} holds {codes.min()} to {codes.max()}, which are no codes.")
    return codes.astype(np.int64)


def _scalar(hint: type, data: Any, where: str) -> Any:
    if hint is float and type(data) in (int, float) and -LARGEST < data < LARGEST:
        return data
    if type(data) is not hint:
        raise _misfit(
            where, {str: "text", int: "a whole number", bool: "true or false"}.get(hint, "a number"), data
        )
    if hint is str and any("\ud800" <= letter <= "\udfff" for letter in data):
        raise RequestError(f"{where} holds half a character; type it again.")
    return data


def _misfit(where: str, need: str, data: Any) -> RequestError:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return RequestError(f"{where} is {names.get(type(data), 'a number')}; it must be {need}.")
