"""JSON metrics: one object per line, an array of them, or a Hugging Face `trainer_state.json`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from steptune.readers.lines import NumberedLine
from steptune.readers.metrics.rows import Json, MetricRow, as_object, has_step, row_of
from steptune.readers.scan.chunks import read_chunks
from steptune.readers.scan.pick import all_lines

MAX_WHOLE_BYTES = 1 << 26
"""Largest JSON file that is decoded at once; one object per line has no such limit."""

_NEXT_PAIR = ', "'
"""What stands between two pairs of an object on one line."""

_LISTS = ("log_history", "history", "data", "rows", "metrics")
"""Where a single object keeps its records."""


def is_jsonl(head: str) -> bool:
    """Whether the first line that is no remark is a whole JSON object of a step, or verl's wrapped one."""
    lines = (line.strip() for line in head.split("\n"))
    first = next((line for line in lines if line and not line.startswith(("#", "```"))), "")
    record = as_object(_decoded(first)) if first.startswith("{") else None
    return record is not None and has_step(record) and not any(isinstance(record.get(name), list) for name in _LISTS)


def read_jsonl(path: Path) -> Iterator[MetricRow]:
    """Yield the rows of a file of one object per line; of a last object that is cut, the pairs that are whole.

    Other lines and broken ones before the last are passed over: what a crash tore is told again after it.
    """
    last: NumberedLine | None = None
    for last in all_lines(read_chunks(path)):
        record = _object(last[1])
        if record is not None:
            yield row_of(record, last[0])
    if last is not None and _object(last[1]) is None and (record := _object(_closed(last[1].strip()))) is not None:
        yield row_of(record, last[0])


def is_json_history(path: Path, head: str) -> bool:
    """Whether the file is one JSON document with a list of step records."""
    return head.lstrip()[:1] in ("{", "[") and any(True for _ in _records(path))


def read_json_history(path: Path) -> Iterator[MetricRow]:
    """Yield the rows of a JSON document; their number stands for a line."""
    return (row_of(record, index) for index, record in enumerate(_records(path), start=1))


def _records(path: Path) -> Iterator[Json]:
    if path.stat().st_size > MAX_WHOLE_BYTES:
        return
    document = _decoded(path.read_text(encoding="utf-8", errors="replace"))
    whole = as_object(document)
    found = [document] if whole is None else [whole.get(name) for name in _LISTS]
    for candidate in found:
        items = cast("list[object]", candidate) if isinstance(candidate, list) else []
        records = [record for item in items if (record := as_object(item)) is not None and has_step(record)]
        if records:
            yield from records
            return


def _object(line: str) -> Json | None:
    text = line.strip()
    return as_object(_decoded(text)) if text.startswith("{") else None


def _closed(text: str) -> str:
    """An object that breaks off, closed behind its last whole pair: `{"a": 1, "b": 2.` is `{"a": 1}`."""
    whole = text[: max(text.rfind(_NEXT_PAIR), 0)]
    return whole + "}" * (whole.count("{") - whole.count("}"))


def _decoded(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None
