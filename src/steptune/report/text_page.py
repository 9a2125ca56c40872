"""The pieces of an answer in plain text: headings, bullets that wrap, lines to paste that never do."""

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from steptune.report.text_table import WIDTH, plain


def section(title: str, lines: Sequence[str]) -> list[str]:
    """Return a heading and its lines after an empty line; nothing without lines."""
    return ["", title, "-" * len(title), *lines] if lines else []


def wrapped(text: str, indent: int = 0, hang: int | None = None) -> list[str]:
    """Return ``text`` in lines of `WIDTH`, all but the first indented by ``hang`` (default: as the first)."""
    return _wrap(text, " " * indent, " " * (indent if hang is None else hang))


def bullet(text: str, indent: int = 2, mark: str = "-") -> list[str]:
    """Return a list item."""
    lead = f"{' ' * indent}{mark} "
    return _wrap(text, lead, " " * len(lead))


def to_paste(lines: Iterable[str], indent: int = 8) -> list[str]:
    """Return configuration lines as they are, what stands behind ``  # `` in a line of its own below.

    A line to paste is never wrapped: a wrapped one could not be pasted.
    """
    written: list[str] = []
    for line in (part for held in lines for part in held.splitlines()):
        code, mark, comment = line.partition(COMMENT)
        written.append(" " * indent + plain(code))
        written += wrapped(f"({comment})", indent + 2) if mark else []
    return written


COMMENT = "  # "
"""What parts a line to paste from the words about it."""

_UNIT = re.compile(
    r"(?<=\d) (?=(?:h|m|s|ms|min|%|x|[KMGT]iB|[KMGT]B|tokens|steps?)(?![A-Za-z]))|(?<=\d [hm]) (?=\d\d [ms]\b)"
)
_HARD_SPACE = "\u00a0"


def _wrap(text: str, lead: str, later: str) -> list[str]:
    """Wrap between words, never between a number and its unit; runs of spaces become one."""
    glued = _UNIT.sub(_HARD_SPACE, re.sub(" {2,}", " ", plain(text)))
    lines = wrap(glued, WIDTH, initial_indent=lead, subsequent_indent=later, break_on_hyphens=False)
    return [line.replace(_HARD_SPACE, " ") for line in lines] or [lead.rstrip()]
