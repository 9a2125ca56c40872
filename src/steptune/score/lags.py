"""Forecast ages of trained tokens against those of the trial that followed.

Surprise: every update of a batch makes its tokens one older, and steps record ages at all of them. The mean is taken
back to a step's first update, where the owner's limit and the forecast count; the shares are told only where a step has
one update, for otherwise they cannot be taken apart.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.ages import mean_age, tokens_by_age
from steptune.core.change import Change
from steptune.core.estimate import Estimate, Source
from steptune.core.event import Forecasted, TrialEnded
from steptune.core.lag import LagDistribution, LagShare
from steptune.core.trial import Observation


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LagScore:
    """One forecast of ages and what the trial measured: mean 0.93, measured 0.90."""

    target: str
    """What it was written for: ``trial 3``."""
    change: Change
    is_first: bool
    forecast: LagDistribution
    measured: LagDistribution | None
    """None where the trial has no steps."""

    @property
    def mean_error(self) -> float | None:
        """Forecast - measured mean age, in updates; None unless both are known."""
        if self.forecast.mean is None or self.measured is None or self.measured.mean is None:
            return None
        return self.forecast.mean.value - self.measured.mean.value

    @property
    def share_error(self) -> float | None:
        """Largest |forecast - measured| of any P(lag = k); None unless both have shares."""
        if self.measured is None or not self.measured.shares or not self.forecast.shares:
            return None
        ours, theirs = ({row.lag: row.share.value for row in d.shares} for d in (self.forecast, self.measured))
        return max(abs(ours.get(lag, 0.0) - theirs.get(lag, 0.0)) for lag in {*ours, *theirs})


def lag_scores(
    forecasts: Sequence[Forecasted], trial_ends: Sequence[TrialEnded], *, num_updates: int
) -> tuple[LagScore, ...]:
    """Return a score for every forecast of a trial whose tokens may be older than a step, in journal order."""
    steps = {(end.trial.number, end.trial.change.signature): candidate_steps(end) for end in trial_ends}
    scores: dict[tuple[int, str, bool], LagScore] = {}
    for event in forecasts:
        ages, change = event.forecast.ages, event.forecast.change
        if event.purpose != "trial" or ages is None or event.forecast.lag == 0:
            continue
        measured = measured_lag(steps.get((event.trial_number, change.signature), ()), num_updates=num_updates)
        scores.setdefault(
            (event.trial_number, change.signature, event.is_first),
            LagScore(
                target=f"trial {event.trial_number}",
                change=change,
                is_first=event.is_first,
                forecast=ages,
                measured=measured,
            ),
        )
    return tuple(scores.values())


def candidate_steps(end: TrialEnded) -> tuple[Observation, ...]:
    """Return the counted steps of a trial's candidate."""
    return tuple(step for arm in end.trial.arms if arm.label == "candidate" for step in arm.observations)


def measured_lag(steps: Sequence[Observation], *, num_updates: int) -> LagDistribution | None:
    """Return the ages of the tokens that ``steps`` trained on, at each step's first update; None without steps."""
    if not steps:
        return None
    mean = mean_age(steps, num_updates=num_updates)
    if mean is None:
        return LagDistribution(mean=None, unknown="no step trained on a token")
    if math.isnan(mean):
        return LagDistribution(mean=None, unknown="the mean age of a step's tokens is NaN")
    shares = _shares(tokens_by_age(steps), num_updates, len(steps))
    return LagDistribution(mean=_measured(mean, "updates", len(steps)), shares=shares)


def _shares(tokens: Counter[int], num_updates: int, num_steps: int) -> tuple[LagShare, ...]:
    if num_updates > 1:
        return ()
    return tuple(
        LagShare(lag=lag, share=_measured(count / tokens.total(), "frac", num_steps))
        for lag, count in sorted(tokens.items())
        if count
    )


def _measured(value: float, unit: str, num_steps: int) -> Estimate:
    return Estimate(value=value, unit=unit, source=Source.MEASURED, n=num_steps)
