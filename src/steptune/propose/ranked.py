"""A change with its forecast, as the wiring stage hands it over (propose does not know the forecaster)."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from steptune.core.change import Change
from steptune.core.knob import Effect, Restart

Z_80 = NormalDist().inv_cdf(0.9)
"""Standard normal quantile that leaves 10 % on each side: what forecasts' intervals are made with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedChange:
    """One forecast: ``RankedChange(change=..., low=0.66, mid=0.70, high=0.74, cost_steps=24.0)``.

    The numbers are candidate / baseline step time with its 80 % interval.
    """

    change: Change
    low: float
    mid: float
    high: float
    cost_steps: float = 1.0
    """What a trial of it takes, in steps of the baseline: start-up, warm-up and both arms' blocks."""
    fit_chance: float = 1.0
    """Chance that it fits in memory, and fails of nothing else that is known to fail."""

    @property
    def log_sd(self) -> float:
        """Standard deviation of the log ratio that the interval stands for."""
        return math.log(self.high / self.low) / (2 * Z_80)


NO_CHANGE = RankedChange(change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT), low=1.0, mid=1.0, high=1.0)
"""The baseline itself, which is always allowed."""
