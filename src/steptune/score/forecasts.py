"""Every forecast held against what it was written for: a trial, or a row of the waterfall.

Surprise: a trial that stopped, failed or ran out of memory is a miss however good its numbers looked, and without
a measured ratio its error counts as infinite in the median: leaving it out would flatter the forecaster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import final

from steptune.core.change import Change
from steptune.core.estimate import Estimate
from steptune.core.event import Forecasted, TrialEnded, Waterfall
from steptune.core.trial import TrialState


class Fate(StrEnum):
    """What became of a forecast."""

    INSIDE = "inside"
    """The measured ratio lies in the forecast interval."""
    OUTSIDE = "outside"
    """It does not, or it is NaN."""
    NOT_FINISHED = "not finished"
    """The trial stopped, failed or ran out of memory: a miss."""
    NOT_TRIED = "not tried"
    """No trial of it has a result: not scored."""
    REFUSED = "refused"
    """The forecaster gave no number."""


Target = tuple[str, int, str]
"""Purpose, trial number (0 for the waterfall) and signature: what finds the measurement of a forecast."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What came of a forecast configuration: ``Measurement(ratio=Estimate(0.73 x), is_finished=True, cause="")``."""

    ratio: Estimate | None
    """Measured / baseline step time."""
    is_finished: bool
    cause: str
    """Why it did not finish."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastScore:
    """One forecast and what was measured.

    Example: packing, forecast 0.70 x (0.66 to 0.77), measured 0.73 x, error -4.1 %, inside.
    """

    target: str
    """What it was written for: ``trial 3`` or ``waterfall row 2``."""
    change: Change
    is_first: bool
    fate: Fate
    forecast: Estimate | None
    """Forecast / baseline step time with its 80 % interval; None when refused."""
    measured: Estimate | None
    """Measured / baseline step time with its 95 % interval; None when there is none."""
    why: str
    """The cause where the trial did not finish or the forecast was refused."""

    @property
    def error_frac(self) -> float | None:
        """Forecast / measured - 1; None unless both numbers exist."""
        if self.forecast is None or self.measured is None:
            return None
        return self.forecast.value / self.measured.value - 1 if self.measured.value else math.nan

    @property
    def is_scored(self) -> bool:
        """Whether it counts in the median: everything that was forecast and has a result."""
        return self.fate in (Fate.INSIDE, Fate.OUTSIDE, Fate.NOT_FINISHED)

    @property
    def is_miss(self) -> bool:
        """Whether the forecast was wrong."""
        return self.fate in (Fate.OUTSIDE, Fate.NOT_FINISHED)


def forecast_scores(
    forecasts: Sequence[Forecasted], trial_ends: Sequence[TrialEnded], waterfalls: Sequence[Waterfall]
) -> tuple[ForecastScore, ...]:
    """Return one score per forecast of a session, in journal order.

    A forecast repeated after a resume counts once, as first written.
    """
    measured = {**_trials(trial_ends), **_waterfall(waterfalls)}
    first_written: dict[tuple[Target, bool], Forecasted] = {}
    for event in forecasts:
        first_written.setdefault((_target(event), event.is_first), event)
    return tuple(_score(event, measured.get(target)) for (target, _), event in first_written.items())


def median_error_frac(scores: Sequence[ForecastScore]) -> float | None:
    """Return the median of |error| over scored forecasts, unknown and NaN ones as infinite; None without any."""
    errors = [abs(s.error_frac) if s.error_frac is not None else math.inf for s in scores if s.is_scored]
    return median(math.inf if math.isnan(error) else error for error in errors) if errors else None


def _target(event: Forecasted) -> Target:
    number = event.trial_number if event.purpose == "trial" else 0
    return event.purpose, number, event.forecast.change.signature


def _trials(trial_ends: Sequence[TrialEnded]) -> dict[Target, Measurement]:
    return {
        ("trial", end.trial.number, end.trial.change.signature): Measurement(
            ratio=end.ratio_to_baseline,
            is_finished=end.trial.state is TrialState.FINISHED,
            cause=end.trial.cause,
        )
        for end in trial_ends
    }


def _waterfall(waterfalls: Sequence[Waterfall]) -> dict[Target, Measurement]:
    """Return every row as first measured; its signature, not its place, finds its forecast."""
    rows = [row for waterfall in reversed(waterfalls) for row in waterfall.rows]
    return {
        ("waterfall", 0, row.signature): Measurement(ratio=row.ratio_to_baseline, is_finished=True, cause="")
        for row in rows
        if row.signature
    }


def _score(event: Forecasted, found: Measurement | None) -> ForecastScore:
    forecast = event.forecast
    fate = Fate.REFUSED if forecast.refused is not None else _fate(forecast.ratio, found)
    not_finished = found.cause if found is not None and fate is Fate.NOT_FINISHED else ""
    return ForecastScore(
        target=f"trial {event.trial_number}" if event.purpose == "trial" else f"waterfall row {event.trial_number}",
        change=forecast.change,
        is_first=event.is_first,
        fate=fate,
        forecast=None if forecast.refused is not None else forecast.ratio,
        measured=found.ratio if found else None,
        why=forecast.refused or not_finished,
    )


def _fate(forecast: Estimate, found: Measurement | None) -> Fate:
    if found is None:
        return Fate.NOT_TRIED
    if not found.is_finished or found.ratio is None:
        return Fate.NOT_FINISHED
    low, high = forecast.low, forecast.high
    is_inside = low is not None and high is not None and low <= found.ratio.value <= high
    return Fate.INSIDE if is_inside else Fate.OUTSIDE
