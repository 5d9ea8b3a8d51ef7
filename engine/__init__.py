"""The engine: performs takes. Knows torch; knows nothing of any page."""
