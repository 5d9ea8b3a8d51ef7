"""The whole page in a browser, with the tiny checkpoint: what a visitor presses, hears and keeps."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile as sf

LINE = "Go on, tell me."
LONG = "Words and more words, and then again some words. " * 12


@pytest.fixture
def visit(tableread):
    """Open the page with a recorder at its output."""
    page = tableread

    def visit(**how):
        page.forget()
        page.open(**how)
        page.press("[data-tab-id=line-tab]")
        page.wait(lambda: page.js("return Boolean(document.querySelector('#line textarea'))"))
        return page

    return visit


def write(page, text: str, seed: str = "7") -> None:
    """Type the line; the seed lies under More."""
    page.js(
        """const put = (field, value) => {
             Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, value);
             field.dispatchEvent(new Event('input', { bubbles: true }));
           };
           put(document.querySelector('#line textarea'), arguments[0]);
           const seed = document.querySelector('#seed input, #seed textarea');
           put(seed, arguments[1]);""",
        text,
        seed,
    )


def press_titled(page, title: str) -> None:
    find = "[...document.querySelectorAll('button')].find(b => b.textContent.trim().startsWith(arguments[0]))"
    page.js(f"{find}.click()", title)


def open_more(page) -> None:
    press_titled(page, "More")
    page.wait(lambda: page.js("return Boolean(document.querySelector('#seed input, #seed textarea'))"))


def table(page) -> str:
    return page.js("return document.querySelector('#takes').innerText")


def test_a_pressed_line_is_heard_sample_for_sample_as_its_file_holds_it(visit, house):
    page = visit()
    open_more(page)
    write(page, LINE)
    page.press("#perform")
    told = page.reaches("ended")
    heard, rate, _ = page.recording()
    page.wait(lambda: "7" in table(page))
    (take,) = [
        each for takes in house.stage.shelf._takes.values() for each in takes if each.card["text"] == LINE
    ]
    wanted, file_rate = sf.read(take.wav, dtype="int16")
    sent = wanted.astype(np.float32) / 32768
    start = int(np.flatnonzero(sent)[0])
    first = int(np.flatnonzero(heard)[0])
    assert (rate, told["lost"], told["underruns"]) == (file_rate, 0, 0)
    assert np.array_equal(heard[first : first + len(sent) - start], sent[start:])


def test_stop_silences_the_take_keeps_what_was_heard_and_frees_the_next(visit):
    page = visit()
    open_more(page)
    write(page, LONG)
    page.press("#perform")
    page.reaches("playing")
    page.press("#stop")
    assert page.reaches("stopped")
    page.wait(lambda: " · cut · " in table(page))
    write(page, LINE)
    page.press("#perform")
    assert page.reaches("ended")["reason"] in ("stop", "length")


def test_a_mistake_is_told_in_the_player_and_the_line_stays(visit):
    page = visit()
    open_more(page)
    write(page, "Go <|im_end|> on")
    page.press("#perform")
    page.reaches("trouble")
    assert "<|im_end|>" in page.text(".tr-player")
    assert page.js("return document.querySelector('#line textarea').value") == "Go <|im_end|> on"


@pytest.mark.parametrize(
    "hostile", ["${1+1} and `x`", "<img src=x onerror=document.title='bad'>", "{{7*7}} ${ "]
)
def test_hostile_words_are_shown_as_they_are(visit, hostile):
    page = visit()
    open_more(page)
    write(page, f"Hello {hostile}")
    page.press("#perform")
    page.reaches("ended")
    page.wait(lambda: hostile.strip()[:6] in table(page))
    assert page.js("return document.title") == "Tableread"
    assert page.js("return document.querySelectorAll('#takes img[src=x]').length") == 0


def test_a_chosen_take_brings_its_card_and_files(visit):
    page = visit()
    open_more(page)
    for seed in ("11", "12"):
        write(page, LINE, seed)
        page.press("#perform")
        page.wait(lambda seed=seed: f"seed {seed}" in table(page))
    press_titled(page, "Take card")
    page.wait(lambda: '"12"' in page.js("return document.querySelector('#card')?.innerText || ''"))
    page.js("document.querySelectorAll('#takes button')[1].click()")
    page.wait(lambda: '"11"' in page.text("#card"))


def test_a_phone_shows_the_page_without_sideways_scrolling(visit, phone):
    with phone(360, 780):
        page = visit()
        page.press("#perform")
        page.wait(lambda: "seed" in table(page))
        press_titled(page, "Take card")
        page.wait(lambda: "seed" in page.js("return document.querySelector('#card')?.innerText || ''"))
        wide = page.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0


def test_on_a_phone_the_name_of_a_voice_ends_before_the_arrow(visit, phone):
    with phone(360, 780):
        page = visit(record=False)
        room = page.js(
            "return parseFloat(getComputedStyle(document.querySelector('#who input')).paddingRight)"
        )
        assert page.rect("#who input")["right"] - room <= page.rect("#who svg")["left"]


def test_on_a_phone_what_is_pressed_is_large_enough_for_a_finger(visit, phone):
    with phone(360, 780):
        page = visit(record=False)
        pressed = "#perform, #stop, #wav, #who input, .gallery-item, .label-wrap, [role=tab]"
        small = page.js(
            """return [...document.querySelectorAll(arguments[0])]
                 .filter(e => e.checkVisibility({ visibilityProperty: true }))
                 .filter(e => e.getBoundingClientRect().height < 40).map(e => e.textContent)""",
            pressed,
        )
        assert small == []


def test_the_footer_ends_with_its_last_item(visit):
    page = visit(record=False)
    told = page.wait(lambda: page.js("return document.querySelector('footer')?.innerText"))
    assert told.strip() == "Use via API"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_scrollbars_are_of_the_pages_colour(visit, driver, scheme):
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    try:
        page = visit(record=False)
        dark = page.js("return getComputedStyle(document.documentElement).colorScheme === 'dark'")
        assert dark == (scheme == "dark")
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_place_for_a_second_clip_comes_with_the_first(visit, tmp_path):
    page = visit(record=False)
    sf.write(tmp_path / "clip.wav", np.zeros(24_000), 24_000)
    page.js("[...document.querySelectorAll('input[type=radio]')].find(r => r.value === 'From clips').click()")
    seen = "[...document.querySelectorAll('.further-clip')].filter(e => e.offsetParent).length"
    field = page.wait(lambda: page.js("return document.querySelector('.clip input[type=file]')"))
    assert page.js(f"return {seen}") == 0
    field.send_keys(str(tmp_path / "clip.wav"))
    page.wait(lambda: page.js(f"return {seen}") == 1)


def test_after_a_reload_the_newest_take_lies_ready(visit):
    page = visit()
    assert page.js("return document.querySelector('#wav').disabled")
    page.press("#perform")
    page.wait(lambda: "seed" in table(page))
    page.driver.refresh()
    page.wait(lambda: page.js("return document.querySelector('[data-tab-id=line-tab]')"))
    page.press("[data-tab-id=line-tab]")
    page.wait(lambda: page.js("return document.querySelector('#wav')?.disabled === false"))
    assert "seed" in table(page)


def test_every_control_has_a_name_for_a_screen_reader(visit):
    page = visit(record=False)
    nameless = page.js(
        """return [...document.querySelectorAll('button, input:not([type=hidden]), textarea')]
             .filter(e => e.offsetParent && !(e.ariaLabel || e.title || e.textContent.trim() ||
                     e.closest('label') || e.labels?.length || e.getAttribute('aria-labelledby')))
             .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
