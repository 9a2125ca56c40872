"""Both sides, factored and remembered: a rollout side depends on rollout knobs only, a train side on train knobs only.

So a space of 100 rollout sides, 50 train sides and 20 ways to meet has 150 sides to compute and 100,000 pairs to join.
"""

from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import final

from steptune.forecast.cluster.efficiency import exponent
from steptune.forecast.cluster.makespan import Makespan, makespan
from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs, TrainTime, train_time
from steptune.forecast.cluster.work import Work, extended

TAKING_TURNS = QueueKnobs()
"""Synchronous."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """One whole configuration.

    Example: 4 devices train, 12 generate, two updates ahead at most::

        Cluster(rollout=RolloutKnobs(num_replicas=12), train=TrainKnobs(num_ranks=4),
                queue=QueueKnobs(schedule="async", max_lag=2))
    """

    rollout: RolloutKnobs
    train: TrainKnobs
    queue: QueueKnobs = TAKING_TURNS
    is_colocated: bool = False
    """Both sides take turns on the same devices; `sync` only."""

    @property
    def num_devices(self) -> int:
        """Devices held."""
        sides = (self.rollout.num_devices, self.train.num_devices)
        return max(sides) if self.is_colocated else sum(sides)


@final
@dataclass(kw_only=True, slots=True)
class Sides:
    """Sides of one job, each computed once."""

    parameters: StepParameters
    work: Work
    _makespans: dict[RolloutKnobs, tuple[Makespan, ...]] = field(
        default_factory=dict[RolloutKnobs, tuple[Makespan, ...]]
    )
    _extended: dict[tuple[int, int], Work] = field(default_factory=dict[tuple[int, int], Work])
    _trains: dict[tuple[TrainKnobs, bool], tuple[TrainTime, ...]] = field(
        default_factory=dict[tuple[TrainKnobs, bool], tuple[TrainTime, ...]]
    )

    def extended(self, num_steps: int, *, seed: int) -> Work:
        """Return at least so many steps of the job, reshuffled after its own."""
        known = self._extended.get((num_steps, seed))
        if known is None:
            known = self._extended[num_steps, seed] = extended(self.work, num_steps, seed=seed)
        return known

    def makespans(self, knobs: RolloutKnobs) -> tuple[Makespan, ...]:
        """Return the makespan of every step's batch."""
        known = self._makespans.get(knobs)
        if known is None:
            steps = range(len(self.work.steps))
            known = tuple(makespan(knobs, self.parameters.rollout, self.work, step=step) for step in steps)
            self._makespans[knobs] = known
        return known

    def trains(self, knobs: TrainKnobs, *, is_colocated: bool) -> tuple[TrainTime, ...]:
        """Return the training time of every step's batch."""
        known = self._trains.get((knobs, is_colocated))
        if known is None:
            costs = self.train_costs(knobs, is_colocated=is_colocated)
            known = tuple(train_time(knobs, costs, groups) for groups in self.work.steps)
            self._trains[knobs, is_colocated] = known
        return known

    def train_s(self, knobs: TrainKnobs, *, is_colocated: bool) -> float:
        """Return the mean seconds of training."""
        return fmean(t.seconds for t in self.trains(knobs, is_colocated=is_colocated))

    def train_costs(self, knobs: TrainKnobs, *, is_colocated: bool) -> TrainCosts:
        """Return the prices under this split: where only a total was measured, the efficiency prior bends them."""
        reference, costs = self.parameters.train_reference, self.parameters.train
        if reference is None or reference.num_devices == knobs.num_devices:
            return costs
        slope = exponent(
            was_colocated=reference.is_colocated, is_colocated=is_colocated, seen=self.parameters.device_trials
        )
        linear = reference.num_devices / knobs.num_devices
        return replace(costs, scale=costs.scale * slope.ratio(reference.num_devices, knobs.num_devices) / linear)

    def still_s(self, cluster: Cluster) -> float:
        """Return the seconds per step in which neither side works: weights travel, shared devices switch."""
        switch_s = self.parameters.switch.seconds if cluster.is_colocated else 0.0
        return self.parameters.sync.seconds(cluster.rollout.num_replicas) + switch_s
