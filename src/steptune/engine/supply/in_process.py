"""Rollout and environment in the trainer's own process: the synchronous schedule."""

from typing import final

from steptune.engine.supply.own_engine import OwnEngine
from steptune.engine.supply.source import Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.supply.stateless import Stateless


@final
class InProcess(Stateless):
    """Takes turns with the trainer."""

    def __init__(self, state: LoopState) -> None:
        self.loop, self.own = state, OwnEngine(state)

    def next(self) -> Supply:
        """Make the coming step's rollouts."""
        with self.own.turn():
            produced = self.own.producer.produce(self.loop.step_index)
        return Supply(
            produced=produced,
            spans=[],
            remote_wall_s=None,
            probe_gap=None,
            peak_memory_bytes=None,
            arrivals=self.own.arrivals,
        )

    def close(self) -> None:
        """No process to stop."""
