"""The list of a session's takes: a `gr.HTML` drawn by its own script, so that no word passes a template."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

TEMPLATE = """<p class="tr-takes-title" id="tr-takes-title">Your takes</p>
<p class="tr-takes-empty">Every take you make is listed here.</p>
<ol class="tr-takes-list" aria-labelledby="tr-takes-title"></ol>"""


def take_list() -> gr.HTML:
    """The component; its value is a list of {line, facts}, its `submit` event carries the chosen `index`."""
    script = (Path(__file__).parent / "takes.js").read_text(encoding="utf-8")
    return gr.HTML([], html_template=TEMPLATE, js_on_load=script, apply_default_css=False, elem_id="takes")
