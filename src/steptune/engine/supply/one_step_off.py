"""Rollout and environment in a worker process, one step ahead: data is exactly one step's updates old.

See `engine.remote` for who waits for whom.
"""

from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from steptune.core.phase import Role, SpanKind
from steptune.core.profile import GapStats
from steptune.engine.gap import gap_stats
from steptune.engine.probe_rows import probe_rows
from steptune.engine.quota.limit import limit_self
from steptune.engine.quota.split import split_of
from steptune.engine.remote import Delivery, Lender, RemoteProducer, Request, StartWorker, start_process
from steptune.engine.replicas.wire import StartReplica
from steptune.engine.replicas.wire import start_process as start_replica_process
from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.types import RolloutBatch
from steptune.engine.worker import worker_spec


@final
class OneStepOff:
    """Orders the next batch before it hands out the one it has."""

    def __init__(
        self,
        state: LoopState,
        start: StartWorker = start_process,
        start_replica: StartReplica[Lender] = start_replica_process,
    ) -> None:
        self.loop = state
        spec = state.spec
        split = split_of(spec.job.devices.num_cores, spec.knobs)
        state.recorder.roles = (Role.TRAINER,)
        torch.set_num_threads(spec.knobs.train_threads)
        self.remote = RemoteProducer(
            worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder), state.model, start, start_replica
        )
        # after the start of the others: they limit themselves
        self.quota = None if split is None else limit_self(split.trainer)
        self.probe: RolloutBatch | None = None
        self.asked: tuple[RolloutBatch, Tensor] | None = None
        """Probe rows and the trainer's log-probs of them, asked of the worker."""
        self.settled: Delivery | None = None
        self.is_ordered = False
        self.was_paused = True

    def next(self) -> Supply:
        """Collect the coming step's rollouts and order those of the step after it."""
        return self._next(self.loop.step_index + 1)

    def rehearse(self) -> Supply:
        """Collect the coming step's rollouts and order them again, under the weights of now."""
        return self._next(self.loop.step_index)

    def _next(self, following: int) -> Supply:
        recorder = self.loop.recorder
        if not self.is_ordered:
            with recorder.span(Role.TRAINER, "weight_sync"):
                self._order(self.loop.step_index)
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
            arrivals=delivery.arrivals,
        )

    def _order(self, step: int) -> None:
        loop = self.loop
        self.remote.publish(loop.model, loop.version)
        if self.probe is not None:
            with loop.recorder.span(Role.TRAINER, "weight_sync/probe"):
                self.asked = self.probe, loop.trainer.logprobs(self.probe, loop.spec.knobs.micro_batch_tokens)
        self.remote.request(Request(step=step, version=loop.version, probe=self.probe, is_after_pause=self.was_paused))
        self.is_ordered = True
        self.was_paused = False

    def _probe_gap(self, delivery: Delivery) -> GapStats | None:
        if delivery.probe_logprobs_BT is None or self.asked is None:
            return None
        rows, trainer_logprobs_BT = self.asked
        return gap_stats(trainer_logprobs_BT, delivery.probe_logprobs_BT, rows.mask_BT)

    def after_update(self, batch: RolloutBatch, *, is_kept: bool) -> None:
        """Choose the rows of the next probe."""
        self.probe = probe_rows(batch)

    def settle(self) -> None:
        """Collect what is in flight and keep it."""
        if self.settled is None and self.is_ordered:
            self.settled = self.remote.collect()
        self.was_paused = True

    def state(self) -> SourceState:
        """The settled batch, and what its probe is compared with."""
        self.settle()
        settled = None if self.settled is None else replace(self.settled, arrivals=())
        return {"settled": settled, "probe": self.probe, "asked": self.asked}

    def load_state(self, state: SourceState) -> None:
        """Take over a settled batch: it is the coming step's, and nothing is ordered for it again."""
        self.settled, self.probe, self.asked = state["settled"], state["probe"], state["asked"]
        self.is_ordered = self.settled is not None
        self.was_paused = True

    def close(self) -> None:
        """Give the cores back and stop the worker."""
        if self.quota is not None:
            self.quota.release()
        self.remote.close()
