"""Metrics of all steps become series under canonical names, each point with its line and how far it can be believed."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from steptune.core.paste import Series, SeriesPoint, ValueStatus
from steptune.readers.reading import Gauge
from steptune.readers.step import Reading, StepRecord

MAX_PLAIN_POINTS = 32
"""Most recent points kept of a metric without a canonical name: nothing judges its trend."""

MAX_SERIES = 600
"""Series of one file; verl logs 120 keys, some agents one per tool."""

MEMORY_SLACK = 1.02
"""A card may hold this much more than people call it by: 80 GB cards state 79.1 to 81.6 GiB."""

_COUNTER = re.compile(r"timing|(?:^|[/_])num_")
"""Of these -1 means `not measured`: a count or a duration is never negative."""

_FRACTIONS = ("clipped_frac", "zero_std_frac", "ess_frac", "grad_clip_frac")
_DEVICE_MEMORY = ("memory_allocated_gib", "memory_reserved_gib", "memory_after_sleep_gib")
_POSITIVE = ("step_time", "tokens_per_device_s", "effective_tokens_per_device_s", "tokens", "mfu", "gen_batches")
_NOT_NEGATIVE = (
    *(
        "reward_std",
        "completion_mean",
        "completion_max",
        "prompt_mean",
        "padded_len",
        "grad_norm",
        "cpu_memory_gib",
        "tool_time",
    ),
    *_DEVICE_MEMORY,
)


def status_of(name: str, value: float, *, card_gib: float | None) -> ValueStatus:
    """Return whether a value of the canonical series ``name`` can be true on cards of ``card_gib``."""
    if math.isnan(value):
        return ValueStatus.MEASURED
    is_false = (
        (name in _FRACTIONS and not 0 <= value <= 1)
        or (name in _POSITIVE and value <= 0)
        or (name in _NOT_NEGATIVE and value < 0)
        or (name == "mfu" and value > 1)
        or (value == -1 and _COUNTER.search(name) is not None)
        or (name in _DEVICE_MEMORY and card_gib is not None and value > card_gib * MEMORY_SLACK)
    )
    return ValueStatus.IMPLAUSIBLE if is_false else ValueStatus.MEASURED


def series_of(
    records: Sequence[StepRecord], gauges: Mapping[str, Gauge], *, card_gib: float | None
) -> tuple[Series, ...]:
    """Return one series per key and file, those with canonical names first, the file with most steps first."""
    paths = [path for path, _ in Counter(record.path for record in records).most_common()]
    found: list[Series] = []
    for path in paths:
        mine = [record for record in records if record.path == path]
        found += _of_file(mine, gauges, path, card_gib)[:MAX_SERIES]
    return tuple(sorted(found, key=lambda series: series.name == series.key))


def with_status(series: Series, *, card_gib: float | None) -> Series:
    """Return ``series`` with the status of every point, for one that was not made here."""
    points = (
        point.model_copy(update={"status": status_of(series.name, point.value, card_gib=card_gib)})
        for point in series.points
    )
    return series.model_copy(update={"points": tuple(points)})


def _of_file(
    records: Sequence[StepRecord], gauges: Mapping[str, Gauge], path: str, card_gib: float | None
) -> list[Series]:
    by_key: dict[str, list[tuple[int | None, Reading]]] = {}
    for record in records:
        for key, reading in record.readings.items():
            by_key.setdefault(key, []).append((record.number, reading))
    chosen = _chosen(by_key, gauges)
    ordered = [*chosen, *(key for key in by_key if key not in chosen)]
    return [_series(key, by_key[key], chosen.get(key), path, card_gib) for key in ordered]


def _chosen(by_key: Mapping[str, object], gauges: Mapping[str, Gauge]) -> dict[str, Gauge]:
    """Of several keys with one canonical name, the first of the framework's table."""
    chosen: dict[str, Gauge] = {}
    taken: set[str] = set()
    for key, gauge in gauges.items():
        if key in by_key and gauge.name not in taken:
            taken.add(gauge.name)
            chosen[key] = gauge
    return chosen


def _series(
    key: str,
    found: Sequence[tuple[int | None, Reading]],
    gauge: Gauge | None,
    path: str,
    card_gib: float | None,
) -> Series:
    name, scale = (key, 1.0) if gauge is None else (gauge.name, gauge.scale)
    kept = found if gauge is not None else found[-MAX_PLAIN_POINTS:]
    points = tuple(
        SeriesPoint(
            step=step,
            value=reading.value * scale,
            line=reading.line,
            status=_as_read(status_of(name, reading.value * scale, card_gib=card_gib), gauge),
        )
        for step, reading in kept
    )
    return Series(name=name, key=key, points=points, path=path)


def _as_read(status: ValueStatus, gauge: Gauge | None) -> ValueStatus:
    """A plausible value is measured, unless a reader computed it."""
    is_derived = gauge is not None and gauge.is_derived and status is ValueStatus.MEASURED
    return ValueStatus.DERIVED if is_derived else status
