"""The engine: performs takes. Knows torch; knows nothing of any page."""

from engine.privacy import report_nothing

report_nothing()  # before any module of ours imports a library that would
