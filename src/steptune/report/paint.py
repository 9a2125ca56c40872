"""Colour for a terminal, laid over a finished text by the words that start its lines.

The text stays the only truth: a reader without colour loses nothing, and what was pasted cannot colour anything,
because the text holds no control characters when it comes here.
"""

import os
from collections.abc import Mapping
from typing import TextIO

BOLD, RED, YELLOW, GREEN, OFF = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
"""ECMA-48 select graphic rendition."""

LEADS = (
    ("FAULT ", RED),
    ("FIX THIS FIRST", BOLD + RED),
    ("WARNING ", YELLOW),
    ("steptune ", BOLD),
    ("FASTER", BOLD + GREEN),
    ("SLOWER", BOLD + RED),
    ("NO PROOF", BOLD + YELLOW),
)
"""First words of a line and what they are painted in."""


def wants_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether ``stream`` is a terminal whose owner did not ask for none (https://no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def paint(text: str) -> str:
    """Return ``text`` with headings and first words painted."""
    lines = text.split("\n")
    below = [*lines[1:], ""]
    return "\n".join(_painted(line, under) for line, under in zip(lines, below, strict=True))


def _painted(line: str, under: str) -> str:
    if line and under and set(under) == {"-"} and len(under) == len(line):
        return f"{BOLD}{line}{OFF}"
    for lead, colour in LEADS:
        if line.startswith(lead):
            return f"{colour}{lead}{OFF}{line[len(lead) :]}"
    return line
