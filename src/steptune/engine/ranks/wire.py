"""The first trainer rank's end of the wire to the second one.

Who waits for whom, one round per optimizer update::

    rank 0 (trainer)                              rank 1
    ----------------                              ------
    order (batch, update)    ---- by value --->   plan its rows
    plan, forward, backward of its rows           forward, backward of its rows       (both busy)
    wait                     <----- answer ----   its gradient lies in shared memory
    add it to its own, clip, AdamW                (idle; the weights it reads change)

Rank 0 alone steps, because the weights are one piece of memory: nothing is sent back, the ranks cannot drift, a saved
run knows nothing of ranks, and a second AdamW at the same time would not be done any sooner. Rank 1 reads weights only
between an order and its answer and rank 0 writes them only outside, so nobody locks.

A failure ends both. Rank 0 looks for rank 1's between two micro-batches (`check`), not only when it waits. Its own
leaves an answer outstanding: `close` then kills rank 1 where it is, and another order would hear that answer first,
because a pipe holds little and two that write into full ones wait for each other.
"""

import time
from collections.abc import Callable
from typing import Protocol, TypeVar, final

import torch
from torch import Tensor

from steptune.core.errors import TrialError, explain
from steptune.core.phase import Phase
from steptune.engine.events import Clock
from steptune.engine.gradients import Share
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.patience import MIN_PATIENCE_S, PATIENCE_FACTOR
from steptune.engine.ranks.memory import SharedMemory, share, views
from steptune.engine.ranks.messages import Answer, GradientAnswer, GradientOrder, Order, PassAnswer, PassOrder
from steptune.engine.ranks.second import RankSpec, serve_orders
from steptune.engine.types import PreparedBatch, RolloutBatch
from steptune.engine.worker import WorkerProcess

Kind = TypeVar("Kind", PassAnswer, GradientAnswer)


class RankWorker(Protocol):
    """The wire itself: `WorkerProcess`, or a second rank in a test's own process."""

    doing: str

    def send_plain(self, message: object, patience_s: float) -> None:
        """Send an order."""
        ...

    def receive(self, patience_s: float | None = None) -> Answer:
        """Wait for the next answer. Raises TrialError when rank 1 died, failed or hangs."""
        ...

    def has_answer(self) -> bool:
        """Return whether `receive` would return or raise at once."""
        ...

    def close(self, *, at_once: bool = False) -> None:
        """Stop rank 1, ``at_once`` in the middle of its work."""
        ...


StartRank = Callable[[RankSpec, SharedMemory], RankWorker]
"""Starts the second rank."""


def start_process(spec: RankSpec, memory: SharedMemory) -> WorkerProcess[Answer]:
    """Start it in a process of its own."""
    return WorkerProcess[Answer](spec, serve_orders, memory)


@final
class RankWire:
    """Orders, waits and adds up."""

    def __init__(
        self,
        model: Transformer,
        reference: Transformer | None,
        spec: RankSpec,
        start: StartRank,
        clock: Clock = time.perf_counter,
    ) -> None:
        """Move the weights into shared memory and start rank 1, which loads while rank 0 goes on.

        Raises:
            JobError: the weights cannot be shared (see `memory.share`).
        """
        self.model, self.clock, self.patience_s = model, clock, MIN_PATIENCE_S
        memory = share(model, reference)
        self.place = tuple(views(memory.gradient, model))
        self.worker = start(spec, memory)
        self.number = self.heard = 0
        """Of the last order, and of the last answer."""
        self.early: Answer | None = None
        """Heard before it was asked for."""
        self.ordered_s = 0.0

    def order_pass(
        self, rollout: RolloutBatch, batch_tokens: int, *, of_reference: bool, knobs: EngineKnobs, step: int
    ) -> None:
        """Order log-probs of rank 1's rows."""
        self._order(
            PassOrder(
                number=self.number + 1,
                step=step,
                knobs=knobs,
                rollout=rollout,
                batch_tokens=batch_tokens,
                of_reference=of_reference,
            ),
            f" in `{Phase.REF_LOGPROB if of_reference else Phase.OLD_LOGPROB}` of step {step}",
        )

    def order_gradient(self, prepared: PreparedBatch, update: int, *, knobs: EngineKnobs, step: int) -> None:
        """Order the gradient of rank 1's rows; the batch goes with its first update."""
        self._order(
            GradientOrder(
                number=self.number + 1,
                step=step,
                knobs=knobs,
                prepared=prepared if update == 0 else None,
                update=update,
            ),
            f" in `{Phase.TRAIN}` of step {step}, update {update}",
        )

    def logprobs(self) -> Tensor:
        """Wait for what `order_pass` ordered.

        Raises:
            TrialError: rank 1 died, failed or hangs.
        """
        return self._collect(PassAnswer).logprobs_BT

    def gradient(self) -> GradientAnswer:
        """Wait for what `order_gradient` ordered; `add` then finds it in shared memory.

        Raises:
            TrialError: rank 1 died, failed or hangs.
        """
        return self._collect(GradientAnswer)

    @torch.no_grad()
    def add(self) -> None:
        """Add rank 1's gradient to the model's own."""
        grads: list[Tensor] = []
        for param in self.model.parameters():
            assert param.grad is not None, "every parameter has a part in every row, and rank 0 always has rows"
            grads.append(param.grad)
        torch._foreach_add_(grads, self.place)  # pyright: ignore[reportPrivateUsage]  AdamW's own

    def check(self) -> None:
        """Look whether rank 1 is still well, without waiting.

        Raises:
            TrialError: rank 1 died or failed.
        """
        if self.early is None and self.worker.has_answer():
            self.early = self._receive(self.patience_s)

    def close(self) -> None:
        """Stop rank 1. The model stays where it is."""
        self.worker.close(at_once=self.heard < self.number)

    def _order(self, order: Order, doing: str) -> None:
        while self.heard < self.number:
            self._receive(self.patience_s)  # of an order that was given up when rank 0 failed in its own part
        self.early = None
        self.number, self.worker.doing = order.number, doing
        self.worker.send_plain(order, self.patience_s)
        self.ordered_s = self.clock()

    def _receive(self, patience_s: float) -> Answer:
        answer = self.worker.receive(patience_s)
        self.heard = answer.number
        return answer

    def _collect(self, kind: type[Kind]) -> Kind:
        patience_s = max(self.patience_s, PATIENCE_FACTOR * (self.clock() - self.ordered_s))
        answer = self._receive(patience_s) if self.early is None else self.early
        self.early = None
        assert isinstance(answer, kind), f"{type(answer).__name__} answers another order"
        assert answer.number == self.number, "every order waits for the answer to the one before"
        return answer


def check_shares(shares: tuple[Share, ...]) -> None:
    """Refuse an update whose tokens were not each trained once, or not normalised over all of them.

    Raises:
        TrialError: the counts of the ranks do not add up; a sum of such gradients would be too large or too small.
    """
    trained = sum(part.num_tokens for part in shares)
    wholes = {part.tokens_of_update for part in shares}
    if wholes != {trained}:
        raise TrialError(
            explain(
                "the trainer ranks do not agree on the update, which was not applied",
                got=f"{' + '.join(str(part.num_tokens) for part in shares)} tokens trained, "
                f"losses normalised over {' and '.join(str(part.tokens_of_update) for part in shares)}",
                allowed="every token of the update trained by one rank, and every loss normalised over all of them",
                hint="this is a fault of ours: run with `train_ranks` 1 and report it",
            )
        )
