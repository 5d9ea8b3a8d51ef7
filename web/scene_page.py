"""The tab "Scene": script, cast and lines, and what each control does."""

from __future__ import annotations

import gradio as gr

from web.cast_stage import CastStage
from web.recogniser import words_hint
from web.rooms import KEPT_S
from web.scene_list import cast_list, casting_call, scene_list
from web.scene_stage import SOURCE_CHARACTERS, SceneStage

ASKS = ("perform-scene", "rehearse-scene")  # the buttons that start a performance
KEPT = (
    "Your scene, its takes and voices are kept for this browser alone, under a random key, until "
    f"{KEPT_S / 3600:.0f} hours after you were here last; then they are deleted."
)
SURE = "(key) => confirm('Delete the script, its voices and all takes?') ? key : null"


def scene_tab(scenes: SceneStage, player: gr.HTML) -> tuple[gr.BrowserState, list, list]:
    """Lay the tab out and wire it; sound goes to `player`. The key of the visitor's room, what a visit
    fills, and the events that are cancelled when something else is to sound."""
    casts = CastStage(scenes)
    key = gr.BrowserState(None, storage_key="tableread-room")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=320):
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
                    label="Seed of the scene", max_length=20, elem_id="scene-seed",
                    info="The same script, cast and seed give the same scene.",
                )  # fmt: skip
                clean = gr.Checkbox(True, label="Leave out stage marks: markdown and emoji are not read")
                numbers = gr.Checkbox(False, label="Write numbers and abbreviations out as words")
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
            gr.Markdown("### Cast")
            cast = cast_list()
            with gr.Group(visible=False, elem_id="clips") as clips:
                who = gr.Textbox(label="Character", interactive=False)
                clip = gr.Audio(type="filepath", label="Clip, 1 to 60 seconds of one voice")
                words = gr.Textbox(label="What is said in it", info=words_hint(), max_length=2000)
                with gr.Accordion("A second clip", open=False):
                    clip_2 = gr.Audio(type="filepath", label="Second clip")
                    words_2 = gr.Textbox(label="What is said in the second clip", max_length=2000)
                with gr.Row():
                    give = gr.Button("Give this voice", min_width=90, variant="primary")
                    save = gr.Button("Save voice file", min_width=90)
                    load = gr.UploadButton("Load voice file", file_types=[".json"], min_width=90)
                voice_file = gr.DownloadButton("Voice file", elem_id="voice-file", elem_classes="behind")
        with gr.Column(scale=3, min_width=320):
            with gr.Row(elem_classes="bar"):
                perform = gr.Button("Perform", variant="primary", min_width=100, elem_id=ASKS[0])
                rehearse = gr.Button(
                    "Rehearse", min_width=100, elem_id=ASKS[1], visible=scenes.rehearsal is not None
                )
                stop = gr.Button("Stop", min_width=80, elem_id="stop-scene")
            anew = gr.Checkbox(False, label="Make new takes of every line", elem_id="anew", container=False)
            call = casting_call()
            lines = scene_list()
            with gr.Row():
                mix = gr.Button("Download mix", size="sm", min_width=100, elem_id="mix")
                export = gr.Button("Save scene", size="sm", min_width=100)
                restore = gr.UploadButton("Open scene", file_types=[".json"], size="sm", min_width=100)
                clear = gr.Button("Delete everything", size="sm", min_width=100, elem_id="delete-everything")
            mix_file = gr.DownloadButton("Mix", elem_id="mix-file", elem_classes="behind")
            scene_file = gr.DownloadButton("Scene", elem_id="scene-file", elem_classes="behind")
            gr.Markdown(KEPT, elem_classes="hint")

    everything = [script, seed, clean, numbers, glossary, lines, cast, call]
    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    sounding = {**quiet, "concurrency_limit": 16}
    reading = [key, seed, clean, numbers, glossary]
    script.change(
        scenes.write_script, [key, script], [lines, cast, call], trigger_mode="always_last", **quiet
    )
    examples.input(scenes.try_example, [key, examples], everything, **quiet)
    for each in (seed.submit, seed.blur, clean.input, numbers.input, glossary.input):
        each(scenes.change_reading, reading, lines, trigger_mode="always_last", **quiet)

    heard, called = [player, lines], [player, call]
    runs = [
        perform.click(scenes.perform_all, [key, anew], heard, trigger_mode="once", **sounding),
        rehearse.click(scenes.rehearse, [key, anew], heard, trigger_mode="once", **sounding),
        lines.submit(scenes.perform_from, [key, anew], heard, trigger_mode="multiple", **sounding),
        lines.play(scenes.play, key, heard, trigger_mode="multiple", **sounding),
        lines.retry(scenes.retake_line, key, heard, trigger_mode="multiple", **sounding),
        cast.play(casts.hold_casting_call, key, called, trigger_mode="multiple", **sounding),
        call.play(casts.hear_candidate, key, called, trigger_mode="multiple", **sounding),
    ]
    stop.click(None, js="() => window.tableread.stop()", cancels=runs, api_visibility="private").then(
        scenes.stopped, key, lines, **quiet
    )
    lines.select(scenes.open_line, key, lines, trigger_mode="multiple", **quiet)
    lines.apply(scenes.accept, key, lines, trigger_mode="multiple", **quiet)
    lines.like(scenes.star, key, lines, trigger_mode="multiple", **quiet)
    lines.edit(scenes.remember, key, lines, trigger_mode="multiple", **quiet)

    voices = [cast, lines]
    cast.submit(casts.cast, key, voices, trigger_mode="multiple", **quiet)
    cast.select(casts.open_clips, key, [clips, who, clip, words, clip_2, words_2], **quiet)
    cast.delete(casts.forget_voice, key, voices, **quiet)
    call.submit(casts.choose_candidate, key, [call, *voices], **quiet)
    give.click(casts.give_clips, [key, who, clip, words, clip_2, words_2], voices, api_visibility="private")
    load.upload(casts.load_voice, [key, who, load], voices, **quiet)
    save.click(casts.save_voice, [key, who], [voice_file, cast], **quiet).success(
        None, js=click("voice-file")
    )
    for sound, told in ((clip, words), (clip_2, words_2)):
        sound.input(scenes.stage.words_of, sound, told, show_progress="minimal", api_visibility="private")

    mix.click(scenes.export_mix, key, [mix_file, lines], **quiet).success(None, js=click("mix-file"))
    export.click(scenes.export_scene, key, [scene_file, lines], **quiet).success(None, js=click("scene-file"))
    restore.upload(scenes.open_scene, [key, restore], everything, **quiet)
    clear.click(
        scenes.delete_everything,
        key,
        [key, *everything],
        js=SURE,
        **quiet,
    )
    return key, [key, *everything], runs


def click(elem_id: str) -> str:
    """Start a download that was just made ready."""
    find = f"const b = document.querySelector('#{elem_id}')"
    return f"() => {{ {find}; (b?.querySelector('a, button') || b)?.click(); }}"
