"""How the page looks: one theme from system fonts, and the few rules that Gradio's variables don't reach."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

HERE = Path(__file__).parent
STYLE = "".join((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "scene.css"))
FONTS = ("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif")
MONO = ("ui-monospace", "SF Mono", "Menlo", "Consolas", "monospace")


def theme() -> gr.themes.Base:
    """Warm paper and ink, a stage-curtain red for the one button that matters; no font is fetched."""
    return gr.themes.Base(
        primary_hue=gr.themes.colors.red,
        secondary_hue=gr.themes.colors.stone,
        neutral_hue=gr.themes.colors.stone,
        radius_size=gr.themes.sizes.radius_md,
        font=FONTS,
        font_mono=MONO,
    ).set(
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        button_primary_text_color="white",
        block_border_width="1px",
        block_shadow="none",
        color_accent="*primary_600",
        body_text_color_subdued="*neutral_600",
        input_placeholder_color="*neutral_600",
        input_placeholder_color_dark="*neutral_300",
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
    )
