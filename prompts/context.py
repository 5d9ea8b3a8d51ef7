"""What stands around a match: enough to tell what it is, and bounded, so that long rows stay cheap."""

from __future__ import annotations

import re

REACH = 60  # characters: a few words


def before(found: re.Match) -> str:
    """What stands in front of the match, at most `REACH` characters."""
    return found.string[max(0, found.start() - REACH) : found.start()]


def behind(found: re.Match) -> str:
    """What stands behind the match, at most `REACH` characters."""
    return found.string[found.end() : found.end() + REACH]
