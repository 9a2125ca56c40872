"""Tables for a terminal: aligned columns that wrap, or one block per row where columns would get too narrow."""

from collections.abc import Sequence
from textwrap import wrap

from steptune.report.blocks import Cell, Number, Table
from steptune.report.numbers import estimate_text

WIDTH = 100
"""Characters per line: two thirds of a common terminal, and what a chat or an issue shows unwrapped."""

GAP = 2
"""Spaces between columns."""

LEAST_WORDS, LEAST_NUMBER = 20, 12
"""Characters a wrapped column needs to stay readable."""


def plain(text: str) -> str:
    """Return ``text`` on one line without control characters: a job name must not steer the terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def cell_text(cell: Cell) -> str:
    """Return a cell with its small print in brackets."""
    if isinstance(cell, Number):
        return plain(estimate_text(cell.estimate))
    return plain(f"{cell.text} ({cell.detail})" if cell.detail else cell.text)


def table_lines(table: Table) -> list[str]:
    """Return the table, at most `WIDTH` wide."""
    heads = [plain(f"{column.head} ({column.note})" if column.note else column.head) for column in table.columns]
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    caption = f"[{plain(table.caption)}]"
    is_number = [column.is_number for column in table.columns]
    widths = column_widths([heads, *rows], is_number)
    if widths is None:
        return [caption, *_records(heads, rows)]
    head = _row(heads, widths, is_number)
    rule = "  ".join("-" * width for width in widths)
    return [caption, *head, rule, *(line for row in rows for line in _row(row, widths, is_number))]


def column_widths(rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> list[int] | None:
    """Return widths that fit `WIDTH`: short columns keep theirs, long ones share the rest; None if they cannot."""
    natural = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = WIDTH - GAP * (len(natural) - 1)
    widths = list(natural)
    long = sorted(range(len(natural)), key=natural.__getitem__)
    while sum(widths) > room and long:
        shortest = long[0]
        share = (room - sum(natural[i] for i in range(len(natural)) if i not in long)) // len(long)
        if natural[shortest] <= share:
            long.pop(0)
            continue
        if any(share < (LEAST_NUMBER if is_number[index] else LEAST_WORDS) for index in long):
            return None
        for index in long:
            widths[index] = share
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> list[str]:
    wrapped = [wrap(text, width) or [""] for text, width in zip(cells, widths, strict=True)]
    lines: list[str] = []
    for index in range(max(map(len, wrapped))):
        parts = [column[index] if index < len(column) else "" for column in wrapped]
        aligned = [
            part.rjust(width) if right else part.ljust(width)
            for part, width, right in zip(parts, widths, is_number, strict=True)
        ]
        lines.append((" " * GAP).join(aligned).rstrip())
    return lines


def _records(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    label = max(map(len, heads))
    lines: list[str] = []
    for row in rows:
        for index, (head, text) in enumerate(zip(heads, row, strict=True)):
            mark = "- " if index == 0 else "  "
            first, *more = wrap(text, WIDTH - label - 4) or [""]
            lines.append(f"{mark}{head.ljust(label)}  {first}".rstrip())
            lines += [" " * (label + 4) + line for line in more]
    return lines
