"""Rows of a metrics file become step records under the keys that a framework's reader knows."""

from collections.abc import Iterable, Iterator

from steptune.readers.formats.by_step import MAX_OPEN_STEPS, StepCollector
from steptune.readers.metrics.rows import MetricRow
from steptune.readers.reading import FrameworkReader
from steptune.readers.step import Reading, StepRecord


def records_of(rows: Iterable[MetricRow], row: FrameworkReader, path: str) -> Iterator[StepRecord]:
    """Yield one record per step; rows without a step are steps of their own, after those that are open before them."""
    collector, loose = StepCollector(path=path), list[StepRecord]()
    for metrics in rows:
        found = [
            Reading(key=row.normal_key(key), value=value, text=text, line=metrics.line)
            for key, (value, text) in metrics.values.items()
        ]
        found += row.derived(found)
        if found and metrics.number is None:
            loose.append(StepRecord(number=None, path=path, readings={reading.key: reading for reading in found}))
        if loose and (metrics.number is not None or not collector.steps or len(loose) > MAX_OPEN_STEPS):
            yield from loose
            loose = []
        if found and metrics.number is not None:
            yield from collector.put(metrics.number, found)
    yield from collector.end()
    yield from loose
