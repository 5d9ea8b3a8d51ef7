"""The Space: layout and wiring. Loads the model once, in the main thread, and serves the page.

python app.py      or  ./run  without a command
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forks of this process

from web.gpu import hire_understudy, open_house  # isort: skip - first: `spaces` must come before CUDA

import gradio as gr
from starlette.middleware import Middleware

from engine.models import default_model
from engine.take import RequestError, Sampling
from web.entrance import Entrance
from web.handlers import Stage
from web.line_page import PERFORM, line_tab
from web.player import player, player_messages
from web.queue import Gate
from web.rooms import Rooms
from web.scene_calls import scene_endpoints
from web.scene_page import ASKS as SCENE_ASKS
from web.scene_page import scene_tab
from web.scene_stage import SceneStage
from web.shelf import Shelf
from web.theme import STYLE, theme

ASKS = (PERFORM, *SCENE_ASKS)  # the buttons that ask for sound
LOOKS = {
    "theme": theme(),
    "css": STYLE,
    "footer_links": ["api"],
    "app_kwargs": {"middleware": [Middleware(Entrance)]},
    # 0.3 MB each; nothing of a visitor lies in them, so whoever comes too late for one gets another.
    "state_session_capacity": 200,
}


def build(stage: Stage, why: str, scenes: SceneStage | None = None) -> gr.Blocks:
    """The page of one stage; `why` is the sentence about the model that runs."""
    scenes = scenes or SceneStage(stage, Rooms())
    with gr.Blocks(title="Tableread", delete_cache=(600, 3600)) as page:
        gr.Markdown("# Tableread\nCast a scene, hear it while it is being performed, retake a line.")
        with gr.Column(elem_id="transport"):
            stage_player = player(ask=" ".join(ASKS), sample_rate=stage.family.sample_rate)
        with gr.Tabs():
            with gr.Tab("Scene", id="scene"):
                key, lines, everything, runs = scene_tab(scenes, stage_player)
            with gr.Tab("Line", id="line-tab"):
                takes = line_tab(stage, stage_player, key, runs)
        gr.Markdown(why, elem_classes="hint", elem_id="why")
        quiet = {"show_progress": "hidden", "api_visibility": "private"}
        entered = page.load(scenes.enter, key, everything, **quiet)
        entered.then(stage.list_takes, key, takes, **quiet).then(scenes.stopped, key, lines, **quiet)
        key.change(stage.list_takes, key, takes, **quiet)  # another key has no takes
        endpoints(stage)
        scene_endpoints(scenes)
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
    shelf, rooms = Shelf(), Rooms()
    stage = Stage(engine, Gate(), shelf)
    scenes = SceneStage(stage, rooms, hire_understudy())
    page = build(stage, f"**{engine.family.name}** performs here. {choice.why}", scenes)
    page.queue(max_size=64)
    try:
        gc.collect()
        gc.freeze()  # what is loaded stays: collecting among it stopped everything for up to 0.2 s
        page.launch(
            **LOOKS,
            max_file_size="20mb",
            show_error=False,
            ssr_mode=False,
            enable_monitoring=False,
            run_history=False,
        )
    finally:
        shelf.close()
        rooms.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM removes temporary folders too
    main()
