"""The producer in a process of its own, for one-step-off training.

Who waits for whom, one round per step::

    trainer                                   rollout worker
    -------                                   --------------
    collect batch k      <---- batch k -----  (idle from here on)
    write weights v      ----> shared memory
    request batch k+1    ----- request ---->  read weights v, generate, verify
    train on batch k -> weights v+1           (both busy)

The weights may be written only between `collect` and `request`, when the worker is idle: that is the whole
of the locking. The worker dies with its parent.
"""

import os
import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from steptune.core.errors import TrialError
from steptune.core.job import JobSpec
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import SampledLengths
from steptune.engine.events import Recorder, Span, open_events
from steptune.engine.knobs import EngineKnobs
from steptune.engine.process import die_with_parent, peak_memory_bytes
from steptune.engine.produce import Produced, Producer, rollout_engine
from steptune.engine.quota.limit import limited
from steptune.engine.quota.split import split_of
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import SharedWeights, write_weights

WORKER_EXIT_S = 5.0
"""Seconds a worker gets to leave by itself before it is killed by id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSpec:
    """Everything a worker needs; pickled once at its start."""

    job: JobSpec
    knobs: EngineKnobs
    seed: int
    forced: SampledLengths | None
    folder: Path
    parent_pid: int


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


@final
class RemoteProducer:
    """The trainer's end of the wire."""

    def __init__(self, spec: WorkerSpec, model: nn.Module) -> None:
        self.knobs, self.folder = spec.knobs, spec.folder
        self.shared = SharedWeights(model)
        context = get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_work, args=(spec, far_end, self.shared.tensors), daemon=True)
        self.process.start()
        far_end.close()

    def publish(self, model: nn.Module) -> None:
        """Put new weights where the worker will read them. Only while it is idle."""
        if self.knobs.handover == "file":
            write_weights(self.folder / "weights.pt", model.state_dict())
        else:
            self.shared.write(model.state_dict())

    def request(self, request: Request) -> None:
        """Order the next batch.

        Raises:
            TrialError: the worker died.
        """
        try:
            self.pipe.send(request)
        except BrokenPipeError:
            raise self._died() from None

    def collect(self) -> Delivery:
        """Wait for the ordered batch.

        Raises:
            TrialError: the worker died.
        """
        try:
            answer = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if isinstance(answer, str):
            raise TrialError(f"the rollout worker failed: {answer}")
        return answer

    def _died(self) -> TrialError:
        self.process.join(WORKER_EXIT_S)
        return TrialError(f"the rollout worker died with exit code {self.process.exitcode}")

    def close(self) -> None:
        """Stop the worker: politely, then by id."""
        self.pipe.close()
        self.process.join(WORKER_EXIT_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(spec: WorkerSpec, pipe: Connection, shared: dict[str, Tensor]) -> None:
    die_with_parent(spec.parent_pid)
    torch.set_num_threads(spec.knobs.rollout_threads)
    split = split_of(spec.job.devices.num_cores, spec.knobs)
    with limited(None if split is None else split.rollout):
        _answer_requests(spec, pipe, shared)


def _answer_requests(spec: WorkerSpec, pipe: Connection, shared: dict[str, Tensor]) -> None:
    """Answer until the trainer closes the wire."""
    recorder = Recorder(roles=(Role.ROLLOUT, Role.ENVIRONMENT), file=open_events(spec.folder / "events.rollout.jsonl"))
    engine = rollout_engine(spec.job, spec.knobs)
    producer = Producer(spec.job, engine, spec.seed, spec.forced, recorder)
    last_s = time.perf_counter()
    while True:
        try:
            request: Request = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        if request.is_after_pause:
            last_s = time.perf_counter()
        try:
            delivery = _serve(request, spec, producer, shared, last_s)
        except Exception as error:  # noqa: BLE001  process edge: the trainer re-raises it with the cause
            pipe.send(f"{type(error).__name__}: {error}")
            return
        try:
            pipe.send(delivery)
        except BrokenPipeError:
            return
        last_s = last_s + delivery.wall_s


def _serve(
    request: Request, spec: WorkerSpec, producer: Producer, shared: dict[str, Tensor], last_s: float
) -> Delivery:
    recorder, engine = producer.recorder, producer.engine
    recorder.step = request.step
    asked_s = time.perf_counter()
    for role in recorder.roles:
        recorder.add(role, "train", SpanKind.EXPOSED_WAIT, last_s, asked_s)
    probe_logprobs_BT = None
    with recorder.span(Role.ROLLOUT, "weight_sync"):
        state = torch.load(spec.folder / "weights.pt", weights_only=True) if spec.knobs.handover == "file" else shared
        engine.load(state, request.version)
        if request.probe is not None:
            with recorder.span(Role.ROLLOUT, "weight_sync/probe"):
                probe_logprobs_BT = engine.score(
                    request.probe.prompts,
                    request.probe.completion_BT,
                    request.probe.lengths_B,
                    temperature=spec.job.algorithm.temperature,
                )
    produced = producer.produce(request.step)
    return Delivery(
        produced=produced,
        spans=recorder.take(),
        wall_s=time.perf_counter() - last_s,
        probe_logprobs_BT=probe_logprobs_BT,
        peak_memory_bytes=peak_memory_bytes(),
    )


def worker_spec(job: JobSpec, knobs: EngineKnobs, seed: int, forced: SampledLengths | None, folder: Path) -> WorkerSpec:
    """Return the spec of a worker whose parent is this process."""
    return WorkerSpec(job=job, knobs=knobs, seed=seed, forced=forced, folder=folder, parent_pid=os.getpid())
