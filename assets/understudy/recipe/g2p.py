"""English text -> the phoneme alphabet the teacher was trained on, through espeak-ng.

Only the teacher needs this; the understudy reads plain characters.
"""

from __future__ import annotations

import ctypes
import re

PUNCTUATION = re.compile(r'([;:,.!?—…"()“”]+)')
TIED = {"a^ɪ": "I", "a^ʊ": "W", "d^ʒ": "ʤ", "e^ɪ": "A", "t^ʃ": "ʧ", "ɔ^ɪ": "Y", "ə^l": "ᵊl"}
PLAIN = {
    "ʔˌn̩": "ʔn",
    "ʔn̩": "ʔn",
    "ʲo": "jo",
    "ʲə": "jə",
    "ʲ": "",
    "ɚ": "əɹ",
    "r": "ɹ",
    "x": "k",
    "ç": "k",
    "ɐ": "ə",
    "ɬ": "l",
    "̃": "",
}


class Phonemiser:
    def __init__(self, library: str = "libespeak-ng.so.1") -> None:
        self.lib = ctypes.CDLL(library)
        if self.lib.espeak_Initialize(2, 0, None, 0) <= 0:
            raise RuntimeError("espeak-ng did not start")
        self.lib.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self.lib.espeak_TextToPhonemes.argtypes = [
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.c_int,
            ctypes.c_int,
        ]
        self.voice = None

    def _raw(self, text: str, british: bool) -> str:
        voice = b"en" if british else b"en-us"
        if voice != self.voice:
            self.lib.espeak_SetVoiceByName(voice)
            self.voice = voice
        pointer = ctypes.c_char_p(text.encode())
        out = []
        while pointer.value is not None:
            part = self.lib.espeak_TextToPhonemes(ctypes.byref(pointer), 1, (ord("^") << 8) | 0x80 | 0x02)
            if part:
                out.append(part.decode())
        return " ".join(out).strip()

    def __call__(self, text: str, british: bool) -> str:
        out = ""
        for piece in PUNCTUATION.split(text):
            if not piece.strip():
                out += " " if piece else ""
                continue
            if PUNCTUATION.fullmatch(piece):
                out += piece
                continue
            ps = self._raw(piece.strip(), british)
            ps = re.sub(r"\([a-z-]+\)", "", ps)
            for table in (TIED, PLAIN):
                for old, new in table.items():
                    ps = ps.replace(old, new)
            ps = re.sub(r"(\S)̩", r"ᵊ\1", ps)
            if british:
                ps = ps.replace("e^ə", "ɛː").replace("iə", "ɪə").replace("ə^ʊ", "Q")
            else:
                ps = ps.replace("o^ʊ", "O").replace("ɜːɹ", "ɜɹ").replace("ɜː", "ɜɹ")
                ps = ps.replace("ɪə", "iə").replace("ː", "")
            ps = ps.replace("e", "A").replace("o", "ɔ").replace("ɾ", "T").replace("ʔ", "t").replace("^", "")
            out += (" " if piece[0] == " " and out and not out.endswith(" ") else "") + ps
            out += " " if piece[-1] == " " else ""
        return re.sub(r" +", " ", out).strip()
