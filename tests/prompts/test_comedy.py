"""A whole comedy of 1895 with its header, programme and licence: who says what, as it is printed (each
name on its own row) and with every name joined to its speech. What is right is read off the source by
nine names alone."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from prompts.copyist import LINES
from prompts.script import parse

PACKED = Path(__file__).parents[1] / "data/comedy/pg844.txt.xz"
NAMES = {
    "JACK", "ALGERNON", "CECILY", "GWENDOLEN", "LADY BRACKNELL", "CHASUBLE", "MISS PRISM", "LANE", "MERRIMAN",
}  # fmt: skip
TOGETHER = re.compile(r"(GWENDOLEN and CECILY|JACK and ALGERNON) (\[.*)")
SETTINGS = {
    "own row": "{}.\n",
    "full stop": "{}. ",
    "dash": "{}.—",
    "emphasis": "_{}_. ",
    "bold": "**{}.** ",
    "colon": "{}: ",
}


def rows() -> list[str]:
    return lzma.decompress(PACKED.read_bytes()).decode("utf-8").splitlines()


def is_name(row: str) -> bool:
    return row.endswith(".") and row[:-1] in NAMES


def speeches() -> list[tuple[str, list[str]]]:
    """(speaker, words) of every speech: what stands below a name up to the next empty row."""
    source, found, index = rows(), [], 0
    while index < len(source):
        together = TOGETHER.match(source[index])
        if is_name(source[index]) or together:
            end = source.index("", index)
            name = together[1] if together else source[index][:-1]
            first = together[2] if together else ""
            found.append((name, words(" ".join([first, *source[index + 1 : end]]))))
            index = end
        index += 1
    return found


def words(text: str) -> list[str]:
    return re.sub(r"\W+", " ", re.sub(r"\[[^\]]*\]", "", text)).lower().split()


def set_as(setting: str) -> str:
    source, found, index = rows(), [], 0
    while index < len(source):
        row = source[index]
        if is_name(row):
            row = setting.format(row[:-1]) + source[index + 1]
            index += 1
        found.append(row)
        index += 1
    return "\n".join(found)


def num_right(script) -> int:
    """How many speeches are spoken whole, in their order, by the right speaker."""
    spoken = [(line.speaker, word) for line in script.lines for word in words(line.text)]
    right = at = 0
    for name, said in speeches():
        wanted = [(name, word) for word in said]
        place = next(
            (
                each
                for each in range(at, min(at + 400, len(spoken)))
                if spoken[each : each + len(wanted)] == wanted
            ),
            None,
        )
        if place is not None:
            right, at = right + 1, place + len(wanted)
    return right


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name != "colon"])
def test_every_speech_has_its_speaker(setting):
    script = parse(set_as(SETTINGS[setting]))
    assert len(speeches()) == 879
    assert num_right(script) == 879
    groups = {"GWENDOLEN and CECILY", "JACK and ALGERNON"}
    assert set(script.characters) == NAMES | groups
    assert not [line for line in script.lines if "Gutenberg" in line.text or "Ainsworth" in line.text]


def test_with_names_before_colons_nobody_of_the_programme_speaks():
    script = parse(set_as(SETTINGS["colon"]))
    assert num_right(script) >= 0.99 * 879
    assert set(script.characters) == NAMES


def test_its_acts_are_its_parts_and_each_is_a_scene():
    for setting in ("own row", "full stop"):
        parts = parse(set_as(SETTINGS[setting])).parts
        assert [(each.name, each.num_lines) for each in parts] == [
            ("FIRST ACT", 302), ("SECOND ACT", 398), ("THIRD ACT", 181),
        ]  # fmt: skip
        assert all(each.num_lines <= LINES for each in parts)
