"""The producer in a process of its own, for one-step-off training.

Who waits for whom, one round per step::

    trainer                                   rollout worker
    -------                                   --------------
    collect batch k      <---- batch k -----  (idle from here on)
    write weights v      ----> shared memory
    request batch k+1    ----- request ---->  read weights v, generate, verify
    train on batch k -> weights v+1           (both busy)

The weights are written between `collect` and `request`, when the worker is idle, and verified when they are read.
With several replicas the worker is the first one and shares each batch out (`replicas.replica_set`); the others are the
trainer's children too, whose wires it lends to the worker.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol, final

from torch import Tensor, nn

from steptune.core.arrival import Arrival
from steptune.core.errors import TrialError
from steptune.core.phase import Role, SpanKind
from steptune.engine.arrival import ArrivalCheck
from steptune.engine.events import Recorder, Span, open_events
from steptune.engine.pipes import send_plain
from steptune.engine.process import own_peak_memory_bytes
from steptune.engine.produce import Produced, Producer, rollout_engine
from steptune.engine.replicas.replica_set import ReplicaSet
from steptune.engine.replicas.start import start_replicas
from steptune.engine.replicas.wire import ReplicaEnd, ReplicaWire, StartReplica, Stoppable
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel, Weights, weight_channel
from steptune.engine.wire_end import Lent
from steptune.engine.worker import WorkerProcess, WorkerSpec, say


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Order for one step's rollouts, under weights that are already in place."""

    step: int
    version: int
    probe: RolloutBatch | None
    """Rows to score with the new weights, for the same-weights mismatch."""
    is_after_pause: bool
    """The run stood still since the last delivery: that time is nobody's waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """A worker's answer."""

    produced: Produced
    spans: list[Span]
    wall_s: float
    """From its previous delivery (or the end of a pause) to this one; its spans add up to it."""
    probe_logprobs_BT: Tensor | None
    peak_memory_bytes: int | None
    """Of all replicas, without the shared slots of the weights."""
    arrivals: tuple[Arrival, ...]
    """What the hand-over brought to each replica; empty in a delivery that was saved with a run and loaded again."""


class Wire(Protocol):
    """The trainer's end of the wire: `WorkerProcess`, or a worker in a test's own process."""

    def send(self, message: object) -> None:
        """Order a batch. Raises TrialError when the worker died."""
        ...

    def receive(self) -> Delivery:
        """Wait for it. Raises TrialError when the worker died or failed."""
        ...

    def close(self) -> None:
        """Stop the worker."""
        ...


class LentReplica(Protocol):
    """A wire on its way to the worker: `wire_end.Lent`, or a test's own."""

    def end(self) -> ReplicaEnd:
        """Return the wire, where it is used."""
        ...


class Lender(Stoppable, Protocol):
    """A replica's process, which the trainer starts and stops and the worker gives orders to."""

    def lend(self) -> LentReplica:
        """Return the wire to it."""
        ...


StartWorker = Callable[[WorkerSpec, WeightChannel, Sequence[LentReplica]], Wire]
"""Starts the worker, which gives orders to the other replicas."""


def start_process(
    spec: WorkerSpec, channel: WeightChannel, others: Sequence[LentReplica] = ()
) -> WorkerProcess[Delivery]:
    """Start it in a process of its own."""
    worker = WorkerProcess[Delivery](spec, answer_requests, (channel, tuple(others)))
    for lent in others:
        if isinstance(lent, Lent):
            lent.pipe.close()  # a replica leaves when nobody holds the other end, so the worker's death must be enough
    return worker


@final
class RemoteProducer:
    """The trainer's orders and what it hands over."""

    def __init__(
        self, spec: WorkerSpec, model: nn.Module, start: StartWorker, start_replica: StartReplica[Lender]
    ) -> None:
        self.channel = weight_channel(spec.knobs.handover, model, spec.folder)
        self.replicas = start_replicas(spec, self.channel, start_replica)
        with ExitStack() as undo:
            for replica in self.replicas:
                undo.callback(replica.close, at_once=True)
            self.worker = start(spec, self.channel, [replica.lend() for replica in self.replicas])
            undo.pop_all()

    def publish(self, model: nn.Module, version: int) -> None:
        """Put new weights where the worker will read them."""
        self.channel.write(model.state_dict(), version)

    def request(self, request: Request) -> None:
        """Order the next batch.

        Raises:
            TrialError: the worker died.
        """
        self.worker.send(request)

    def collect(self) -> Delivery:
        """Wait for the ordered batch.

        Raises:
            TrialError: the worker died.
        """
        return self.worker.receive()

    def close(self) -> None:
        """Stop the worker, then the replicas that took orders from it."""
        with ExitStack() as stack:
            for replica in self.replicas:
                stack.callback(replica.close, at_once=True)
            self.worker.close()


