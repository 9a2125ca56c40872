"""One step told by two files, a console log and the metrics file beside it, is one observation.

Counted twice it would not move the mean but make its interval too narrow.
"""

import math
from collections.abc import Iterable, Sequence

from steptune.readers.step import StepRecord

ROUNDING_FRAC = 2e-3
"""Relative distance up to which two step times are one: consoles print three digits, metrics files all."""


def without_copies(records: Iterable[StepRecord], step_keys: Sequence[str]) -> list[StepRecord]:
    """Return ``records`` without those that another file told before: same number, same step time."""
    told: dict[int, tuple[str, float]] = {}
    kept: list[StepRecord] = []
    for record in records:
        seconds = next((value for key in step_keys if (value := record.value(key)) is not None), None)
        if record.number is None or seconds is None:
            kept.append(record)
            continue
        path, before_s = told.setdefault(record.number, (record.path, seconds))
        if path == record.path or not math.isclose(before_s, seconds, rel_tol=ROUNDING_FRAC):
            kept.append(record)
    return kept
