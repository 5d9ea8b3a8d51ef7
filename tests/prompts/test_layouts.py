"""Scripts as people really have them: plays, radio plays, screenplays copied from pages. Rows of `cases`
C name themselves; beside each stand others of its kind."""

from __future__ import annotations

import pytest

from prompts.copyist import LINES
from prompts.page import page_marks
from prompts.parts import find_part, only
from prompts.rows import Source, brackets
from prompts.script import NARRATOR, parse
from tests.prompts.readings import said, texts


def told(source):
    return [(problem.row, problem.sentence) for problem in parse(source).problems]


def shown(source, kind):
    return [source[each.start : each.end] for each in parse(source).shown if each.kind == kind]


TWO = [("ORLA", "Did you hear the bell?"), ("PELL", "I heard nothing."), ("ORLA", "Then it was the sea.")]


def in_title_case(lines):
    return [(name.title(), words) for name, words in lines]


# K4: plays.


def test_c_04_a_play_with_names_before_a_full_stop():
    source = "ORLA. Did you hear the bell?\n\nPELL. I heard nothing.\n\n"
    source += "ORLA. [Crossing.] Then it was the sea.\n\n[Exit PELL.]"
    assert texts(source) == TWO
    assert parse(source).lines[2].direction == "Crossing."
    assert shown(source, "action") == ["[Exit PELL.]"]


@pytest.mark.parametrize(
    "set_as",
    [
        "{}. ",
        "{}.—",
        "{} (aside). ",
        "{} [aside]. ",
        "_{}_. ",
        "_{}._ ",
        "**{}.** ",
        "{} (_aside_). ",
        "{}.\n",
    ],
)
@pytest.mark.parametrize("between", ["\n\n", "\n", "\r\n\r\n", "\n   \n"])
def test_names_before_a_full_stop_however_they_are_set(set_as, between):
    source = between.join(set_as.format(name) + words for name, words in TWO)
    assert texts(source) == TWO


@pytest.mark.parametrize("set_as", ["{}. ", "_{}._ ", "_{}_. ", "{}\n", "{}.\n", "**{}**: "])
def test_names_in_title_case_that_come_again(set_as):
    source = "\n\n".join(
        set_as.format(name.title()) + words for name, words in (*TWO, ("PELL", "So it was."))
    )
    assert texts(source) == in_title_case([*TWO, ("PELL", "So it was.")])


def test_c_16_names_in_title_case_on_their_own_rows_among_capitals():
    source = "First Witch\nWhere is the fire?\nORLA\nWho is there?\nFirst Witch\nA friend."
    assert texts(source) == [
        ("First Witch", "Where is the fire?"),
        ("ORLA", "Who is there?"),
        ("First Witch", "A friend."),
    ]


def test_c_17_a_name_with_a_full_stop_that_speaks_once():
    source = "ORLA.\nDid you hear the bell?\n\nPELL.\nI heard nothing.\n\nORLA.\nThen it was the sea."
    assert texts(source) == TWO
    assert parse(source).problems == ()


def test_each_skipped_row_that_looks_like_a_name_is_told_at_its_row():
    source = "ORLA.\nDid you?\n\nIt rains.\n\nPELL\n\nTESS\n\nORLA.\nThen."
    assert [row for row, sentence in told(source) if "read as no name" in sentence] == [6, 8]
    assert (4, "Nobody speaks this row, so it is skipped; put a name in front.") in told(source)


def test_rows_that_nobody_speaks_are_counted_in_one_sentence():
    source = "ORLA\nDid you?\n\nIt rains.\n\nORLA\nYes.\n\nIt snows.\n\nORLA\nThen."
    assert told(source) == [
        (4, "Nobody speaks this row, nor row 9, so they are skipped; put a name in front.")
    ]


@pytest.mark.parametrize("name", ["ALL", "BOTH", "ORLA and PELL", "ORLA AND PELL", "ORLA & PELL"])
@pytest.mark.parametrize("set_as", ["{}. ", "{}.\n"])
def test_a_group_speaks(name, set_as):
    lines = [*TWO, ("PELL", "It was."), (name, "Listen!")]
    assert texts("\n\n".join(set_as.format(who) + words for who, words in lines)) == lines


def test_a_group_with_a_bracket_and_no_full_stop():
    source = "ORLA.\nDid you?\n\nPELL.\nNo.\n\nORLA.\nOh.\n\nPELL.\nNo.\n\nORLA and PELL [Together.] Never."
    assert said(source)[-1] == ("ORLA and PELL", "Together.", "Never.")


