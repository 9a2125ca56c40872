"""The second trainer rank's own process: it answers orders and never touches a weight. See `wire` for who waits."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import final

import torch

from steptune.core.job import AlgorithmSpec
from steptune.core.phase import Phase, Role
from steptune.engine.events import Recorder, open_events
from steptune.engine.gradients import Gradients, LaidOut
from steptune.engine.knobs import EngineKnobs
from steptune.engine.pipes import send_plain
from steptune.engine.process import own_peak_memory_bytes
from steptune.engine.ranks.memory import SharedMemory, views
from steptune.engine.ranks.messages import Answer, GradientAnswer, GradientOrder, Order, PassAnswer, PassOrder
from steptune.engine.worker import say

RANK = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSpec:
    """What the second rank is started with."""

    algorithm: AlgorithmSpec
    knobs: EngineKnobs
    pad_id: int
    folder: Path
    parent_pid: int

    @property
    def title(self) -> str:
        """See `worker.ProcessSpec`."""
        return f"trainer rank {RANK}"

    @property
    def log(self) -> Path:
        """See `worker.ProcessSpec`."""
        return self.folder / f"trainer-{RANK}.stderr.txt"

    @property
    def threads(self) -> int:
        """See `worker.ProcessSpec`."""
        return self.knobs.train_threads

    @property
    def cores(self) -> float | None:
        """See `worker.ProcessSpec`: ranks and a CPU quota do not go together (`quota.split`)."""
        return None


def serve_orders(spec: RankSpec, pipe: Connection, memory: SharedMemory) -> None:
    """Answer until the first rank closes the wire."""
    rank = SecondRank(spec, memory)
    while True:
        order: Order = pipe.recv()
        say(f"step {order.step}: {type(order).__name__}")
        send_plain(pipe, rank.answer(order))


@final
class SecondRank:
    """Computes what is ordered, with the weights that lie in shared memory at that moment."""

    def __init__(self, spec: RankSpec, memory: SharedMemory) -> None:
        self.model, self.reference = memory.model(), memory.reference_model()
        self.gradients = Gradients(self.model, spec.algorithm, spec.knobs, spec.pad_id, self.reference, rank=RANK)
        self.place = tuple(views(memory.gradient, self.model))
        self.recorder = Recorder(rank=RANK, file=open_events(spec.folder / f"events.trainer-{RANK}.jsonl"))
        self.laid: LaidOut | None = None

    def answer(self, order: Order) -> Answer:
        """Do what is ordered."""
        answer = self.log_probs(order) if isinstance(order, PassOrder) else self.gradient(order)
        self.recorder.take()
        return answer

    def log_probs(self, order: PassOrder) -> PassAnswer:
        """Run a forward-only pass over this rank's rows."""
        self._follow(order)
        phase = Phase.REF_LOGPROB if order.of_reference else Phase.OLD_LOGPROB
        model = self.reference if order.of_reference else self.model
        with self.recorder.span(Role.TRAINER, phase):
            logprobs_BT = self.gradients.logprobs(
                order.rollout, order.batch_tokens, model, num_ranks=order.knobs.train_ranks
            )
        return PassAnswer(number=order.number, logprobs_BT=logprobs_BT)

    def gradient(self, order: GradientOrder) -> GradientAnswer:
        """Put the gradient of this rank's rows of one update in its place."""
        self._follow(order)
        start_s = time.perf_counter()
        with self.recorder.span(Role.TRAINER, Phase.TRAIN):
            if order.prepared is not None:
                with self.recorder.span(Role.TRAINER, "train/plan"):
                    self.laid = self.gradients.lay_out(order.prepared)
            assert self.laid is not None, "the first update of a batch brings the batch"
            cur_BT = torch.zeros(self.laid.joined.mask_BT.shape)
            share = self.gradients.accumulate(self.laid, order.update, self.recorder, cur_BT)
            with self.recorder.span(Role.TRAINER, "train/reduce"):
                self._write()
        busy_s = time.perf_counter() - start_s
        self.recorder.count("train_busy_s", busy_s)
        plan = self.laid.plan
        return GradientAnswer(
            number=order.number,
            share=share,
            cur_BT=cur_BT,
            busy_s=busy_s,
            num_micro_batches=len(plan.micro_batches),
            padded_tokens=plan.padded_tokens,
            active_tokens=plan.active_tokens,
            peak_memory_bytes=own_peak_memory_bytes(),
        )

    def _follow(self, order: Order) -> None:
        self.recorder.step = order.step
        if order.knobs != self.gradients.knobs:
            self.gradients.configure(order.knobs)
            torch.set_num_threads(order.knobs.train_threads)

    def _write(self) -> None:
        """Move the gradients into shared memory; a parameter without one (no rows) has zeros there."""
        for param, place in zip(self.model.parameters(), self.place, strict=True):
            if param.grad is None:
                place.zero_()
            else:
                place.copy_(param.grad)
            param.grad = None
