"""Seconds that the machine model, uncalibrated, gives each (role, phase) of a planned step."""

from dataclasses import dataclass

from steptune.core.phase import Role
from steptune.core.work import PlannedWork, WorkItem
from steptune.forecast.curve import CostBook, ForecastError

THREAD_OVERHEAD = 1.08
"""CPU seconds of two threads / of one, on the same work: what cutting an operator in two costs. Prior."""

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
        item_s = item.count * _seconds(item, price.seconds, book)
        seconds[key] = seconds.get(key, 0.0) + item_s
        if price.reach > 0:
            stretched_s[key] = stretched_s.get(key, 0.0) + item_s * price.reach
    return SideCosts(seconds=seconds, stretched_s=stretched_s)


def repetition_s(item: WorkItem, book: CostBook) -> float:
    """Return the model seconds of one repetition.

    Raises:
        ForecastError: the item has no price.
    """
    return _seconds(item, book.price(item).seconds, book)


def _seconds(item: WorkItem, alone_s: float, book: CostBook) -> float:
    """Return one repetition's seconds, under a quota if there is one.

    Threads that wait for each other use less than their cores: what a quota takes from two of them is what their work
    needs beyond it, between nothing and `slowdown`.
    """
    slowest_s = alone_s * item.slowdown
    if item.one_thread is None:
        return slowest_s
    try:
        one_s = book.price(item.model_copy(update={"when": item.one_thread.when})).seconds
    except ForecastError:
        return slowest_s  # nobody measured one thread: the bound is what there is
    return min(slowest_s, max(alone_s, THREAD_OVERHEAD * one_s / item.one_thread.cores))
