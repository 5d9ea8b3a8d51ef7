"""The tab "Line": one line, one voice, and the takes of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from gradio.components import Component

from engine.reading import writes_numbers
from engine.take import Sampling
from web.clips import clip_fields
from web.handlers import CLIPS, DESCRIBED, OWN, READY, Stage
from web.takes import take_list

ASSETS = Path(__file__).resolve().parent.parent / "assets"
EXAMPLES = json.loads((ASSETS / "page" / "examples.json").read_text(encoding="utf-8"))["lines"]
PERFORM = "perform"  # the button that asks for sound
QUIET = {"show_progress": "hidden", "api_visibility": "private"}


@dataclass(frozen=True)
class VoiceFields:
    """Whose voice it is: the kind, and what each kind asks for."""

    kind: gr.Radio
    ready: gr.Dropdown
    words: list[gr.Textbox]  # description, name, scene
    clips: list[Component]


def line_tab(stage: Stage, player: gr.HTML, key: gr.BrowserState, others: list) -> list[Component]:
    """Lay the tab out and wire it; sound goes to `player`, takes belong to `key`, and a take ends the
    `others`. Returns what shows the takes: the files and the card of one, and the list of all."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=320):
            line = _line_fields(stage)
            voice = _voice_fields(stage)
            draw = _draw_fields(stage)
            with gr.Row(elem_classes="bar"):
                perform = gr.Button("Perform", variant="primary", min_width=120, elem_id=PERFORM)
                stop = gr.Button("Stop", min_width=100, elem_id="stop")
        with gr.Column(scale=2, min_width=320):
            files = _take_fields()
            takes = take_list()
    _examples(line[0], voice)

    inputs = [*line, voice.kind, voice.ready, *voice.words, *draw, key, *voice.clips]
    shown = [*files, takes]
    sounding = {"concurrency_limit": 16, "trigger_mode": "once", "cancels": others, **QUIET}
    run = perform.click(stage.perform_line, inputs, [player, *shown], **sounding)
    stop.click(None, js="() => window.tableread.stop()", cancels=[run], api_visibility="private").then(
        stage.keep_cut_take, key, shown, **QUIET
    )
    takes.submit(stage.fetch_take, key, files, **QUIET)
    return shown


def _line_fields(stage: Stage) -> list[Component]:
    """What is said, and how."""
    can_direct, model = stage.family.capabilities.direct, stage.family.name
    text = gr.Textbox(
        EXAMPLES[0]["text"], label="Line", lines=4, max_lines=12, max_length=5000, elem_id="line"
    )
    hint = "colder, slower" if can_direct else f"{model} can't be directed"
    direction = gr.Textbox("", label="Direction", max_length=200, placeholder=hint, interactive=can_direct)
    return [text, direction]


def _voice_fields(stage: Stage) -> VoiceFields:
    """The kinds of a voice that the model can follow; of their fields those of the chosen kind are shown."""
    able, model = stage.family.capabilities, stage.family.name
    kinds = [READY, *([DESCRIBED] if able.describe else []), *([CLIPS] if able.clone else []), OWN]
    kind = gr.Radio(kinds, value=READY, label="Voice")
    choices = [(each.about, each.id) for each in stage.voices.values()]
    ready = gr.Dropdown(choices, label="Who", filterable=False, elem_id="who")
    with gr.Group(visible=False) as described:
        describe = gr.Textbox(EXAMPLES[0]["describe"], label="Description", max_length=2000)
        with gr.Row():
            name = gr.Textbox("", label="Name", max_length=200, min_width=140)
            scene = gr.Textbox("", label="Scene", max_length=2000, min_width=140)
    with gr.Group(visible=False) as cloned:
        clips = clip_fields(stage.words_of)
    if not able.clone:
        gr.Markdown(
            f"{model} can't follow a clip; a checkpoint of Drama 3's layout can.", elem_classes="hint"
        )
    groups = {READY: ready, DESCRIBED: described, CLIPS: cloned}
    kind.change(
        lambda chosen: [gr.update(visible=chosen == each) for each in groups],
        kind,
        list(groups.values()),
        **QUIET,
    )
    return VoiceFields(kind, ready, [describe, name, scene], clips)


def _draw_fields(stage: Stage) -> list[Component]:
    """Seed, sampling and how numbers are read, under "More"."""
    usual = Sampling()
    with gr.Accordion("More", open=False):
        seed = gr.Textbox(
            "",
            label="Seed",
            max_length=20,
            elem_id="seed",
            info="Empty: a new one each time. The same seed gives the same take.",
        )
        temperature = gr.Slider(0, 2, usual.temperature, step=0.05, label="Temperature")
        top_p = gr.Slider(0.05, 1, usual.top_p, step=0.01, label="Top-p")
        top_k = gr.Number(0, label="Top-k", precision=0, minimum=0, info="0: the model's own rule.")
        able = stage.family.capabilities
        numbers = gr.Checkbox(
            writes_numbers(able, None), label="Write numbers and abbreviations out as words"
        )
    return [seed, temperature, top_p, top_k, numbers]


def _take_fields() -> list[Component]:
    """The files and the card of one take."""
    with gr.Row():
        wav = gr.DownloadButton("WAV", size="sm", min_width=100, interactive=False, elem_id="wav")
        flac = gr.DownloadButton("FLAC", size="sm", min_width=100, interactive=False)
    with gr.Accordion("Take card", open=False):
        card = gr.JSON({}, show_label=False, elem_id="card")
    return [wav, flac, card]


def _examples(text: gr.Textbox, voice: VoiceFields) -> None:
    fields = ("text", "describe", "name", "scene")
    gr.Examples(
        [[DESCRIBED, *(each[field] for field in fields)] for each in EXAMPLES],
        [voice.kind, text, *voice.words],
        label="Lines to try",
        example_labels=[f"{each['name']}: {_first_sentence(each['text'])}" for each in EXAMPLES],
        cache_examples=False,
    )


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?…]) ", text)[0]
