"""The characters that the stand-in reads; all others are folded to them before espeak-ng sees a line."""

from __future__ import annotations

# Latin letters with their accents, digits, what can be typed but for the backtick, and the marks that
# espeak-ng or Kokoro knows. Kokoro's front end reads numbers and short forms by the house's own reader.
_LATIN = [each for each in map(chr, range(0xA1, 0x180)) if each.isalnum()]
CHARACTERS = "\n" + "".join(map(chr, range(0x20, 0x7F))).replace("`", "") + "".join(_LATIN) + "£€¥°“”‘’«»–—…"
