"""The pieces of an answer in plain text: headings, bullets that wrap, lines to paste that never do."""

from collections.abc import Iterable, Sequence
from textwrap import wrap

from steptune.report.text_table import WIDTH, plain


def section(title: str, lines: Sequence[str]) -> list[str]:
    """Return a heading and its lines after an empty line; nothing without lines."""
    return ["", title, "-" * len(title), *lines] if lines else []


def wrapped(text: str, indent: int = 0, hang: int | None = None) -> list[str]:
    """Return ``text`` in lines of `WIDTH`, all but the first indented by ``hang`` (default: as the first)."""
    later = indent if hang is None else hang
    return wrap(
        plain(text), WIDTH, initial_indent=" " * indent, subsequent_indent=" " * later, break_on_hyphens=False
    ) or [""]


def bullet(text: str, indent: int = 2, mark: str = "-") -> list[str]:
    """Return a list item."""
    lead = f"{' ' * indent}{mark} "
    return wrap(plain(text), WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False) or [
        lead.rstrip()
    ]


def to_paste(lines: Iterable[str], indent: int = 8) -> list[str]:
    """Return configuration lines as they are: a wrapped one could not be pasted."""
    return [" " * indent + plain(part) for line in lines for part in line.splitlines()]
