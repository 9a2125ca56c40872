"""The rollout of a run that generates in the trainer's own process: the two take turns on the same cores."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import torch

from steptune.core.arrival import Arrival
from steptune.core.phase import Role
from steptune.engine.arrival import ArrivalCheck
from steptune.engine.produce import Producer, rollout_engine
from steptune.engine.replicas.replica_set import ReplicaSet
from steptune.engine.replicas.start import start_replicas
from steptune.engine.replicas.wire import ReplicaEnd, ReplicaWire, StartReplica, start_process
from steptune.engine.rollouts import Rollouts
from steptune.engine.supply.state import LoopState
from steptune.engine.weights import WeightChannel, hand_over, weight_channel
from steptune.engine.worker import worker_spec


@final
class OwnEngine:
    """Engine and producer beside the trainer, and further replicas in processes of their own."""

    def __init__(self, state: LoopState, start: StartReplica[ReplicaEnd] = start_process) -> None:
        self.loop = state
        spec, recorder = state.spec, state.recorder
        recorder.roles = (Role.TRAINER, Role.ROLLOUT, Role.ENVIRONMENT)
        shared = state.model if spec.knobs.handover == "alias" else None
        self.engine = rollout_engine(spec.job, spec.knobs, shared)
        self.channel: WeightChannel | None = None
        """How weights reach the other replicas; None without any."""
        self.replicas = self._start(start) if spec.knobs.rollout_replicas > 1 else None
        self.producer = Producer(spec.job, self._rollouts, spec.seed, spec.forced, recorder)
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
            if self.channel is not None and knobs.handover == "copy":
                self.channel.write(loop.model.state_dict(), loop.version)
            hand_over(knobs.handover, loop.model, self._rollouts, loop.version, loop.spec.folder)
            with loop.recorder.span(Role.TRAINER, "weight_sync/check"):
                own = self.check.after(loop.model.state_dict(), loop.version)
            self.arrivals = (own, *(self.replicas.arrivals if self.replicas is not None else ()))
        self._switch(knobs.rollout_threads)
        yield
        self._switch(knobs.train_threads)

    @property
    def other_memory_bytes(self) -> int | None:
        """Peak of the other replicas' processes together; None without any."""
        return None if self.replicas is None else self.replicas.peak_memory_bytes

    def close(self) -> None:
        """Stop the other replicas."""
        if self.replicas is not None:
            self.replicas.close()

    @property
    def _rollouts(self) -> Rollouts:
        return self.engine if self.replicas is None else self.replicas

    def _start(self, start: StartReplica[ReplicaEnd]) -> ReplicaSet:
        spec = self.loop.spec
        self.channel = weight_channel(spec.knobs.handover, self.loop.model, spec.folder)
        first = worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder)
        ends = start_replicas(first, self.channel, start)
        return ReplicaSet(self.engine, [ReplicaWire(end) for end in ends], self.loop.recorder)

    def _switch(self, num_threads: int) -> None:
        with self.loop.recorder.span(Role.TRAINER, "mode_switch"):
            if torch.get_num_threads() != num_threads:
                torch.set_num_threads(num_threads)
