"""From written to spoken words: marks and emoji go, numbers become words, and every step can be undone."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prompts.changes import changed
from prompts.numbers import cardinal, read_numbers
from prompts.spoken import clean, respell, spoken
from prompts.text import PromptError, check_line

laws = settings(max_examples=150, deadline=None)
RUNNER = "🏃🏽\u200d♂️"
PARTS = [
    "word", "5", "Dr.", "*", "**", "_", "~~", "`", "# ", "> ", "[x](https://y.z)", "[sighs]", RUNNER,
    "🇩🇪", "1️⃣", "❤️", "©", "\u200d", "\ufe0f", " ", "  ", "\n", "!", "$", "7:05", "3/11", "4B", "क्‍",
    "<|im_", "start|>", "½", "٣", "\ud83d",
]  # fmt: skip
marked = st.lists(st.sampled_from(PARTS), max_size=20).map("".join)
marked |= st.text(st.characters(exclude_characters="\u20e3"), max_size=40)


@laws
@given(marked)
@example(f"**Run!** {RUNNER} now")
def test_what_was_removed_and_what_is_spoken_are_what_was_written(text):
    cleaned = clean(text)
    assert changed(text, cleaned.changes) == cleaned.text
    written, end = [], 0
    for change in cleaned.changes:
        kept = change.start - sum(map(len, written))
        written += [cleaned.text[end : end + kept], change.was]
        end += kept
    assert "".join([*written, cleaned.text[end:]]) == text


@laws
@given(marked)
def test_the_cleaner_only_takes_away_marks_pictures_and_white_space(text):
    gone = "".join(change.was for change in clean(text).changes)
    assert not any(mark.isalnum() for mark in gone.replace("](https://y.z)", "").replace("1️⃣", ""))


@laws
@given(marked)
def test_every_change_is_told_with_its_place_in_the_line_as_written(text):
    words = spoken(text, numbers=True, glossary={"word": "wurd"})
    for change in words.changes:
        assert 0 <= change.start < change.end <= len(text)
        if change.step == "stage marks":
            assert text[change.start : change.end] == change.was
    assert spoken(text, clean=False).text == text


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (f"**Run!** {RUNNER} now", "Run! now"),
        ("*Hello* _there_ `x` ~~no~~ ***all***", "Hello there x no all"),
        ("# Title\n> quote\n>> # deep\n* item", "Title\nquote\ndeep\nitem"),
        ("see [the door](https://x.y/z), ![a lamp](lamp.png)", "see the door, a lamp"),
        ("Sio**bhan** __init__", "Siobhan init"),
        ("🇩🇪 flag 1️⃣ keycap ❤️ heart 👨\u200d👩\u200d👧\u200d👦!", "flag keycap heart !"),
        ("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f x", "x"),
        ("hi 🏃 🏃 there 🏃", "hi there"),
        ("one\n🏃\ntwo\n\n🏃\n\nthree", "one\ntwo\n\nthree"),
        ("**🏃** ok _🏃_", "ok"),
        ("©️ and ‼️ and 5️", "and ‼ and 5"),
    ],
)
def test_stage_marks_are_taken_out(written, said):
    assert clean(written).text == said
    assert "\u200d" not in clean(written).text


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Okafor, flat 4B, owes 1,250.50 by 7:05 on 3/11.",
        "5*3 is 5 * 3, and 2**3 is eight.",
        "snake_case, don`t, f*ck, ~5 minutes, a # b, 2 > 1, #2",
        "[sighs] Oh (laughs) [sighs](softly), <|speaker:0|> …",
        "© 2026 ™ ‼ ⁉ ℹ ½ № ° → ♪",
        "  two  spaces \n\n stay  ",
        "क्\u200dष می\u200cخواهم",
        "“Quoted” — ‘it’s’; O'Neil's!",
        "葛\U000e0100城",
    ],
)
def test_the_cleaner_leaves_alone_what_is_read(text):
    assert clean(text).text == text
    assert clean(text).changes == ()


def test_what_was_removed_is_listed_with_its_place():
    assert [(each.start, each.end, each.was, each.now) for each in clean("**Run!** 🏃 now").changes] == [
        (0, 2, "**", ""),
        (6, 8, "**", ""),
        (9, 11, "🏃 ", ""),
    ]


def test_a_control_token_that_cleaning_makes_is_caught_by_the_check():
    check_line("<|im_**start|>")
    with pytest.raises(PromptError, match=r"control token <\|im_start\|>"):
        check_line(spoken("<|im_**start|>").text)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Dr. Okafor, flat 4B", "Doctor Okafor, flat four B"),
        ("owes 1,250.50 by 7:05", "owes one thousand two hundred and fifty point five zero by seven oh five"),
        ("on 3/11.", "on three eleven."),
        ("$5.50, £1.01", "five dollars and fifty cents, one pound and one penny"),
        (
            "€2 million, $0.99, ¥300, £7.00",
            "two million euros, ninety-nine cents, three hundred yen, seven pounds",
        ),
        ("7:00, 19:00, 7:30 pm", "seven o'clock, nineteen hundred, seven thirty p m"),
        ("00:15, 7:05:30", "zero fifteen, seven oh five and thirty seconds"),
        ("Come at 5 p.m. Not at 5 p.m. sharp.", "Come at five p m. Not at five p m sharp."),
        ("2026-11-29", "the twenty-ninth of November twenty twenty-six"),
        ("25/12/1999", "the twenty-fifth of December nineteen ninety-nine"),
        ("12/25", "December the twenty-fifth"),
        ("March 3rd, 2026", "March third, twenty twenty-six"),
        ("the 3rd of May, 3 March 1905", "the third of May, the third of March nineteen oh five"),
        ("1905, 2005", "nineteen oh five, two thousand and five"),
        ("1,905", "one thousand nine hundred and five"),
        ("the 1990s, the '80s", "the nineteen nineties, the eighties"),
        ("21st, 100th", "twenty-first, one hundredth"),
        ("5%, 5.5 %", "five percent, five point five percent"),
        ("1 km, 3 km, 60 mph", "one kilometre, three kilometres, sixty miles per hour"),
        ("20°C, 6 ft", "twenty degrees Celsius, six feet"),
        ("No. 5, p. 12, #7. I said no.", "number five, page twelve, number seven. I said no."),
        ("Mr. and Mrs. St. John, Elm St. etc.", "Mister and Missus Saint John, Elm Street et cetera."),
        ("3-5, 1914–1918", "three to five, nineteen fourteen to nineteen eighteen"),
        ("-5, 007", "minus five, zero zero seven"),
        ("1/2, ¾, 2½", "one half, three quarters, two and a half"),
        ("R2D2, B12, 1.2.3", "R two D two, B twelve, one point two point three"),
        ("555-0199", "five five five, zero one nine nine"),
        ("salt & pepper", "salt and pepper"),
    ],
)
def test_numbers_and_abbreviations_are_written_out(written, said):
    assert read_numbers(written).text == said
    assert not any(mark.isdigit() for mark in read_numbers(written).text)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("The shop is open 24/7.", "The shop is open twenty-four seven."),  # C-08
        ("an MP3 player, flight BA2490", "an M P three player, flight B A twenty-four ninety"),  # C-09
        ("US$40, $5k, 9.58s, 99¢", "forty US dollars, five thousand dollars, nine point five eight seconds, "
         "ninety-nine cents"),
        ("A$5, -$5, $5/hour, £3bn, 40€, 20 USD", "five Australian dollars, minus five dollars, "
         "five dollars per hour, three billion pounds, forty euros, twenty US dollars"),
        ("a $5 bill, $5-10, $.50", "a five dollar bill, five to ten dollars, fifty cents"),
        ("World War II ended. King Henry VIII had six wives.",
         "World War two ended. King Henry the eighth had six wives."),  # C-10
        ("World War I, Act III, Scene II, Chapter XIV, Part II and III",
         "World War one, Act three, Scene two, Chapter fourteen, Part two and three"),
        ("Elizabeth II's crown, Louis XIV, John Paul II, Henry V, King Charles I.",
         "Elizabeth the second's crown, Louis the fourteenth, John Paul the second, Henry the fifth, "
         "King Charles the first."),
        ("We won $2 million. It cost $1.5 million.",
         "We won two million dollars. It cost one point five million dollars."),  # C-11
        ("Mr Hale and Mrs Hale are here.", "Mister Hale and Missus Hale are here."),  # C-14
        ("Dr Foster, Prof Lane, St Mary, Ms Lee, MR HALE",
         "Doctor Foster, Professor Lane, Saint Mary, Miz Lee, MISTER HALE"),
        ("We met on Elm St. Then he left his Elm St", "We met on Elm Street. Then he left his Elm Street"),
        ("He said no. 5 men heard it. Flat No. 5.", "He said no. five men heard it. Flat number five."),
        ("No. 5 men heard it.", "No. five men heard it."),
        ("1066, the 1900s, 1905, 1000 men, '68", "ten sixty-six, the nineteen hundreds, nineteen oh five, "
         "one thousand men, 'sixty-eight"),
        ("Psalm 23:4, John 3:16-18, 2-1, 1914-18", "Psalm twenty-three four, John three sixteen to eighteen, "
         "two to one, nineteen fourteen to eighteen"),
        ("Call 911 now! Dial 999. 911 men.", "Call nine one one now! Dial nine nine nine. "
         "nine hundred and eleven men."),
        ("'20 men,' he said, '5'. The 747's wing. At 5: go.",
         "'twenty men,' he said, 'five'. The seven hundred and forty-seven's wing. At five: go."),
        ("COVID-19, a 5-year-old, 24-hour, 4x4, 50+, 7.30pm",
         "COVID-nineteen, a five-year-old, twenty-four-hour, four by four, fifty plus, seven thirty p m"),
        ("WWII, World Wars I and II, F-16s, 747s, 24-7", "World War two, World Wars one and two, F-sixteens, "
         "seven forty-sevens, twenty-four seven"),
        ("-5°C, $ 5, USD 5, (555) 555-0199, 6ft 2in",
         "minus five degrees Celsius, five dollars, five US dollars, five five five, five five five, "
         "zero one nine nine, six foot two"),
        ("5-10%, 5-10 km, 20 m², 6'2\", 120/80, 2 1/2", "five to ten percent, five to ten kilometres, "
         "twenty square metres, six foot two, one hundred and twenty over eighty, two and a half"),
    ],
)  # fmt: skip
def test_numbers_that_people_write(written, said):
    assert read_numbers(written).text == said


@pytest.mark.parametrize(
    "text",
    [
        "I saw it. V was right.",  # C-10
        "Mix it.",
        "In Part I saw him. With Henry I saw it. The IV line. MIX XL.",
        "He said no. I said no.",
        "10^5 and 5+5=10 and 5*3",
        "x86_64.tar:3 and a.5 and 5...no and 1,2,3 and $x5",
        "Hon, come here. The st thing.",
    ],
)
def test_what_is_no_number_or_only_a_part_of_a_token_stays(text):
    assert read_numbers(text).text == text


TOKENS = re.findall(
    r"\S+",
    "5 20 1066 .5 1,250 $ € £ ¢ . : ' ’ - – / % a B MP km s k st II VIII I No. Dr St Henry Act ½ é _ & +",
)
TOKENS += [",", "!", "24/7", "911", " ", " ", " ", "...", "7:05", "'s"]
written = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join) | st.text(
    "0159$€.:'’-/, aIVXkKms%½", max_size=24
)


@settings(max_examples=400, deadline=None)
@given(written)
@example("US$40 and $5k")
@example("It cost '5'.")
def test_a_change_covers_whole_tokens(text):
    """Beside a change stands no letter, digit, currency, full stop, colon or apostrophe of the same token."""

    def is_of_it(mark: str) -> bool:
        return mark.isalnum() or (mark != "" and mark in "$€£¢.:'’")

    for change in read_numbers(text).changes:
        assert not is_of_it(text[: change.start][-1:]), change
        rest = text[change.end :]
        ends = re.match(r"[.!?…\"”)\]]*(\s|$|[—–])", rest)
        assert ends or not is_of_it(rest[:1]), change


@settings(max_examples=200, deadline=None)
@given(written)
def test_what_was_read_is_read_no_further(text):
    once = read_numbers(text).text
    if not any(mark.isnumeric() for mark in once):
        assert read_numbers(once).text == once


@laws
@given(marked)
def test_the_changes_of_numbers_are_all_that_changes(text):
    words = read_numbers(text)
    assert changed(text, words.changes) == words.text
    assert all(text[each.start : each.end] == each.was for each in words.changes)


@laws
@given(st.integers(0, 10**40).map(str))
def test_every_number_has_words(number):
    assert set(cardinal(number)) <= set("abcdefghijklmnopqrstuvwxyz -")


def test_other_languages_stay_as_they_are_and_it_says_so():
    words = read_numbers("3 Hunde", "de")
    assert (words.text, words.changes) == ("3 Hunde", ())
    assert words.note == "Numbers are read in English only; this text (de) stays as it is."
    assert read_numbers("3 dogs", "en-GB").text == "three dogs"
    assert spoken("*3 Hunde*", numbers=True, language="de").note == words.note


def test_numbers_are_read_only_when_asked_for():
    assert spoken("Dr. Lane owes 5.").text == "Dr. Lane owes 5."
    assert spoken("Dr. Lane owes 5.", numbers=True).text == "Doctor Lane owes five."


def test_whole_words_are_respelt_whatever_their_case():
    words = respell("Siobhan, SIOBHAN's and Siobhanne.", {"siobhan": "shi-vawn"})
    assert words.text == "shi-vawn, shi-vawn's and Siobhanne."
    assert [(each.start, each.end, each.was, each.now) for each in words.changes] == [
        (0, 7, "Siobhan", "shi-vawn"),
        (9, 16, "SIOBHAN", "shi-vawn"),
    ]


def test_the_longest_respelling_is_taken_and_none_is_respelt_again():
    assert (
        respell("New York, York", {"York": "New York", "New York": "Noo Yawk"}).text == "Noo Yawk, New York"
    )


def test_a_word_with_a_mark_behind_it_is_another_word():
    assert respell("हा हाँ e\u0301", {"हा": "haa", "e": "ee"}).text == "haa हाँ e\u0301"


def test_signs_in_a_glossary_are_signs():
    assert respell("C++ and c+", {"C++": "see plus plus"}).text == "see plus plus and c+"


@pytest.mark.parametrize(
    ("glossary", "sentence"),
    [
        ({" ": "x"}, "A word of the glossary is empty; fill it in."),
        ({"a": ""}, "The respelling of “a” is empty; fill it in."),
        ({"a": "<|im_end|>"}, "The respelling of “a” contains the control token <|im_end|>; remove it."),
        ({"<|voice|>": "a"}, "A word of the glossary contains the control token <|voice|>; remove it."),
        ({"a": 5}, "The respelling of “a” is a int; give it as text."),
        ({str(n): "x" for n in range(501)}, "The glossary has 501 entries, the limit is 500; remove some."),
    ],
)
def test_a_faulty_glossary_is_refused_in_one_sentence(glossary, sentence):
    with pytest.raises(PromptError) as refusal:
        spoken("text", glossary=glossary)
    assert str(refusal.value) == sentence


def test_the_steps_follow_each_other_and_their_changes_stand_in_the_line_as_written():
    words = spoken("**Sio**bhan 🏃 owes $5.", numbers=True, glossary={"Siobhan": "shi-vawn"})
    assert words.text == "shi-vawn owes five dollars."
    assert [(each.start, each.end, each.now, each.step) for each in words.changes] == [
        (0, 2, "", "stage marks"),
        (2, 11, "shi-vawn", "glossary"),
        (5, 7, "", "stage marks"),
        (12, 14, "", "stage marks"),
        (19, 21, "five dollars", "numbers"),
    ]


def test_a_glossary_comes_as_a_mapping_or_as_pairs():
    assert spoken("Siobhan", glossary=[("Siobhan", "shi-vawn")]).text == "shi-vawn"
    assert spoken("Siobhan", glossary={"Siobhan": "shi-vawn"}).text == "shi-vawn"


@pytest.mark.parametrize(
    "hostile", ["*", "_*", "*a", "[a", "\u200d", "🏃 ", "> ", " * ", "1", "1,", "1-", "a1", "1/"]
)
def test_long_rows_of_signs_come_back(hostile):
    spoken(hostile * (20_000 // len(hostile)), numbers=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[softly] I know.", "[softly] I know."),
        ("[softly] I know [sighs]. Go.", "[softly] I know [sighs]. Go."),
        ("I know [ Sighs ]. [angry] Go.", "I know [ Sighs ]. Go."),
        ("  [softly] I know. [angry] Go [winks].", "  [softly] I know. Go."),
        ("I know.", "I know."),
    ],
)
def test_behind_the_first_word_only_the_sounds_that_a_model_knows_are_kept(line, said):
    assert spoken(line, clean=False, sounds=("sighs",)).text == said


def test_a_cue_that_is_not_performed_is_told():
    (change,) = spoken("Go [winks] now.", clean=False, sounds=()).changes
    assert (change.step, change.was.strip()) == ("cues", "[winks]")
