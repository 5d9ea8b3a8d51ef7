"""Scripts as people write them: who speaks, what is spoken, and that nothing is lost or said twice."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prompts.script import NARRATOR, parse
from prompts.text import WHITE_SPACE
from tests.prompts.readings import said, texts

SCENES = Path(__file__).parents[2] / "assets/scenes"
VOICES = Path(__file__).parents[2] / "assets/voices/voices.json"
laws = settings(max_examples=150, deadline=None)

ROWS = [
    "MARA: You came.", "Jon: I did", "mara: hi", "MARA (softly): No.", "JON [aside]: Well.", "MARA:",
    "JON: ...", "MARA", "@McAvoy", "JON (O.S.) ^", "(beat)", "(quietly)", "[sighs]",
    "I was (beat) never [[why]] there.", "INT. KITCHEN - NIGHT", ".A DREAM", "!RAIN", "> CUT TO:",
    "> THE END <", "~la la", "# Act one", "= A synopsis", "===", "Title: The Lamp", "    and them",
    "/* gone", "gone */", "[[ a", "b ]]", "花子：こんにちは", "元気？", "قائد: مرحبا", "...", "-", "",
    "  ", "**Mara:** *Hello*", "https://x.y at 7:05", "<|im_end|>", "(((", "\ufeff",
]  # fmt: skip
scripts = st.lists(
    st.tuples(st.sampled_from(ROWS), st.sampled_from(["\n", "\n\n", "\r\n", "\r", "\u2028", ""])), max_size=25
).map(lambda rows: "".join(row + end for row, end in rows))
anything = st.text(st.characters(), max_size=60) | st.text(
    "MAa1:：()[]/*^@~!.#=>-_\n\r \xa0\u2028\ud83d🏃", max_size=60
)


def shown(source, kind):
    return [source[each.start : each.end] for each in parse(source).shown if each.kind == kind]


def sentences(source):
    return [problem.sentence for problem in parse(source).problems]


def assert_nothing_is_lost_or_said_twice(source):
    script = parse(source)
    spans = [span for line in script.lines for span in line.spans]
    places = sorted(spans + [(each.start, each.end) for each in script.shown])
    end = 0
    for start, stop in places:
        assert start == end < stop
        end = stop
    assert end == len(source)
    for line in script.lines:
        written = "".join(source[start:end] for start, end in line.spans)
        assert "".join(line.text.split()) == "".join(written.split())
    for each in script.shown:
        if each.kind == "space":
            assert not source[each.start : each.end].strip(WHITE_SPACE + "\ufeff")


@laws
@given(scripts)
def test_every_character_of_a_script_is_spoken_once_or_shown_once(source):
    assert_nothing_is_lost_or_said_twice(source)


@laws
@given(anything)
@example("\x1f\r0")  # white space to Python, and none of ours
def test_any_text_at_all_is_parsed_without_loss(source):
    assert_nothing_is_lost_or_said_twice(source)


@laws
@given(scripts)
def test_a_line_is_found_again_at_its_row_and_column(source):
    for line in parse(source).lines:
        before = source[: line.spans[0][0]].replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n")
        assert line.row == 1 + before.count("\n")
        assert line.column == len(before) - before.rfind("\n")
        assert line.text.startswith(source[slice(*line.spans[0])])


@laws
@given(scripts)
def test_characters_are_those_who_speak_in_order_of_appearance(source):
    script = parse(source)
    assert script.characters == tuple(dict.fromkeys(line.speaker for line in script.lines))


@pytest.mark.parametrize(
    "hostile",
    ["(", "[[", "/*", "[[\n", "(beat", "MARA: (a) ", "A", ":", "[[a]]", " ", "A: [["],
)
def test_two_hundred_thousand_hostile_characters_come_back(hostile):
    source = hostile * (200_000 // len(hostile))
    script = parse(source)
    spans = [span for line in script.lines for span in line.spans]
    spans += [(each.start, each.end) for each in script.shown]
    assert sum(end - start for start, end in spans) == len(source)


@pytest.mark.parametrize(
    "rows",
    [
        "MARA: a (beat) b\n\nJon: [[c]] d\n",
        "MARA\n(low)\nHello.\n\nINT. HALL\n\n",
        "[[\n",
        "ORLA. a (b) c\n\nPELL. [d.] e\n\n",
        "First Witch\na.\nORLA\nb.\n",
        "1. ORLA: a\n2. SFX: b\n",
        "(a\nb) (c\n",
        "CAST\nA, b\n\nACT I\n\nC: d\n\n",
    ],
)
def test_twice_the_script_is_twice_the_work(rows):
    def work(source):
        count = 0

        def tick(*_):
            nonlocal count
            count += 1

        sys.setprofile(tick)
        try:
            parse(source)
        finally:
            sys.setprofile(None)
        return count

    assert work(rows * 400) < 2.2 * work(rows * 200)


def test_names_before_colons_speak_what_stands_behind():
    source = "MARA: You're late.\nJON (softly): I know.\nMARA [to the door]: Go away."
    assert said(source) == [
        ("MARA", "", "You're late."),
        ("JON", "softly", "I know."),
        ("MARA", "to the door", "Go away."),
    ]
    assert parse(source).form == "plain"
    assert parse(source).problems == ()


def test_a_line_knows_its_place():
    line = parse("\nMARA (low):  Go.\n").lines[0]
    assert (line.row, line.column, line.spans) == (2, 14, ((14, 17),))


def test_full_width_marks_are_marks():
    assert said("太郎（小声で）：やあ。\n花子：うん。") == [
        ("太郎", "小声で", "やあ。"),
        ("花子", "", "うん。"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "DR. OKAFOR", "GUARD #2", "O'NEIL", "O’NEIL", "McCOY", "MR. & MRS. LANE", "2ND WITCH", "Old Woman",
        "Captain of the Guard", "Mr. Lane", "花子", "قائد", "ДЕД МОРОЗ", "Дед Мороз", "Ἑλένη", "J.R.", "A",
    ],
)  # fmt: skip
def test_names_of_every_kind_are_names(name):
    assert texts(f"{name}: Here I am.") == [(name, "Here I am.")]


@pytest.mark.parametrize(
    "row",
    [
        "Listen: go home.", "LISTEN: go home.", "at 7:05 sharp.", "https://example.org is down.",
        "Meet me at 7: I wait.", "I said no. Never: do you hear?", "she said: no.",
        "The rule is this: never look back, never.", "Oh, well: go.", "No. Wait: go.",
        "“Go”: that was all.", ":-) he wrote", "5: the last one.", "C:\\rooms",
    ],
)  # fmt: skip
def test_a_colon_in_speech_is_no_name(row):
    assert texts(f"MARA: I am here.\n{row}") == [("MARA", f"I am here. {row}")]


def test_a_name_that_stands_in_capitals_elsewhere_is_a_name_in_any_case():
    source = "LISTEN: I am a nymph.\nmara: Hi.\nMARA: Ho.\nListen: So am I.\nLISTEN: We know."
    assert [name for name, _ in texts(source)] == ["LISTEN", "mara", "mara", "LISTEN", "LISTEN"]


def test_small_names_need_to_come_again():
    assert texts("mara: hi.\njon: hello.\nmara: so.\njon: well.")[0] == ("mara", "hi.")
    assert texts("mara: hi.") == [(NARRATOR, "mara: hi.")]


def test_a_title_case_name_that_comes_once_is_a_hint_among_capitals():
    source = "MARA: Who is there?\nJon: It is me."
    assert [name for name, _ in texts(source)] == ["MARA", "Jon"]
    assert sentences(source) == [
        "“Jon” is read as a name; if it is spoken, put the name of its speaker in front."
    ]


def test_title_case_in_the_middle_of_a_sentence_is_spoken_with_a_hint():
    source = "MARA: I\nhave something to say to\nMonday: I hate you."
    assert texts(source) == [("MARA", "I have something to say to Monday: I hate you.")]
    assert sentences(source) == ["“Monday” is read as spoken words; if it is a name, write it in capitals."]


def test_a_scene_in_title_case_needs_no_hint():
    assert parse("Mara: hi\nJon: hello").problems == ()
    assert parse("Mara: hi\nJon: hello").characters == ("Mara", "Jon")


def test_spellings_of_one_name_are_one_character_as_first_written():
    script = parse("O’NEIL: a.\nO'Neil (CONT'D): b.\nＯ'NEIL: c.\no'neil (V.O.) : d.\nO'NEIL (O.S., low): e.")
    assert script.characters == ("O’NEIL",)
    assert [line.direction for line in script.lines] == ["", "", "", "", "low"]


def test_markdown_around_a_name_is_no_part_of_it():
    assert texts("**Mara:** Hello *there*.\n\n**Jon (low)**: Hi.") == [
        ("Mara", "Hello *there*."),
        ("Jon", "Hi."),
    ]


def test_rows_below_belong_to_the_speech():
    assert texts("MARA: One\n  two\nthree.\nJON:\nFour.") == [("MARA", "One two three."), ("JON", "Four.")]
    assert texts("花子：こん\nにちは") == [("花子", "こんにちは")]


def test_a_paragraph_without_a_name_goes_on_with_the_speaker_and_says_so():
    source = "MARA: One.\n\nTwo."
    assert texts(source) == [("MARA", "One."), ("MARA", "Two.")]
    assert sentences(source) == ["MARA goes on here; put the row in parentheses if it isn't spoken."]


def test_what_stands_before_the_first_name_is_shown_and_said_so():
    source = "A kitchen at night.\n\nMARA: One."
    assert texts(source) == [("MARA", "One.")]
    assert shown(source, "action") == ["A kitchen at night."]
    assert sentences(source) == ["Nobody speaks this row, so it is skipped; put a name in front."]


def test_a_row_in_italics_between_speeches_is_a_stage_direction():
    source = "MARA: Hush.\n*Please.*\n\n*Thunder.*\n\nMARA: There."
    assert texts(source) == [("MARA", "Hush. *Please.*"), ("MARA", "There.")]
    assert shown(source, "action") == ["*Thunder.*"]


def test_headings_and_transitions_are_known_in_the_plain_form():
    source = (
        "Title: The Lamp\n\nSETTING: a kitchen\n\nINT. KITCHEN\n\nMARA: Hi.\n\nCUT TO:\n\n"
        "SCENE 2: The hall\n\nMARA: Ho."
    )
    assert texts(source) == [("MARA", "Hi."), ("MARA", "Ho.")]
    assert shown(source, "heading") == ["INT. KITCHEN", "SCENE 2: The hall"]
    assert shown(source, "transition") == ["CUT TO:"]
    assert shown(source, "title page") == ["Title: The Lamp", "SETTING: a kitchen"]
    assert parse(source).form == "plain"


def test_a_bracket_alone_directs_what_follows():
    assert said("MARA: Go.\n(softly)\nPlease go.\nJON: (loud) No!") == [
        ("MARA", "", "Go."),
        ("MARA", "softly", "Please go."),
        ("JON", "loud", "No!"),
    ]


def test_a_beat_is_a_silence_wherever_it_stands_alone():
    assert said("MARA: (beat) Go. (Pause.) Now. (long pause)\n[beat]\nJON (beat): No(beat).") == [
        0.8,
        ("MARA", "", "Go."),
        0.8,
        ("MARA", "", "Now."),
        1.6,
        0.8,
        0.8,
        ("JON", "", "No(beat)."),
    ]


@pytest.mark.parametrize("row", ["...", "-", "…", "* * *", "?!", "🏃"])
def test_a_row_without_words_is_a_beat(row):
    assert said(f"MARA: Go.\n{row}\nNow.\nJON: {row}") == [
        ("MARA", "", "Go."),
        0.8,
        ("MARA", "", "Now."),
        0.8,
    ]


def test_empty_rows_are_layout():
    assert said("MARA: Go.\n\n   \n\nJON: No.") == [("MARA", "", "Go."), ("JON", "", "No.")]


def test_sounds_to_perform_stay_in_the_text():
    assert texts("MARA: Oh [sighs] well [laughs] no.\nJON: [sighs]\nMARA:\n[laughs]") == [
        ("MARA", "Oh [sighs] well [laughs] no."),
        ("JON", "[sighs]"),
        ("MARA", "[laughs]"),
    ]


def test_a_stage_play_has_names_on_their_own_rows():
    source = "MARA\nYou're late.\n\nJON.\n(softly) I know.\n\nHe goes.\n\nMARA\nBye,\nthen.\nJON.\nBye."
    assert said(source) == [
        ("MARA", "", "You're late."),
        ("JON", "softly", "I know."),
        ("MARA", "", "Bye, then."),
        ("JON", "", "Bye."),
    ]
    assert parse(source).form == "plain"
    assert shown(source, "action") == ["He goes."]


def test_a_stage_play_without_empty_rows_is_understood():
    assert texts("MARA\nWho is it?\nJON\nMe.\nMARA\nWho?") == [
        ("MARA", "Who is it?"),
        ("JON", "Me."),
        ("MARA", "Who?"),
    ]


def test_between_speeches_a_bracket_is_action_and_a_pause_is_a_beat():
    source = "(Night.)\n\nMARA\nGo.\n\n(Rain.)\n\n(pause)\n\nMARA\nGo!"
    assert said(source) == [("MARA", "", "Go."), 0.8, ("MARA", "", "Go!")]
    assert shown(source, "action") == ["(Night.)", "(Rain.)"]
    assert parse(source).problems == ()


def test_the_front_of_a_stage_play_is_no_name():
    source = "CHARACTERS:\nMARA, a keeper\n\nCAST\nANNA as MARA\n\nMARA\nHello.\n\nJON\nHi."
    assert parse(source).characters == ("MARA", "JON")


def test_a_shout_in_a_speech_is_no_name():
    assert texts("MARA: I told you.\nGET OUT\nof here.") == [("MARA", "I told you. GET OUT of here.")]


def test_prose_is_read_by_a_narrator_paragraph_by_paragraph():
    source = "It rained.\nAll day.\n\n...\n\nShe said: no. (beat) Then (really) yes."
    assert said(source) == [
        (NARRATOR, "", "It rained. All day."),
        0.8,
        (NARRATOR, "", "She said: no."),
        0.8,
        (NARRATOR, "", "Then (really) yes."),
    ]
    assert sentences(source) == [
        "There are no names, so a narrator reads this; to cast it, write NAME: words."
    ]


FOUNTAIN = """\
Title: The Lamp
Author: Us
    and them

