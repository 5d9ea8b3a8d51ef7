"""Nothing that is imported here reports to anybody: the switches of the libraries that would, set first.

onnxruntime writes an identifier and a queue of events into the user's cache and looks its maker's host up;
the hub's client names the program in its requests; Gradio counts its users. What somebody has set themselves
stays.
"""

from __future__ import annotations

import os

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
}


def report_nothing() -> None:
    """Set the switches; call it before anything else is imported."""
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
