"""The tab "Scene": script, cast and lines, and what each control does."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from web.cast_stage import CastStage
from web.clips import clip_fields
from web.rooms import KEPT_S
from web.scene_list import cast_list, casting_call, scene_list
from web.scene_stage import SOURCE_CHARACTERS, SceneStage

ASKS = ("perform-scene", "rehearse-scene")  # the buttons that start a performance
KEPT = (
    "Your scene, its takes and voices are kept for this browser alone, under a random key, until "
    f"{KEPT_S / 3600:.0f} hours after you were here last; then they are deleted."
)
SURE = "(key) => confirm('Delete the script, its voices and all takes?') ? key : null"
SHOW_CLIPS = "() => document.querySelector('#clips')?.scrollIntoView({ block: 'nearest' })"
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
EACH = {"trigger_mode": "multiple", **QUIET}  # of events that follow one another fast, none is left out


@dataclass(frozen=True)
class ScriptFields:
    """The script and how it is read."""

    script: gr.Textbox
    examples: gr.Radio
    reading: list[Component]  # seed, clean, numbers, glossary


@dataclass(frozen=True)
class ClipPanel:
    """The place where a character gets clips or a voice file."""

    panel: gr.Column
    who: gr.Textbox
    fields: list[Component]
    give: gr.Button
    save: gr.Button
    load: gr.UploadButton
    file: gr.DownloadButton


@dataclass(frozen=True)
class Transport:
    """What starts and stops a performance."""

    perform: gr.Button
    rehearse: gr.Button
    stop: gr.Button
    anew: gr.Checkbox


@dataclass(frozen=True)
class Drawn:
    """What scripts of ours draw of the room."""

    lines: gr.HTML
    cast: gr.HTML
    call: gr.HTML


@dataclass(frozen=True)
class Files:
    """What is taken home, brought back and deleted."""

    mix: gr.Button
    export: gr.Button
    restore: gr.UploadButton
    clear: gr.Button
    mix_file: gr.DownloadButton
    scene_file: gr.DownloadButton


def scene_tab(scenes: SceneStage, player: gr.HTML) -> tuple[gr.BrowserState, gr.HTML, list, list]:
    """Lay the tab out and wire it; sound goes to `player`. The key of the visitor's room, the lines, all that
    a visit fills, and the events that are cancelled when something else is to sound."""
    casts = CastStage(scenes)
    key = gr.BrowserState(None, storage_key="tableread-room")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=320):
            written = _script_fields(scenes)
            gr.Markdown("### Cast")
            cast = cast_list()
            clips = _clip_panel(scenes)
        with gr.Column(scale=3, min_width=320):
            transport = _transport(scenes)
            call = casting_call()
            lines = scene_list()
            files = _files()
            gr.Markdown(KEPT, elem_classes="hint")

    drawn = Drawn(lines, cast, call)
    everything = [written.script, *written.reading, lines, cast, call]
    _wire_script(scenes, key, written, drawn, everything)
    runs = _wire_sound(scenes, casts, key, player, transport, drawn)
    _wire_lines(scenes, key, lines)
    _wire_cast(casts, key, drawn, clips)
    _wire_files(scenes, key, files, lines, everything)
    return key, lines, [key, *everything], runs


# What is seen.


def _script_fields(scenes: SceneStage) -> ScriptFields:
    script = gr.Textbox(
        label="Script",
        lines=18,  # a box that doesn't grow: measuring 200 lines to fit it takes seconds per paste
        max_lines=18,
        max_length=SOURCE_CHARACTERS,
        elem_id="script",
        placeholder="NAME: words\nNAME (direction): words\n(beat)",
        info="NAME: words, a stage play or Fountain. Paste or type.",
    )
    examples = gr.Radio(
        [each["title"] for each in scenes.examples], label="Scenes to try", elem_id="examples"
    )
    with gr.Accordion("Reading", open=False):
        seed = gr.Textbox(
            label="Seed of the scene",
            max_length=20,
            elem_id="scene-seed",
            info="The same script, cast and seed give the same scene.",
        )
        clean = gr.Checkbox(True, label="Leave out stage marks: markdown and emoji are not read")
        numbers = gr.Checkbox(
            scenes.writes_numbers(None), label="Write numbers and abbreviations out as words"
        )
        glossary = gr.Dataframe(
            [["", ""]],
            headers=["Written", "Said"],
            datatype="str",
            type="array",
            column_count=(2, "fixed"),
            label="Glossary of respellings",
            interactive=True,
            wrap=True,
        )
    return ScriptFields(script, examples, [seed, clean, numbers, glossary])


def _clip_panel(scenes: SceneStage) -> ClipPanel:
    with gr.Column(visible=False, elem_id="clips") as panel:
        with gr.Group():
            who = gr.Textbox(label="Character", interactive=False)
            fields = clip_fields(scenes.stage.words_of)
        give = gr.Button("Give this voice", variant="primary")
        with gr.Row():
            save = gr.Button("Save voice file", size="sm", min_width=120)
            load = gr.UploadButton("Load voice file", file_types=[".json"], size="sm", min_width=120)
        file = gr.DownloadButton("Voice file", elem_id="voice-file", elem_classes="behind")
    return ClipPanel(panel, who, fields, give, save, load, file)


def _transport(scenes: SceneStage) -> Transport:
    with gr.Row(elem_classes="bar"):
        perform = gr.Button("Perform", variant="primary", min_width=100, elem_id=ASKS[0])
        can_rehearse = scenes.rehearsal is not None
        rehearse = gr.Button("Rehearse", min_width=100, elem_id=ASKS[1], visible=can_rehearse)
        stop = gr.Button("Stop", min_width=80, elem_id="stop-scene")
    anew = gr.Checkbox(False, label="Make new takes of every line", elem_id="anew", container=False)
    return Transport(perform, rehearse, stop, anew)


def _files() -> Files:
    with gr.Row():
        mix = gr.Button("Download mix", size="sm", min_width=100, elem_id="mix")
        export = gr.Button("Save scene", size="sm", min_width=100)
        restore = gr.UploadButton("Open scene", file_types=[".json"], size="sm", min_width=100)
        clear = gr.Button("Delete everything", size="sm", min_width=100, elem_id="delete-everything")
    mix_file = gr.DownloadButton("Mix", elem_id="mix-file", elem_classes="behind")
    scene_file = gr.DownloadButton("Scene", elem_id="scene-file", elem_classes="behind")
    return Files(mix, export, restore, clear, mix_file, scene_file)


# What it does.


def _wire_script(
    scenes: SceneStage, key: gr.BrowserState, written: ScriptFields, drawn: Drawn, everything: list
) -> None:
    seed, clean, numbers, glossary = written.reading
    latest = {"trigger_mode": "always_last", **QUIET}
    read = [drawn.lines, drawn.cast, drawn.call]
    written.script.change(scenes.write_script, [key, written.script], read, **latest)
    drawn.lines.input(scenes.choose_part, key, read, **QUIET)
    written.examples.input(scenes.try_example, [key, written.examples], everything, **QUIET)
    for each in (seed.submit, seed.blur, clean.input, numbers.input, glossary.input):
        each(scenes.change_reading, [key, *written.reading], drawn.lines, **latest)


def _wire_sound(
    scenes: SceneStage,
    casts: CastStage,
    key: gr.BrowserState,
    player: gr.HTML,
    transport: Transport,
    drawn: Drawn,
) -> list:
    """All that sounds, and Stop; the events that Stop cancels."""
    lines, cast, call = drawn.lines, drawn.cast, drawn.call
    heard, called, asked = [player, lines], [player, call], [key, transport.anew]
    sounding = {"concurrency_limit": 16, **EACH}
    once = {**sounding, "trigger_mode": "once"}
    runs = [
        transport.perform.click(scenes.perform_all, asked, heard, **once),
        transport.rehearse.click(scenes.rehearse, asked, heard, **once),
        lines.submit(scenes.perform_from, asked, heard, **sounding),
        lines.play(scenes.play, key, heard, **sounding),
        lines.retry(scenes.retake_line, key, heard, **sounding),
        cast.play(casts.hold_casting_call, key, called, **sounding),
        call.play(casts.hear_candidate, key, called, **sounding),
    ]
    stopped = transport.stop.click(
        None, js="() => window.tableread.stop()", cancels=runs, api_visibility="private"
    )
    stopped.then(scenes.stopped, key, lines, **QUIET)
    return runs


def _wire_lines(scenes: SceneStage, key: gr.BrowserState, lines: gr.HTML) -> None:
    lines.select(scenes.open_line, key, lines, **EACH)
    lines.apply(scenes.accept, key, lines, **EACH)
    lines.like(scenes.star, key, lines, **EACH)
    lines.edit(scenes.remember, key, lines, **EACH)


def _wire_cast(casts: CastStage, key: gr.BrowserState, drawn: Drawn, clips: ClipPanel) -> None:
    cast, voices, who = drawn.cast, [drawn.cast, drawn.lines], clips.who
    cast.submit(casts.cast, key, voices, **EACH)
    opened = cast.select(casts.open_clips, key, [clips.panel, who, *clips.fields], **QUIET)
    opened.then(None, js=SHOW_CLIPS, api_visibility="private")
    cast.delete(casts.forget_voice, key, voices, **QUIET)
    drawn.call.submit(casts.choose_candidate, key, [drawn.call, *voices], **QUIET)
    clips.give.click(casts.give_clips, [key, who, *clips.fields], voices, api_visibility="private")
    clips.load.upload(casts.load_voice, [key, who, clips.load], voices, **QUIET)
    saved = clips.save.click(casts.save_voice, [key, who], [clips.file, cast], **QUIET)
    saved.success(None, js=click("voice-file"))


def _wire_files(
    scenes: SceneStage, key: gr.BrowserState, files: Files, lines: gr.HTML, everything: list
) -> None:
    mixed = files.mix.click(scenes.export_mix, key, [files.mix_file, lines], **QUIET)
    mixed.success(None, js=click("mix-file"))
    saved = files.export.click(scenes.export_scene, key, [files.scene_file, lines], **QUIET)
    saved.success(None, js=click("scene-file"))
    files.restore.upload(scenes.open_scene, [key, files.restore], everything, **QUIET)
    files.clear.click(scenes.delete_everything, key, [key, *everything], js=SURE, **QUIET)


def click(elem_id: str) -> str:
    """Start a download that was just made ready."""
    find = f"const b = document.querySelector('#{elem_id}')"
    return f"() => {{ {find}; (b?.querySelector('a, button') || b)?.click(); }}"
