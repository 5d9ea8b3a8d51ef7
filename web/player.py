"""The player on the page: a `gr.HTML` that turns numbered messages into gapless sound, and its messages.

`player.js` opens with the protocol. A handler yields one message at a time into the component:

    stage = player(ask="perform", sample_rate=engine.family.sample_rate)
    perform.click(perform_line, inputs, [stage, ...])

The messages are plain JSON, so that whoever calls the same endpoint without a page gets the same sound.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

START_BUFFER_S = 0.12  # dry-free from 1.3 times real time on; a slower engine needs more
HERE = Path(__file__).parent

# What the endpoint's description says of a message; Gradio would call the value of a gr.HTML a string.
MESSAGE = {
    "title": "player message",
    "type": "object",
    "description": "kind: status, config, mark, audio, end, trouble or clear; pcm is base64 of int16 mono",
}


def player(
    ask: str | None = None, sample_rate: int | None = None, elem_id: str = "tableread-player"
) -> gr.HTML:
    """The component. One a page.

    `ask` are the elem_ids, with spaces between, of the buttons that ask for a take: their click starts the
    clock of "first sound" (without it, any click does). `sample_rate`, if known before the first take, lets
    the first click open the output, which some browsers only permit inside a click; each take's own rate
    decides.
    """
    component = gr.HTML(
        {},
        label="Player",
        html_template='<div class="tr-player"></div>',
        js_on_load=script(),
        apply_default_css=False,
        elem_id=elem_id,
        ask=ask,
        sample_rate=sample_rate,
    )
    component.api_info_as_output = lambda: MESSAGE
    return component


def player_messages() -> gr.HTML:
    """The same messages for an endpoint without a page."""
    component = gr.HTML({}, html_template="", visible=False, label="message")
    component.api_info_as_output = lambda: MESSAGE
    return component


def script() -> str:
    """player.js with the style sheet in it. As a css_template it would be parsed anew at every message."""
    style = json.dumps((HERE / "player.css").read_text(encoding="utf-8"))
    return (HERE / "player.js").read_text(encoding="utf-8").replace('"@@player.css@@"', style)


def status(take: str, phase: str, detail: str = "") -> dict[str, Any]:
    """What happens before there is sound: `detail` is a sentence for a person, `phase` one word."""
    return {"kind": "status", "take": take, "phase": phase, "detail": detail}


def config(
    take: str, sample_rate: int, start_buffer_s: float = START_BUFFER_S, name: str = "Take"
) -> dict[str, Any]:
    """Opens a take at its rate in Hz. Sound starts once `start_buffer_s` of it are there, or all of it.
    `name` is what a person calls it: "Take", "Scene"."""
    return {
        "kind": "config",
        "take": take,
        "sample_rate": int(sample_rate),
        "start_buffer_s": float(start_buffer_s),
        "name": name,
    }


def audio(take: str, seq: int, pcm: np.ndarray) -> dict[str, Any]:
    """A piece of sound: `pcm` int16 [n] mono, `seq` counts from 0 within the take.

    Raises TypeError for another dtype or shape: a float that slips in would be heard as noise.
    """
    if pcm.dtype != np.int16 or pcm.ndim != 1:
        raise TypeError(f"The player takes int16 [n], not {pcm.dtype} {list(pcm.shape)}.")
    data = base64.b64encode(pcm.astype("<i2", copy=False).tobytes()).decode("ascii")
    return {"kind": "audio", "take": take, "seq": int(seq), "pcm": data}


def mark(take: str, at: int, lines: Sequence[str], label: str = "") -> dict[str, Any]:
    """From sample `at` of the take on, `lines` (whatever the page calls them) sound; none where it is silent.
    `label` says so to a person."""
    return {"kind": "mark", "take": take, "at": int(at), "lines": list(lines), "label": label}


def end(take: str, seq: int, reason: str, samples: int | None = None) -> dict[str, Any]:
    """The take is whole: `seq` audio messages were sent, with `samples` samples; `reason` as in `Done`."""
    return {"kind": "end", "take": take, "seq": int(seq), "reason": reason, "samples": samples}


def trouble(take: str, sentence: str) -> dict[str, Any]:
    """The take failed; `sentence` says so to a person. What was sent before still plays."""
    return {"kind": "trouble", "take": take, "sentence": sentence}


def clear() -> dict[str, Any]:
    """Stop what sounds. A page's Stop button does the same at once with `window.tableread.stop()`."""
    return {"kind": "clear"}
