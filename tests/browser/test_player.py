"""The player in a real browser: what is sent is what is heard, and what is shown is true."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from web.player import audio, clear, config, end, script, status, trouble

RATE = 24_000
FADE_S = 0.012


def known_noise(seconds: float, seed: int, rate: int = RATE) -> np.ndarray:
    """int16 noise without a zero: any few samples in a row are found in one place only."""
    num_samples = int(seconds * rate)
    noise = np.random.default_rng(seed).integers(1, 9000, num_samples)
    return (noise * np.where(np.arange(num_samples) % 3, 1, -1)).astype(np.int16)


def known_tone(seconds: float, rate: int = RATE) -> np.ndarray:
    """A 440 Hz sine at half scale: a click shows as a step larger than the sine's own."""
    return (16384 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)).astype(np.int16)


def blocks(take: str, pcm: np.ndarray, rate: int = RATE, block_s: float = 0.1, speed: float = 4.0):
    """`pcm` as audio messages, made at `speed` times real time."""
    size = int(block_s * rate)
    for seq, at in enumerate(range(0, len(pcm), size)):
        piece = pcm[at : at + size]
        time.sleep(len(piece) / rate / speed)
        yield audio(take, seq, piece)


def sends(take: str, pcm: np.ndarray, rate: int = RATE, **pace: float) -> Callable[[], Iterator[dict]]:
    """The messages of an ordinary take."""

    def run() -> Iterator[dict]:
        yield status(take, "prefill", "Reading the line")
        yield config(take, rate)
        num_blocks = 0
        for message in blocks(take, pcm, rate, **pace):
            yield message
            num_blocks += 1
        yield end(take, num_blocks, "stop", len(pcm))

    return run


def same(heard: np.ndarray, pcm: np.ndarray) -> bool:
    return np.array_equal(heard, pcm / np.float32(32768))


def without_insertions(heard: np.ndarray, pcm: np.ndarray) -> tuple[int, list[np.ndarray]]:
    """How many samples of `pcm` are in `heard`, in order and exact, and what lies between them."""
    want, at, done, between = pcm / np.float32(32768), 0, 0, []
    while done < len(want) and at < len(heard):
        both = min(len(want) - done, len(heard) - at)
        differs = np.flatnonzero(heard[at : at + both] != want[done : done + both])
        run = int(differs[0]) if len(differs) else both
        at, done = at + run, done + run
        if done == len(want):
            break
        probe = want[done : done + 8]
        starts = np.flatnonzero(heard[at:] == probe[0]) + at
        found = next((s for s in starts if np.array_equal(heard[s : s + len(probe)], probe)), None)
        if found is None:
            break
        between.append(heard[at:found])
        at = found
    return done, between


def test_what_is_sent_is_heard_bit_for_bit(page):
    pcm = known_noise(2.0, 1)
    page.open().perform(sends("a", pcm))
    stats = page.reaches("ended")
    heard, rate, _ = page.recording()
    assert rate == RATE
    assert same(heard[: len(pcm)], pcm)
    assert np.abs(heard[len(pcm) + int(FADE_S * RATE) + 1 :]).max(initial=0) == 0
    assert (stats["lost"], stats["underruns"], stats["dropped"]) == (0, 0, 0)
    assert stats["made_samples"] == stats["played_samples"] == stats["sent_samples"] == len(pcm)
    page.wait(lambda: page.js("return document.querySelector('#heard textarea').value.startsWith('a ')"))
    print(
        f"\nfrom the click: first message {stats['click_to_message_ms']:.0f} ms, first audio message "
        f"{stats['click_to_audio_ms']:.0f} ms, first sound heard {stats['click_to_sound_ms']:.0f} ms "
        f"(output delay {stats['latency_ms']:.0f} ms); {len(pcm)} of {len(pcm)} samples equal"
    )


