"""Text as people save it: UTF-8, UTF-16 or UTF-32 with a byte order mark, and Windows-1252 as a guess."""

from __future__ import annotations

import codecs

from engine.take import RequestError

# The longer marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DOCUMENTS = {
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a Word or zip file",
    b"{\\rtf": "an RTF file",
    b"\xd0\xcf\x11\xe0": "a Word file",
}
_NO_LETTERS = frozenset([*range(9), *range(14, 32), 0xFF])  # what text in Windows-1252 hardly ever holds


def decoded(data: bytes, name: str) -> tuple[str, str]:
    """The text of a file, and a sentence if its encoding was guessed. Raises RequestError if it is no text;
    `name` names it."""
    for mark, kind in _DOCUMENTS.items():
        if data.startswith(mark):
            raise RequestError(f"{name} is {kind}, not text; save it as plain text in UTF-8.")
    encoding = next((each for mark, each in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding), ""
    except UnicodeDecodeError:
        if encoding != "utf-8" or not _NO_LETTERS.isdisjoint(data):
            raise _no_text(name) from None
    try:
        guess = (
            f"{name} is not UTF-8, so it was read as Windows-1252; if letters are wrong, save it as UTF-8."
        )
        return data.decode("cp1252"), guess
    except UnicodeDecodeError:
        raise _no_text(name) from None


def _no_text(name: str) -> RequestError:
    return RequestError(f"{name} is not UTF-8 text; save it as UTF-8.")
