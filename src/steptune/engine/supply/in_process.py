"""Rollout and environment in the trainer's own process: the synchronous schedule."""

from typing import final

from steptune.engine.supply.own_engine import OwnEngine
from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.types import RolloutBatch


@final
class InProcess:
    """Makes every batch when it is asked for; nothing is ever in flight, and there is nothing to remember."""

    def __init__(self, state: LoopState) -> None:
        self.loop, self.own = state, OwnEngine(state)

    def next(self) -> Supply:
        """Make the coming step's rollouts."""
        with self.own.turn():
            produced = self.own.producer.produce(self.loop.step_index)
        return Supply(produced=produced, spans=[], remote_wall_s=None, probe_gap=None, peak_memory_bytes=None)

    def rehearse(self) -> Supply:
        """Make them; they are made again when the step comes."""
        return self.next()

    def after_update(self, batch: RolloutBatch, *, is_kept: bool) -> None:
        """Nothing to do: the gap at equal weights is read off the first training forward."""

    def settle(self) -> None:
        """Nothing is ever in flight between steps."""

    def state(self) -> SourceState:
        """Nothing: a step's rollouts follow from its number, the seed and the weights."""
        return {}

    def load_state(self, state: SourceState) -> None:
        """Nothing to load."""
        assert not state, "a synchronous run remembers nothing"

    def close(self) -> None:
        """No process to stop."""
