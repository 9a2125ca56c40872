"""The training loop: rollout, reward, advantage, update, hand-over, and one Observation per step.

Synchronous::

    hand over v -> generate k -> verify -> advantage -> (old log-probs) -> update -> v+1

One-step-off overlaps `generate k+1` (weights v, other process) with `update on k` (see `remote`): data is
exactly one update old from the second step on.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from steptune.core.job import JobSpec
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import GapStats, SampledLengths
from steptune.core.trial import Observation
from steptune.engine.events import Recorder, Span, open_events
from steptune.engine.gap import gap_stats
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.observe import observation
from steptune.engine.parity import save_batch
from steptune.engine.process import peak_memory_bytes
from steptune.engine.produce import PAD, Produced, Producer, rollout_engine, take_rows
from steptune.engine.quota.limit import limit_self
from steptune.engine.quota.split import split_of
from steptune.engine.remote import Delivery, RemoteProducer, Request, worker_spec
from steptune.engine.scoring import score
from steptune.engine.trainer import Trainer, TrainStats
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import hand_over

PROBE_ROWS = 8
"""Rows of the last batch scored by both sides at a hand-over between processes, about 80 tokens. They are the
longest of those not above the median length: the rollout scores a row token by token, so one row of the tail
would cost as many iterations as a whole rollout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopSpec:
    """One run of the loop."""

    job: JobSpec
    knobs: EngineKnobs
    seed: int
    forced: SampledLengths | None
    capture_batches: int
    folder: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """What the loop got for one step, whichever process made it."""

    produced: Produced
    spans: list[Span]
    """Spans of other processes only."""
    remote_wall_s: float | None
    probe_gap: GapStats | None
    peak_memory_bytes: int | None


@final
class Loop:
    """Runs steps one by one. Owns the trainer, the version counter and the recorder."""

    def __init__(self, spec: LoopSpec, model: Transformer, start: Mapping[str, Tensor]) -> None:
        self.spec, self.model = spec, model
        self.split = split_of(spec.job.devices.num_cores, spec.knobs)
        model.load_state_dict(dict(start))
        reference = copy.deepcopy(model).requires_grad_(False) if spec.job.algorithm.kl_coef > 0 else None
        self.trainer = Trainer(model, spec.job.algorithm, spec.knobs, PAD, reference)
        self.recorder = Recorder(file=open_events(spec.folder / "events.jsonl"))
        self.version = 0
        self.step_index = 0
        self.prompt_lengths: list[int] = []
        self.completion_lengths: list[int] = []
        self.source = _OffSource(self) if spec.knobs.schedule == "one_step_off" else _SyncSource(self)

    def step(self) -> Observation:
        """Run one step and return what happened."""
        clock = self.recorder.clock
        self.recorder.step = self.step_index
        start_s = clock()
        supply, stats = self._work(self.source.next(self.step_index + 1))
        seconds = clock() - start_s
        return self._observe(supply, stats, seconds)

    def rehearse(self, seconds: float) -> None:
        """Repeat the coming step until ``seconds`` have passed, at least once, and take back what it learnt.

        Nothing of it is observed, and its spans are lost. One-step-off: the batch in flight afterwards is that of
        the coming step, sampled by the weights before it.
        """
        clock, version = self.recorder.clock, self.version
        stop_s, state = clock() + seconds, self.trainer.state()
        while True:
            self._work(self.source.next(self.step_index))
            self.trainer.load_state(state)
            self.version = version
            self.recorder.spans.clear()
            if clock() >= stop_s:
                return

    def _work(self, supply: Supply) -> tuple[Supply, TrainStats]:
        """Train on one step's rollouts."""
        recorder = self.recorder
        with recorder.span(Role.TRAINER, "advantage"):
            scored = score(supply.produced, self.spec.job.algorithm)
        if self.step_index < self.spec.capture_batches:
            with recorder.span(Role.TRAINER, "checkpoint"):
                save_batch(self.spec.folder / "batches", self.step_index, scored)
        prepared = self.trainer.prepare(scored, recorder)
        with recorder.span(Role.TRAINER, "train"):
            stats = self.trainer.update(prepared, weights_version=self.version, recorder=recorder)
        self.version += stats.num_updates
        self.source.after_update(supply.produced.batch)
        return supply, stats

    def settle(self) -> None:
        """Let work in flight finish, so that a paused run uses no core."""
        self.source.settle()

    def close(self) -> None:
        """Stop the worker, if there is one, and close the events."""
        self.source.close()
        self.recorder.close()

    def lengths(self) -> SampledLengths:
        """Lengths of every rollout trained on so far."""
        return SampledLengths(
            prompt=tuple(self.prompt_lengths),
            completion=tuple(self.completion_lengths),
            rollouts_per_step=self.spec.job.algorithm.rollouts_per_step,
        )

    def _observe(self, supply: Supply, stats: TrainStats, seconds: float) -> Observation:
        batch = supply.produced.batch
        self.prompt_lengths += batch.prompts.lengths_B.tolist()
        self.completion_lengths += batch.lengths_B.tolist()
        walls: dict[str, float] = dict.fromkeys(self.recorder.roles, seconds)
        if supply.remote_wall_s is not None:
            walls |= {Role.ROLLOUT: supply.remote_wall_s, Role.ENVIRONMENT: supply.remote_wall_s}
        made = observation(
            step=self.step_index,
            seconds=seconds,
            wall_by_role_s=walls,
            spans=self.recorder.take() + supply.spans,
            produced=supply.produced,
            stats=stats,
            version=self.version,
            probe_gap=supply.probe_gap,
            memory_bytes=(peak_memory_bytes() or 0) + (supply.peak_memory_bytes or 0) or None,
        )
        self.step_index += 1
        return made


