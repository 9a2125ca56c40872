"""Which metrics file is this? By its content, never by its name."""

from collections.abc import Callable, Iterator
from pathlib import Path

from steptune.core.errors import ReadError, explain
from steptune.readers.metrics.csv_files import is_csv, read_csv
from steptune.readers.metrics.json_files import is_json_history, is_jsonl, read_json_history, read_jsonl
from steptune.readers.metrics.rows import MetricRow
from steptune.readers.metrics.tensorboard import is_events, read_events
from steptune.readers.metrics.trackio import is_sqlite, read_trackio

MetricsReader = Callable[[Path], Iterator[MetricRow]]

_HEAD_BYTES = 1 << 16
"""Bytes that tell the kind: the header of a wide CSV export has 40 kB."""


def metrics_reader(path: Path) -> MetricsReader | None:
    """Return the reader of a metrics file; None for any other file.

    Raises:
        ReadError: the file cannot be opened.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise ReadError(
            explain("file cannot be read", got=f"{path} ({error.strerror})", allowed="a file", hint="check the path")
        ) from error
    if is_sqlite(head):
        return read_trackio
    if is_events(head):
        return read_events
    text = head.decode("utf-8-sig", errors="replace")
    if is_jsonl(text):
        return read_jsonl
    if is_csv(text):
        return read_csv
    return read_json_history if is_json_history(path, text) else None
