"""A whole space, ranked: sides once, pairs joined by a bound, and only those that could still win are simulated.

::

    100 rollout sides --.
     50 train sides   ---+--> 100,000 least steps, sorted --> simulate from the front, stop when the next one's
     20 ways to meet  --'                                     least is above the best simulated

Linear in the candidates. Nothing better can have been skipped while `is_proven`: a simulated step is never below its
bound. When the number of simulations allowed runs out first, `is_proven` is False and says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal

from steptune.forecast.cluster.join import Join
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import step_seconds
from steptune.forecast.cluster.train_side import TrainKnobs

SIMULATE_AT_MOST = 200
"""Candidates simulated in one sweep: with 256 rollouts a step a few seconds of one core."""

SWEEP_STEPS = 6
"""Steps that count in a sweep's simulation; the winner is forecast in full afterwards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """Every rollout side with every training side and every way to meet."""

    rollouts: tuple[RolloutKnobs, ...]
    trains: tuple[TrainKnobs, ...]
    queues: tuple[QueueKnobs, ...]
    max_devices: int | None = None
    min_devices: int = 1
    placements: tuple[bool, ...] = (False,)
    """Whether the sides share devices; True goes with `sync` only."""

    def clusters(self) -> Iterator[Cluster]:
        """Return all candidates within the devices allowed."""
        for is_colocated in self.placements:
            for queue in self.queues:
                if is_colocated and queue.schedule != "sync":
                    continue
                for rollout in self.rollouts:
                    for train in self.trains:
                        made = Cluster(rollout=rollout, train=train, queue=queue, is_colocated=is_colocated)
                        if self.min_devices <= made.num_devices <= (self.max_devices or made.num_devices):
                            yield made


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One candidate's place in the ranking."""

    cluster: Cluster
    cost: float
    """Step seconds, or device-seconds: simulated or joined where `is_known`, else a lower bound."""
    is_known: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Candidates from best to worst; the first one's cost is known, not a bound, if any is."""

    ranked: list[Place]
    num_simulated: int
    num_refused: int
    """Candidates that cannot run: a replica's cache would not hold the longest row."""
    is_proven: bool
    """Whether nothing that was not simulated can beat the first."""


def sweep(
    sides: Sides,
    space: Space,
    *,
    objective: Literal["step", "device_seconds"] = "step",
    simulate_at_most: int = SIMULATE_AT_MOST,
    seed: int = 0,
) -> Sweep:
    """Rank the space. Candidates that cannot run are counted and left out."""
    weigh = _weigher(objective)
    join = Join(sides=sides)
    candidates = list(space.clusters())
    places = [_bounded(join, cluster, weigh) for cluster in candidates if join.can_run(cluster)]
    places.sort(key=lambda p: p.cost)
    best = min((p.cost for p in places if p.is_known), default=float("inf"))
    bounds = [p.cost for p in places]
    num_simulated = 0
    is_proven = True
    for i, place in enumerate(places):
        if place.cost >= best:
            break
        if place.is_known:
            continue
        if num_simulated == simulate_at_most:
            is_proven = False
            break
        num_simulated += 1
        cost = weigh(place.cluster, step_seconds(sides, place.cluster, seed=seed, num_steps=SWEEP_STEPS))
        places[i] = Place(cluster=place.cluster, cost=cost, is_known=True)
        best = min(best, cost)
    return Sweep(
        ranked=_ranked(places, bounds),
        num_simulated=num_simulated,
        num_refused=len(candidates) - len(places),
        is_proven=is_proven,
    )


Weigh = Callable[[Cluster, float], float]


def _weigher(objective: Literal["step", "device_seconds"]) -> Weigh:
    if objective == "step":
        return lambda _, seconds: seconds
    return lambda cluster, seconds: seconds * cluster.num_devices


def _ranked(places: list[Place], bounds: list[float]) -> list[Place]:
    """Order by what is known; a mere bound counts as the bound times what simulating usually added to one."""
    both = zip(places, bounds, strict=True)
    added = [p.cost / b for p, b in both if p.cluster.queue.schedule == "async" and p.is_known and b > 0]
    usual = median(added) if added else 1.0
    best = min((p.cost for p in places if p.is_known), default=0.0)
    return sorted(places, key=lambda p: (p.cost, 0) if p.is_known else (max(p.cost * usual, best), 1))


def _bounded(join: Join, cluster: Cluster, weigh: Weigh) -> Place:
    is_known = cluster.queue.schedule != "async"
    return Place(cluster=cluster, cost=weigh(cluster, join.least_s(cluster)), is_known=is_known)
