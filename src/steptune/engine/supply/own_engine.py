"""The rollout of a run that generates in the trainer's own process: the two take turns on the same cores."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import torch

from steptune.core.arrival import Arrival
from steptune.core.phase import Role
from steptune.engine.arrival import ArrivalCheck
from steptune.engine.produce import Producer, rollout_engine
from steptune.engine.supply.state import LoopState
from steptune.engine.weights import hand_over


@final
class OwnEngine:
    """Engine and producer beside the trainer."""

    def __init__(self, state: LoopState) -> None:
        self.loop = state
        spec, recorder = state.spec, state.recorder
        recorder.roles = (Role.TRAINER, Role.ROLLOUT, Role.ENVIRONMENT)
        shared = state.model if spec.knobs.handover == "alias" else None
        self.engine = rollout_engine(spec.job, spec.knobs, shared)
        self.producer = Producer(spec.job, self.engine, spec.seed, spec.forced, recorder)
        self.check = ArrivalCheck(self.engine)
        self.arrivals: tuple[Arrival, ...] = ()
        """What the last hand-over brought."""

    @contextmanager
    def turn(self) -> Generator[None]:
        """Hand the trainer's weights over and give the rollout its threads for the body."""
        loop, knobs = self.loop, self.loop.spec.knobs
        with loop.recorder.span(Role.TRAINER, "weight_sync"):
            with loop.recorder.span(Role.TRAINER, "weight_sync/check"):
                self.check.before(loop.model.state_dict(), loop.version)
            hand_over(knobs.handover, loop.model, self.engine, loop.version, loop.spec.folder)
            with loop.recorder.span(Role.TRAINER, "weight_sync/check"):
                self.arrivals = (self.check.after(loop.model.state_dict(), loop.version),)
        self._switch(knobs.rollout_threads)
        yield
        self._switch(knobs.train_threads)

    def _switch(self, num_threads: int) -> None:
        with self.loop.recorder.span(Role.TRAINER, "mode_switch"):
            if torch.get_num_threads() != num_threads:
                torch.set_num_threads(num_threads)
