"""Physical lines as a terminal, Ray or a pager left them become clean ones.

The surprise: whether a line *ended* matters. A value at the very end of the input may have lost its last
digits (a real post ends in `prompt_length/mean:81.46`, cut from a longer number), so the last line says so.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import final

MIN_WRAP_COLUMNS = 80
"""Shortest line, in characters, that a terminal may have wrapped (the customary smallest window)."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_RAY_PREFIX = re.compile(r"^\s*\([\w.:]+ pid=\d+(?:, ip=[\d.]+)?\) ?(?:\[repeated \d+x[^\]]*\] ?)?")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One clean line: ``Line(number=12, text="step:2 - timing_s/gen:74.020", may_be_cut=False)``."""

    number: int
    """Counted from 1 in the input."""
    text: str
    """Without colours, Ray prefix and line end; inner and outer spaces as they were."""
    width: int
    """Columns it took on the screen, Ray prefix included: what a terminal wraps by."""
    may_be_cut: bool
    """Whether the input ends here in a way that may have cut the last value short."""


def clean(raw: str) -> str:
    r"""Return ``raw`` without line end, ANSI codes, Ray prefix and what a carriage return overwrote.

    >>> clean("\x1b[36m(TaskRunner pid=7)\x1b[0m step:1 - timing_s/gen:2.0\n")
    'step:1 - timing_s/gen:2.0'
    """
    text = _ANSI.sub("", raw.rstrip("\r\n"))
    return _RAY_PREFIX.sub("", text.rsplit("\r", 1)[-1])


def clean_lines(raw_lines: Iterable[str]) -> Iterator[Line]:
    """Yield the lines in order, looking one ahead to know the last."""
    held: Line | None = None
    ended = True
    for number, raw in enumerate(raw_lines, start=1):
        if held is not None:
            yield held
        ended = raw.endswith("\n")
        width = len(_ANSI.sub("", raw.rstrip("\r\n")))
        held = Line(number=number, text=clean(raw), width=width, may_be_cut=False)
    if held is not None:
        # A last line is whole only if it ended and is too short to be one row of a wrapped paste.
        yield replace(held, may_be_cut=not ended or held.width >= MIN_WRAP_COLUMNS)
