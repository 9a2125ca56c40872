"""Counts what a step asks of the machine under given settings: the embedded engine's PlannedWork.

The two sides hardly know each other, so each is counted once per distinct setting of its own knobs and
remembered; a space of 100,000 configurations needs a few hundred counts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.adapters.embedded.idle import is_crowded, put_to_sleep
from steptune.adapters.embedded.lag_plan import lag_plan
from steptune.adapters.embedded.memory import memory_bytes
from steptune.adapters.embedded.rollout_work import REPLICATED, Step, replicated, rollout_count, steps_ahead, work_items
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.lag import CountedLag, StreamLag
from steptune.core.phase import Role
from steptune.core.profile import SampledLengths
from steptune.core.work import OneThread, PlannedWork, WorkItem
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan import TrainPlan, plan_batch
from steptune.engine.quota.split import Split, split_of
from steptune.engine.stream.conflicts import is_stream

MAX_STEPS_COUNTED = 8
"""Steps of the reference lengths that are counted; 8 steps of 256 rows fix a mean length to about 1 %."""

RANKED = "_ranked"
"""Ends the names of cost curves that were measured with two trainer ranks at work (`engine.probe_ranks`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSide:
    """Work of the trainer's knobs."""

    items: tuple[WorkItem, ...]
    padded_tokens: float
    active_tokens: float
    largest_micro_batch: int
    most_extra_keys: int
    """Keys of a micro-batch beyond its positions: shared prompts read more than once."""


@final
@dataclass(kw_only=True, slots=True)
class WorkCounter:
    """Counts for one job and one set of reference lengths."""

    job: JobSpec
    lengths: SampledLengths
    _rollout: dict[tuple[KnobValue, ...], tuple[WorkItem, ...]] = field(
        default_factory=dict[tuple[KnobValue, ...], tuple[WorkItem, ...]]
    )
    _ages: dict[tuple[KnobValue, ...], CountedLag | StreamLag] = field(
        default_factory=dict[tuple[KnobValue, ...], CountedLag | StreamLag]
    )
    _train: dict[tuple[KnobValue, ...], TrainSide] = field(default_factory=dict[tuple[KnobValue, ...], TrainSide])

    def planned(self, knobs: EngineKnobs) -> PlannedWork:
        """Return the work of one step under ``knobs``."""
        rollout, train = self._rollout_side(knobs), self._train_side(knobs)
        overlaps = knobs.schedule != "sync"
        split = split_of(self.job.devices.num_cores, knobs)
        items = (*rollout, *train.items, *handover_items(self.job, knobs))
        if is_crowded(knobs, self.job.devices.num_cores):
            items = put_to_sleep(items)
        return PlannedWork(
            items=items if split is None else slowed(items, knobs, split),
            # a stream takes the longer side's time too, and waits no longer than one step ahead does
            schedule="one_step_off" if overlaps else "sync",
            lag=_lag(self.job, knobs),
            ages=self._ages_of(knobs),
            trainer_cores=float(knobs.train_ranks * knobs.train_threads) if split is None else split.trainer,
            rollout_cores=float(knobs.rollout_replicas * knobs.rollout_threads) if split is None else split.rollout,
            memory_bytes=self._memory_bytes(knobs, train),
            padded_tokens=train.padded_tokens,
            active_tokens=train.active_tokens,
        )

    def _ages_of(self, knobs: EngineKnobs) -> CountedLag | StreamLag:
        key = (knobs.schedule, *(_queue_key(knobs) if is_stream(knobs) else ()))
        if key not in self._ages:
            self._ages[key] = lag_plan(self.job, knobs, _steps(self.lengths))
        return self._ages[key]

    def _rollout_side(self, knobs: EngineKnobs) -> tuple[WorkItem, ...]:
        key = (
            knobs.rollout_concurrency,
            knobs.share_prefill,
            knobs.compact_finished,
            knobs.rollout_dtype,
            knobs.rollout_threads,
            knobs.rollout_replicas,
            knobs.rollout_routing,
            *(
                (knobs.schedule, knobs.max_lag, knobs.inflight_update, knobs.partial_rollout)
                if is_stream(knobs)
                else ()
            ),
        )
        if key not in self._rollout:
            self._rollout[key] = rollout_count(knobs)(self.job, knobs, _steps(self.lengths))
        return self._rollout[key]

    def _train_side(self, knobs: EngineKnobs) -> TrainSide:
        key = (
            knobs.layout,
            knobs.micro_batch_tokens,
            knobs.recompute,
            knobs.compile,
            knobs.train_dtype,
            knobs.train_threads,
            knobs.train_ranks,
            knobs.logprob_batch_tokens,
        )
        if key not in self._train:
            self._train[key] = train_side(self.job, knobs, _steps(self.lengths))
        return self._train[key]

    def _memory_bytes(self, knobs: EngineKnobs, train: TrainSide) -> float:
        longest = max(self.lengths.prompt) + self.job.algorithm.max_completion_len
        completion, prompt = sum(self.lengths.completion), sum(self.lengths.prompt)
        return memory_bytes(
            self.job,
            knobs,
            micro_positions=train.largest_micro_batch,
            completion_frac=completion / max(1, completion + prompt),
            extra_keys=train.most_extra_keys,
            longest=longest,
        )


def _queue_key(knobs: EngineKnobs) -> tuple[KnobValue, ...]:
    """Return all that the ages of a queue's plan depend on."""
    return (
        knobs.max_lag,
        knobs.inflight_update,
        knobs.partial_rollout,
        knobs.rollout_concurrency,
        knobs.rollout_replicas,
        knobs.rollout_routing,
        knobs.share_prefill,
    )


def _lag(job: JobSpec, knobs: EngineKnobs) -> int:
    if knobs.max_lag is not None:
        return knobs.max_lag
    return 0 if knobs.schedule == "sync" else job.algorithm.num_updates


def train_side(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> TrainSide:
    """Return micro-batches, log-prob passes and optimizer steps per step, averaged over ``steps``.

    Of two ranks the items are the slower one's (by positions) in every update, under curves that were measured with
    both at work; a profile without them refuses to price two ranks.
    """
    algorithm, num_steps = job.algorithm, len(steps)
    train: Counter[int] = Counter()
    padded = active = num_updates = extra_keys = 0
    for step in steps:
        plans = _plans(job, knobs, step, knobs.micro_batch_tokens, algorithm.num_updates)
        train.update(_slowest(plans))
        padded += sum(plan.padded_tokens for plan in plans)
        active += sum(plan.active_tokens for plan in plans)
        num_updates += len(plans[0].updates)
        extra_keys = max(extra_keys, *(m.num_keys - m.num_positions for plan in plans for m in plan.micro_batches))
    pass_tokens = knobs.logprob_batch_tokens
    old = _pass_counts(job, knobs, steps, pass_tokens)
    reference = (
        _pass_counts(job, knobs, steps, pass_tokens or knobs.micro_batch_tokens) if algorithm.kl_coef > 0 else {}
    )
    when, ranked = _train_settings(knobs), "" if knobs.train_ranks == 1 else RANKED
    return TrainSide(
        items=(
            *work_items(Role.TRAINER, "train", f"train{ranked}", when, train, num_steps),
            *work_items(Role.TRAINER, "train", f"optimizer{ranked}", when, {1: num_updates}, num_steps),
            *work_items(Role.TRAINER, "old_logprob", f"logprob{ranked}", when, old, num_steps),
            *work_items(Role.TRAINER, "ref_logprob", f"logprob{ranked}", when, reference, num_steps),
        ),
        padded_tokens=padded / num_steps,
        active_tokens=active / num_steps,
        largest_micro_batch=max(train),
        most_extra_keys=extra_keys,
    )


def _train_settings(knobs: EngineKnobs) -> dict[str, KnobValue]:
    return {
        "train_threads": knobs.train_threads,
        "train_dtype": knobs.train_dtype,
        "recompute": knobs.recompute,
        "compile": knobs.compile,
        # `sorted` costs what `padded` does at equal positions: both are one run of equally wide rows
        "layout": "padded" if knobs.layout == "sorted" else knobs.layout,
    }


def handover_items(job: JobSpec, knobs: EngineKnobs) -> tuple[WorkItem, ...]:
    """Return the hand-over of one weight version.

    Between processes the rollout reads the weights and answers the mismatch probe while the trainer already
    trains, so its part belongs to the rollout's side, not to the serial hand-over. Several replicas take them over at
    once; in a synchronous step the trainer waits for that.
    """
    schedule = "sync" if knobs.schedule == "sync" else "one_step_off"
    when: dict[str, KnobValue] = {"handover": knobs.handover, "schedule": schedule}
    given = WorkItem(role=Role.TRAINER, phase="weight_sync", curve="handover", when=when, x=1, count=1)
    is_one = knobs.rollout_replicas == 1
    whose: dict[str, KnobValue] = {
        "handover": knobs.handover,
        "rollout_threads": knobs.rollout_threads,
        "rollout_dtype": knobs.rollout_dtype,
        **({} if is_one else {"rollout_replicas": knobs.rollout_replicas}),
    }
    if knobs.schedule == "sync":
        return (given if is_one else given.model_copy(update={"curve": f"handover{REPLICATED}", "when": whose}),)
    num_steps = 1 if knobs.schedule != "async" or knobs.inflight_update else steps_ahead(job, knobs)
    curve = f"load{replicated(knobs)}"
    taken = WorkItem(role=Role.ROLLOUT, phase="weight_sync", curve=curve, when=whose, x=1, count=1 / num_steps)
    return (given, taken)


def slowed(items: Sequence[WorkItem], knobs: EngineKnobs, split: Split) -> tuple[WorkItem, ...]:
    """Return the items at the price a CPU quota makes of them: threads over the cores they are given.

    One thread that always works takes 1/share times as long. Of two, one waits now and then, and what it does not
    use the other may: there the factor is an upper bound, and the price of one thread says how far below it.
    """
    return tuple(
        _slowed(item, "rollout_threads", knobs.rollout_threads, split.rollout / knobs.rollout_replicas)
        if item.role is Role.ROLLOUT
        else _slowed(item, "train_threads", knobs.train_threads, split.trainer)
        for item in items
    )


def _slowed(item: WorkItem, knob: str, threads: int, cores: float) -> WorkItem:
    one = OneThread(when={**item.when, knob: 1}, cores=cores) if threads > 1 and knob in item.when else None
    return item.model_copy(update={"slowdown": threads / cores, "one_thread": one})


def _pass_counts(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step], budget: int | None) -> Counter[int]:
    """Return forwards by positions of a log-prob pass over every step; none without a ``budget``."""
    counts: Counter[int] = Counter()
    if budget is None:
        return counts
    for step in steps:
        counts.update(_slowest(_plans(job, knobs, step, budget, 1)))
    return counts


def _plans(job: JobSpec, knobs: EngineKnobs, step: Step, budget: int, updates: int) -> list[TrainPlan]:
    """Return every rank's plan of one step."""
    return [
        plan_batch(
            *step,
            layout=knobs.layout,
            token_budget=budget,
            max_completion_len=job.algorithm.max_completion_len,
            num_updates=updates,
            group_size=job.algorithm.group_size,
            rank=rank,
            num_ranks=knobs.train_ranks,
        )
        for rank in range(knobs.train_ranks)
    ]


def _slowest(plans: Sequence[TrainPlan]) -> Iterator[int]:
    """Yield positions of the micro-batches of the rank that has most of them, update by update."""
    for micros_by_rank in zip(*(plan.updates for plan in plans), strict=True):
        sizes_by_rank = [[micro.num_positions for micro in micros] for micros in micros_by_rank]
        yield from max(sizes_by_rank, key=sum)


def _steps(lengths: SampledLengths) -> list[Step]:
    rows = lengths.rollouts_per_step
    starts = range(0, min(len(lengths.completion), MAX_STEPS_COUNTED * rows), rows)
    return [(lengths.prompt[s : s + rows], lengths.completion[s : s + rows]) for s in starts]
