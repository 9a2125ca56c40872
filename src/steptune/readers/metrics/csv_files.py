"""CSV metrics: columns of a W&B export (`run - key`, `run - key__MIN`) or plain keys.

The surprise: one export can hold several runs, a column each. Only the first run of a key is read.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from steptune.readers.metrics.rows import STEP_KEYS, MetricRow, row_of
from steptune.readers.scan.chunks import read_chunks
from steptune.readers.scan.pick import all_lines

_SPREAD = ("__MIN", "__MAX")
"""Endings of the columns in which W&B exports the spread of grouped runs."""


def is_csv(head: str) -> bool:
    """Whether the first line names a step and at least one more column."""
    columns = _cells(head.lstrip("\ufeff").partition("\n")[0])
    return len(columns) > 1 and any(column.lower() in STEP_KEYS for column in columns)


def read_csv(path: Path) -> Iterator[MetricRow]:
    """Yield one row per line."""
    columns: list[str] = []
    for number, raw in all_lines(read_chunks(path)):
        cells = _cells(raw)
        if not columns:
            columns = [_key(column) for column in cells]
            continue
        record: dict[str, object] = {}
        for column, cell in zip(columns, cells, strict=False):
            if column and cell:
                record.setdefault(column, cell)
        yield row_of(record, number)


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")]), [])]
    except csv.Error:
        return []


def _key(column: str) -> str:
    """The metric of a column; empty for one that holds a spread."""
    if column.endswith(_SPREAD):
        return ""
    key = column.rpartition(" - ")[2]
    return key.lower() if key.lower() in STEP_KEYS else key
