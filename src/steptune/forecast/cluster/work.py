"""What one step asks for, in lengths: groups of rollouts, kept whole. No seconds in here but those of tools."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from steptune.core.errors import explain
from steptune.forecast.curve import ForecastError


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """The environment is asked after ``at_token`` completion tokens and answers ``seconds`` later."""

    at_token: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RowShape:
    """One rollout: ``RowShape(tokens=812)``."""

    tokens: int
    """Completion tokens; 0 is a rollout that ends at once."""
    waits: tuple[Wait, ...] = ()
    """In order of `at_token`, each at least 1 and before the last token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupShape:
    """The rollouts of one prompt: ``GroupShape(prompt=64, rows=(RowShape(tokens=812), RowShape(tokens=95)))``."""

    prompt: int
    rows: tuple[RowShape, ...]
    predicted_tokens: float | None = None
    """Completion tokens of the group as the router has them; None where it knows nothing, and counts rows."""

    @property
    def num_tokens(self) -> int:
        """Completion tokens."""
        return sum(row.tokens for row in self.rows)

    @property
    def wait_s(self) -> float:
        """Seconds of environment, all rows together."""
        return sum(wait.seconds for row in self.rows for wait in row.waits)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A job's steps, in order; after the last they repeat. The same for every candidate: common random numbers."""

    steps: tuple[tuple[GroupShape, ...], ...]
    max_completion: int
    """Tokens a completion may have: what a reservation must hold."""
    length_log_sd: float = 0.0
    """Standard deviation of the log of step time that comes from not knowing the lengths one by one."""
    num_logged_groups: int = 0
    """Groups at the front of `steps` that a profile logged: a draw, as another profile's would be (`resample`)."""

    def __post_init__(self) -> None:
        sizes = {len(step) for step in self.steps}
        longest = max((row.tokens for step in self.steps for group in step for row in group.rows), default=0)
        if len(sizes) != 1 or 0 in sizes or longest > self.max_completion:
            raise ForecastError(
                explain(
                    "this is no work to forecast",
                    got=f"steps of {sorted(sizes)} groups, longest row {longest} of at most {self.max_completion}",
                    allowed="one step or more, each of the same number of groups, no row over the limit",
                    hint="give whole steps of the profile's lengths",
                )
            )
        check_waits([row for step in self.steps for group in step for row in group.rows if row.waits])

    @property
    def logged_groups(self) -> tuple[GroupShape, ...]:
        """Return the groups that a profile logged, in order; empty where lengths come from a summary."""
        return tuple(self.group(i) for i in range(self.num_logged_groups))

    @property
    def groups_per_step(self) -> int:
        """Groups that make one batch."""
        return len(self.steps[0])

    @property
    def longest_row(self) -> int:
        """Positions of the longest row there can be, prompt included."""
        return self.max_completion + max(group.prompt for step in self.steps for group in step)

    def group(self, index: int) -> GroupShape:
        """Return the group with this number, counted from the first step."""
        step, place = divmod(index, self.groups_per_step)
        return self.steps[step % len(self.steps)][place]


def extended(work: Work, num_steps: int, *, seed: int) -> Work:
    """Return the job's steps followed by reshuffled ones: the same groups in other company.

    A few profiled steps repeated would let a queue settle into their own rhythm, which no real job has.
    """
    groups = [group for step in work.steps for group in step]
    steps = list(work.steps)
    draw, size = random.Random(seed), work.groups_per_step
    while len(steps) < num_steps:
        draw.shuffle(groups)
        steps += [tuple(groups[i : i + size]) for i in range(0, len(groups), size)]
    return replace(work, steps=tuple(steps[: max(num_steps, len(work.steps))]))


def check_waits(rows: Sequence[RowShape]) -> None:
    """Refuse waits out of order or after the end.

    Raises:
        ForecastError: a wait lies outside its row, or before the one ahead of it.
    """
    for row in rows:
        places = [wait.at_token for wait in row.waits]
        if places != sorted(set(places)) or (places and not 0 < places[0] <= places[-1] < row.tokens):
            raise ForecastError(
                explain(
                    "a rollout's waits lie outside it",
                    got=f"waits at {places} of {row.tokens} tokens",
                    allowed="increasing places from 1 to the last token but one",
                    hint="give the tokens of a turn before the wait that follows it",
                )
            )
