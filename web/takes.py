"""The list of a session's takes: a `gr.HTML` drawn by its own script, so that no word passes a template."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import gradio as gr

from web.shelf import Take

TEMPLATE = """<p class="tr-takes-title" id="tr-takes-title">Your takes</p>
<p class="tr-takes-empty">Every take you make is listed here.</p>
<ol class="tr-takes-list" aria-labelledby="tr-takes-title"></ol>"""
ENDS = {"length": "ended at its length limit", "deadline": "ended at its time limit", "cancelled": "cut"}
FLAGS = {
    "ran_long": "ran long",
    "split": "in {} pieces",
    "history_dropped": "without the {} oldest lines",
    "unread": "{} characters left out that it can't read",
}


def take_list() -> gr.HTML:
    """The component; its value is a list of {line, facts}, its `submit` event carries the chosen `index`."""
    script = (Path(__file__).parent / "takes.js").read_text(encoding="utf-8")
    return gr.HTML([], html_template=TEMPLATE, js_on_load=script, apply_default_css=False, elem_id="takes")


def entry(take: Take) -> dict[str, str]:
    """A take in the list: its line, and its length, seed and what else is to be known."""
    card = take.card
    end = ENDS.get(card["finish_reason"])
    facts = [f"{take.audio_s:.1f} s", *([end] if end else []), *in_words(card["flags"])]
    if card.get("performed", card["text"]) != card["text"]:
        facts.append(f"spoken: {card['performed']}")
    return {"line": card["text"], "facts": " · ".join([*facts, f"seed {card['seed']}"])}


def in_words(flags: Iterable[str]) -> list[str]:
    """A take's flags for a person: "split(3)" is "in 3 pieces"."""
    parts = [flag.rstrip(")").partition("(") for flag in flags]
    return [FLAGS.get(name, name).format(count) for name, _, count in parts]
