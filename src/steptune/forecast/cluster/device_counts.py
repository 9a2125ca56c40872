"""Device counts asked backwards: the fewest that keep a step time, and the best split of a number of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.sweep import Space, sweep

KEEPS_FRAC = 0.02
"""Part by which a step may be longer and still count as kept: within-launch noise of published runs is about 2 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """``Answer(cluster=..., step_s=18.3, is_proven=True)``."""

    cluster: Cluster
    step_s: float
    is_proven: bool


def best_split(sides: Sides, like: Cluster, num_devices: int) -> Answer | None:
    """Return the best split of exactly so many devices among configurations that are otherwise like this one.

    None when they do not divide into whole ranks and replicas.
    """
    space = splits(like, num_devices)
    if space is None:
        return None
    found = sweep(sides, space)
    if not found.ranked:
        return None
    first = found.ranked[0].cluster
    return Answer(cluster=first, step_s=step_seconds(sides, first), is_proven=found.is_proven)


def fewest_devices(
    sides: Sides, like: Cluster, *, step_s: float, counts: Sequence[int], keeps_frac: float = KEEPS_FRAC
) -> Answer | None:
    """Return the smallest of ``counts`` whose best split keeps ``step_s``; None if none does.

    Every count is asked, from the smallest: with kept groups and whole replicas a step need not fall steadily.
    """
    for num_devices in sorted(counts):
        answer = best_split(sides, like, num_devices)
        if answer is not None and answer.step_s <= step_s * (1 + keeps_frac):
            return answer
    return None


def splits(like: Cluster, num_devices: int) -> Space | None:
    """Return every split of so many devices into ranks and replicas of the sizes that ``like`` has."""
    per_rank, per_replica = like.train.devices_per_rank, like.rollout.devices_per_replica
    if like.is_colocated:
        if num_devices % per_rank or num_devices % per_replica:
            return None
        trains, rollouts = [num_devices // per_rank], [num_devices // per_replica]
    else:
        trains = [
            n for n in range(1, num_devices // per_rank + 1) if _is_whole(num_devices - n * per_rank, per_replica)
        ]
        rollouts = sorted({(num_devices - n * per_rank) // per_replica for n in trains})
    if not trains:
        return None
    return Space(
        rollouts=tuple(replace(like.rollout, num_replicas=n) for n in rollouts),
        trains=tuple(replace(like.train, num_ranks=n) for n in trains),
        queues=(like.queue,),
        placements=(like.is_colocated,),
        min_devices=num_devices,
        max_devices=num_devices,
    )


def _is_whole(left: int, per_replica: int) -> bool:
    return left > 0 and left % per_replica == 0
