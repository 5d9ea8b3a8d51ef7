"""What is spoken in Fountain, held against the parser `screenplain`, which was written by others."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from prompts.script import parse

fountain = pytest.importorskip("screenplain.parsers.fountain", reason="it is in requirements-dev.txt")

SCENES = Path(__file__).parents[2] / "assets/scenes"
SCRIPTS = {
    "transitions": "INT. SHED - DAY\n\nORLA\nShut the door.\n\nCUT TO:\n\nINT. BARN - DAY\n\nCUT TO:\n",
    "one speech": "Title: A Shed\nAuthor: Us\n\nFADE IN:\n\nINT. SHED\n\nA MAN sits.\n\nMAN (V.O.)\n(low)\n"
    "I write.\n\n> THE END <\n",
    "parenthetical over rows": "INT. X\n\nORLA\n(shouting\nacross the yard)\nI heard nothing.\n",
    "note over two spaces": "INT. X\n\nORLA\nShut the door.[[First.\n  \nSecond.]] Now.\n",
    "note within": "INT. X\n\nORLA\nShut [[why?]] the door.\n\nPELL\nNo.\n",
    "two spaces": "INT. X\n\nORLA\nOne.\n  \nTwo.\n\nHe goes.\n",
    "boneyard": "INT. X\n\nORLA\nOne.\n\n/*\nPELL\nNo.\n*/\n\nORLA\nTwo.\n",
    "dual": "INT. X\n\nORLA\nOne.\n\nPELL ^\nTwo.\n\nORLA (CONT'D)\n(low)\nThree.\n",
    "forced": "INT. X\n\n@McAvoy\nOne.\n\n!PELL\nTwo.\n\n.A DREAM\n\nORLA\nThree.\n",
    "capitals": "INT. X\n\nEVE\nME TOO!\n\nADAM\nThat is great.\nI was worried.\n",
}
SCRIPTS |= {path.name: path.read_text(encoding="utf-8") for path in SCENES.glob("*.fountain")}


def spoken_by_screenplain(source: str) -> list[str]:
    found = []
    for each in fountain.parse(io.StringIO(source)):
        pair = (each.left, each.right) if hasattr(each, "left") else (each,)
        for dialog in pair:
            found += [str(row) for is_direction, row in getattr(dialog, "blocks", ()) if not is_direction]
    return words(" ".join(found))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_words_are_spoken(name):
    script = parse(SCRIPTS[name])
    assert script.form == "fountain"
    ours = words(" ".join(line.text for line in script.lines))
    assert ours == spoken_by_screenplain(SCRIPTS[name])
