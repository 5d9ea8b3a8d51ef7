"""The fields of a voice's clips. The first one is there; each further one appears when the one before it is
filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import gradio as gr

from engine.take import MAX_REFERENCES, RequestError
from web.recogniser import words_hint

FURTHER = ("second", "third", "fourth")[: MAX_REFERENCES - 1]


def clip_fields(words_of: Callable[[str | None], str]) -> list[gr.Audio | gr.Textbox]:
    """Lay the fields out, a clip, its words, the next clip and so on; `words_of` a clip are what it says."""
    first = gr.Audio(type="filepath", label="Clip, 1 to 60 seconds of one voice", elem_classes="clip")
    said = gr.Textbox("", label="What is said in it", info=words_hint(), max_length=2000)
    fields, slots = [first, said], []
    for nth in FURTHER:
        with gr.Accordion(f"A {nth} clip", open=False, visible=False, elem_classes="further-clip") as slot:
            clip = gr.Audio(type="filepath", label=f"{nth.capitalize()} clip", elem_classes="clip")
            fields += [clip, gr.Textbox("", label=f"What is said in the {nth} clip", max_length=2000)]
        slots.append(slot)
    for clip, words in zip(fields[::2], fields[1::2], strict=True):
        clip.input(words_of, clip, words, show_progress="minimal", api_visibility="private")
        clip.change(
            further_clips, fields[::2], slots, show_progress="hidden", api_visibility="private", queue=False
        )
    return fields


def no_clips() -> tuple[str | None, ...]:
    """Values that empty the fields."""
    return (None, "") * MAX_REFERENCES


def clips_with_words(values: Sequence[str | None]) -> list[tuple[str, str]]:
    """The clips that are there, each with its words, of the fields' values. Raises RequestError where there
    is none, or one without words."""
    given = [(clip, words.strip()) for clip, words in zip(values[::2], values[1::2], strict=True) if clip]
    if not given:
        raise RequestError("There is no clip; upload or record 1 to 60 seconds of the voice.")
    if not all(words for _, words in given):
        raise RequestError("A clip has no words; write down what is said in it.")
    return given


def further_clips(*clips: str | None) -> list[dict]:
    """Which further clips are to be seen: those that are filled, and the one behind a filled one."""
    return [gr.update(visible=bool(before or here)) for before, here in pairwise(clips)]
