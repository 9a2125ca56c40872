"""Hand-made tables of runs, as people paste them: readers keep the rows, this module gives the columns a name.

The surprise: a table of runs is no table of steps. Its rows are whole jobs or variants, so nothing here becomes a
phase or a mean; the rules that read it compare cells of one row, or two rows with one label.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.paste import Excerpt, Paste
from steptune.core.profile import Origin

ROW_KEY = "table"
"""Origin key of the excerpts that readers make of table rows; their context is the heading."""

_NUMBER = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """One row: its cells by position, and where it stands."""

    cells: tuple[str, ...]
    text: str
    origin: Origin

    def number(self, column: int) -> float | None:
        """Return the first number in a cell, thousands separators removed; None for a missing or wordy cell."""
        found = _NUMBER.search(self.cells[column]) if column < len(self.cells) else None
        return float(found[0].replace(",", "")) if found else None


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table: ``Table(heading=("arm", "trunc %"), rows=(...))``."""

    heading: tuple[str, ...]
    rows: tuple[TableRow, ...]

    def column(self, pattern: str) -> int | None:
        """Return the first column whose heading matches ``pattern``, in any case."""
        return next((i for i, name in enumerate(self.heading) if re.search(pattern, name, re.IGNORECASE)), None)


def tables(paste: Paste) -> tuple[Table, ...]:
    """Return the tables of ``paste`` in order; rows with one heading that follow each other are one table."""
    grouped: list[tuple[str, list[Excerpt]]] = []
    for excerpt in _rows(paste):
        heading = excerpt.context[-1]
        if not grouped or grouped[-1][0] != heading:
            grouped.append((heading, []))
        grouped[-1][1].append(excerpt)
    return tuple(Table(heading=_cells(heading), rows=tuple(map(_row, rows))) for heading, rows in grouped)


def has_times(table: Table) -> bool:
    """Return whether a column holds durations."""
    return any(re.search(r"\(s\)|seconds|\bwall\b|spends", name, re.IGNORECASE) for name in table.heading) or any(
        re.search(r"\d ?s\b", cell) for row in table.rows for cell in row.cells
    )


def _rows(paste: Paste) -> Iterator[Excerpt]:
    return (e for e in paste.excerpts if e.origin.key == ROW_KEY and e.context)


def _row(excerpt: Excerpt) -> TableRow:
    return TableRow(cells=_cells(excerpt.text), text=excerpt.text, origin=excerpt.origin)


def _cells(line: str) -> tuple[str, ...]:
    inner: Sequence[str] = line.strip().strip("|").split("|")
    return tuple(cell.strip() for cell in inner)
