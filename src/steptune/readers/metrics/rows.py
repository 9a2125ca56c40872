"""One record of a metrics file, before anybody knows which framework's keys it holds."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast, final

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.values import parse_number

Json = dict[str, object]

STEP_KEYS = (
    *("step", "_step", "global_step", "training/global_step", "train/global_step", "trainer/global_step"),
    *("iteration", "rollout_id", "rollout/step", "train/step", "global_step/max_steps", "current_steps"),
)
"""Names of the step counter, the surest first; then ms-swift's, with the text `9/547`, and LLaMA-Factory's."""

_BOOKKEEPING = re.compile(
    r"_?(?:timestamp|runtime|wandb\S*|step|global_step|epoch|iteration|rollout_id)"
    r"|current_steps|total_steps|percentage|remaining_time"
    r"|(?:training|train|trainer|rollout)/(?:global_step|step|epoch)"
)
"""Counters and clocks of a logger: they repeat in every record of a step and say nothing of it."""

_CLOCK = re.compile(r"(?:\d{1,4} days?, )?\d{1,3}:\d\d:\d\d")
"""`2 days, 3:04:05`: how LLaMA-Factory writes what has elapsed, and what remains."""

_OF_TOTAL = re.compile(r"(\d{1,9})/\d+")

_WRAPPERS = ("data", "metrics", "log", "logs")
"""Sections that are no part of a metric's name: verl's file logger writes `{"step": 1, "data": {...}}`."""

MAX_DEPTH = 4
"""Nesting that is followed; metrics are flat or one level deep."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MetricRow:
    """Example: ``MetricRow(number=3, values={"timing_s/gen": (21.47, "21.47")}, line=4)``."""

    number: int | None
    """Step, as the file counts."""
    values: Mapping[str, tuple[float, str]]
    """Number and its text by key, counters left out."""
    line: int
    """Line, or number of the record, from 1."""


def row_of(record: Mapping[str, object], line: int) -> MetricRow:
    """Return the row of a decoded JSON object."""
    values = {key: parsed for key, value in _flat(record, "", 0) if (parsed := _number(value)) is not None}
    counters = (value for key in STEP_KEYS if (value := _count(record, values, key)) is not None)
    number = next((int(value) for value in counters if value == value and abs(value) < float("inf")), None)
    return MetricRow(
        number=number,
        values={key: value for key, value in values.items() if not _BOOKKEEPING.fullmatch(key)},
        line=line,
    )


def has_step(record: Mapping[str, object]) -> bool:
    """Whether a decoded JSON object counts steps."""
    return any(key in record for key in STEP_KEYS)


def as_object(value: object) -> Json | None:
    """Return ``value`` if it is a JSON object."""
    return cast("Json", value) if isinstance(value, dict) else None


def _count(record: Mapping[str, object], values: Mapping[str, tuple[float, str]], key: str) -> float | None:
    """The counter under ``key``: a number, or the first one of a text like `9/547`."""
    if key in values:
        return values[key][0]
    text = record.get(key)
    found = _OF_TOTAL.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else float(found[1])


def _flat(record: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, value in record.items():
        inner = as_object(value)
        if inner is None:
            yield prefix + key, value
        elif depth < MAX_DEPTH:
            yield from _flat(inner, prefix if key in _WRAPPERS else f"{prefix}{key}/", depth + 1)


def _number(value: object) -> tuple[float, str] | None:
    """Number and text; true, false and null are none: a logger writes null for NaN and for nothing alike."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value), repr(value)
        except OverflowError:
            return None
    if isinstance(value, str) and (parsed := parse_number(value.strip())) is not None:
        return parsed, value
    if isinstance(value, str) and _CLOCK.fullmatch(value) and (seconds := parse_duration_s(value)) is not None:
        return seconds, value
    return None
