"""The race of a stream and its trainer, and the ages that come of it.

::

    replicas   begin groups while the bound allows ---> complete groups, trained on in the order of their places
        ^                                                       |
        '----- new weights, and room for a step's groups <--- trainer: waits, trains, publishes

Neither waits for the other but for a reason: the trainer for the coming step's groups, a replica for the bound.
Deterministic.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from steptune.core.lag import StreamLag
from steptune.forecast.lag.costs import StreamCosts
from steptune.forecast.lag.replica import DoneGroup, Published, Replica, Rows


@dataclass(frozen=True, kw_only=True, slots=True)
class RacedStep:
    """One step of the trainer: ``RacedStep(seconds=0.61, wait_s=0.02, tokens_by_lag={1: 300, 2: 210})``."""

    seconds: float
    """From the publication before to its own."""
    wait_s: float
    """The trainer waits for groups."""
    tokens_by_lag: dict[int, int]
    """Completion tokens by their age at the step's first update."""


def race(plan: StreamLag, costs: StreamCosts, groups: Sequence[Rows], *, num_steps: int) -> tuple[RacedStep, ...]:
    """Return ``num_steps`` steps after a warm-up; ``groups`` are begun in their order, round and round.

    Nothing is in stock when it begins and the weights are the first, so steps count only after everything that the
    bound lets be ahead has been trained on twice, and two more.
    """
    run = _Race(plan, costs, groups)
    num_warmup = 2 * (plan.capacity // plan.groups_per_step) + 2
    while len(run.steps) < num_warmup + num_steps:
        run.go_on()
    return tuple(run.steps[num_warmup : num_warmup + num_steps])


@final
class _Race:
    """Use once."""

    def __init__(self, plan: StreamLag, costs: StreamCosts, groups: Sequence[Rows]) -> None:
        self.plan, self.costs, self.groups = plan, costs, groups
        mean_group = fmean(sum(prompt + completion for prompt, completion in rows) for rows in groups)
        self.mean_tokens = plan.groups_per_step * mean_group
        self.replicas = [Replica(plan, costs) for _ in range(plan.num_replicas)]
        self.published = [Published(at_s=0.0, version=0, num_gone=0)]
        self.num_dealt = 0
        self.complete: dict[int, DoneGroup] = {}
        self.steps: list[RacedStep] = []
        self._deal(0)

    def go_on(self) -> None:
        """Let the replica that is furthest behind make its turn, then the trainer whatever it can."""
        replica = min((r for r in self.replicas if self._is_able(r)), key=lambda r: r.clock_s)
        self._tell(replica)
        for done in replica.turn(self._next_after(replica.heard)):
            self.complete[done.place] = done
        while self._is_enough():
            self._train()

    def _is_able(self, replica: Replica) -> bool:
        return replica.can_go_on or replica.heard is not self.published[-1]

    def _tell(self, replica: Replica) -> None:
        """A replica hears what was published by its clock; one with nothing to do waits for the next publication."""
        while True:
            after = self._next(replica.heard)
            if after is None or (after.at_s > replica.clock_s and replica.can_go_on):
                return
            replica.clock_s = max(replica.clock_s, after.at_s)
            replica.heard = after
            self._deal(after.num_gone)

    def _next(self, heard: Published) -> Published | None:
        index = heard.version // self.plan.updates_per_step + 1
        return self.published[index] if index < len(self.published) else None

    def _next_after(self, heard: Published) -> float:
        after = self._next(heard)
        return math.inf if after is None else after.at_s

    def _deal(self, num_gone: int) -> None:
        """Hand out the places that may be begun with so many groups gone."""
        while self.num_dealt < num_gone + self.plan.capacity:
            index = self.num_dealt % len(self.replicas)
            if self.plan.routing == "fewest_open":
                index = min(range(len(self.replicas)), key=lambda i: self.replicas[i].num_open)
            self.replicas[index].places.append((self.num_dealt, self.groups[self.num_dealt % len(self.groups)]))
            self.num_dealt += 1

    @property
    def _first(self) -> int:
        return len(self.steps) * self.plan.groups_per_step

    def _is_enough(self) -> bool:
        return all(place in self.complete for place in range(self._first, self._first + self.plan.groups_per_step))

    def _train(self) -> None:
        """Take a step's groups; what its updates take goes by its tokens."""
        batch = [self.complete.pop(self._first + i) for i in range(self.plan.groups_per_step)]
        before, tokens = self.published[-1], Counter[int]()
        for group in batch:
            for version, count in group.tokens.items():
                tokens[before.version - version] += count
        begun_s = max(before.at_s, max(group.at_s for group in batch))
        trained_s = self.costs.train_s * sum(group.num_tokens for group in batch) / self.mean_tokens
        ended_s = begun_s + trained_s + self.costs.handover_s
        self.steps.append(
            RacedStep(
                seconds=ended_s - before.at_s,
                wait_s=begun_s - before.at_s,
                tokens_by_lag=dict(sorted(tokens.items())),
            )
        )
        self.published.append(
            Published(
                at_s=ended_s,
                version=before.version + self.plan.updates_per_step,
                num_gone=before.num_gone + self.plan.groups_per_step,
            )
        )
