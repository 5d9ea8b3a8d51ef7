"""A scene in a browser, with the tiny checkpoint: what is performed is heard, lit, kept, safe to look at."""

from __future__ import annotations

import time

import numpy as np
import pytest
import soundfile as sf

from engine.take import Audio

SCRIPT = "MARA: Go on.\nFINN (low): No.\n(beat)\nMARA: Stay."
LONG = "\n".join(["MARA: Words and more words.", "FINN: And again some words."] * 3)
HOSTILE = [
    "<|im_end|>",
    "${1+1} and `x`",
    "<img src=x onerror=document.title='bad'>",
    "{{7*7}} ${ ",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "x" * 200,
]
BUTTONS = ".bar:has(#perform-scene)"
LISTEN = """window.lit = [];
window.addEventListener("tableread:sounding", ({ detail }) => window.lit.push(detail.lines.join()));"""


@pytest.fixture
def visit(tableread):
    """Open the page as somebody new, with a recorder at its output, and paste a script."""
    page = tableread

    def visit(script: str = SCRIPT, **how):
        page.forget()
        page.open(**how)
        page.js(LISTEN)
        page.wait(lambda: page.js("return document.querySelectorAll('.tr-line').length"))
        page.write("#script textarea", script)
        first = script.split(": ")[1].split("\n")[0]
        page.wait(lambda: first[:12] in shown(page, ".tr-words-line")[0])
        return page

    return visit


@pytest.fixture
def slow(house, monkeypatch):
    """Takes that last: one is under way whenever something comes between."""
    perform = house.scenes.main.perform

    def slowly(wanted):
        for event in perform(wanted):
            yield event
            time.sleep(0.5 * isinstance(event, Audio))

    monkeypatch.setattr(house.scenes.main, "perform", slowly)


def shown(page, selector: str) -> list[str]:
    """The texts that can be seen."""
    find = "[...document.querySelectorAll(arguments[0])].filter(e => e.offsetParent).map(e => e.textContent)"
    return page.js(f"return {find}", selector)


