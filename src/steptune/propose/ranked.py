"""A change with its forecast, as the wiring stage hands it over (propose does not know the forecaster)."""

from dataclasses import dataclass

from steptune.core.change import Change
from steptune.core.knob import Effect, Restart


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedChange:
    """One forecast: ``RankedChange(change=..., low=0.66, mid=0.70, high=0.74)``.

    The numbers are candidate / baseline step time with its 80 % interval.
    """

    change: Change
    low: float
    mid: float
    high: float


NO_CHANGE = RankedChange(change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT), low=1.0, mid=1.0, high=1.0)
"""The baseline itself, which is always allowed."""
