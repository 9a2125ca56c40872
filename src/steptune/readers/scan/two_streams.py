"""How many steps stand in two streams of one job: a bar on one and the metrics on the other, gathered apart.

The surprise: the metrics of a buffered stream come in one heap after the bars, so that none of them has a number and
none of the bars a metric. Each is a record, but both tell the same steps.
"""

from collections.abc import Sequence

from steptune.readers.step import StepRecord


def num_told_twice(records: Sequence[StepRecord], step_keys: Sequence[str]) -> int:
    """Return how many of ``records`` tell a step that another one tells: numbered times beside metrics without both."""
    times, metrics = 0, 0
    for record in records:
        has_time = any(key in record.readings for key in step_keys)
        if record.number is not None and has_time and all(key in step_keys for key in record.readings):
            times += 1
        elif record.number is None and not has_time:
            metrics += 1
    return min(times, metrics)