def test_second_take_at_another_rate_and_a_very_short_one_play(page):
    first, second = known_noise(0.5, 2), known_noise(0.3, 3, 44_100)
    page.open().perform(sends("a", first))
    page.reaches("ended")
    assert same(page.recording()[0][: len(first)], first)
    page.perform(sends("b", second, 44_100, block_s=0.3))
    stats = page.wait(lambda: (s := page.stats())["take"] == "b" and s["state"] == "ended" and s)
    heard, rate, _ = page.recording()
    assert rate == 44_100
    assert same(heard[: len(second)], second)
    assert stats["lost"] == stats["underruns"] == 0


def test_a_blocked_page_loses_no_message_and_no_sample(page):
    pcm = known_noise(3.0, 4)
    page.open()
    page.js(
        "window.busy = setInterval(() => {"
        "  const start = performance.now(); while (performance.now() - start < 300); }, 380)"
    )
    page.perform(sends("a", pcm, block_s=0.05, speed=2.0))
    stats = page.reaches("ended")
    page.js("clearInterval(window.busy)")
    heard, between = without_insertions(page.recording()[0], pcm)
    assert stats["lost"] == 0
    assert heard == len(pcm)
    assert stats["underruns"] == len(between)


def test_a_stall_is_counted_once_makes_no_click_and_loses_nothing(page, stage):
    pcm = known_tone(1.0)
    cut = int(0.4123 * RATE)  # in the middle of a swing, where a bare stop would click

    def run() -> Iterator[dict]:
        yield config("a", RATE, 0.2)
        yield audio("a", 0, pcm[:cut])
        stage.gate.wait()
        yield audio("a", 1, pcm[cut:])
        yield end("a", 2, "stop", len(pcm))

    page.open().perform(run)
    page.reaches("dry")
    time.sleep(0.4)
    stage.gate.set()
    stats = page.reaches("ended")
    heard = page.recording()[0]
    own_step = np.abs(np.diff(pcm / 32768)).max()
    assert stats["underruns"] == 1
    assert stats["lost"] == 0
    assert np.abs(np.diff(heard)).max() <= own_step + 1e-6
    count, between = without_insertions(heard, pcm)
    assert count == len(pcm)
    assert len(between) == 1
    assert len(between[0]) >= 0.4 * RATE


def test_an_end_that_comes_late_is_not_an_underrun(page, stage):
    pcm = known_noise(0.4, 5)

    def run() -> Iterator[dict]:
        yield config("a", RATE, 0.1)
        yield audio("a", 0, pcm)
        stage.gate.wait()
        yield end("a", 1, "stop", len(pcm))

    page.open().perform(run)
    page.reaches("dry")
    stage.gate.set()
    assert page.reaches("ended")["underruns"] == 0


def test_stop_is_silence_and_nothing_more_is_heard_of_that_take(page, stage):
    pcm = known_tone(20.0)

    def run() -> Iterator[dict]:
        yield config("a", RATE, 0.12)
        yield audio("a", 0, pcm[: 2 * RATE])
        stage.gate.wait()
        for seq, at in enumerate(range(2 * RATE, len(pcm), RATE), start=1):
            yield audio("a", seq, pcm[at : at + RATE])
        yield status("a", "decode", "Still at it")
        yield end("a", 19, "stop", len(pcm))

    page.open().perform(run)
    page.wait(lambda: page.stats()["played_samples"] > 0.3 * RATE)
    page.js(
        "document.querySelector('#stop').addEventListener('click', () => "
        "{ window.stoppedAt = window.recordings[0].context.currentTime; }, { capture: true })"
    )
    page.press("#stop")
    page.reaches("stopped")
    stage.gate.set()
    page.wait(stage.sent_all.is_set)
    page.wait(lambda: page.stats()["dropped"] >= 20)
    heard, rate, first = page.recording()
    last = np.flatnonzero(heard)[-1]
    silent_after_s = (first + last) / rate - page.js("return window.stoppedAt")
    print(f"\nStop to silence {1000 * silent_after_s:.0f} ms")
    assert silent_after_s <= 0.3
    assert np.abs(np.diff(heard)).max() <= np.abs(np.diff(pcm / 32768)).max() + 1e-6
    assert page.stats()["state"] == "stopped"