@pytest.mark.parametrize(
    "prose",
    [
        "Mr. Hale came in. He sat down.\n\nMr. Hale rose. He went.",
        "Dear Anna.\n\nI am well. Yes. No.\n\nYours,\nDr. No.",
        "London. The fog was thick.\n\nIt rained. Nobody came.\n\nLondon. Again the fog.\n\nHe slept.\n\n"
        "She woke.",
        "Monday. I went out.\n\nTuesday. I stayed.\n\nMonday. I went out again.",
        "STOP. Go back.\n\nThe sign was red, and nobody read it.",
        "The U.S. navy came. I. Newton saw it.\n\nP.S. I love you.",
        "Nevermore\nsaid the bird.\nAnd the night\nwas long.\nNevermore\nsaid the bird.\nAnd then\n"
        "it was day.\nAll slept\nand dreamt.",
    ],
)
def test_ordinary_prose_has_no_speakers(prose):
    assert parse(prose).characters == (NARRATOR,)


def test_a_letter_in_a_long_text_makes_no_play_of_it():
    prose = "\n\n".join(["It was a long day, and nobody came."] * 40)
    assert parse(f"{prose}\n\nDEAR SIR: I write to you.\n\n{prose}").characters == (NARRATOR,)


def test_a_list_of_characters_is_no_speech():
    source = "CHARACTERS\nMARA: a lighthouse keeper\nJON: her brother\n\nSCENE 1\n\nMARA: Hello.\nJON: Hi."
    assert texts(source) == [("MARA", "Hello."), ("JON", "Hi.")]
    assert shown(source, "programme") == ["CHARACTERS", "MARA: a lighthouse keeper", "JON: her brother"]
    assert told(source)[0][0] == 1
    without = source.replace("SCENE 1\n\n", "")
    assert texts(without) == texts(source)


# K5: Fountain.


def test_c_05_transitions_do_not_outnumber_a_speech():
    source = "INT. SHED - DAY\n\nORLA\nShut the door.\n\nCUT TO:\n\nINT. BARN - DAY\n\nCUT TO:\n"
    assert parse(source).form == "fountain"
    assert texts(source) == [("ORLA", "Shut the door.")]
    assert shown(source, "transition") == ["CUT TO:", "CUT TO:"]


@pytest.mark.parametrize(
    "row",
    [
        "CUT TO:",
        "SMASH CUT TO:",
        "CUT TO: ",
        "DISSOLVE:",
        "FADE TO BLACK.",
        "ANGLE ON: the door",
        "WHIP PAN:",
    ],
)
def test_one_speech_is_enough_behind_a_heading_or_a_title(row):
    for front in ("INT. SHED - DAY", "Title: A Shed\nAuthor: Us\n\nFADE IN:"):
        source = f"{front}\n\n{row}\n\nORLA (V.O.)\n(low)\nShut the door.\n\n{row}\n\n{row}\n"
        assert parse(source).form == "fountain"
        assert said(source) == [("ORLA", "low", "Shut the door.")]


def test_names_before_colons_below_a_scene_heading_stay_names():
    source = "INT. SHED - DAY\n\nORLA: Shut the door.\nPELL: Why?\nORLA: The wind."
    assert parse(source).form == "plain"
    assert parse(source).characters == ("ORLA", "PELL")


def test_c_18_a_note_over_a_row_of_two_spaces():
    source = "INT. SHED\n\nORLA\nShut the door.[[First thought.\n  \nSecond thought.]] Now."
    assert texts(source) == [("ORLA", "Shut the door. Now.")]


def test_two_spaces_keep_a_speech_open_in_both_forms():
    assert texts("ORLA: One.\n  \nTwo.\n\nPELL: Three.") == [("ORLA", "One. Two."), ("PELL", "Three.")]
    assert texts("ORLA\nOne.\n  \nTwo.\n\nPELL\nThree.") == [("ORLA", "One. Two."), ("PELL", "Three.")]


# K6: brackets.


