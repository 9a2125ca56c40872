"""A replica's own process: an engine with weights, cache and slots of its own that makes the groups it is given."""

import time
from multiprocessing.connection import Connection
from typing import final

from steptune.core.errors import TrialError
from steptune.core.phase import Role
from steptune.engine.arrival import ArrivalCheck
from steptune.engine.events import Recorder, open_events
from steptune.engine.pipes import send_plain
from steptune.engine.process import own_peak_memory_bytes
from steptune.engine.produce import rollout_engine
from steptune.engine.replicas.messages import Answer, Generated, GenerateOrder, Loaded, LoadOrder, Order
from steptune.engine.weights import WeightChannel
from steptune.engine.worker import WorkerSpec, say


def serve_replica(spec: WorkerSpec, pipe: Connection, channel: WeightChannel) -> None:
    """Answer until whoever orders closes the wire."""
    replica = Replica(spec, channel)
    while True:
        order: Order = pipe.recv()
        say(f"step {order.step}: {type(order).__name__}")
        send_plain(pipe, replica.answer(order))


@final
class Replica:
    """Does what is ordered, under the weights it was last told to take."""

    def __init__(self, spec: WorkerSpec, channel: WeightChannel) -> None:
        self.channel, self.engine = channel, rollout_engine(spec.job, spec.knobs)
        self.check = ArrivalCheck(self.engine, spec.replica)
        self.recorder = Recorder(rank=spec.rank, file=open_events(spec.events))

    def answer(self, order: Order) -> Answer:
        """Do what is ordered."""
        self.recorder.step = order.step
        answer = self._load(order) if isinstance(order, LoadOrder) else self._generate(order)
        self.recorder.take()
        return answer

    def _load(self, order: LoadOrder) -> Loaded:
        with self.recorder.span(Role.ROLLOUT, "weight_sync"):
            weights = self.channel.read()
            if weights.version != order.version:
                raise TrialError(f"weights {weights.version} lie where weights {order.version} were ordered from")
            self.check.before(weights.state, weights.version)
            self.engine.load(weights.state, weights.version)
            return Loaded(number=order.number, arrival=self.check.after(weights.state, weights.version, weights.hashes))

    def _generate(self, order: GenerateOrder) -> Generated:
        start_s = time.perf_counter()
        with self.recorder.span(Role.ROLLOUT, "rollout"):
            batch, trace = self.engine.generate(
                order.prompts,
                max_completion_len=order.max_completion_len,
                temperature=order.temperature,
                seed=order.seed,
                limits_B=order.limits_B,
                forced_lengths_B=order.forced_lengths_B,
                greedy=order.greedy,
                recorder=self.recorder,
            )
        return Generated(
            number=order.number,
            batch=batch,
            trace=trace,
            busy_s=time.perf_counter() - start_s,
            peak_memory_bytes=own_peak_memory_bytes(),
        )
