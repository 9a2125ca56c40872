"""What the trainer's primitives cost on this machine, for the job's real model: the forecaster's price list.

Each measurement is a real `Trainer` call on one micro-batch, so nothing is timed that a step does not do.
Rounds go over all settings and sizes in turn: a slow moment of the machine is spread over every curve instead
of bending one. All settings share one model and its optimizer: a pretrained one fits into memory once, not 24 times;
its weights stay where they are (`probe_batch.STILL_LR`).
The surprise: repetitions are bought with a time budget, cheapest first. Cost is close to a straight line in
positions (1 thread, 1 M parameters, fp32: 88 to 92 us per position from 400 to 8,000), so a curve that gets only
its two small sizes still extrapolates, with less certainty.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.phase import Phase
from steptune.core.profile import CostCurve, CurvePoint
from steptune.engine.events import Clock, Recorder
from steptune.engine.knobs import DType, EngineKnobs
from steptune.engine.new_model import new_model
from steptune.engine.plan import Layout, plan_batch
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.probe_batch import Picked, Row, batch_of, pick_rows, probe_algorithm, typical_rows
from steptune.engine.threads import torch_threads
from steptune.engine.trainer import Trainer
from steptune.engine.types import ScoredBatch
from steptune.envs.vocabulary import vocabulary_of

PROBE_BUDGET_S = 27.0
"""Wall seconds of a whole trainer probe of three layouts, 9 each. With 4 each the slowest curves rested on one or two
repetitions, and a curve measured too low made every forecast of a session 31 % too low (2026-11-30)."""

SIZES = (256, 512, 1024, 2560)
"""Positions of the measured micro-batches. Below 256 the fixed cost rules, above 2,560 the line is straight. Without
512 the chord from 256 to 1,024 priced the default's micro-batches of 440 positions 8 % too low on two threads."""

NUM_OWED_SIZES = 3
"""How many of `SIZES` are measured whatever the budget: a curve bends between the first two."""

MAX_REPS = 5
"""Repetitions of one measurement, of which the median counts."""

UNLIMITED_TOKENS = 10**9
"""Positions per micro-batch that keep any probe batch in one piece."""

