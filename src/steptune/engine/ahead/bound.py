"""How far ahead groups may be made, so that none of them is too old when its turn comes. Pure.

::

    gone            made, not yet gone                   may still be begun
    |<- trained --->|<- step s -><- step s+1 -> ...      ...<- step s + max_lag // updates_per_step ->|
        or dropped      age 0       + 1 step                                                          capacity

A group waits for the groups before it, `groups_per_step` of which go in every step, and each step is
`updates_per_step` new versions. So the place in the queue *is* the age at training, known before a token is
sampled: the producer waits rather than make what would have to be dropped.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.errors import JobError, explain
from steptune.core.job import JobSpec
from steptune.engine.knobs import EngineKnobs


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AgeBound:
    """The owner's bound in groups.

    Example: 8 groups a step, 1 update a step, ``max_lag=2``: 24 groups may be made or in the making beyond those gone.
    """

    groups_per_step: int
    updates_per_step: int
    max_lag: int
    """Largest age of a trained token, in optimizer updates."""

    @property
    def capacity(self) -> int:
        """Groups that may exist, finished or not, beyond those trained or dropped."""
        return self.groups_per_step * (1 + self.max_lag // self.updates_per_step)

    def may_begin(self, num_groups: int, *, num_begun: int, num_gone: int) -> bool:
        """Return whether ``num_groups`` more may be begun, under the newest weights published with ``num_gone``."""
        return num_begun + num_groups - num_gone <= self.capacity

    def is_usable(self, oldest_version: int, trainer_version: int) -> bool:
        """Return whether a group whose oldest token ``oldest_version`` sampled may be trained on now."""
        return trainer_version - oldest_version <= self.max_lag


def age_bound(job: JobSpec, knobs: EngineKnobs) -> AgeBound:
    """Return the bound of an asynchronous run.

    Raises:
        JobError: no `max_lag`, or one above the owner's limit.
    """
    limit, max_lag = job.limits.max_staleness, knobs.max_lag
    if max_lag is None or max_lag > limit:
        raise JobError(
            explain(
                "schedule `async` needs a `max_lag` that the owner's limit allows",
                got=max_lag,
                allowed=f"0 to `limits.max_staleness`, {limit} optimizer updates",
                hint="set `knobs.pin.max_lag`, or raise the limit yourself",
            )
        )
    return AgeBound(
        groups_per_step=job.algorithm.prompts_per_step, updates_per_step=job.algorithm.num_updates, max_lag=max_lag
    )
