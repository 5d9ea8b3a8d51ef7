"""The page: knows Gradio and the engine's values, and no tensor."""
