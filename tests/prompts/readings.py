"""What tests of scripts read off one."""

from __future__ import annotations

from prompts.script import Beat, parse


def said(source):
    """The lines of `source` as (speaker, direction, text), beats as their seconds."""
    return [
        entry.seconds if isinstance(entry, Beat) else (entry.speaker, entry.direction, entry.text)
        for entry in parse(source).entries
    ]


def texts(source):
    return [(line.speaker, line.text) for line in parse(source).lines]