@final
class _SyncSource:
    """Rollout and environment in the trainer's own process."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        spec, recorder = loop.spec, loop.recorder
        recorder.roles = (Role.TRAINER, Role.ROLLOUT, Role.ENVIRONMENT)
        shared = loop.model if spec.knobs.handover == "alias" else None
        self.engine = rollout_engine(spec.job, spec.knobs, shared)
        self.producer = Producer(spec.job, self.engine, spec.seed, spec.forced, recorder)

    def next(self, following: int) -> Supply:
        """Make the coming step's rollouts; nothing is made ahead."""
        loop, knobs = self.loop, self.loop.spec.knobs
        with loop.recorder.span(Role.TRAINER, "weight_sync"):
            hand_over(knobs.handover, loop.model, self.engine, loop.version, loop.spec.folder)
        self._switch(knobs.rollout_threads)
        produced = self.producer.produce(loop.step_index)
        self._switch(knobs.train_threads)
        return Supply(produced=produced, spans=[], remote_wall_s=None, probe_gap=None, peak_memory_bytes=None)

    def _switch(self, num_threads: int) -> None:
        with self.loop.recorder.span(Role.TRAINER, "mode_switch"):
            if torch.get_num_threads() != num_threads:
                torch.set_num_threads(num_threads)

    def after_update(self, batch: RolloutBatch) -> None:
        """Nothing to do: the gap at equal weights is read off the first training forward."""

    def settle(self) -> None:
        """Nothing is ever in flight between steps."""

    def close(self) -> None:
        """No process to stop."""


@final
class _OffSource:
    """Rollout and environment in a worker process, one step ahead."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        spec = loop.spec
        loop.recorder.roles = (Role.TRAINER,)
        torch.set_num_threads(spec.knobs.train_threads)
        self.remote = RemoteProducer(worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder), loop.model)
        # after the worker's start: it limits itself
        self.quota = None if loop.split is None else limit_self(loop.split.trainer)
        self.probe: RolloutBatch | None = None
        self.asked: tuple[RolloutBatch, Tensor] | None = None
        """Rows and trainer log-probs of the probe that the ordered batch will bring the answer to."""
        self.settled: Delivery | None = None
        self.was_paused = True
        self._order(0)

    def next(self, following: int) -> Supply:
        """Take the coming step's rollouts, and order those of step ``following``."""
        recorder = self.loop.recorder
        with recorder.span(Role.TRAINER, "rollout", SpanKind.EXPOSED_WAIT):
            delivery = self.settled or self.remote.collect()
        self.settled = None
        gap = self._probe_gap(delivery)
        with recorder.span(Role.TRAINER, "weight_sync"):
            self._order(following)
        return Supply(
            produced=delivery.produced,
            spans=delivery.spans,
            remote_wall_s=delivery.wall_s,
            probe_gap=gap,
            peak_memory_bytes=delivery.peak_memory_bytes,
        )

    def _order(self, step: int) -> None:
        self.remote.publish(self.loop.model)
        if self.probe is not None:
            with self.loop.recorder.span(Role.TRAINER, "weight_sync/probe"):
                self.asked = self.probe, self.loop.trainer.logprobs(self.probe, self.loop.spec.knobs.micro_batch_tokens)
        self.remote.request(
            Request(step=step, version=self.loop.version, probe=self.probe, is_after_pause=self.was_paused)
        )
        self.was_paused = False

    def _probe_gap(self, delivery: Delivery) -> GapStats | None:
        if delivery.probe_logprobs_BT is None or self.asked is None:
            return None
        rows, trainer_logprobs_BT = self.asked
        return gap_stats(trainer_logprobs_BT, delivery.probe_logprobs_BT, rows.mask_BT)

    def after_update(self, batch: RolloutBatch) -> None:
        lengths_B = batch.lengths_B
        shorter_B = torch.where(lengths_B <= lengths_B.median(), lengths_B, 0)
        rows_B = shorter_B.argsort(descending=True, stable=True)[:PROBE_ROWS]
        probe = take_rows(batch, rows_B, group_size=1)
        width = int(probe.lengths_B.max())
        self.probe = replace(
            probe,
            completion_BT=probe.completion_BT[:, :width],
            logprobs_BT=probe.logprobs_BT[:, :width],
            versions_BT=probe.versions_BT[:, :width],
        )

    def settle(self) -> None:
        if self.settled is None:
            self.settled = self.remote.collect()
        self.was_paused = True

    def close(self) -> None:
        if self.quota is not None:
            self.quota.release()
        self.remote.close()