def answer_requests(spec: WorkerSpec, pipe: Connection, shared: tuple[WeightChannel, tuple[LentReplica, ...]]) -> None:
    """Answer until the trainer closes the wire."""
    channel, others = shared
    side = RolloutSide(spec, channel, [lent.end() for lent in others])
    while True:
        request: Request = pipe.recv()
        say(f"step {request.step}: rollout with weights {request.version}")
        send_plain(pipe, side.answer(request))


@final
class RolloutSide:
    """What the worker holds, and what it does for a request."""

    def __init__(self, spec: WorkerSpec, channel: WeightChannel, others: Sequence[ReplicaEnd] = ()) -> None:
        self.recorder = Recorder(roles=(Role.ROLLOUT, Role.ENVIRONMENT), rank=spec.rank, file=open_events(spec.events))
        self.channel = channel
        engine = rollout_engine(spec.job, spec.knobs)
        wires = [ReplicaWire(end) for end in others]
        self.replicas = ReplicaSet(engine, wires, self.recorder) if wires else None
        self.producer = Producer(spec.job, self.replicas or engine, spec.seed, spec.forced, self.recorder)
        self.check = ArrivalCheck(engine)
        self.last_s = time.perf_counter()
        """End of the last delivery, or of a pause."""

    def answer(self, request: Request) -> Delivery:
        """Make the ordered batch."""
        if request.is_after_pause:
            self.last_s = time.perf_counter()
        recorder, begun_s = self.recorder, self.last_s
        recorder.step = request.step
        asked_s = time.perf_counter()
        for role in recorder.roles:
            recorder.add(role, "train", SpanKind.EXPOSED_WAIT, begun_s, asked_s)
        arrivals, probe_logprobs_BT = self._load(request)
        produced, spans = self.producer.produce(request.step), recorder.take()
        self.last_s = time.perf_counter()
        return Delivery(
            produced=produced,
            spans=spans,
            wall_s=self.last_s - begun_s,
            probe_logprobs_BT=probe_logprobs_BT,
            peak_memory_bytes=self._peak_memory_bytes(),
            arrivals=arrivals,
        )

    def _peak_memory_bytes(self) -> int | None:
        own, others = own_peak_memory_bytes(), self.replicas and self.replicas.peak_memory_bytes
        return None if own is None else own + (others or 0)

    def _load(self, request: Request) -> tuple[tuple[Arrival, ...], Tensor | None]:
        """Take over the weights that lie ready; return what arrived, and the probe's log-probs under it."""
        with self.recorder.span(Role.ROLLOUT, "weight_sync"):
            weights = self.channel.read()
            if weights.version != request.version:
                raise TrialError(f"weights {weights.version} lie where weights {request.version} were ordered from")
            arrivals = self._take_over(weights)
            if request.probe is None:
                return arrivals, None
            with self.recorder.span(Role.ROLLOUT, "weight_sync/probe"):
                return arrivals, score_probe(self.producer, request.probe)

    def _take_over(self, weights: Weights) -> tuple[Arrival, ...]:
        with self.recorder.span(Role.ROLLOUT, "weight_sync/check"):
            self.check.before(weights.state, weights.version)
        self.producer.engine.load(weights.state, weights.version)
        with self.recorder.span(Role.ROLLOUT, "weight_sync/check"):
            own = self.check.after(weights.state, weights.version, weights.hashes)
        return (own, *(self.replicas.arrivals if self.replicas is not None else ()))


def score_probe(producer: Producer, probe: RolloutBatch) -> Tensor:
    """Return the probe's log-probs through the decode path under the weights that are loaded."""
    return producer.engine.score(
        probe.prompts, probe.completion_BT, probe.lengths_B, temperature=producer.job.algorithm.temperature
    )
