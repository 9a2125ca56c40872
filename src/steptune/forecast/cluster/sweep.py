"""A whole space, ranked: sides once, pairs joined by a bound, and only those that could still win are simulated.

::

    100 rollout sides --.
     50 train sides   ---+--> 100,000 least steps, sorted --> simulate from the front, stop when the next one's
     20 ways to meet  --'                                     least is above the best simulated

Linear in the candidates. Nothing better can have been skipped while `is_proven`: a simulated step is never below its
bound. When the number of simulations allowed runs out first, `is_proven` is False and says so.
"""

import math
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

Weigh = Callable[[Cluster, float], float]

SIMULATE_AT_MOST = 150
"""Candidates simulated in one sweep: with 256 rollouts a step about 6 s of one core."""

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
    bounds = [p.cost for p in places]
    num_simulated, is_proven = _simulate(sides, places, weigh, simulate_at_most, seed)
    return Sweep(
        ranked=_ranked(places, bounds),
        num_simulated=num_simulated,
        num_refused=len(candidates) - len(places),
        is_proven=is_proven,
    )


def _simulate(sides: Sides, places: list[Place], weigh: Weigh, at_most: int, seed: int) -> tuple[int, bool]:
    """Replace bounds by simulated costs, in place, while one could still win; return how many, and whether all could.

    One line of candidates per way to meet, by bound. The next one comes from the line whose bound, times what
    simulating usually adds on that line, is least: a loose bound must not eat the simulations allowed.
    """
    lines: dict[QueueKnobs, list[int]] = {}
    for i in sorted((i for i, p in enumerate(places) if not p.is_known), key=lambda i: -places[i].cost):
        lines.setdefault(places[i].cluster.queue, []).append(i)
    added: dict[QueueKnobs, list[float]] = {queue: [1.0] for queue in lines}
    best = min((p.cost for p in places if p.is_known), default=math.inf)
    for num_simulated in range(at_most + 1):
        open_lines = [q for q, line in lines.items() if line and places[line[-1]].cost < best]
        if not open_lines:
            return num_simulated, True
        if num_simulated == at_most:
            break
        queue = min(open_lines, key=lambda q: places[lines[q][-1]].cost * added[q][-1])
        i = lines[queue].pop()
        cluster, bound = places[i].cluster, places[i].cost
        cost = weigh(cluster, step_seconds(sides, cluster, seed=seed, num_steps=SWEEP_STEPS))
        places[i] = Place(cluster=cluster, cost=cost, is_known=True)
        added[queue].append(min([*added[queue][1:], cost / bound if bound > 0 else 1.0]))
        best = min(best, cost)
    return at_most, False


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
