"""Rows of hand-made tables, kept with their heading: people compare runs in Markdown.

A row becomes an excerpt whose origin has the key ``table``; its context is the heading row. What the columns mean is
for the stages to say: a table of runs is no table of steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.paste import Excerpt, ExcerptKind
from steptune.core.profile import Origin
from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import NumberedLine

KEY = "table"
"""`Excerpt.origin.key` of these rows."""

MAX_ROWS = 200
"""Rows kept of one file; logs that draw their metrics as boxes have thousands, and readers of their own."""

_MIN_COLUMNS = 3
"""Two columns are a list of keys and values, which the frameworks' readers take."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    line: int
    text: str
    cells: Sequence[str]


def read_table_rows(lines: Iterable[NumberedLine], path: str) -> tuple[Excerpt, ...]:
    """Return the rows of all tables among clean lines that have a heading without numbers."""
    found: list[Excerpt] = []
    heading: _Row | None = None
    last = 0
    for number, text in lines:
        if "|" not in text and "│" not in text:
            continue
        row = _Row(line=number, text=text.strip(), cells=table_cells(text))
        if number != last + 1:
            heading = None
        last = number
        if len(row.cells) >= _MIN_COLUMNS and len(found) < MAX_ROWS:
            if heading is None or not _has_number(row.cells):
                heading = None if _has_number(row.cells) else row
            else:
                found.append(_excerpt(row, heading, path))
    return tuple(found)


def _has_number(cells: Sequence[str]) -> bool:
    """Whether a cell begins with a number: `8,524 s`, `97`, `98.44`."""
    return any(cell.lstrip("+-~")[:1].isdigit() for cell in cells)


def _excerpt(row: _Row, heading: _Row, path: str) -> Excerpt:
    origin = Origin(path=path, line=row.line, key=KEY)
    return Excerpt(kind=ExcerptKind.EVENT, text=row.text, origin=origin, context=(heading.text,))