# Act one
= They meet.

INT. KITCHEN - NIGHT

Rain on the /* old
house */ window. [[why rain?]]

MARA (CONT'D)
(quietly)
You came [[late]] back.
(beat)
I knew *it*.
~la la

JON (on the phone) ^
Yes.
(low)
No.

.A DREAM

!HE GOES

@McAvoy
Well.

> THE END <

===

> CUT TO:
"""


def test_a_fountain_script_is_read_by_its_rules():
    assert parse(FOUNTAIN).form == "fountain"
    assert said(FOUNTAIN) == [
        ("MARA", "quietly", "You came back."),
        0.8,
        ("MARA", "", "I knew *it*. la la"),
        ("JON", "on the phone", "Yes."),
        ("JON", "low", "No."),
        ("McAvoy", "", "Well."),
    ]
    assert parse(FOUNTAIN).problems == ()


@pytest.mark.parametrize(
    ("kind", "stretches"),
    [
        ("title page", ["Title: The Lamp", "Author: Us", "and them"]),
        ("section", ["# Act one"]),
        ("synopsis", ["= They meet."]),
        ("heading", ["INT. KITCHEN - NIGHT", ".A DREAM"]),
        ("action", ["Rain on the", "window.", "!HE GOES"]),
        ("boneyard", ["/* old\nhouse */"]),
        ("note", ["[[why rain?]]", "[[late]]"]),
        ("cue", ["MARA", "JON", "^", "@McAvoy"]),
        ("parenthetical", ["(CONT'D)", "(quietly)", "(on the phone)", "(low)"]),
        ("beat", ["(beat)"]),
        ("lyrics mark", ["~"]),
        ("centred", ["> THE END <"]),
        ("page break", ["==="]),
        ("transition", ["> CUT TO:"]),
    ],
)
def test_what_a_fountain_script_does_not_speak_is_shown_by_its_kind(kind, stretches):
    assert shown(FOUNTAIN, kind) == stretches


def test_dual_dialogue_begins_with_the_line_before():
    assert [line.dual for line in parse(FOUNTAIN).lines] == [False, False, True, False, False]


def test_two_spaces_keep_a_fountain_speech_open_and_an_empty_row_ends_it():
    source = "INT. HALL\n\nMARA\nOne.\n  \nTwo.\n\nThree."
    assert texts(source) == [("MARA", "One. Two.")]


def test_notes_and_boneyards_are_never_spoken_in_the_plain_form_either():
    assert texts("MARA: One [[a: b]] two/* three\nJON: four */ five.") == [("MARA", "One two five.")]


def test_a_note_inside_a_word_parts_nothing():
    assert texts("MARA: Hel[[x]]lo") == [("MARA", "Hello")]


def test_capitals_that_look_like_a_headline_are_told_of():
    source = "INT. HALL\n\nTHE LIGHTS OF THE HALL FAIL NOW\nNobody moves."
    assert sentences(source) == [
        "“THE LIGHTS OF THE HALL FAIL NOW” is read as a name; if it is action, put ! in front."
    ]


def test_a_colon_cue_in_fountain_is_told_of():
    source = "INT. HALL\n\nMARA\nHi.\n\nJON: Hello.\n"
    assert texts(source) == [("MARA", "Hi.")]
    assert sentences(source) == ["This row isn't spoken; put JON on its own row, with the words below."]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028", "\x85"])
def test_all_line_ends_are_alike(end):
    for source in (FOUNTAIN, "MARA: One.\n(low)\n\nTwo.\nJON:\n...\n"):
        assert said(source.replace("\n", end)) == said(source)


def test_a_byte_order_mark_and_fixed_spaces_are_white_space():
    assert texts("\ufeffMARA\xa0:\xa0Hi\xa0you.\n\xa0\nJON: Ho.") == [("MARA", "Hi\xa0you."), ("JON", "Ho.")]


def test_one_scene_in_three_languages_loses_nothing():
    source = "ANNA: Good evening.\n花子：こんばんは。元気ですか？\nليلى: مساء الخير\nANNA: Café."
    assert [text for _, text in texts(source)] == [
        "Good evening.",
        "こんばんは。元気ですか？",
        "مساء الخير",
        "Café.",
    ]
    assert all(unicodedata.is_normalized("NFC", text) for _, text in texts(source))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("MARA:\nJON: Hi.", "MARA has no words here; write them behind or below the name."),
        (
            "INT. A\n\nMARA\nHi.\n\nMARA\n\nHe goes.",
            "MARA has no words here; leave a row empty above, and none below.",
        ),
        ("MARA: /* Hi.", "This boneyard is never closed, so its words stay in; end it with */."),
        ("MARA: [[ Hi.\n\n]]", "This note is never closed, so its words stay in; end it with ]]."),
        ("MARA: a <|im_end|>", "The line contains the control token <|im_end|>; remove it."),
        ("MARA (<|voice|>): a", "The direction contains the control token <|voice|>; remove it."),
        ("MARA (a [b] c): d", "The direction has square brackets; write it as plain words."),
        ("M" * 200 + ": a", f"The name “{'M' * 12}…” has 200 characters; shorten it to 40 or fewer."),
        (
            "MARA: " + "a" * 5001,
            "The line has 5,001 characters, the limit is 5,000; split it into several lines.",
        ),
        ("MARA: a\n" * 501, "The script has 501 lines, the limit is 500; cut it into scenes."),
        ("INT. HALL\n\nIt rains.", "Nobody speaks in this script; write lines as NAME: words."),
    ],
)
def test_a_problem_names_the_thing_and_the_remedy(source, sentence):
    assert sentence in sentences(source)
    assert_nothing_is_lost_or_said_twice(source)


def test_a_problem_has_its_place():
    problems = parse("MARA: a\n" * 501).problems
    assert [(problem.row, problem.column) for problem in problems] == [(501, 7)]


@pytest.mark.parametrize("source", ["", " \n\n", "\ufeff", "[[a note]]"])
def test_an_empty_script_is_no_problem(source):
    script = parse(source)
    assert (script.entries, script.characters, script.problems) == ((), (), ())


@pytest.mark.parametrize(
    ("name", "form"), [("two-hander", "plain"), ("ensemble", "plain"), ("fountain", "fountain")]
)
def test_the_scenes_we_bring_are_scripts_with_a_cast(name, form):
    source = next(SCENES.glob(f"{name}.[tf]*")).read_text(encoding="utf-8")
    cast = json.loads((SCENES / f"{name}.cast.json").read_text(encoding="utf-8"))
    script = parse(source)
    assert script.form == form
    assert script.problems == ()
    assert set(script.characters) == set(cast)
    assert 10 <= len(script.lines) <= 14
    assert all(4 <= len(line.text.split()) <= 25 for line in script.lines)


def test_the_ready_voices_of_our_scenes_have_clips():
    clips = {
        voice["id"] for voice in json.loads(VOICES.read_text(encoding="utf-8"))["voices"] if "words" in voice
    }
    for path in SCENES.glob("*.cast.json"):
        for each in json.loads(path.read_text(encoding="utf-8")).values():
            assert each.get("voice", "af_heart") in clips
            assert "voice" in each or set(each) == {"description", "scene"}


def test_the_scenes_are_small():
    assert sum(path.stat().st_size for path in SCENES.iterdir()) < 20_000
