"""The Space: layout and wiring. Loads the model once, in the main thread, and serves the page.

python app.py      or  ./run  without a command
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before gradio is imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forks of this process

from web.gpu import open_house  # isort: skip - first: `spaces` must come before CUDA

import gradio as gr

from engine.models import default_model
from engine.take import RequestError, Sampling
from web.handlers import CLIPS, DESCRIBED, OWN, READY, Stage
from web.player import player, player_messages
from web.queue import Gate
from web.recogniser import why_deaf
from web.shelf import Shelf
from web.takes import take_list
from web.theme import STYLE, theme

HERE = Path(__file__).resolve().parent
EXAMPLES = json.loads((HERE / "assets/page/examples.json").read_text(encoding="utf-8"))["lines"]
WORDS_HEARD = "Written down from the clip; correct what was misheard."
WORDS_ASKED = "Word for word. With `pip install -r requirements-asr.txt` it is written down for you."
LOOKS = {"theme": theme(), "css": STYLE}


def build(stage: Stage, why: str) -> gr.Blocks:
    """The page of one stage; `why` is the sentence about the model that runs."""
    able, model = stage.engine.family.capabilities, stage.engine.family.name
    kinds = [READY, *([DESCRIBED] if able.describe else []), *([CLIPS] if able.clone else []), OWN]
    ask = WORDS_HEARD if why_deaf() is None else WORDS_ASKED
    with gr.Blocks(title="Tableread", delete_cache=(600, 3600)) as page:
        gr.Markdown("# Tableread\nCast a voice, write a line, hear it while it is being performed.")
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
                    top_k = gr.Number(
                        0, label="Top-k", precision=0, minimum=0, info="0: the model's own rule."
                    )
                with gr.Row():
                    perform = gr.Button("Perform", variant="primary", min_width=120, elem_id="perform")
                    stop = gr.Button("Stop", min_width=100, elem_id="stop")
            with gr.Column(scale=2, min_width=320):
                stage_player = player(ask="perform", sample_rate=stage.engine.family.sample_rate)
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
        gr.Markdown(why, elem_classes="hint")

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
        ]
        run = perform.click(
            stage.perform_line,
            inputs,
            [stage_player, wav, flac, card, takes],
            api_visibility="private",
            concurrency_limit=16,
            show_progress="hidden",
            trigger_mode="once",
        )
        stop.click(None, js="() => window.tableread.stop()", cancels=[run], api_visibility="private").then(
            stage.keep_cut_take, None, takes, show_progress="hidden", api_visibility="private"
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
        takes.submit(
            stage.fetch_take, None, [wav, flac, card], show_progress="hidden", api_visibility="private"
        )
        page.load(stage.list_takes, None, takes, show_progress="hidden", api_visibility="private")
        page.unload(stage.leave)
        endpoints(stage)
    return page


def endpoints(stage: Stage) -> None:
    """What programs call. Components without a default would be required, so a clip goes through /encode and
    comes back as codes."""
    usual = Sampling()
    with gr.Row(visible=False):
        text = gr.Textbox(label="text")
        direction, describe = gr.Textbox("", label="direction"), gr.Textbox("", label="describe")
        name, scene, ready, seed = (gr.Textbox("", label=each) for each in ("name", "scene", "ready", "seed"))
        voice, history = gr.JSON([], label="voice"), gr.JSON([], label="history")
        temperature = gr.Number(usual.temperature, label="temperature")
        top_p, top_k = gr.Number(usual.top_p, label="top_p"), gr.Number(0, label="top_k", precision=0)
        messages, sound = player_messages(), gr.File(label="wav")
        card, codes = gr.JSON(label="card"), gr.JSON(label="codes")
        clip = gr.Audio(type="filepath", label="clip")
        perform, say, encode = gr.Button("perform"), gr.Button("say"), gr.Button("encode")
    given = [text, direction, describe, name, scene, ready, voice, history, seed, temperature, top_p, top_k]
    perform.click(stage.perform, given, [messages, sound, card], api_name="perform", concurrency_limit=16)
    say.click(stage.say, [text, describe, seed], [sound, card], api_name="say", concurrency_limit=16)
    encode.click(stage.encode, clip, codes, api_name="encode", concurrency_limit=4)


def main() -> None:
    """Load the model, then serve. Exits with a sentence if the named model can't run here."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("web").setLevel(logging.INFO)
    logging.getLogger("engine").setLevel(logging.INFO)
    choice = default_model()
    try:
        engine = open_house(choice.model)
    except RequestError as problem:
        sys.exit(str(problem))
    shelf = Shelf()
    page = build(Stage(engine, Gate(), shelf), f"**{engine.family.name}** performs here. {choice.why}")
    page.queue(max_size=64)
    try:
        page.launch(
            **LOOKS,
            max_file_size="20mb",
            show_error=False,
            ssr_mode=False,
            enable_monitoring=False,
            run_history=False,
            footer_links=["api"],
        )
    finally:
        shelf.close()


if __name__ == "__main__":
    main()
