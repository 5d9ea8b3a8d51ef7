"""The whole page in a browser, with the tiny checkpoint: what a visitor presses, hears and keeps."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile as sf

import app
from web import gpu
from web.handlers import Stage
from web.queue import Gate
from web.shelf import Shelf

LINE = "Go on, tell me."
LONG = "Words and more words, and then again some words. " * 12


@pytest.fixture(scope="module")
def tableread(drama3_tiny):
    """The served page: its stage, and its address as the harness wants it."""
    shelf = Shelf()
    stage = Stage(gpu.open_house(str(drama3_tiny / "checkpoint")), Gate(), shelf)
    blocks = app.build(stage, "A test performs here.")
    _, address, _ = blocks.queue().launch(prevent_thread_lock=True, quiet=True, ssr_mode=False, **app.LOOKS)
    stage.url = address.replace("127.0.0.1", "localhost")
    yield stage
    blocks.close(verbose=False)
    shelf.close()


@pytest.fixture
def visit(page, tableread, monkeypatch):
    """Open the page with a recorder at its output."""
    monkeypatch.setattr(page.stage, "url", tableread.url)

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


def test_a_pressed_line_is_heard_sample_for_sample_as_its_file_holds_it(visit, tableread):
    page = visit()
    open_more(page)
    write(page, LINE)
    page.press("#perform")
    told = page.reaches("ended")
    heard, rate, _ = page.recording()
    page.wait(lambda: "7" in table(page))
    (take,) = [
        each for takes in tableread.shelf._takes.values() for each in takes if each.card["text"] == LINE
    ]
    wanted, file_rate = sf.read(take.wav, dtype="int16")
    sent = wanted.astype(np.float32) / 32768
    start = int(np.flatnonzero(sent)[0])
    first = int(np.flatnonzero(heard)[0])
    assert (rate, told["lost"], told["underruns"]) == (file_rate, 0, 0)
    assert np.array_equal(heard[first : first + len(sent) - start], sent[start:])


def test_stop_silences_the_take_keeps_what_was_heard_and_frees_the_next(visit, tableread):
    page = visit()
    open_more(page)
    write(page, LONG)
    page.press("#perform")
    page.reaches("playing")
    page.press("#stop")
    assert page.reaches("stopped")
    page.wait(lambda: "cancelled" in table(page))
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
        wide = page.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0


def test_every_control_has_a_name_for_a_screen_reader(visit):
    page = visit(record=False)
    nameless = page.js(
        """return [...document.querySelectorAll('button, input:not([type=hidden]), textarea')]
             .filter(e => e.offsetParent && !(e.ariaLabel || e.title || e.textContent.trim() ||
                     e.closest('label') || e.labels?.length || e.getAttribute('aria-labelledby')))
             .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
