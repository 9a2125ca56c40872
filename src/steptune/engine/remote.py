"""The producer in a process of its own, for one-step-off training.

Who waits for whom, one round per step::

    trainer                                   rollout worker
    -------                                   --------------
    collect batch k      <---- batch k -----  (idle from here on)
    write weights v      ----> shared memory
    request batch k+1    ----- request ---->  read weights v, generate, verify
    train on batch k -> weights v+1           (both busy)

The weights are written between `collect` and `request`, when the worker is idle, and verified when they are read.
"""

import time
from collections.abc import Callable
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
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel, Weights, weight_channel
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
    """Of the worker, without the shared slots of the weights."""
    arrival: Arrival | None
    """What the hand-over brought; None in a delivery that was saved with a run and loaded again."""


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


StartWorker = Callable[[WorkerSpec, WeightChannel], Wire]
"""Starts the worker."""


def start_process(spec: WorkerSpec, channel: WeightChannel) -> WorkerProcess[Delivery]:
    """Start it in a process of its own."""
    return WorkerProcess[Delivery](spec, answer_requests, channel)


@final
class RemoteProducer:
    """The trainer's orders and what it hands over."""

    def __init__(self, spec: WorkerSpec, model: nn.Module, start: StartWorker) -> None:
        self.channel = weight_channel(spec.knobs.handover, model, spec.folder)
        self.worker = start(spec, self.channel)

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
        """Stop the worker."""
        self.worker.close()


def answer_requests(spec: WorkerSpec, pipe: Connection, channel: WeightChannel) -> None:
    """Answer until the trainer closes the wire."""
    side = RolloutSide(spec, channel)
    while True:
        request: Request = pipe.recv()
        say(f"step {request.step}: rollout with weights {request.version}")
        send_plain(pipe, side.answer(request))


@final
class RolloutSide:
    """What the worker holds, and what it does for a request."""

    def __init__(self, spec: WorkerSpec, channel: WeightChannel) -> None:
        file = open_events(spec.folder / "events.rollout.jsonl")
        self.recorder = Recorder(roles=(Role.ROLLOUT, Role.ENVIRONMENT), file=file)
        self.channel = channel
        engine = rollout_engine(spec.job, spec.knobs)
        self.producer = Producer(spec.job, engine, spec.seed, spec.forced, self.recorder)
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
        arrival, probe_logprobs_BT = self._load(request)
        produced, spans = self.producer.produce(request.step), recorder.take()
        self.last_s = time.perf_counter()
        return Delivery(
            produced=produced,
            spans=spans,
            wall_s=self.last_s - begun_s,
            probe_logprobs_BT=probe_logprobs_BT,
            peak_memory_bytes=own_peak_memory_bytes(),
            arrival=arrival,
        )

    def _load(self, request: Request) -> tuple[Arrival, Tensor | None]:
        """Take over the weights that lie ready; return what arrived, and the probe's log-probs under it."""
        with self.recorder.span(Role.ROLLOUT, "weight_sync"):
            weights = self.channel.read()
            if weights.version != request.version:
                raise TrialError(f"weights {weights.version} lie where weights {request.version} were ordered from")
            arrival = self._take_over(weights)
            if request.probe is None:
                return arrival, None
            with self.recorder.span(Role.ROLLOUT, "weight_sync/probe"):
                return arrival, score_probe(self.producer, request.probe)

    def _take_over(self, weights: Weights) -> Arrival:
        with self.recorder.span(Role.ROLLOUT, "weight_sync/check"):
            self.check.before(weights.state, weights.version)
        self.producer.engine.load(weights.state, weights.version)
        with self.recorder.span(Role.ROLLOUT, "weight_sync/check"):
            return self.check.after(weights.state, weights.version)


def score_probe(producer: Producer, probe: RolloutBatch) -> Tensor:
    """Return the probe's log-probs through the decode path under the weights that are loaded."""
    return producer.engine.score(
        probe.prompts, probe.completion_BT, probe.lengths_B, temperature=producer.job.algorithm.temperature
    )
