"""Physical lines as a terminal, Ray or a pager left them become clean ones.

The surprise: whether a line *ended* matters. A value at the very end of the input may have lost its last
digits (a real post ends in `prompt_length/mean:81.46`, cut from a longer number), so the last line says so.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import final

NumberedLine = tuple[int, str]
"""Number of a line in its file, from 1, and its raw text with its line end."""

MIN_WRAP_COLUMNS = 80
"""Shortest line, in characters, that a terminal may have wrapped (the customary smallest window)."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LOST_ESCAPE = re.compile(r"(?:\^\[)?\[(?:[01]|3\d|9\d)(?:;\d{1,3})*m(?! ?[\d\]])")
"""A colour whose escape character an editor spelt out or a copy lost; `[31m 5s]` is a time."""

_RAY_PREFIX = re.compile(r"\s*\([\w.:]+ pid=\d+(?:, ip=[\d.]+)?\) ?(?:\[repeated \d+x[^\]]*\] ?)?")
_RAY_REPEAT = re.compile(r"\s?\[repeated \d+x across cluster\](?: \(Ray dedup.*)?$")
_GREP_PREFIX = re.compile(r"\s*(?:[\w./-]+\.(?:log|txt|out|err)[:-])?\d+[:-](?=[(\[{<'\"A-Za-z])")
"""What `grep -n` puts before a line; a time of day is none, and neither is a number that a wrap broke."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One clean line: ``Line(number=12, text="step:2 - timing_s/gen:74.020", may_be_cut=False)``."""

    number: int
    """Counted from 1 in the input."""
    text: str
    """Without colours, prefixes of grep and Ray, and line end; inner and outer spaces as they were."""
    width: int
    """Columns it took on the screen, Ray prefix included: what a terminal wraps by."""
    may_be_cut: bool
    """Whether the input ends here in a way that may have cut the last value short."""
    is_ended: bool = True
    """Whether a line end came after it: only the last line of the input may lack one."""


def clean(raw: str) -> str:
    r"""Return ``raw`` as it was written: without line end, colours, overwritten text and what others put around it.

    Others are grep with its line numbers, Markdown quotes, and Ray with its actor's name and "[repeated 7x ...]".

    >>> clean("\x1b[36m(TaskRunner pid=7)\x1b[0m step:1 - timing_s/gen:2.0\n")
    'step:1 - timing_s/gen:2.0'
    """
    return _cleaned(raw)[0]


@lru_cache(maxsize=1)
def _cleaned(raw: str) -> tuple[str, int]:
    """Text and width on the screen; kept for the last line, which everybody asks for before the next one comes."""
    text = raw.rstrip("\r\n")
    shown = _ANSI.sub("", text) if "\x1b" in text else text
    shown = _LOST_ESCAPE.sub("", shown) if "[0m" in shown or "[3" in shown else shown
    return _without_prefixes(shown), len(shown)


def _without_prefixes(text: str) -> str:
    text = _without_head(_GREP_PREFIX, text.rsplit("\r", 1)[-1].removeprefix("> "))
    if " pid=" in text:
        text = _without_head(_RAY_PREFIX, text)
    return _RAY_REPEAT.sub("", text) if "[repeated " in text else text


def _without_head(head: re.Pattern[str], text: str) -> str:
    found = head.match(text)
    return text if found is None else text[found.end() :]


def read_numbered(path: Path, *, max_chars: int = -1) -> list[NumberedLine]:
    """Return the lines of a whole file, without line ends and NULs, as an editor and `grep -n` count them.

    Only a line feed ends one. `str.splitlines` and Python's text files also end lines at lone carriage returns, form
    feeds and Unicode separators, and every number after one of them would be wrong.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        text = file.read(max_chars)
    lines = text.replace("\0", "").replace("\r\n", "\n").replace("\r", " ").removesuffix("\n").split("\n")
    return list(enumerate(lines, start=1)) if text else []


def clean_lines(raw_lines: Iterable[NumberedLine]) -> Iterator[Line]:
    """Yield the lines in order, looking one ahead to know the last."""
    held: Line | None = None
    ended = True
    for number, raw in raw_lines:
        if held is not None:
            yield held
        ended = raw.endswith("\n")
        text, width = _cleaned(raw)
        held = Line(number=number, text=text, width=width, may_be_cut=False)
    if held is not None:
        # A last line is whole only if it ended and is too short to be one row of a wrapped paste.
        yield replace(held, may_be_cut=not ended or held.width >= MIN_WRAP_COLUMNS, is_ended=ended)