def test_c_06_round_brackets_in_a_speech_are_not_spoken():
    source = "ORLA: Then it was the sea. (She sits.)\nPELL: I did (softly) hear it."
    assert texts(source) == [("ORLA", "Then it was the sea."), ("PELL", "I did hear it.")]
    assert shown(source, "parenthetical") == ["(She sits.)", "(softly)"]
    assert told(source) == [(1, "This bracket is read as a direction and isn't spoken, like those in row 2.")]


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("I see (really), yes.", "I see, yes."),
        ("I see _(really)_ now.", "I see now."),
        ("I see (_really_) now.", "I see now."),
        ("I see. *(She sits.)* Now.", "I see. Now."),
        ("I see.(She sits.)Now.", "I see. Now."),
        ("I (a (b) c) see.", "I see."),
        ("I see [Exit PELL.] now.", "I see now."),
        ("I see （笑） now.", "I see now."),
        ("やあ（笑）元気", "やあ元気"),
        ("The house(s) (un)happy.", "The house(s) (un)happy."),
        ("Call (555) 0199.", "Call (555) 0199."),
        ("I am sad :-( but well :)", "I am sad :-( but well :)"),
        ("See [the sea](https://x.y) now.", "See [the sea](https://x.y) now."),
        ("I [sighs] see.", "I [sighs] see."),
    ],
)
def test_what_a_bracket_within_a_speech_is(written, spoken):
    assert texts(f"ORLA: {written}\nPELL: No.")[0] == ("ORLA", spoken)


@pytest.mark.parametrize(
    "source",
    [
        "ORLA\n(shouting\nacross the yard)\nI heard nothing.",
        "INT. YARD\n\nORLA\n(shouting\nacross the yard)\nI heard nothing.",
        "INT. YARD\n\nORLA\n(shouting\nacross the yard) I heard nothing.",
        "ORLA: (shouting\nacross the yard) I heard nothing.",
        "ORLA: (shouting\r\nacross the yard) I heard nothing.",
        "ORLA (shouting\nacross the yard): I heard nothing.",
        "ORLA: _(shouting\nacross the yard)_ I heard nothing.",
        "ORLA: (_shouting\nacross the yard_) I heard nothing.",
        "ORLA (shouting\nacross the yard). I heard nothing.\n\nORLA. No.",
        "ORLA. [shouting\nacross\nthe yard] I heard nothing.\n\nORLA. No.",
    ],
)
def test_c_07_a_bracket_over_several_rows_is_one_direction(source):
    assert said(source)[0] == ("ORLA", "shouting across the yard", "I heard nothing.")


def test_a_bracket_that_is_never_closed_is_spoken_and_told():
    source = "ORLA: I see (and\n\nPELL: No :)"
    assert texts(source) == [("ORLA", "I see (and"), ("PELL", "No :)")]
    assert told(source)[0] == (1, "This bracket is never closed, so its words are spoken; close it.")


def test_a_bracket_does_not_reach_over_another_speech():
    assert texts("ORLA: I see (and\nPELL: No) way.") == [("ORLA", "I see (and"), ("PELL", "No) way.")]


# K11: what is on the page and no speech.


def test_c_15_sounds_are_not_cast():
    source = "ORLA: Hello.\nSOUND: A bell rings.\nMUSIC: Up and under.\nPELL: Hi."
    assert texts(source) == [("ORLA", "Hello."), ("PELL", "Hi.")]
    assert shown(source, "sound") == ["SOUND: A bell rings.", "MUSIC: Up and under."]
    assert told(source) == [(2, "This is a sound or a cue of the stage and isn't spoken, like row 3.")]


@pytest.mark.parametrize(
    "row",
    [
        "SFX: Door.", "FX: DOOR SLAMS", "F/X: Rain", "ATMOS: A street.", "GRAMS: Fade.", "MUSIC CUE 3: Up.",
        "SFX 12: Door.", "SOUND EFFECT: Bell.", "Sound: a bell.", "sfx: a bell", "SOUND (OFF): Bell.",
        "MUSIC – up and under", "SFX DOOR",
        "**SOUND:** A bell.", "AMBIENCE: Rain.", "LIGHTS: Fade.", "FOLEY: Steps.", "SOUND. A bell.",
    ],
)  # fmt: skip
def test_sounds_of_every_kind(row):
    assert texts(f"ORLA: Hello.\n{row}\nPELL: Hi.\n\n{row}\n\nORLA: So.") == [
        ("ORLA", "Hello."),
        ("PELL", "Hi."),
        ("ORLA", "So."),
    ]


@pytest.mark.parametrize("number", ["{}. ", "{} ", "{}) ", "[{}] ", "{}\t"])
def test_numbers_of_cues_are_no_part_of_the_name(number):
    rows = ["ORLA: Hello.", "SFX: A bell.", "PELL (OFF): Hi.", "ORLA: So."]
    source = "\n".join(number.format(count) + row for count, row in enumerate(rows, 9))
    assert texts(source) == [("ORLA", "Hello."), ("PELL", "Hi."), ("ORLA", "So.")]


def test_numbers_that_tell_people_apart_stay():
    assert parse("1 WITCH: When?\n2 WITCH: Soon.\n3 WITCH: Now.").characters == (
        "1 WITCH",
        "2 WITCH",
        "3 WITCH",
    )


