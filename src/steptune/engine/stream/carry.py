"""Which groups a step trains on, which go on into the next one, and what became of every one. Pure.

::

    capacity groups are in the making or ready at any time: over-sampling times what a step takes

    begin of a step      too old: dropped, counted        room: new groups are begun
    the step stops       when enough are complete, and every group that would be too old next time is among them
    it takes             the oldest first, then by place; complete ones beyond that stay ready, the others go on

So a long row gets the time of as many steps as the age allows, and then the step waits for it: it is never starved,
and never trained on too old. At most ``capacity - groups_per_step`` groups are left over, which is at most a step's
worth, so what must be taken always fits into the next step.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

from steptune.core.errors import JobError, explain
from steptune.core.job import JobSpec
from steptune.core.trial import QueueCount, QueueStats
from steptune.engine.ahead.groups import Group
from steptune.engine.knobs import EngineKnobs
from steptune.engine.stream.groups import Start


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CarryBound:
    """The owner's bound, and how many groups there are to choose from.

    Example: 8 groups a step, over-sampling 1.5, ``max_lag=1``: 12 groups, at most 4 of which go on for one step.
    """

    groups_per_step: int
    updates_per_step: int
    max_lag: int
    """Largest age of a trained token, in optimizer updates."""
    capacity: int

    def is_too_old(self, oldest_version: int | None, trainer_version: int) -> bool:
        """Return whether a group may no longer be trained on."""
        return oldest_version is not None and trainer_version - oldest_version > self.max_lag

    def is_due(self, oldest_version: int | None, trainer_version: int) -> bool:
        """Return whether a group would be too old a step later."""
        return self.is_too_old(oldest_version, trainer_version + self.updates_per_step)


def carry_bound(job: JobSpec, knobs: EngineKnobs) -> CarryBound:
    """Return the bound of a run whose unfinished rows go on in the next step.

    Raises:
        JobError: no `max_lag`, one that lets nothing go on, or one above the owner's limit.
    """
    least, most = job.algorithm.num_updates, job.limits.max_staleness
    max_lag, factor = knobs.max_lag, knobs.partial_rollout
    if max_lag is None or factor is None or not least <= max_lag <= most:
        raise JobError(
            explain(
                "`partial_rollout` needs a `max_lag` that the owner's limit allows",
                got=max_lag,
                allowed=f"{least} (one step's updates) to `limits.max_staleness`, {most} optimizer updates",
                hint="set `knobs.pin.max_lag`, or raise the limit yourself",
            )
        )
    per_step = job.algorithm.prompts_per_step
    return CarryBound(
        groups_per_step=per_step, updates_per_step=least, max_lag=max_lag, capacity=math.ceil(factor * per_step)
    )


@final
class CarryBook:
    """Every group between its begin and its training."""

    def __init__(self, bound: CarryBound) -> None:
        self.bound = bound
        self.making: dict[int, Start] = {}
        """By place, as they entered the step."""
        self.ready: dict[int, Group] = {}
        """Complete, by place."""
        self.next_place = 0
        self.num_groups = {"generated": 0, "trained": 0, "dropped": 0}
        self.num_tokens = {"generated": 0, "trained": 0, "dropped": 0}

    def open(self, trainer_version: int, start: Callable[[int], Start]) -> list[Start]:
        """Drop what is too old, begin new groups, and return all that decode in this step, oldest first."""
        for held in (self.making, self.ready):
            for number in [n for n, group in held.items() if self._is_too_old(group, trainer_version)]:
                self._count("dropped", held.pop(number))
        while len(self.making) + len(self.ready) < self.bound.capacity:
            self.making[self.next_place] = start(self.next_place)
            self.next_place += 1
            self.num_groups["generated"] += 1
        return [self.making[number] for number in sorted(self.making)]

    def complete(self, group: Group) -> None:
        """A group's last row has ended."""
        del self.making[group.number]
        self.ready[group.number] = group

    def begin_again(self, start: Start) -> Start:
        """A complete group taught nothing, and another one takes its place."""
        self.making[start.number] = start
        return start

    def is_enough(self, trainer_version: int) -> bool:
        """Return whether the step may stop."""
        owes = any(self.bound.is_due(start.oldest_version, trainer_version) for start in self.making.values())
        return len(self.ready) >= self.bound.groups_per_step and not owes

    def carry(self, starts: Iterable[Start], num_sampled: int) -> None:
        """Keep what is unfinished as it is now; ``num_sampled`` tokens were sampled in this step."""
        self.making = {start.number: start for start in starts}
        self.num_tokens["generated"] += num_sampled

    def take(self) -> list[Group]:
        """Remove and return the step's groups, the oldest first; they count as trained."""
        order = sorted(self.ready.values(), key=lambda group: (group.oldest_version, group.number))
        taken = [self.ready.pop(group.number) for group in order[: self.bound.groups_per_step]]
        for group in taken:
            self._count("trained", group)
        return taken

    def stats(self, lag_mean: float) -> QueueStats:
        """Return the counts so far; unfinished rows are buffered with what they have said."""
        held = [*self.making.values(), *self.ready.values()]
        return QueueStats(
            groups=QueueCount(**self.num_groups, buffered=len(held)),
            tokens=QueueCount(**self.num_tokens, buffered=sum(group.num_tokens for group in held)),
            lag_mean=lag_mean,
        )

    def _is_too_old(self, group: Start | Group, trainer_version: int) -> bool:
        return self.bound.is_too_old(group.oldest_version, trainer_version)

    def _count(self, what: str, group: Start | Group) -> None:
        self.num_groups[what] += 1
        self.num_tokens[what] += group.num_tokens
