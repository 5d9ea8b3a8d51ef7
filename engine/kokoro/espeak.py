"""Words to phonemes, by espeak-ng, with the punctuation kept.

espeak-ng turns text into IPA clause by clause and swallows the marks, from which Kokoro takes its melody. So
a sentence is cut at its marks here, each stretch is phonemised on its own, and the marks are put back. A
mark counts only where a word ends: "1,250.50", "7:05" and "4.30" reach espeak-ng whole, and it knows how to
read them.

The library is called directly: the phonemizer package would copy it into a temporary folder per language and
cut numbers at their colons.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading

import espeakng_loader

from engine.kokoro.utterances import stretches

VOICES = {"american": b"en-us", "british": b"en"}  # espeak-ng's plain English is its British one

_PLAYBACK = 1  # espeak_Initialize: samples would be handed to us; none are ever asked for
_DONT_EXIT = 0x8000  # espeak_Initialize: report missing data instead of ending the process
_UTF8 = 1
_IPA = 0x02

_CLOSERS = "'\"”’»)\\]"
_MARK = re.compile(
    rf"\s*(\.(?=[{_CLOSERS}]*$)|(?<!\b[A-Za-z])\.|[.!?…]*[!?…]+|\.\.+|[,;:])(?=[{_CLOSERS}]*(?:\s|$))"
    r"|\s*(—|--+|\s[–-](?=\s))\s*"
    r"|([\"“”()])"
)

# One library per process, with global state: concurrent calls would mix two lines.
_lock = threading.Lock()


def phonemes(sentence: str, accent: str) -> str:
    """IPA with stress and punctuation of one English sentence, maybe empty; `accent` american or british."""
    parts: list[str] = []
    start = 0
    with _lock:
        library = _library()
        if library.espeak_SetVoiceByName(VOICES[accent]) != 0:
            raise RuntimeError(f"espeak-ng has no {accent} English")
        ipa = functools.partial(_ipa, library)
        for match in _MARK.finditer(sentence):
            parts += [stretches(sentence[start : match.start()], ipa), _mark(match)]
            start = match.end()
        parts.append(stretches(sentence[start:], ipa))
    return " ".join("".join(parts).split())


def _mark(match: re.Match) -> str:
    """The mark as Kokoro knows it, with the space around it that the sentence had."""
    end, dash, pair = match.groups()
    if dash:
        return "—"
    if pair:
        return pair
    return "…" if end.startswith("..") else end


def _ipa(library: ctypes.CDLL, words: str) -> str:
    """IPA of words without marks, with the spaces that surround them."""
    if not words.strip():
        return words
    rest = ctypes.c_char_p(words.encode())
    clauses = []
    while rest.value is not None:
        clauses.append((library.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, _IPA) or b"").decode())
    before = " " if words[0].isspace() else ""
    after = " " if words[-1].isspace() else ""
    return before + " ".join(" ".join(clauses).split()) + after


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int]
    if library.espeak_Initialize(_PLAYBACK, 0, espeakng_loader.get_data_path().encode(), _DONT_EXIT) < 0:
        raise RuntimeError("espeak-ng found no language data")
    return library
