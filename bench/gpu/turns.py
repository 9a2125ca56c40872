"""Arms that take turns until their share of the time is up, and a budget that later parts are dropped from.

The first two turns are not counted. One warms up: it makes pinned places, loads kernels and the optimizer's moments.
The other measures memory, and its length tells whether the least number of turns fits the time that is left; if not,
the part is dropped and says so. The baseline runs twice in every turn: what the two differ by is noise, and no arm
may claim less.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu.record import MIN_TURNS, Arm, Ratio, Table, again, arm, ratio
from gpu.site import Site

MAX_TURNS = 15
"""Turns after which an interval hardly gets narrower."""


class OverBudgetError(Exception):
    """The least number of turns does not fit; the message gives both times."""


@dataclass(kw_only=True, slots=True)
class Budget:
    """What is left of a run's time: ``Budget(total_s=420.0)``; ``clock`` is the only time it knows."""

    total_s: float
    clock: Callable[[], float] = time.monotonic
    start_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Start."""
        self.start_s = self.clock()

    @property
    def took_s(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.start_s

    @property
    def left_s(self) -> float:
        """Seconds until the end; below zero behind it."""
        return self.total_s - self.took_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A part's time: it should end with ``goal_s`` of the budget left, and must fit what is left at all."""

    budget: Budget
    goal_s: float

    @staticmethod
    def of(budget: Budget, num_parts_left: int) -> "Share":
        """Return an equal share of what is left for each part that is to come."""
        return Share(budget=budget, goal_s=budget.left_s * (1 - 1 / num_parts_left))

    def piece(self, num_pieces_left: int) -> "Share":
        """Return an equal piece of what is left of this share for each piece that is to come."""
        mine_s = max(0.0, self.budget.left_s - self.goal_s)
        return Share(budget=self.budget, goal_s=self.budget.left_s - mine_s / num_pieces_left)


def interleaved(
    site: Site, calls: Mapping[str, Callable[[], object]], share: Share, *, baseline: str
) -> dict[str, Arm]:
    """Return every arm's times and memory; all have equally many turns, and ``baseline`` runs twice in each.

    Raises:
        OverBudgetError: not even the least number of turns fits.
    """
    calls = {**calls, again(baseline): calls[baseline]}
    for call in calls.values():
        call()
    site.synchronize()
    if share.budget.left_s < 0:
        raise OverBudgetError(f"the warm-up turn ended {-share.budget.left_s:.0f} s behind the budget")
    begin_s = share.budget.took_s
    peaks = {name: site.peak_bytes(call) for name, call in calls.items()}
    turn_s, needed = share.budget.took_s - begin_s, MIN_TURNS
    if needed * turn_s > share.budget.left_s:
        raise OverBudgetError(f"{needed} turns of {turn_s:.1f} s do not fit the {share.budget.left_s:.0f} s left")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(MIN_TURNS if site.is_tiny else MAX_TURNS):
        if turn >= MIN_TURNS and share.budget.left_s - turn_s < share.goal_s:
            break
        for name in _rotated(list(calls), turn):
            times[name].append(site.seconds(calls[name]))
    return {name: arm(name, times[name], peaks[name]) for name in calls}


def table(part: str, name: str, what: str, arms: Mapping[str, Arm], pairs: list[tuple[str, str]]) -> Table:
    """Return arms with the ratios of ``pairs``: (candidate, baseline), and first that of the arm that ran twice."""
    twice = [(candidate, baseline) for baseline in arms for candidate in arms if candidate == again(baseline)]
    ratios: list[Ratio] = [ratio(arms[candidate], arms[baseline]) for candidate, baseline in twice + pairs]
    return Table(part=part, name=name, what=what, arms=tuple(arms.values()), ratios=tuple(ratios))


def _rotated(names: list[str], turn: int) -> list[str]:
    """Return the arms in an order that changes every turn, so that none always follows the same one."""
    start = turn % len(names)
    return names[start:] + names[:start]
