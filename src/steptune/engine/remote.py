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
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import final

from torch import Tensor, nn

from steptune.core.errors import TrialError
from steptune.core.phase import Role, SpanKind
from steptune.engine.events import Recorder, Span, open_events
from steptune.engine.process import own_peak_memory_bytes
from steptune.engine.produce import Produced, Producer, rollout_engine
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel, weight_channel
from steptune.engine.worker import WorkerProcess, WorkerSpec, say, send_plain


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


@final
class RemoteProducer:
    """The trainer's end of the wire."""

    def __init__(self, spec: WorkerSpec, model: nn.Module) -> None:
        self.channel = weight_channel(spec.knobs.handover, model, spec.folder)
        self.worker = WorkerProcess[Delivery](spec, answer_requests, self.channel)

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
    recorder = Recorder(roles=(Role.ROLLOUT, Role.ENVIRONMENT), file=open_events(spec.folder / "events.rollout.jsonl"))
    engine = rollout_engine(spec.job, spec.knobs)
    producer = Producer(spec.job, engine, spec.seed, spec.forced, recorder)
    last_s = time.perf_counter()
    while True:
        request: Request = pipe.recv()
        if request.is_after_pause:
            last_s = time.perf_counter()
        say(f"step {request.step}: rollout with weights {request.version}")
        delivery = _serve(request, producer, channel, last_s)
        send_plain(pipe, delivery)
        last_s = last_s + delivery.wall_s


def _serve(request: Request, producer: Producer, channel: WeightChannel, last_s: float) -> Delivery:
    recorder, engine = producer.recorder, producer.engine
    recorder.step = request.step
    asked_s = time.perf_counter()
    for role in recorder.roles:
        recorder.add(role, "train", SpanKind.EXPOSED_WAIT, last_s, asked_s)
    probe_logprobs_BT = None
    with recorder.span(Role.ROLLOUT, "weight_sync"):
        weights = channel.read()
        if weights.version != request.version:
            raise TrialError(f"weights {weights.version} lie where weights {request.version} were ordered from")
        engine.load(weights.state, request.version)
        if request.probe is not None:
            with recorder.span(Role.ROLLOUT, "weight_sync/probe"):
                probe_logprobs_BT = score_probe(producer, request.probe)
    produced = producer.produce(request.step)
    return Delivery(
        produced=produced,
        spans=recorder.take(),
        wall_s=time.perf_counter() - last_s,
        probe_logprobs_BT=probe_logprobs_BT,
        peak_memory_bytes=own_peak_memory_bytes(),
    )


def score_probe(producer: Producer, probe: RolloutBatch) -> Tensor:
    """Return the probe's log-probs through the decode path under the weights that are loaded."""
    return producer.engine.score(
        probe.prompts, probe.completion_BT, probe.lengths_B, temperature=producer.job.algorithm.temperature
    )
