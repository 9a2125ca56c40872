"""Trackio's database: a table `metrics` with one JSON object per logged step (trackio/sqlite_storage.py, 0019634).

It holds every run of a project; the run that was written to last is read.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

from steptune.readers.metrics.rows import MetricRow, as_object, row_of

_MAGIC = b"SQLite format 3\0"


def is_sqlite(head: bytes) -> bool:
    """Whether the file is a SQLite database."""
    return head.startswith(_MAGIC)


def read_trackio(path: Path) -> Iterator[MetricRow]:
    """Yield the rows of the last run in order; none when the database is another's or broken."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            yield from _rows(database)
    except sqlite3.Error:
        return


def _rows(database: sqlite3.Connection) -> Iterator[MetricRow]:
    last = database.execute("SELECT run_name FROM metrics ORDER BY id DESC LIMIT 1").fetchone()
    if last is None:
        return
    query = "SELECT id, step, metrics FROM metrics WHERE run_name = ? ORDER BY id"
    for index, step, text in database.execute(query, last):
        record = as_object(_decoded(text))
        if record is not None and isinstance(step, int) and isinstance(index, int):
            yield row_of({**record, "step": step}, index)


def _decoded(text: object) -> object:
    try:
        return cast("object", json.loads(text)) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
