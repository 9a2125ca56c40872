"""The bound of a pair from sides already priced: a few look-ups each, so that 100,000 pairs take a second."""

from dataclasses import dataclass, field
from typing import final

from steptune.forecast.cluster.bound import (
    batches_ahead,
    chain_s,
    join_async,
    joined_s,
    least_rollout_s,
    least_train_s,
    num_ahead,
    stay_s,
)
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.train_side import TrainKnobs


@final
@dataclass(kw_only=True, slots=True)
class Join:
    """`bound.least_s`, each side's line remembered."""

    sides: Sides
    _trains: dict[tuple[TrainKnobs, str], float] = field(default_factory=dict[tuple[TrainKnobs, str], float])
    _rollouts: dict[tuple[RolloutKnobs, int], float] = field(default_factory=dict[tuple[RolloutKnobs, int], float])
    _longest_s: tuple[float, float] | None = None

    def can_run(self, cluster: Cluster) -> bool:
        """Return whether a replica's cache holds the longest row."""
        return cluster.rollout.holds(self.sides.work.longest_row)

    def least_s(self, cluster: Cluster) -> float:
        """Return the least the step can take; exact unless asynchronous."""
        if cluster.queue.schedule != "async":
            return joined_s(self.sides, cluster)
        return join_async(
            cluster,
            train_s=self._train_s(cluster),
            rollout_s=self._rollout_s(cluster),
            chain_s=self._longest()[0],
            stay_s=self._longest()[1],
            batches_ahead=batches_ahead(self.sides.work, cluster),
            still_s=self.sides.still_s(cluster),
        )

    def _train_s(self, cluster: Cluster) -> float:
        key = (cluster.train, cluster.queue.consume)
        known = self._trains.get(key)
        if known is None:
            known = self._trains[key] = least_train_s(self.sides, cluster)
        return known

    def _rollout_s(self, cluster: Cluster) -> float:
        ahead = num_ahead(self.sides.work, cluster)
        key = (cluster.rollout, ahead)
        known = self._rollouts.get(key)
        if known is None:
            known = self._rollouts[key] = least_rollout_s(self.sides, cluster.rollout, num_ahead=ahead)
        return known

    def _longest(self) -> tuple[float, float]:
        if self._longest_s is None:
            self._longest_s = chain_s(self.sides), stay_s(self.sides)
        return self._longest_s