def test_stop_before_the_first_sound_keeps_it_silent(page, stage):
    def run() -> Iterator[dict]:
        yield status("a", "queue", "Second in line")
        stage.gate.wait()
        yield from sends("a", known_noise(0.3, 6))()

    page.open().perform(run)
    page.wait(lambda: "Second in line" in page.text(".tr-detail"))
    page.press("#stop")
    stage.gate.set()
    page.wait(stage.sent_all.is_set)
    page.wait(lambda: page.stats()["dropped"] >= 6)
    assert page.stats()["state"] == "stopped"
    assert page.js("return window.recordings.every(r => r.first === null)")


def test_stop_before_the_first_message_keeps_it_silent_and_the_next_take_plays(page, stage):
    def run() -> Iterator[dict]:
        stage.gate.wait()
        yield from sends("a", known_noise(0.3, 14))()

    page.open().perform(run)
    page.press("#stop")
    stage.gate.set()
    page.wait(stage.sent_all.is_set)
    page.wait(lambda: page.stats()["dropped"] >= 6)
    assert page.stats()["state"] == "idle"
    page.perform(sends("b", known_noise(0.3, 15)))
    page.reaches("ended")


def test_a_clear_message_stops_like_the_button(page, stage):
    def run() -> Iterator[dict]:
        yield config("a", RATE, 0.1)
        yield audio("a", 0, known_noise(5.0, 7))
        stage.gate.wait()
        yield clear()

    page.open().perform(run)
    page.reaches("playing")
    stage.gate.set()
    assert page.reaches("stopped")["played_samples"] < 5 * RATE


def test_a_new_take_replaces_the_old_one_and_a_lost_message_is_counted(page, stage):
    pcm = known_noise(0.6, 8)

    def run() -> Iterator[dict]:
        yield config("old", RATE, 0.1)
        yield audio("old", 0, known_tone(3.0))
        stage.gate.wait()
        yield config("new", RATE, 0.1)
        yield audio("new", 0, pcm[:4800])
        yield audio("old", 1, known_tone(1.0))
        yield audio("new", 3, pcm[4800:])
        yield end("new", 5, "stop", len(pcm))

    page.open().perform(run)
    page.wait(lambda: page.stats()["played_samples"] > 2400)
    stage.gate.set()
    stats = page.wait(lambda: (s := page.stats())["take"] == "new" and s["state"] == "ended" and s)
    assert stats["lost"] == 3
    assert stats["dropped"] == 1
    assert page.text(".tr-meter:nth-child(5) dd") == "3"
    heard = page.recording()[0]
    start = next(
        s for s in np.flatnonzero(heard == pcm[0] / np.float32(32768)) if same(heard[s : s + 32], pcm[:32])
    )
    assert same(heard[start : start + len(pcm)], pcm)


def test_pause_and_play_again_change_no_sample(page):
    pcm = known_noise(1.2, 9)
    page.open().perform(sends("a", pcm, speed=8.0))
    page.wait(lambda: page.stats()["played_samples"] > 2400)
    page.press(".tr-button")
    page.reaches("paused")
    page.press(".tr-button")
    page.reaches("ended")
    heard = page.recording()[0]
    count, between = without_insertions(heard, pcm)
    assert count == len(pcm)
    assert len(between) == 1
    page.press(".tr-button")
    page.wait(lambda: page.stats()["state"] == "playing")
    page.reaches("ended")
    again = page.recording()[0][len(heard) :]
    start = np.flatnonzero(again == pcm[0] / np.float32(32768))
    assert any(same(again[s : s + len(pcm)], pcm) for s in start)


def test_where_sound_needs_a_tap_the_tap_plays_from_the_start(page):
    pcm = known_noise(1.0, 10)
    page.open(host="127.0.0.1").perform(sends("a", pcm, speed=8.0), by_hand=False)
    stats = page.reaches("blocked")
    page.wait(lambda: page.stats()["made_samples"] == len(pcm))
    assert stats["context"] == "suspended"
    assert page.element(".tr-button").text == "Tap to hear"
    page.press(".tr-button")
    page.reaches("ended")
    assert same(page.recording()[0][: len(pcm)], pcm)