LAYOUTS: tuple[Layout, ...] = ("padded", "packed", "shared_prefix")
"""`sorted` costs what `padded` does at equal positions: both are one run of equally wide rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sample:
    """Seconds of one call: ``_Sample(train_s=0.16, logprob_s=0.05, optimizer_s=0.003, wall_s=0.22)``."""

    train_s: float
    logprob_s: float | None
    optimizer_s: float
    wall_s: float


@final
@dataclass(kw_only=True, slots=True)
class _Subject:
    """One setting of the trainer with its batches and what has been measured of them, by rank in `SIZES`."""

    knobs: EngineKnobs
    trainer: Trainer
    """That of all subjects."""
    batches: list[ScoredBatch]
    num_positions: list[int]
    samples: list[list[_Sample]] = field(default_factory=lambda: [[] for _ in SIZES])

    def measure(self, rank: int, clock: Clock) -> _Sample:
        """Train one micro-batch and return its times."""
        self.trainer.configure(self.knobs)
        recorder, start_s = Recorder(clock=clock), clock()
        with torch_threads(self.knobs.train_threads):
            prepared = self.trainer.prepare(self.batches[rank], recorder)
            self.trainer.update(prepared, weights_version=0, recorder=recorder)
        seconds = {span.phase: 0.0 for span in recorder.spans}
        for span in recorder.spans:
            seconds[span.phase] += span.seconds
        return _Sample(
            train_s=seconds["train/plan"] + seconds["train/forward"] + seconds["train/backward"],
            logprob_s=seconds.get(Phase.OLD_LOGPROB),
            optimizer_s=seconds["train/optimizer"],
            wall_s=clock() - start_s,
        )

    def predicted_s(self, rank: int) -> float:
        """Seconds that measuring this size will take, judged by the nearest size measured so far; 0 if none."""
        known = next((r for r in range(rank, -1, -1) if self.samples[r]), None)
        if known is None:
            return 0.0
        return self.samples[known][-1].wall_s * self.num_positions[rank] / self.num_positions[known]


def probe_trainer(
    job: JobSpec,
    thread_options: Sequence[int],
    dtype_options: Sequence[DType],
    *,
    budget_s: float = PROBE_BUDGET_S,
    clock: Clock = time.perf_counter,
) -> list[CostCurve]:
    """Return what a micro-batch of the job's model costs under every setting.

    ``train``: seconds of forward and backward with their planning, by positions, padding included.
    ``logprob``: seconds of a forward-only pass, by positions. ``optimizer``: seconds of clipping and AdamW.
    The small sizes are always measured; ``budget_s`` bounds everything beyond them.
    """
    stop_s, rows = clock() + budget_s, typical_rows(job)
    layouts: list[Layout] = [name for name in LAYOUTS if name != "shared_prefix" or can_share_prompts(job.model)]
    # without it the log-prob pass is measured, too, so only the owner's "never" leaves anything out
    recomputes = (False,) if job.knobs.pin.get("recompute") is False else (False, True)
    trainer = _trainer(job)
    subjects = [
        _subject(job, trainer, rows, threads, dtype, recompute, layout)
        for threads, dtype, recompute, layout in itertools.product(thread_options, dtype_options, recomputes, layouts)
    ]
    for subject in subjects:
        subject.measure(0, clock)  # not kept: the first call of a setting pays for thread and kernel start
    num_sizes = sizes_needed(sum(rows[-1]) * job.algorithm.rollouts_per_step)
    subjects[0].measure(num_sizes - 1, clock)  # not kept: the first large call pays for the allocator's growth
    for rep in range(MAX_REPS):
        for rank in range(num_sizes):
            for subject in sorted(subjects, key=lambda s: s.predicted_s(rank)):
                is_owed = rep == 0 and rank < NUM_OWED_SIZES
                if is_owed or clock() + subject.predicted_s(rank) <= stop_s:
                    subject.samples[rank].append(subject.measure(rank, clock))
    return [
        *(_curve("train", s, ("train_threads", "train_dtype", "recompute", "layout"), _train_s) for s in subjects),
        *(
            _curve("logprob", s, ("train_threads", "train_dtype", "layout"), _logprob_s)
            for s in subjects
            if not s.knobs.recompute
        ),
        *(_optimizer_curve(subjects, threads) for threads in thread_options),
    ]


def sizes_needed(step_positions: int) -> int:
    """Return how many of `SIZES` are measured: up to the first that a whole step of the job fits in, at least two."""
    return max(2, min(len(SIZES), 1 + sum(size < step_positions for size in SIZES)))


def _trainer(job: JobSpec) -> Trainer:
    return Trainer(new_model(job), probe_algorithm(job), EngineKnobs(), vocabulary_of(job).pad_id)


def _subject(
    job: JobSpec,
    trainer: Trainer,
    rows: Sequence[Row],
    threads: int,
    dtype: DType,
    recompute: bool,
    layout: Layout,
) -> _Subject:
    knobs = EngineKnobs(
        train_threads=threads,
        train_dtype=dtype,
        recompute=recompute,
        layout=layout,
        micro_batch_tokens=UNLIMITED_TOKENS,
        logprob_batch_tokens=None if recompute else UNLIMITED_TOKENS,
    )
    vocab_size = vocabulary_of(job).size
    picked = [pick_rows(rows, layout, size, group_size=job.algorithm.group_size) for size in SIZES]
    return _Subject(
        knobs=knobs,
        trainer=trainer,
        batches=[batch_of(chosen, vocab_size) for chosen in picked],
        num_positions=[_num_positions(chosen, layout) for chosen in picked],
    )


def _num_positions(picked: Picked, layout: Layout) -> int:
    prompts, completions = zip(*picked.rows, strict=True)
    return plan_batch(
        prompts,
        completions,
        layout=layout,
        token_budget=UNLIMITED_TOKENS,
        max_completion_len=max(completions),
        group_B=picked.group_B,
    ).padded_tokens


def _curve(name: str, subject: _Subject, keys: Sequence[str], seconds_of: Callable[[_Sample], float]) -> CostCurve:
    settings: dict[str, KnobValue] = subject.knobs.model_dump(include=set(keys))
    points = tuple(
        CurvePoint(x=x, seconds=statistics.median(map(seconds_of, samples)))
        for x, samples in zip(subject.num_positions, subject.samples, strict=True)
        if samples
    )
    return CostCurve(name=name, when=settings, unit="tokens", points=points)


def _optimizer_curve(subjects: Sequence[_Subject], threads: int) -> CostCurve:
    seconds = [
        sample.optimizer_s
        for subject in subjects
        if subject.knobs.train_threads == threads
        for samples in subject.samples
        for sample in samples
    ]
    point = CurvePoint(x=1, seconds=statistics.median(seconds))
    return CostCurve(name="optimizer", when={"train_threads": threads}, unit="updates", points=(point,))


def _train_s(sample: _Sample) -> float:
    return sample.train_s


def _logprob_s(sample: _Sample) -> float:
    assert sample.logprob_s is not None, "only settings without recompute run the pass"
    return sample.logprob_s
