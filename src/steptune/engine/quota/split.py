"""Which part of the job's cores each side holds when both work at once. Pure.

The surprise: a share fixes the threads too. With fewer threads than its share rounded up a side cannot use the
share; with more, they all run and then all wait, and no split was measured.
"""

import math
from dataclasses import dataclass

from steptune.core.errors import JobError, explain
from steptune.engine.knobs import EngineKnobs

SPLITS_PER_CORE = 5
"""Splits the tuner may try per core: nine of two cores besides none, 0.2 to 1.8, one core each among them. A quarter
core gave seven."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Cores of both sides: ``Split(rollout=0.75, trainer=1.25)`` of two."""

    rollout: float
    trainer: float


def split_of(num_cores: int, knobs: EngineKnobs) -> Split | None:
    """Return the cores of both sides, or None without a quota.

    Raises:
        JobError: the knobs cannot be split so (see `split_conflicts`).
    """
    if knobs.rollout_cores is None:
        return None
    for reason in split_conflicts(num_cores, knobs):
        raise JobError(
            explain(
                "`rollout_cores` does not fit the other knobs",
                got=f"{knobs.rollout_cores:g} of {num_cores} cores: {reason}",
                allowed=f"above 0 and below {num_cores}, with two processes and the threads each share needs",
                hint="leave `rollout_cores` out, or set `schedule`, `rollout_threads` and `train_threads` with it",
            )
        )
    return Split(rollout=knobs.rollout_cores, trainer=num_cores - knobs.rollout_cores)


def split_conflicts(num_cores: int, knobs: EngineKnobs) -> tuple[str, ...]:
    """Return every reason why ``knobs.rollout_cores`` cannot hold; none without a quota.

    >>> split_conflicts(2, EngineKnobs(rollout_cores=0.5))[0]
    'rollout_cores needs rollout and trainer in two processes'
    """
    share = knobs.rollout_cores
    if share is None:
        return ()
    if share >= num_cores:
        return (f"rollout_cores leaves nothing of {num_cores} cores to the trainer",)
    reasons: list[str] = []
    if knobs.schedule == "sync":
        reasons.append("rollout_cores needs rollout and trainer in two processes")
    if knobs.train_ranks > 1:
        reasons.append("rollout_cores needs one trainer rank: a quota holds one process")
    if knobs.rollout_threads != math.ceil(share / knobs.rollout_replicas):
        reasons.append("rollout_threads must be each replica's share of rollout_cores rounded up")
    if knobs.train_threads != math.ceil(num_cores - share):
        reasons.append("train_threads must be the trainer's share of the cores rounded up")
    return tuple(reasons)


def splits(num_cores: int) -> tuple[float, ...]:
    """Return the shares of the rollout worth trying: every fifth of a core that leaves the trainer one.

    >>> splits(2)
    (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8)
    """
    return tuple(i / SPLITS_PER_CORE for i in range(1, num_cores * SPLITS_PER_CORE))
