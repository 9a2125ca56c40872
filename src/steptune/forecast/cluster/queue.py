"""Producers and one consumer under a staleness bound: exposed wait, idle, throughput and the distribution of lag.

::

    released --> replicas --> whole groups --> batch of P --> trainer --> new version --(pause)--> replicas
        ^                                                         |
        '---- at most (max_lag + 1) x P released and not trained -'

    sync          P at a time, released when the update before has arrived
    one_step_off  P released when training of the P before begins
    async         always as far ahead as the bound and the buffer allow

Both sides stand still while weights travel. The surprise: a bound is not a lag. Where generation is the slower side a
group waits for a slot, begins late and is young when it is trained; then a larger bound changes nothing at all.

Group by group, not token by token: replicas jump (`replica`). Deterministic by seed; every candidate sees the same
groups and the same verdicts of dynamic sampling.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from steptune.core.errors import explain
from steptune.forecast.cluster.pool import Pool, fresh
from steptune.forecast.cluster.replica import Group, Spent
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs, TrainTime, train_time
from steptune.forecast.cluster.work import Work
from steptune.forecast.curve import ForecastError

Schedule = Literal["sync", "one_step_off", "async"]

REDRAW_STRIDE = 7919
"""Groups between a rejected group and the one drawn in its place: prime, so that redraws do not repeat a step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueKnobs:
    """How the two sides meet: ``QueueKnobs(schedule="async", max_lag=2)``."""

    schedule: Schedule = "sync"
    max_lag: int = 0
    """`async`: largest age of a trained token, in updates."""
    consume: Literal["in_order", "first_done"] = "in_order"
    """`async`: train step k's own groups at step k, or whichever are whole; those too old are dropped."""
    in_flight: bool = True
    """Replicas take weights at the end of an iteration; otherwise they finish what runs first."""
    reprefill: bool = False
    """Running rows' caches are computed again with the new weights."""
    max_ahead_groups: int | None = None
    """Buffer: groups released and not trained, where smaller than the bound allows."""

    def __post_init__(self) -> None:
        is_async = self.schedule == "async"
        if self.max_lag < 0 or (not is_async and (self.max_lag or self.consume != "in_order")):
            raise ForecastError(
                explain(
                    "the two sides cannot meet like this",
                    got=str(self),
                    allowed="a `max_lag` of 0 or more and `first_done` with async only",
                    hint="set schedule async",
                )
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStep:
    """One step of the trainer."""

    seconds: float
    wait_s: float
    """Trainer waits for groups."""
    train: TrainTime
    rows_by_lag: dict[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueRun:
    """The steps that count, after warm-up."""

    steps: tuple[QueueStep, ...]
    sync_s: float
    """Per step, both sides."""
    spent: tuple[Spent, ...]
    """Each replica's seconds inside these steps."""
    tokens_made: int
    """Completion tokens since the beginning, as the three below."""
    tokens_trained: int
    tokens_dropped: int
    """Too old, or rejected by dynamic sampling."""
    tokens_buffered: int
    num_preempted: int

    @property
    def seconds(self) -> float:
        """Mean step."""
        return sum(step.seconds for step in self.steps) / len(self.steps)


def run_queue(
    queue: QueueKnobs,
    rollout: tuple[RolloutKnobs, RolloutCosts],
    train: tuple[TrainKnobs, TrainCosts],
    work: Work,
    *,
    sync_s: float,
    num_steps: int,
    num_warmup: int,
    acceptance: float = 1.0,
    seed: int = 0,
) -> QueueRun:
    """Run ``num_warmup + num_steps`` steps.

    Raises:
        ForecastError: the sides cannot do this work.
    """
    if num_steps < 1 or num_warmup < 0 or not 0 < acceptance <= 1:
        raise ForecastError(
            explain(
                "a queue cannot be run like this",
                got=f"{num_steps} steps after {num_warmup}, acceptance {acceptance}",
                allowed="1 step or more, an acceptance above 0 and up to 1",
                hint="use the profile's part of groups with mixed rewards",
            )
        )
    return _Queue(queue, rollout, train, work, sync_s, acceptance, seed).run(num_steps, num_warmup)


@final
class _Queue:
    """Use once."""

    def __init__(
        self,
        queue: QueueKnobs,
        rollout: tuple[RolloutKnobs, RolloutCosts],
        train: tuple[TrainKnobs, TrainCosts],
        work: Work,
        sync_s: float,
        acceptance: float,
        seed: int,
    ) -> None:
        self.queue, self.train, self.work, self.sync_s = queue, train, work, sync_s
        self.acceptance, self.seed = acceptance, seed
        self.pool = Pool(*rollout, work, in_flight=queue.in_flight, reprefill=queue.reprefill, on_done=self._whole)
        self.size = work.groups_per_step
        self.version = self.num_released = self.num_consumed = 0
        self.num_redrawn: Counter[int] = Counter()
        self.finished: list[Group] = []
        self.is_training = False
        self.free_since_s = self.last_end_s = 0.0
        self.trained = self.dropped = 0
        self.steps: list[QueueStep] = []
        self.num_warmup = 0
        self.at_start: list[Spent] | None = None

    def run(self, num_steps: int, num_warmup: int) -> QueueRun:
        self.num_warmup = num_warmup
        self._release(self._ahead() if self.queue.schedule == "async" else self.size)
        if num_warmup == 0:
            self.at_start = self.pool.spent()
        went_on = self.pool.run(lambda: len(self.steps) >= num_warmup + num_steps)
        assert went_on, "a queue in which nobody can go on"
        assert self.at_start is not None, "warm-up has ended"
        made = sum(replica.num_made for replica in self.pool.replicas)
        return QueueRun(
            steps=tuple(self.steps[num_warmup:]),
            sync_s=self.sync_s,
            spent=tuple(_minus(a, b) for a, b in zip(self.at_start, self.pool.spent(), strict=True)),
            tokens_made=made,
            tokens_trained=self.trained,
            tokens_dropped=self.dropped,
            tokens_buffered=made - self.trained - self.dropped,
            num_preempted=sum(replica.num_preempted for replica in self.pool.replicas),
        )

    def _ahead(self) -> int:
        bound = (self.queue.max_lag + 1) * self.size
        return bound if self.queue.max_ahead_groups is None else max(min(bound, self.queue.max_ahead_groups), self.size)

    def _release(self, count: int) -> None:
        first = self.num_released
        self.num_released += count
        self.pool.submit([fresh(i, self.work.group(i)) for i in range(first, first + count)])

    def _whole(self, now_s: float, group: Group) -> None:
        if self.acceptance < 1 and not self._is_accepted(group.index):
            self.dropped += group.shape.num_tokens
            self._redraw(group.index)
            return
        self.finished.append(group)
        self._train_if_ready(now_s)

    def _is_accepted(self, index: int) -> bool:
        # one stream per group and try: the same verdicts for every candidate
        key = (self.seed * 1_000_003 + index) * 64 + self.num_redrawn[index] % 64
        return random.Random(key).random() < self.acceptance

    def _redraw(self, index: int) -> None:
        """Another prompt takes the rejected one's place."""
        self.num_redrawn[index] += 1
        shape = self.work.group(index + REDRAW_STRIDE * self.num_redrawn[index])
        self.pool.submit([fresh(index, shape)])

    def _train_if_ready(self, now_s: float) -> None:
        if self.is_training:
            return
        self._drop_old()
        batch = self._next_batch()
        if batch is None:
            return
        self.is_training = True
        wait_s = now_s - self.free_since_s
        if self.queue.schedule != "one_step_off":
            self._train(batch, wait_s)
            return
        self.pool.update(self.version, self.sync_s)

        def begin(_: float) -> None:
            self._release(self.size)
            self._train(batch, wait_s)

        self.pool.after(self.sync_s, begin)

    def _drop_old(self) -> None:
        old = [g for g in self.finished if self._lag(g) > self.queue.max_lag]
        if self.queue.schedule != "async" or not old:
            return
        self.finished = [g for g in self.finished if self._lag(g) <= self.queue.max_lag]
        self.dropped += sum(g.shape.num_tokens for g in old)
        self.num_consumed += len(old)
        self._release(len(old))

    def _next_batch(self) -> list[Group] | None:
        ready = self.finished
        if self.queue.consume == "in_order":
            ready = [g for g in ready if g.index < self.num_consumed + self.size]
        if len(ready) < self.size:
            return None
        batch = sorted(ready[: self.size], key=lambda g: g.index)
        taken = set(map(id, batch))
        self.finished = [g for g in self.finished if id(g) not in taken]
        return batch

    def _train(self, batch: Sequence[Group], wait_s: float) -> None:
        lags: Counter[int] = Counter()
        for group in batch:
            lags[self._lag(group)] += len(group.shape.rows)
        took = train_time(*self.train, [group.shape for group in batch])
        self.pool.after(took.seconds, lambda now_s: self._updated(now_s, batch, wait_s, took, lags))

    def _updated(
        self, now_s: float, batch: Sequence[Group], wait_s: float, took: TrainTime, lags: Counter[int]
    ) -> None:
        self.version += 1
        self.num_consumed += len(batch)
        self.trained += sum(group.shape.num_tokens for group in batch)
        seconds, self.last_end_s = now_s - self.last_end_s, now_s
        self.steps.append(QueueStep(seconds=seconds, wait_s=wait_s, train=took, rows_by_lag=dict(sorted(lags.items()))))
        if len(self.steps) == self.num_warmup:
            self.at_start = self.pool.spent()
        if self.queue.schedule == "one_step_off":
            self._free(now_s)
            return
        self.pool.update(self.version, self.sync_s)
        if self.queue.schedule == "async":
            self._release(self.num_consumed + self._ahead() - self.num_released)
        self.pool.after(self.sync_s, self._synced)

    def _synced(self, now_s: float) -> None:
        if self.queue.schedule == "sync":
            self._release(self.size)
        self._free(now_s)

    def _free(self, now_s: float) -> None:
        self.is_training = False
        self.free_since_s = now_s
        self._train_if_ready(now_s)

    def _lag(self, group: Group) -> int:
        return self.version - (self.version if group.start_version is None else group.start_version)


def _minus(before: Spent, after: Spent) -> Spent:
    return Spent(
        decode=after.decode - before.decode,
        prefill=after.prefill - before.prefill,
        sync=after.sync - before.sync,
        env_wait=after.env_wait - before.env_wait,
        idle=after.idle - before.idle,
    )
