"""Seconds that the machine model, uncalibrated, gives each (role, phase) of a planned step."""

from dataclasses import dataclass

from steptune.core.phase import Role
from steptune.core.work import PlannedWork
from steptune.forecast.curve import CostBook

Key = tuple[Role, str]
"""A role and a phase, the phase as the plan or the profile names it (``parent`` or ``parent/child``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SideCosts:
    """Model seconds per step: ``seconds={(Role.ROLLOUT, "rollout/decode"): 0.31}``."""

    seconds: dict[Key, float]
    """Sum over items of count x price x slow-down."""
    stretched_s: dict[Key, float]
    """The same sum, each term times its reach beyond the measured sizes: what extrapolation puts at risk."""


def side_costs(planned: PlannedWork, book: CostBook) -> SideCosts:
    """Add up the plan.

    Raises:
        ForecastError: an item has no price.
    """
    seconds: dict[Key, float] = {}
    stretched_s: dict[Key, float] = {}
    for item in planned.items:
        price = book.price(item)
        key = (item.role, item.phase)
        item_s = item.count * price.seconds * item.slowdown
        seconds[key] = seconds.get(key, 0.0) + item_s
        if price.reach > 0:
            stretched_s[key] = stretched_s.get(key, 0.0) + item_s * price.reach
    return SideCosts(seconds=seconds, stretched_s=stretched_s)