@pytest.mark.parametrize(
    "row",
    [
        "Page 12", "- 12 -", "Page 3 of 40", "p. 7", "(MORE)", "(CONTINUED)", "CONTINUED:", "CONTINUED: (2)",
        "Blackout.", "End of Act One", "END OF PLAY", "Curtain.", "The curtain falls.", "ACT DROP", "12",
        "12.", "THE END", "Intermission",
    ],
)  # fmt: skip
def test_the_furniture_of_a_page_is_not_spoken(row):
    for around in ("\n\n{}\n\n", "\n{}\n\n"):
        source = f"ORLA: Hello.{around.format(row)}PELL: Hi."
        assert texts(source) == [("ORLA", "Hello."), ("PELL", "Hi.")]


def test_somebody_may_say_a_number_or_count():
    assert texts("ORLA: How many?\nPELL:\n12\nORLA:\n3\n2\n1") == [
        ("ORLA", "How many?"),
        ("PELL", "12"),
        ("ORLA", "3 2 1"),
    ]


# By construction no slower than the text is long.


@pytest.mark.parametrize(
    "hostile",
    [
        "()",
        "(a)",
        "MARA. (",
        "A. ",
        "[Exit] ",
        "(\n",
        "[a\n",
        "a)\n(b\n",
        "SFX ",
        "ACT I\n",
        "CAST\n\n",
        "_A_. ",
        "A and ",
        "\n  \n",
    ],
)
def test_e_07_a_million_hostile_characters_come_back(hostile):
    for front in ("", "MARA: "):
        source = front + hostile * (500_000 // len(hostile))
        script = parse(source)
        spans = [span for line in script.lines for span in line.spans]
        spans += [(each.start, each.end) for each in script.shown]
        assert sum(end - start for start, end in spans) == len(source)


def test_brackets_are_the_outermost_that_are_closed():
    assert brackets("(a (b) c) [d (e] f) (g") == ([(0, 9), (13, 19)], [10, 20])
    assert brackets("(a (b) c)") == ([(0, 9)], [])
    assert brackets("a (b) [c] (d") == ([(2, 5), (6, 9)], [10])


def test_marks_are_told_for_rows_with_words_only():
    rows = Source("ACT I\n\n\nMARA: a\n").rows
    assert page_marks(rows) == {0: "heading"}


# Parts.

PLAY = "ACT I\n\nSCENE 1\n\nA: a\nB: b\n\nSCENE 2\n\nA: c\n\nACT II\n\nSCENE 1\n\nB: d\n\nEPILOGUE\n\nA: e\n"


def test_acts_and_scenes_are_parts():
    parts = parse(PLAY).parts
    assert [(each.name, each.num_lines) for each in parts] == [
        ("ACT I", 3), ("ACT I, SCENE 1", 2), ("ACT I, SCENE 2", 1), ("ACT II", 1), ("EPILOGUE", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("ACT I", "abc"),
        ("act i", "abc"),
        ("Act I, Scene 2", "c"),
        ("scene 2", "c"),
        ("epilogue.", "e"),
        ("ACT III", None),
        ("", None),
    ],
)
def test_a_part_is_found_by_its_name(name, spoken):
    script = parse(PLAY)
    part = find_part(script, name)
    assert ("".join(line.text for line in only(script, part).lines) if part else None) == spoken


def test_a_part_has_its_own_characters_problems_and_stretches():
    script = parse(PLAY.replace("A: e", "A: e (f) g\n\nA: [[ h"))
    last = only(script, find_part(script, "EPILOGUE"))
    assert last.characters == ("A",)
    assert [each.row for each in last.problems] == [20, 22]
    assert last.shown[0].kind == "heading"


def test_a_long_script_without_headings_is_cut_into_stretches():
    script = parse("MARA: a\n" * (2 * LINES + 1))
    assert [each.name for each in script.parts] == ["Lines 1 to 333", "Lines 334 to 667", "Lines 668 to 1001"]
    assert sum(len(only(script, each).lines) for each in script.parts) == 2 * LINES + 1


def test_a_long_act_is_cut_and_a_table_of_contents_makes_no_parts():
    source = "ACT I. A hall\nACT II. A yard\n\nACT I\n\n" + "MARA: a\n" * (LINES + 1) + "\nACT II\n\nMARA: b"
    assert [each.name for each in parse(source).parts] == [
        "ACT I",
        "ACT I, lines 1 to 250",
        "ACT I, lines 251 to 501",
        "ACT II",
    ]
