"""Rollout and environment in the trainer's own process: the synchronous schedule."""

from typing import final

import torch

from steptune.core.phase import Role
from steptune.engine.produce import Producer, rollout_engine
from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import hand_over


@final
class InProcess:
    """Makes every batch when it is asked for; nothing is ever in flight, and there is nothing to remember."""

    def __init__(self, state: LoopState) -> None:
        self.loop = state
        spec, recorder = state.spec, state.recorder
        recorder.roles = (Role.TRAINER, Role.ROLLOUT, Role.ENVIRONMENT)
        shared = state.model if spec.knobs.handover == "alias" else None
        self.engine = rollout_engine(spec.job, spec.knobs, shared)
        self.producer = Producer(spec.job, self.engine, spec.seed, spec.forced, recorder)

    def next(self) -> Supply:
        """Make the coming step's rollouts."""
        loop, knobs = self.loop, self.loop.spec.knobs
        with loop.recorder.span(Role.TRAINER, "weight_sync"):
            hand_over(knobs.handover, loop.model, self.engine, loop.version, loop.spec.folder)
        self._switch(knobs.rollout_threads)
        produced = self.producer.produce(loop.step_index)
        self._switch(knobs.train_threads)
        return Supply(produced=produced, spans=[], remote_wall_s=None, probe_gap=None, peak_memory_bytes=None)

    def rehearse(self) -> Supply:
        """Make them; they are made again when the step comes."""
        return self.next()

    def _switch(self, num_threads: int) -> None:
        with self.loop.recorder.span(Role.TRAINER, "mode_switch"):
            if torch.get_num_threads() != num_threads:
                torch.set_num_threads(num_threads)

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
