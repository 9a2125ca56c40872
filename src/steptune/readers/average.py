"""Which steps count, and their means.

The surprise: a timer that is *absent* from a whole step did not run (0 s, as a checkpoint in most steps), but one
that is *broken* is unknown. Steps with a broken timer are left out while whole ones exist.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.core.profile import Origin
from steptune.readers.step import StepRecord
from steptune.stats.intervals import mean_interval

WARMUP_STEPS = 2
"""Steps 1 and 2 pay for compilation, CUDA graphs and caches (research note on comparing trials, section 0.3)."""

MIN_STEPS_KEPT = 3
"""Fewer steps than this give no interval worth printing, so warm-up is dropped only if so many remain."""


MAX_STEP_S = 1e7
"""Longest step time that is believed, four months: longer ones are digits that ran together."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class KeptSteps:
    """The steps that are averaged, at least one, each with a positive step time."""

    steps: tuple[StepRecord, ...]
    step_key: str
    num_warmup: int
    step_note: str = ""

    @property
    def step_time(self) -> Estimate:
        """Mean step time in seconds."""
        return mean_estimate([_present(step, self.step_key) for step in self.steps], unit="s", note=self.step_note)

    def mean(self, key: str, *, unit: str = "s") -> Estimate | None:
        """Mean per step of a timer: absent counts as 0; None when it never ran or is broken in a kept step."""
        if any(step.has_broken(key) for step in self.steps) or not any(key in step.readings for step in self.steps):
            return None
        return mean_estimate([step.value(key) or 0.0 for step in self.steps], unit=unit)

    def gauge(self, *keys: str, unit: str, note: str = "") -> Estimate | None:
        """Mean of a measured quantity under the first of ``keys`` that has finite values; absent steps do not count."""
        for key in keys:
            if values := self.finite(key):
                return mean_estimate(values, unit=unit, note=note)
        return None

    def gauge_value(self, *keys: str) -> float | None:
        """As `gauge`, without unit and interval."""
        estimate = self.gauge(*keys, unit="1")
        return None if estimate is None else estimate.value

    def finite(self, key: str) -> list[float]:
        """Finite values under ``key``, in step order."""
        return [v for step in self.steps if (v := step.value(key)) is not None and math.isfinite(v)]

    def has_nan(self) -> bool:
        """Whether any reading of a kept step is NaN."""
        return any(math.isnan(reading.value) for step in self.steps for reading in step.readings.values())

    def origin(self, key: str) -> Origin | None:
        """Where ``key`` is read first."""
        for step in self.steps:
            if reading := step.readings.get(key):
                return Origin(path=step.path, line=reading.line, key=key)
        return None


def keep_steps(
    records: Sequence[StepRecord], *, step_key: str, timer_keys: Sequence[str], step_note: str = ""
) -> KeptSteps | None:
    """Return the steps to average, or None when no record has a step time."""
    usable = [r for r in records if (seconds := r.value(step_key)) is not None and 0 < seconds <= MAX_STEP_S]
    whole = [r for r in usable if not r.is_cut] or usable
    sound = [r for r in whole if not any(r.has_broken(key) for key in timer_keys)] or whole
    settled = [r for r in sound if r.number is None or r.number > WARMUP_STEPS]
    chosen = settled if len(settled) >= MIN_STEPS_KEPT else sound
    if not chosen:
        return None
    num_warmup = len(sound) - len(chosen)
    return KeptSteps(steps=tuple(chosen), step_key=step_key, num_warmup=num_warmup, step_note=step_note)


def mean_estimate(values: Sequence[float], *, unit: str, note: str = "") -> Estimate:
    """Return the mean as MEASURED, with a 95 % t interval from three values on."""
    if len(values) >= MIN_STEPS_KEPT:
        return mean_interval(values).estimate(unit=unit, source=Source.MEASURED, note=note)
    value = math.fsum(values) / len(values)
    return Estimate(value=value, unit=unit, source=Source.MEASURED, n=len(values), note=note)


def _present(step: StepRecord, key: str) -> float:
    value = step.value(key)
    assert value is not None, f"{key} was checked by keep_steps"
    return value
