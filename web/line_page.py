"""The tab "Line": one line, one voice, and the takes of it."""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

from engine.take import Sampling
from web.handlers import CLIPS, DESCRIBED, OWN, READY, Stage
from web.recogniser import words_hint
from web.takes import take_list

ASSETS = Path(__file__).resolve().parent.parent / "assets"
EXAMPLES = json.loads((ASSETS / "page" / "examples.json").read_text(encoding="utf-8"))["lines"]
PERFORM = "perform"  # the button that asks for sound


def line_tab(stage: Stage, player: gr.HTML, key: gr.BrowserState, others: list) -> gr.HTML:
    """Lay the tab out and wire it; sound goes to `player`, takes belong to `key`, and a
    take ends the `others`. Returns the list of takes."""
    able, model = stage.engine.family.capabilities, stage.engine.family.name
    kinds = [READY, *([DESCRIBED] if able.describe else []), *([CLIPS] if able.clone else []), OWN]
    ask = words_hint()
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=320):
            text = gr.Textbox(
                EXAMPLES[0]["text"], label="Line", lines=4, max_lines=12, max_length=5000, elem_id="line"
            )
            direction = gr.Textbox(
                "",
                label="Direction",
                max_length=200,
                placeholder="colder, slower" if able.direct else f"{model} can't be directed",
                interactive=able.direct,
            )
            voice = gr.Radio(kinds, value=READY, label="Voice")
            choices = [(each.about, each.id) for each in stage.voices.values()]
            ready = gr.Dropdown(choices, label="Who", filterable=False)
            with gr.Group(visible=False) as described:
                describe = gr.Textbox(EXAMPLES[0]["describe"], label="Description", max_length=2000)
                with gr.Row():
                    name = gr.Textbox("", label="Name", max_length=200, min_width=140)
                    scene = gr.Textbox("", label="Scene", max_length=2000, min_width=140)
            with gr.Group(visible=False) as clips:
                clip = gr.Audio(type="filepath", label="Clip, 1 to 60 seconds of one voice")
                words = gr.Textbox("", label="What is said in it", info=ask, max_length=2000)
                with gr.Accordion("A second clip", open=False):
                    clip_2 = gr.Audio(type="filepath", label="Second clip")
                    words_2 = gr.Textbox("", label="What is said in the second clip", max_length=2000)
            if not able.clone:
                gr.Markdown(
                    f"{model} can't follow a clip; a checkpoint of Drama 3's layout can.",
                    elem_classes="hint",
                )
            with gr.Accordion("More", open=False):
                seed = gr.Textbox(
                    "",
                    label="Seed",
                    max_length=20,
                    elem_id="seed",
                    info="Empty: a new one each time. The same seed gives the same take.",
                )
                usual = Sampling()
                temperature = gr.Slider(0, 2, usual.temperature, step=0.05, label="Temperature")
                top_p = gr.Slider(0.05, 1, usual.top_p, step=0.01, label="Top-p")
                top_k = gr.Number(0, label="Top-k", precision=0, minimum=0, info="0: the model's own rule.")
            with gr.Row():
                perform = gr.Button("Perform", variant="primary", min_width=120, elem_id=PERFORM)
                stop = gr.Button("Stop", min_width=100, elem_id="stop")
        with gr.Column(scale=2, min_width=320):
            with gr.Row():
                wav = gr.DownloadButton("WAV", size="sm", min_width=100, elem_id="wav")
                flac = gr.DownloadButton("FLAC", size="sm", min_width=100)
            with gr.Accordion("Take card", open=False):
                card = gr.JSON({}, show_label=False, elem_id="card")
            takes = take_list()
    gr.Examples(
        [[DESCRIBED, *(each[key] for key in ("text", "describe", "name", "scene"))] for each in EXAMPLES],
        [voice, text, describe, name, scene],
        label="Lines to try",
        example_labels=[f"{each['name']}: {each['text'].split('.')[0]}." for each in EXAMPLES],
        cache_examples=False,
    )

    inputs = [
        text,
        direction,
        voice,
        ready,
        describe,
        name,
        scene,
        clip,
        words,
        clip_2,
        words_2,
        seed,
        temperature,
        top_p,
        top_k,
        key,
    ]
    run = perform.click(
        stage.perform_line,
        inputs,
        [player, wav, flac, card, takes],
        api_visibility="private",
        cancels=others,
        concurrency_limit=16,
        show_progress="hidden",
        trigger_mode="once",
    )
    stop.click(None, js="() => window.tableread.stop()", cancels=[run], api_visibility="private").then(
        stage.keep_cut_take, key, takes, show_progress="hidden", api_visibility="private"
    )
    groups = {READY: ready, DESCRIBED: described, CLIPS: clips}
    voice.change(
        lambda kind: [gr.update(visible=kind == each) for each in groups],
        voice,
        list(groups.values()),
        show_progress="hidden",
        api_visibility="private",
    )
    for heard, said in ((clip, words), (clip_2, words_2)):
        heard.input(stage.words_of, heard, said, show_progress="minimal", api_visibility="private")
    takes.submit(stage.fetch_take, key, [wav, flac, card], show_progress="hidden", api_visibility="private")
    return takes