def test_without_a_worklet_the_finished_take_plays_and_says_so(page, stage):
    pcm = known_noise(0.8, 11)

    def run() -> Iterator[dict]:
        yield config("a", RATE)
        yield from blocks("a", pcm, speed=8.0)
        stage.gate.wait()
        yield end("a", 8, "stop", len(pcm))

    page.open(host="plain.test", record=False).perform(run)  # not https and not localhost: no AudioWorklet
    page.wait(lambda: page.stats()["made_samples"] == len(pcm))
    assert "when it is ready" in page.text(".tr-detail")
    assert page.stats()["state"] == "busy"
    stage.gate.set()
    if page.reaches("ended", "playing", "blocked")["state"] == "blocked":
        page.press(".tr-button")
    assert page.reaches("ended")["mode"] == "file"
    wav = page.driver.execute_async_script(
        "const done = arguments[0]; window.tableread.file().arrayBuffer().then(b => "
        "done(btoa(String.fromCharCode(...new Uint8Array(b, 0, 44))) + '|' + [...new Int16Array(b, 44)]))"
    )
    head, samples = wav.split("|")
    assert base64.b64decode(head)[:4] == b"RIFF"
    assert np.array_equal(np.array(samples.split(","), np.int16), pcm)


@pytest.mark.parametrize(
    "text", ["${1+1}", "a ${ b", "<img src=x onerror=document.title='owned'>", "{{value}}"]
)
def test_text_is_shown_as_it_is(page, stage, text):
    def run() -> Iterator[dict]:
        yield status(text, text, text)
        stage.gate.wait()
        yield trouble(text, text)

    page.open(record=False).perform(run)
    page.wait(lambda: page.text(".tr-detail") == text)
    stage.gate.set()
    page.reaches("trouble")
    assert page.text(".tr-detail") == text
    assert page.js("return document.title") == "Player"
    assert not page.js("return document.querySelector('.tr-player img')")


def test_trouble_in_the_middle_plays_what_was_made_and_tells(page):
    pcm = known_noise(0.5, 12)

    def run() -> Iterator[dict]:
        yield config("a", RATE)
        yield from blocks("a", pcm)
        yield trouble("a", "The graphics card ran out of memory; try a shorter line.")

    page.open().perform(run)
    stats = page.reaches("trouble")
    assert stats["played_samples"] == len(pcm)
    assert same(page.recording()[0][: len(pcm)], pcm)
    assert page.text(".tr-detail").startswith("The graphics card")


def test_it_fits_a_phone_and_answers_the_keyboard(page, phone):
    page.driver.set_window_size(500, 800)  # the narrowest a window gets; the page is narrowed further below
    try:
        with phone(360, 740):
            page.open(record=False).perform(sends("a", known_noise(0.3, 13)))
            page.reaches("ended")
            assert page.js("return document.documentElement.scrollWidth") <= 360
            button = page.element(".tr-button")
            assert button.get_attribute("aria-label") == "Play again"
            assert button.is_enabled()
            page.js("document.querySelector('.tr-button').focus()")
            button.send_keys("\ue007")  # Enter
            page.reaches("playing")
            assert button.get_attribute("aria-label") == "Pause"
            assert page.js("return document.querySelector('.tr-words').getAttribute('aria-live')") == "polite"
    finally:
        page.driver.set_window_size(1280, 900)


def test_a_message_carries_little_endian_int16_and_nothing_else():
    message = audio("a", 3, np.array([1, -2], np.int16))
    assert message == {
        "kind": "audio",
        "take": "a",
        "seq": 3,
        "pcm": base64.b64encode(b"\1\0\xfe\xff").decode(),
    }
    with pytest.raises(TypeError, match="float32"):
        audio("a", 0, np.zeros(4, np.float32))


def test_the_script_carries_its_style_and_puts_no_text_through_html():
    code = script()
    assert ".tr-player" in code
    assert "@@" not in code
    assert not any(trap in code for trap in ("innerHTML =", "insertAdjacentHTML", "outerHTML", "eval("))
