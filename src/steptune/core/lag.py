"""How old tokens are when they are trained on: what a plan knows of it beforehand, and the distribution that follows.

Age counts optimizer updates up to a step's *first* update, as the owner's `max_staleness` does; every further update of
the same batch adds one, under any schedule. Surprise: `max_lag` is a bound and no forecast. Where the rollout is the
slower side its groups begin late, and are young when their turn comes.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from steptune.core.errors import explain
from steptune.core.estimate import Estimate
from steptune.core.records import Record

SUM_TOLERANCE = 1e-6
"""How far shares may be from adding up to 1: rounding."""

PositiveInt = Annotated[int, Field(ge=1)]
Updates = Annotated[int, Field(ge=0)]
Part = Annotated[float, Field(ge=0, le=1 + SUM_TOLERANCE)]


class CountedLag(Record):
    """Ages that follow from the plan alone, whichever side is faster.

    Example: one step ahead, one update a step: ``CountedLag(shares=((1, 1.0),))``.
    """

    kind: Literal["counted"] = "counted"
    shares: tuple[tuple[Updates, Part], ...]
    """(age, part of the trained tokens that have it), rising ages."""

    @model_validator(mode="after")
    def _is_whole(self) -> "CountedLag":
        total = math.fsum(share for _, share in self.shares)
        ages = [age for age, _ in self.shares]
        if not abs(total - 1) <= SUM_TOLERANCE or ages != sorted(set(ages)):
            raise ValueError(
                explain(
                    "shares of ages are not a distribution",
                    got=f"ages {ages} that add up to {total:g}",
                    allowed="rising ages whose shares add up to 1",
                    hint="count every trained token once",
                )
            )
        return self


class StreamLag(Record):
    """A stream of groups and a trainer that race each other: the ages depend on both sides' seconds.

    The place in the queue bounds the age: groups are trained on in the order in which they are begun, and none is
    begun whose turn would come more than ``max_lag`` updates later.

    Example: 8 groups of 4 a step, one update a step, at most two updates old, 32 rows decoding at once::

        StreamLag(groups_per_step=8, group_size=4, updates_per_step=1, max_lag=2, num_slots=32, num_replicas=1,
                  routing="in_turn", takes_in_flight=False, admit_frac=1 / 16, share_prefill=True)
    """

    kind: Literal["stream"] = "stream"
    groups_per_step: PositiveInt
    group_size: PositiveInt
    updates_per_step: PositiveInt
    max_lag: Updates
    num_slots: PositiveInt
    """Rows that one replica decodes at once."""
    num_replicas: PositiveInt
    routing: Literal["in_turn", "fewest_open"]
    """Which replica a group's place is handed to."""
    takes_in_flight: bool
    """New weights between two iterations; otherwise when nothing is in the making, and those held are used as far as
    the bound lets them be."""
    admit_frac: Annotated[float, Field(gt=0, le=1)]
    """Free slots, as a part of all, at which waiting rows are admitted."""
    share_prefill: bool
    """A group's prompt is computed once."""

    @property
    def capacity(self) -> int:
        """Groups that may exist, finished or not, beyond those trained on."""
        return self.groups_per_step * (1 + self.max_lag // self.updates_per_step)


LagPlan = Annotated[CountedLag | StreamLag, Field(discriminator="kind")]


class LagShare(Record):
    """``LagShare(lag=1, share=Estimate(value=0.8, unit="frac", ...))``: of trained rollouts."""

    lag: int
    share: Estimate


class LagDistribution(Record):
    """Forecast or measured ages of trained tokens.

    Example: mean 1.62 (1.40 to 1.80): 0.38 of the tokens one update old, 0.62 two.
    """

    mean: Estimate | None
    """Updates, 80 % interval of a forecast; None where nobody can tell."""
    shares: tuple[LagShare, ...] = ()
    """P(lag = k), rising ages; empty where only the mean is known."""
    unknown: str = ""
    """Why there is no number, and what to measure; or what the numbers leave open."""


def certain_lag(plan: CountedLag | StreamLag | None) -> int:
    """Return the oldest age that some trained tokens have for sure, in updates: 0 where only a race can tell.

    >>> certain_lag(CountedLag(shares=((1, 0.4), (2, 0.6), (3, 0.0))))
    2
    """
    if not isinstance(plan, CountedLag):
        return 0
    return max((age for age, share in plan.shares if share > 0), default=0)
