"""Rollout and environment in the trainer's own process: the synchronous schedule.

With several replicas the trainer's process is the first one and shares each batch out (`replicas.replica_set`); the
others stand still while it trains.
"""

from typing import final

from steptune.engine.replicas.wire import ReplicaEnd, StartReplica, start_process
from steptune.engine.supply.own_engine import OwnEngine
from steptune.engine.supply.source import Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.supply.stateless import Stateless


@final
class InProcess(Stateless):
    """Takes turns with the trainer."""

    def __init__(self, state: LoopState, start: StartReplica[ReplicaEnd] = start_process) -> None:
        self.loop, self.own = state, OwnEngine(state, start)

    def next(self) -> Supply:
        """Make the coming step's rollouts."""
        with self.own.turn():
            produced = self.own.producer.produce(self.loop.step_index)
        return Supply(
            produced=produced,
            spans=[],
            remote_wall_s=None,
            probe_gap=None,
            peak_memory_bytes=self.own.other_memory_bytes,
            arrivals=self.own.arrivals,
        )

    def close(self) -> None:
        """Stop the other replicas, if there are any."""
        self.own.close()
