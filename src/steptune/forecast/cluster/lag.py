"""P(lag = k) with its interval, and how much longer a profile must be before it can be told.

Two things keep it open. The profile's lengths are a draw (`resample`): that shrinks with more logged groups. And a run
of some fifty steps wanders by itself, for a queue near balance remembers: no profile helps against that. They are told
apart by how the steps *inside* one simulated run differ, taken in stretches longer than the queue's memory.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import final

from steptune.core.errors import explain
from steptune.forecast.cluster.resample import Answer
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import Z_80, RatioInterval

STRETCH = 8
"""Steps whose mean is one observation of how a run wanders."""

TOLD_Z = 1.959963984540054
"""Standard deviations that must be within what is asked before a share counts as told: 95 %. At 80 % one of nine queues
that were told was off by more than 0.05 (virtual draw of seed 11)."""

WITHIN = 0.05
"""What a share of lags should be known to."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LagForecast:
    """``LagForecast(shares={1: RatioInterval(low=0.21, mid=0.30, high=0.39), ...}, num_groups=128, ...)``."""

    shares: dict[int, RatioInterval]
    """P(lag = k), 80 %."""
    profile_sd: dict[int, float]
    """Of each share: what the profile leaves open."""
    run_sd: dict[int, float]
    """Of each share: how far runs of so many steps lie apart, whatever is known."""
    num_groups: int
    """Groups that the profile logged."""

    @property
    def mean(self) -> float:
        """Return the mean age of trained rollouts in updates."""
        return math.fsum(k * share.mid for k, share in self.shares.items())

    @property
    def half_width(self) -> float:
        """Return how far any share may be off, 95 %."""
        return TOLD_Z * max(math.hypot(self.profile_sd[k], self.run_sd[k]) for k in self.shares)

    @property
    def wander(self) -> float:
        """Return the half width that no profile makes narrower: how runs of so many steps differ, 95 %."""
        return TOLD_Z * max(self.run_sd.values())

    def groups_needed(self, within: float = WITHIN) -> int:
        """Return the groups a profile needs so that every share is known to ``within`` (95 %).

        Where runs wander about as far by themselves, those that leave at most half of ``within`` open.
        """
        most_var = (within / TOLD_Z) ** 2
        rooms = {k: max(most_var - sd * sd, most_var / 4) for k, sd in self.run_sd.items()}
        return max(math.ceil(self.num_groups * sd * sd / rooms[k]) for k, sd in self.profile_sd.items())

    def said(self, groups_per_step: int, within: float = WITHIN) -> str:
        """Return one sentence: known, or how many more steps to profile."""
        known = f"P(lag) is known to {self.half_width:.2f} (95 %) from {self.num_groups} groups"
        if self.half_width <= within:
            return known
        steps = math.ceil((self.groups_needed(within) - self.num_groups) / groups_per_step)
        if steps > 0:
            known = f"{known}: cannot tell within {within:g}; profile {steps} more steps"
        return (
            known if self.wander <= within else f"{known}; runs of this length differ by {self.wander:.2f} themselves"
        )


def lag_forecast(answers: Sequence[Answer], *, num_groups: int) -> LagForecast:
    """Return the distribution from the answers of other profiles.

    Raises:
        ForecastError: fewer than two answers, or one without a queue.
    """
    if len(answers) < 2 or any(len(a.rows_by_lag) < 2 * STRETCH for a in answers):
        raise ForecastError(
            explain(
                "a distribution of lags needs simulated queues",
                got=f"{len(answers)} answers of {sorted({len(a.rows_by_lag) for a in answers})} steps",
                allowed=f"two or more, each of {2 * STRETCH} steps or more",
                hint="ask an asynchronous configuration",
            )
        )
    lags = sorted({k for a in answers for step in a.rows_by_lag for k in step})
    shares: dict[int, RatioInterval] = {}
    profile_sd: dict[int, float] = {}
    run_sd: dict[int, float] = {}
    for k in lags:
        drawn = [_share(a.rows_by_lag, k) for a in answers]
        run_var = fmean(_wander(a.rows_by_lag, k) for a in answers)
        profile_sd[k], run_sd[k] = math.sqrt(max(variance(drawn) - run_var, 0.0)), math.sqrt(run_var)
        mid, half = fmean(drawn), Z_80 * math.hypot(profile_sd[k], run_sd[k])
        shares[k] = RatioInterval(low=max(mid - half, 0.0), mid=mid, high=min(mid + half, 1.0))
    return LagForecast(shares=shares, profile_sd=profile_sd, run_sd=run_sd, num_groups=num_groups)


def _share(steps: Sequence[Mapping[int, int]], k: int) -> float:
    return sum(step.get(k, 0) for step in steps) / sum(sum(step.values()) for step in steps)


def _wander(steps: Sequence[Mapping[int, int]], k: int) -> float:
    """Return the variance of a run's share, from its stretches (batch means)."""
    stretches = [steps[i : i + STRETCH] for i in range(0, len(steps) - STRETCH + 1, STRETCH)]
    return variance(_share(own, k) for own in stretches) / len(stretches)
