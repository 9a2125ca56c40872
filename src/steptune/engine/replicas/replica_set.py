"""Several replicas as one engine: the own one, and others in processes of their own.

Who waits for whom, one round per batch::

    this process (replica 0)                      replica 1, 2, ...
    ------------------------                      -----------------
    order (groups of each)   ---- by value --->   prefill and decode them
    prefill and decode the own groups             (all busy)
    wait                     <----- rows ------   (idle)
    put the rows in their order

Weights reach the others through the channel that the trainer writes (`weights`), each with a version and a hash per
tensor, and each replica says what arrived. The surprise: nobody takes another's groups when it is done first. Shares
are fixed before a token is sampled, by what is known then, so that a saved run repeats every loss: a race would change
who decodes beside whom, and with it the rounding.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import final

from torch import Tensor

from steptune.core.arrival import Arrival
from steptune.core.phase import Role
from steptune.engine.events import Recorder
from steptune.engine.replicas.messages import Generated, GenerateOrder, Loaded, LoadOrder
from steptune.engine.replicas.shares import merged, shares, summed
from steptune.engine.replicas.wire import ReplicaWire
from steptune.engine.rollout import RolloutEngine
from steptune.engine.rollout_checks import limits
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace


@final
class ReplicaSet:
    """Implements `engine.rollouts.Rollouts`."""

    def __init__(self, own: RolloutEngine, others: Sequence[ReplicaWire], recorder: Recorder) -> None:
        self.own, self.others, self.recorder = own, tuple(others), recorder
        self.version = own.version
        self.arrivals: tuple[Arrival, ...] = ()
        """What the last hand-over brought to the others."""
        self.traces: tuple[RolloutTrace, ...] = ()
        """What each replica did for the last batch."""
        self.peak_memory_bytes: int | None = None
        """Of the others, all together."""
        self._home_of: dict[int, int] = {}
        """Replica that holds a problem's turns, where turns are kept."""

    def load(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over new weights, all at once; the others read this version from the channel, where it lies already.

        Raises:
            TrialError: a replica died, failed or hangs, or what it read is not what was published.
        """
        step = self.recorder.step
        for wire in self.others:
            wire.order(LoadOrder(number=0, step=step, version=version), f" in the hand-over of step {step}")
        self.own.load(state, version)
        self.arrivals = tuple(wire.collect(Loaded).arrival for wire in self.others)
        self.version = version
        self._home_of.clear()

    def generate(
        self,
        prompts: PromptBatch,
        *,
        max_completion_len: int,
        temperature: float,
        seed: int | Tensor,
        limits_B: Tensor | None = None,
        forced_lengths_B: Tensor | None = None,
        greedy: bool = False,
        recorder: Recorder | None = None,
    ) -> tuple[RolloutBatch, RolloutTrace]:
        """Sample one completion per row; see `RolloutEngine.generate`.

        Raises:
            JobError, HealthError: as there.
            TrialError: a replica died, failed or hangs.
        """
        rows_R = self._shares(prompts, limits(prompts, max_completion_len, limits_B))

        def order(row_k: Tensor) -> GenerateOrder:
            return GenerateOrder(
                number=0,
                step=self.recorder.step,
                prompts=prompts.take(row_k),
                max_completion_len=max_completion_len,
                temperature=temperature,
                seed=seed if isinstance(seed, int) else seed[row_k],
                limits_B=None if limits_B is None else limits_B[row_k],
                forced_lengths_B=None if forced_lengths_B is None else forced_lengths_B[row_k],
                greedy=greedy,
            )

        asked = [(wire, row_k) for wire, row_k in zip(self.others, rows_R[1:], strict=True) if len(row_k)]
        with self.recorder.span(Role.ROLLOUT, "rollout/order"):
            for wire, row_k in asked:
                wire.order(order(row_k), f" in the rollout of step {self.recorder.step}")
        made = [self._own_part(order(rows_R[0]), recorder)] if len(rows_R[0]) else []
        with self.recorder.span(Role.ROLLOUT, "rollout/replica_wait"):
            others = [wire.collect(Generated) for wire, _ in asked]
        self._book(parts := [*made, *others])
        self.traces = tuple(part.trace for part in parts)
        rows = [row_k for row_k in rows_R if len(row_k)]
        return merged(prompts, rows, [part.batch for part in parts]), summed(self.traces)

    def score(self, prompts: PromptBatch, completion_BT: Tensor, lengths_B: Tensor, *, temperature: float) -> Tensor:
        """Return log-probs of given completions through the own engine: its weights are the others'."""
        return self.own.score(prompts, completion_BT, lengths_B, temperature=temperature)

    def close(self) -> None:
        """Stop the others."""
        for wire in self.others:
            wire.close()

    def _shares(self, prompts: PromptBatch, limit_B: Tensor) -> list[Tensor]:
        knobs = self.own.knobs
        rows_R = shares(
            prompts,
            limit_B,
            num_replicas=1 + len(self.others),
            routing=knobs.rollout_routing,
            share_prefill=knobs.share_prefill,
            home_of=self._home_of,
        )
        if knobs.reuse_prefixes:
            for replica, row_k in enumerate(rows_R):
                self._home_of.update(dict.fromkeys(prompts.problem_B[row_k].tolist(), replica))
        return rows_R

    def _own_part(self, order: GenerateOrder, recorder: Recorder | None) -> Generated:
        """Do what is ordered with the own engine."""
        start_s = self.recorder.clock()
        batch, trace = self.own.generate(
            order.prompts,
            max_completion_len=order.max_completion_len,
            temperature=order.temperature,
            seed=order.seed,
            limits_B=order.limits_B,
            forced_lengths_B=order.forced_lengths_B,
            greedy=order.greedy,
            recorder=recorder,
        )
        busy_s = self.recorder.clock() - start_s
        return Generated(number=0, batch=batch, trace=trace, busy_s=busy_s, peak_memory_bytes=None)

    def _book(self, parts: Sequence[Generated]) -> None:
        """Count how uneven the shares were in time, and what the others hold."""
        busy_s = [part.busy_s for part in parts]
        self.recorder.count("rollout_imbalance", max(busy_s) / max(fmean(busy_s), 1e-9))
        self.peak_memory_bytes = sum(part.peak_memory_bytes or 0 for part in parts) or None
