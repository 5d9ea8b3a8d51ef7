"""A small page with the player on it, and a headless Chromium that listens to what leaves the player.

The page's button performs a take whose samples are known. A recorder sits between the player and the output,
so that a test sees what would be heard, sample for sample.
"""

from __future__ import annotations

import base64
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest

from tests.processes import free_port
from web.player import player

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = "This needs Chromium: apt-get install chromium chromium-driver"
PATIENCE_S = 40  # how long to wait for what must come; a busy machine may take its time

# A worklet that passes sound through and keeps it, from the first block that isn't silent.
RECORDER = """
const code = `registerProcessor("recorder", class extends AudioWorkletProcessor {
  constructor() { super(); this.full = []; this.on = false; this.port.onmessage = () => this.flush(); }
  flush() { this.port.postMessage({ blocks: this.full, at: currentFrame }); this.full = []; }
  process([[input]], [[output]]) {
    if (!input) return true;
    output.set(input);
    if (!this.on && input.some(x => x)) { this.on = true; this.port.postMessage({ first: currentFrame }); }
    if (this.on) this.full.push(input.slice());
    return true;
  }
});`;
window.recordings = [];
window.tableread.tap = async (context, node) => {
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const recorder = new AudioWorkletNode(context, "recorder", { outputChannelCount: [1] });
  const recording = { rate: context.sampleRate, first: null, blocks: [], context, recorder, waiting: null };
  recorder.port.onmessage = ({ data }) => {
    if (data.first !== undefined) { recording.first = data.first; return; }
    recording.blocks.push(...data.blocks);
    recording.waiting?.();
  };
  window.recordings.push(recording);
  node.connect(recorder);
  return recorder;
};
"""
COLLECT = """
const [which, done] = arguments;
const recording = window.recordings.at(which);
const answer = () => {
  const all = new Float32Array(recording.blocks.reduce((n, b) => n + b.length, 0));
  recording.blocks.reduce((at, b) => (all.set(b, at), at + b.length), 0);
  const bytes = new Uint8Array(all.buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  done({ rate: recording.rate, first: recording.first, data: btoa(text) });
};
if (recording.context.state === "running") {
  recording.waiting = answer;
  recording.recorder.port.postMessage("flush");
} else answer();
"""


class Stage:
    """The served page and what a test decides: the messages behind its Perform button, when they go on."""

    def __init__(self) -> None:
        self.script: Callable[[], Iterator[dict]] = lambda: iter(())
        self.gate = threading.Event()  # a script may wait for it
        self.sent_all = threading.Event()
        self.url = ""

    def play(self) -> Iterator[dict]:
        yield from self.script()
        self.sent_all.set()


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    stage = Stage()
    with gr.Blocks(title="Player") as demo:
        component = player(ask="perform", sample_rate=24_000)
        with gr.Row():
            perform = gr.Button("Perform", elem_id="perform", variant="primary")
            stop = gr.Button("Stop", elem_id="stop")
        heard = gr.Textbox(elem_id="heard", label="First sound, told to the server")
        perform.click(stage.play, None, component, show_progress="hidden", api_name="play")
        stop.click(None, None, None, js="() => { window.tableread.stop(); }")
        component.started(keep_started, None, heard, show_progress="hidden")
    port = free_port()
    demo.queue(default_concurrency_limit=8)
    demo.launch(
        server_name="127.0.0.1", server_port=port, prevent_thread_lock=True, quiet=True, ssr_mode=False,
        enable_monitoring=False,
    )  # fmt: skip
    stage.url = f"http://localhost:{port}/"
    yield stage
    demo.close(verbose=False)


def keep_started(event: gr.EventData) -> str:
    return f"{event.take} {event.click_to_sound_ms}"


class Page:
    """The player as a person and a microphone meet it."""

    def __init__(self, driver: Any, stage: Stage) -> None:
        self.driver = driver
        self.stage = stage

    def open(self, host: str = "localhost", query: str = "", record: bool = True) -> Page:
        self.stage.gate.clear()
        self.stage.sent_all.clear()
        self.driver.get(self.stage.url.replace("localhost", host) + query)
        there = "return Boolean(window.tableread && document.querySelector('#perform, #perform-scene'))"
        self.wait(lambda: self.js(there))
        if record:
            self.js(RECORDER)
        return self

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def element(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def write(self, selector: str, text: str) -> None:
        """Put `text` in the place of what a field holds, as a paste does."""
        self.js("const field = document.querySelector(arguments[0]); field.focus(); field.select()", selector)
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def forget(self) -> None:
        """Take away what the page keeps in the browser."""
        origin = {"origin": self.stage.url, "storageTypes": "local_storage"}
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", origin)

    def press(self, selector: str) -> None:
        self.element(selector).click()

    def rect(self, selector: str) -> dict:
        """Where an element lies on the screen, in CSS pixels."""
        return self.js(
            "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector
        )

    def text(self, selector: str) -> str:
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, true: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE_S
        while not (value := true()):
            if time.monotonic() > end:
                raise TimeoutError(f"It did not come in {PATIENCE_S} s; the player says {self.stats()}")
            time.sleep(0.05)
        return value

    def stats(self) -> dict:
        return self.js("return window.tableread?.stats()")

    def reaches(self, *states: str) -> dict:
        """Waits for one of these states of the player and answers its figures."""
        return self.wait(lambda: (s := self.stats())["state"] in states and s)

    def perform(self, script: Callable[[], Iterator[dict]], by_hand: bool = True) -> None:
        """Presses Perform; not `by_hand`: from a script, which gives the page no permission to sound."""
        self.stage.script = script
        self.stage.sent_all.clear()
        if by_hand:
            self.element("#perform").click()
        else:
            self.js("document.querySelector('#perform').click()")

    def recording(self, which: int = -1) -> tuple[np.ndarray, int, int]:
        """What left the player: float32 samples from the block of the first sound on, its rate and frame."""
        got = self.driver.execute_async_script(COLLECT, which)
        return np.frombuffer(base64.b64decode(got["data"]), np.float32), got["rate"], got["first"]


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Iterator[Any]:
    if not (CHROMIUM and DRIVER):
        pytest.skip(MISSING)
    from selenium import webdriver  # late: only these tests need it

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile: Path = tmp_path_factory.mktemp("chromium")
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--autoplay-policy=document-user-activation-required",
        "--host-resolver-rules=MAP plain.test 127.0.0.1",
        "--window-size=1280,900",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    browser = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    browser.set_script_timeout(PATIENCE_S)
    yield browser
    browser.quit()


@pytest.fixture
def phone(driver) -> Callable[[int, int], AbstractContextManager[None]]:
    """`with phone(width, height)`: the browser shows pages as a phone of that size does."""

    @contextmanager
    def shown(width: int, height: int) -> Iterator[None]:
        screen = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        try:
            yield
        finally:
            driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    return shown


@pytest.fixture
def page(driver, stage) -> Page:
    return Page(driver, stage)


@pytest.fixture
def tableread(page, house, monkeypatch) -> Page:
    """The same browser before the whole page."""
    monkeypatch.setattr(page.stage, "url", house.address.replace("127.0.0.1", "localhost"))
    return page