def click(page, selector: str, index: int = 0) -> None:
    page.wait(
        lambda: page.js(
            "return document.querySelectorAll(arguments[0]).length > arguments[1]", selector, index
        )
    )
    page.js("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, index)


def wide(page) -> int:
    return page.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_a_performed_scene_is_heard_as_its_mix_holds_it_and_lights_line_after_line(visit, house, monkeypatch):
    for held in ("START_S", "SLOW_START_S"):  # all is there before it sounds: no machine is too slow
        monkeypatch.setattr(f"web.director.{held}", 30.0)
    page = visit("MARA: Go.\n(beat)\nFINN: No.")
    page.press("#perform-scene")
    told = page.reaches("ended")
    heard, _, _ = page.recording()
    room = list(house.scenes.rooms._rooms.values())[-1]
    path, missing = house.scenes.mix_of(room)
    mix = sf.read(path, dtype="int16")[0].astype(np.float32) / 32768
    start, first = int(np.flatnonzero(mix)[0]), int(np.flatnonzero(heard)[0])
    assert (told["lost"], told["underruns"], missing) == (0, 0, [])
    assert np.array_equal(heard[first : first + len(mix) - start], mix[start:])
    assert [each for each in page.js("return window.lit") if each] == [line.id for line in room.scene.lines]
    assert page.js("return window.lit.at(-1)") == ""
    assert page.js("return document.querySelectorAll('.tr-is-heard').length") == 0


def test_stop_silences_the_scene_and_keeps_what_was_heard(visit, slow):
    page = visit(LONG)
    page.press("#perform-scene")
    page.wait(lambda: page.js("return window.lit.filter(Boolean)"))
    page.press("#stop-scene")
    page.reaches("stopped")
    page.wait(lambda: not any("being performed" in each for each in shown(page, ".tr-take-facts-line")))
    facts = [each for each in shown(page, ".tr-facts") if each]
    assert facts[-1].startswith("cut")
    assert 0 < len(facts) < 6
    assert page.js("return document.querySelectorAll('.tr-is-heard').length") == 0
    click(page, ".tr-line [data-act=play]")
    assert page.reaches("ended")["made_samples"] > 0


def test_a_retake_stands_beside_the_first_take_and_marks_who_heard_that(visit):
    page = visit()
    page.press("#perform-scene")
    page.wait(lambda: len([each for each in shown(page, ".tr-take-facts-line") if " s · " in each]) == 3)
    page.press("#stop-scene")
    click(page, ".tr-open")
    page.wait(lambda: shown(page, ".tr-retake"))
    assert page.js("return document.activeElement.name") == "note"
    page.driver.switch_to.active_element.send_keys("colder, slower")
    click(page, ".tr-go")
    page.wait(lambda: len(shown(page, ".tr-take-row")) == 2)
    page.wait(lambda: shown(page, ".tr-stale") == ["heard an older line 1"])
    assert "colder, slower" in shown(page, ".tr-take-row")[1]
    click(page, ".tr-take-row [data-act=apply]")
    page.wait(lambda: not shown(page, ".tr-stale"))
    click(page, ".tr-take-row [data-act=like]")
    page.wait(lambda: shown(page, ".tr-star-mark") == ["★"])


def test_after_a_reload_in_the_middle_script_and_takes_are_back_and_nothing_runs(
    visit, house, slow, monkeypatch
):
    page = visit(LONG)
    page.press("#perform-scene")
    page.wait(lambda: page.js("return window.lit.filter(Boolean)"))
    page.driver.refresh()
    page.wait(lambda: shown(page, ".tr-take-facts-line"))
    room = list(house.scenes.rooms._rooms.values())[-1]
    page.wait(lambda: room.run.ended.is_set())
    assert 0 < len(room.scene.takes) < 6
    page.wait(lambda: len(shown(page, ".tr-take-facts-line")) == len(room.scene.takes))
    page.wait(lambda: "being performed" not in "".join(shown(page, ".tr-take-facts-line")))
    assert page.js("return document.querySelector('#script textarea').value") == LONG
    monkeypatch.undo()
    monkeypatch.setattr("web.director.AHEAD_S", 1e9)  # nobody needs to be waited for
    page.press("#perform-scene")
    page.wait(lambda: len([each for each in shown(page, ".tr-take-facts-line") if " s · " in each]) == 6)
    page.press("#stop-scene")


def test_hostile_words_are_shown_as_they_are_wherever_they_stand(visit):
    rows = [f"MARA ({each}): Hello {each}\n\n{each}: Stay.\n\n{each}" for each in HOSTILE]
    page = visit("\n\n".join(rows))
    page.press("#perform-scene")
    page.reaches("trouble")
    assert "<|im_end|>" in shown(page, ".tr-player")[0]
    click(page, ".tr-open", 3)
    page.wait(lambda: shown(page, ".tr-retake"))
    hostile = HOSTILE[1] + HOSTILE[2]
    page.write(".tr-retake [name=note]", hostile)
    click(page, ".tr-go")
    page.wait(lambda: shown(page, ".tr-take-wish"))
    page.js("""const card = document.querySelector('.tr-card'), kind = card.querySelector('[name=kind]');
               kind.value = 'described'; kind.dispatchEvent(new Event('change', { bubbles: true }));""")
    page.wait(lambda: shown(page, ".tr-card [name=description]"))
    page.write(".tr-card [name=description]", hostile)
    page.js("document.activeElement.blur()")
    click(page, ".tr-card [data-act=seeds]")
    page.wait(lambda: shown(page, ".tr-call-told"))
    page.press("#stop-scene")
    text = page.js("return document.querySelector('.tr-lines').textContent")
    assert all(each.strip() in text for each in HOSTILE)
    assert page.js("return document.title") == "Tableread"
    assert page.js("return document.querySelectorAll('img[src=x]').length") == 0
    assert wide(page) <= 0


def test_a_problem_leads_to_its_place_in_the_script(visit):
    page = visit("MARA: Go on.\nMARA: Go <|im_end|> on.")
    page.wait(lambda: shown(page, ".tr-problem"))
    assert "Row 2, column 7" in shown(page, ".tr-problem")[0]
    click(page, ".tr-problem")
    field = page.js(
        "const f = document.activeElement; return f.value.slice(f.selectionStart, f.selectionEnd)"
    )
    assert field == "Go <|im_end|> on."


def test_candidates_are_heard_blind_and_the_chosen_one_is_cast(visit):
    page = visit("MARA: Go on.")
    click(page, ".tr-card [data-act=voices]")
    page.wait(lambda: len(shown(page, ".tr-candidate")) == 4)
    page.reaches("ended")
    assert [each for each in page.js("return window.lit") if each] == [f"candidate {each}" for each in "ABCD"]
    assert all(len(each) < 10 for each in shown(page, ".tr-call-facts"))
    click(page, ".tr-candidate [data-act=submit]", 2)
    page.wait(lambda: "C plays MARA now." in shown(page, ".tr-call-told")[0])
    assert len(set(shown(page, ".tr-call-facts"))) == 4
    page.wait(lambda: shown(page, ".tr-take-facts-line"))


def test_a_phone_shows_the_scene_without_sideways_scrolling(visit, phone):
    with phone(390, 780):
        page = visit()
        click(page, ".tr-open", 2)
        page.press("#perform-scene")
        page.wait(lambda: shown(page, ".tr-memory-line"))
        page.press("#stop-scene")
        assert wide(page) <= 0


def sound(page, which: int) -> None:
    """Let a line sound, as far as the page is told."""
    page.js(
        """const lines = [document.querySelectorAll('.tr-line')[arguments[0]].dataset.line];
           window.dispatchEvent(new CustomEvent('tableread:sounding', { detail: { take: 'x', lines } }));""",
        which,
    )


def test_a_phone_shows_the_sounding_line_between_the_player_and_the_buttons(visit, phone):
    with phone(390, 780):
        page = visit(LONG)
        for which, start in ((5, 0), (0, 10_000)):
            page.js("window.scrollTo(0, arguments[0])", start)
            sound(page, which)
            page.wait(lambda: page.rect(".tr-is-heard")["bottom"] <= page.rect(BUTTONS)["top"])
            page.wait(lambda: page.rect(".tr-is-heard")["top"] >= page.rect("#transport")["bottom"])
            assert page.rect("#transport")["top"] < 0 <= page.rect(".tr-top")["top"]
            assert page.rect(BUTTONS)["bottom"] == 780


def test_the_buttons_at_the_foot_of_a_phone_cover_nothing_of_the_end(visit, phone):
    with phone(390, 780):
        page = visit(LONG)
        page.js("window.scrollTo(0, 10_000)")
        page.wait(lambda: page.rect("#why")["bottom"] <= page.rect(BUTTONS)["top"])


def test_on_a_phone_an_answer_comes_to_where_it_is_seen(visit, phone):
    with phone(390, 780):
        page = visit(LONG)
        click(page, "#mix")
        note = ".tr-scene-lines .tr-note"
        page.wait(lambda: "no take to mix yet" in page.text(note))
        page.wait(lambda: page.rect(note)["bottom"] <= page.rect(BUTTONS)["top"])
        page.wait(lambda: page.rect(note)["top"] >= page.rect("#transport")["bottom"])


def test_a_player_that_tells_of_trouble_leaves_the_buttons_free(visit):
    page = visit(f"MARA: Go <|im_end|> on.\n{LONG}\n{LONG}")
    page.press("#perform-scene")
    page.reaches("trouble")
    page.js("window.scrollTo(0, 500)")
    page.wait(lambda: page.rect("#transport")["top"] == 0)
    assert page.rect(BUTTONS)["top"] >= page.rect("#transport")["bottom"]


def test_the_place_for_clips_closes_when_its_card_takes_another_voice(visit):
    page = visit()
    choose = """const kind = document.querySelector('.tr-card [name=kind]');
                kind.value = arguments[0]; kind.dispatchEvent(new Event('change', { bubbles: true }));"""
    page.js(choose, "clips")
    page.wait(lambda: shown(page, "#clips"))
    page.js(choose, "ready")
    page.wait(lambda: not shown(page, "#clips"))


def test_every_control_has_a_name_for_a_screen_reader(visit):
    page = visit(record=False)
    click(page, ".tr-open", 1)
    page.wait(lambda: shown(page, ".tr-retake"))
    nameless = page.js(
        """return [...document.querySelectorAll('button, select, input:not([type=hidden]), textarea')]
             .filter(e => e.offsetParent && !(e.ariaLabel || e.title || e.textContent.trim() ||
                     e.closest('label') || e.labels?.length || e.getAttribute('aria-labelledby')))
             .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert nameless == []


def test_the_mix_is_downloaded(visit, driver, tmp_path):
    page = visit("MARA: Go on.")
    page.press("#perform-scene")
    page.reaches("ended")
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.wait(lambda: shown(page, ".tr-take-facts-line"))
    click(page, "#mix")
    page.wait(lambda: list(tmp_path.glob("mix*.wav")))
