"""The page: knows Gradio and the engine's values, and no tensor."""

import engine  # noqa: F401 - first of all: it keeps the libraries of the page from reporting, too
