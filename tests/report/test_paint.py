"""Colour is laid over the text and takes nothing from it."""

import io
import re

from comparison_records import faster
from diagnosis_records import full

from steptune.report.comparison_text import comparison_text
from steptune.report.diagnosis_text import diagnosis_text
from steptune.report.paint import paint, wants_colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_its_colours_a_painted_text_is_the_text() -> None:
    for text in (diagnosis_text(full()), comparison_text(faster())):
        painted = paint(text)
        assert painted != text
        assert re.sub(r"\x1b\[\d+m", "", painted) == text


def test_colour_is_for_terminals_whose_owner_wants_it() -> None:
    assert wants_colour(Terminal(), {"TERM": "xterm"})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
    assert not wants_colour(io.StringIO(), {})
