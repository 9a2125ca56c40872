"""What the trainer's primitives cost with two ranks at work: the evidence without which nobody forecasts two ranks.

Both ranks get one micro-batch each of about the same size, so a point holds what the slower one took, beside another on
the same memory bus. Measured only where the owner asks for ranks (`knob_checks.asks_for_ranks`): a price cannot be
derived from one rank's, because how much two processes slow each other down is the machine's secret.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
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
from steptune.engine.probe import LAYOUTS, UNLIMITED_TOKENS
from steptune.engine.probe_batch import Row, batch_of, pick_rows, probe_algorithm, typical_rows
from steptune.engine.ranks.wire import StartRank, start_process
from steptune.engine.threads import torch_threads
from steptune.engine.trainer import Trainer
from steptune.engine.types import ScoredBatch
from steptune.envs.vocabulary import vocabulary_of

NUM_RANKS = 2

SIZES = (256, 1024, 2560)
"""Positions of each rank's micro-batch; see `probe.SIZES`."""

BUDGET_S = 15.0
"""Wall seconds beyond which no second repetition begins; half of the trainer's other curves have one rank's threads."""

MAX_REPS = 3

TRAIN = ("train/plan", "train/forward", "train/backward", "train/rank_wait")
"""Children of `train` that grow with a micro-batch; the others are paid once an update."""

OPTIMIZER = ("train/order", "train/reduce", "train/optimizer")


@final
@dataclass(kw_only=True, slots=True)
class _Setting:
    """One setting with a batch per size and what was measured: seconds by phase, by size and repetition."""

    knobs: EngineKnobs
    batches: list[ScoredBatch]
    num_positions: list[int]
    """Of the rank that has more, by size."""
    samples: list[list[dict[str, float]]] = field(default_factory=lambda: [[] for _ in SIZES])


def probe_ranks(
    job: JobSpec,
    folder: Path,
    dtype_options: Sequence[DType],
    *,
    budget_s: float = BUDGET_S,
    clock: Clock = time.perf_counter,
    start_rank: StartRank = start_process,
) -> list[CostCurve]:
    """Return curves `train_ranked`, `logprob_ranked` (seconds by positions of a rank) and `optimizer_ranked`.

    The last one is an update's order, sum of gradients, clipping and AdamW. ``folder`` takes the second rank's log.
    """
    threads = range(1, job.devices.num_cores // NUM_RANKS + 1)
    settings = list(_settings(job, threads, dtype_options))
    model, pad_id = new_model(job), vocabulary_of(job).pad_id
    trainer = Trainer(model, probe_algorithm(job), settings[0].knobs, pad_id, folder=folder, start_rank=start_rank)
    with closing(trainer):
        for setting in settings:
            _measure(trainer, setting, 0, clock)  # not kept: the first call of a setting pays for its kernels' start
        stop_s = clock() + budget_s
        for rep, (size, setting) in itertools.product(range(MAX_REPS), itertools.product(range(len(SIZES)), settings)):
            if rep == 0 or clock() < stop_s:
                setting.samples[size].append(_measure(trainer, setting, size, clock))
    return [*_curves(settings), *(_optimizer(settings, number) for number in threads)]


def _settings(job: JobSpec, threads: Sequence[int], dtypes: Sequence[DType]) -> Iterator[_Setting]:
    rows = typical_rows(job)
    layouts: list[Layout] = [name for name in LAYOUTS if name != "shared_prefix" or can_share_prompts(job.model)]
    for number, dtype, recompute, layout in itertools.product(threads, dtypes, (False, True), layouts):
        knobs = EngineKnobs(
            train_ranks=NUM_RANKS,
            train_threads=number,
            train_dtype=dtype,
            recompute=recompute,
            layout=layout,
            micro_batch_tokens=UNLIMITED_TOKENS,
            logprob_batch_tokens=None if recompute else UNLIMITED_TOKENS,
        )
        yield _setting(job, knobs, rows)


def _setting(job: JobSpec, knobs: EngineKnobs, rows: Sequence[Row]) -> _Setting:
    picked = [pick_rows(rows, knobs.layout, NUM_RANKS * size, group_size=job.algorithm.group_size) for size in SIZES]
    positions: list[int] = []
    for chosen in picked:
        prompts, completions = zip(*chosen.rows, strict=True)
        plans = [
            plan_batch(
                prompts,
                completions,
                layout=knobs.layout,
                token_budget=UNLIMITED_TOKENS,
                max_completion_len=max(completions),
                group_B=chosen.group_B,
                rank=rank,
                num_ranks=NUM_RANKS,
            )
            for rank in range(NUM_RANKS)
        ]
        positions.append(max(plan.padded_tokens for plan in plans))
    batches = [batch_of(chosen, vocabulary_of(job).size) for chosen in picked]
    return _Setting(knobs=knobs, batches=batches, num_positions=positions)


def _measure(trainer: Trainer, setting: _Setting, size: int, clock: Clock) -> dict[str, float]:
    recorder = Recorder(clock=clock)
    trainer.configure(setting.knobs)
    with torch_threads(setting.knobs.train_threads):
        prepared = trainer.prepare(setting.batches[size], recorder)
        trainer.update(prepared, weights_version=0, recorder=recorder)
    seconds: dict[str, float] = {}
    for span in recorder.spans:
        seconds[span.phase] = seconds.get(span.phase, 0.0) + span.seconds
    return seconds


def _curves(settings: Sequence[_Setting]) -> Iterator[CostCurve]:
    for setting in settings:
        yield _curve("train_ranked", setting, ("train_threads", "train_dtype", "recompute", "layout"), _train_s)
    for setting in settings:
        if not setting.knobs.recompute:
            yield _curve("logprob_ranked", setting, ("train_threads", "train_dtype", "layout"), _logprob_s)


def _curve(
    name: str, setting: _Setting, keys: Sequence[str], seconds_of: Callable[[dict[str, float]], float]
) -> CostCurve:
    when: dict[str, KnobValue] = setting.knobs.model_dump(include=set(keys))
    points = tuple(
        CurvePoint(x=x, seconds=statistics.median(map(seconds_of, samples)))
        for x, samples in zip(setting.num_positions, setting.samples, strict=True)
    )
    return CostCurve(name=name, when=when, unit="tokens", points=points)


def _optimizer(settings: Sequence[_Setting], threads: int) -> CostCurve:
    seconds = [
        sum(sample[phase] for phase in OPTIMIZER)
        for setting in settings
        if setting.knobs.train_threads == threads
        for samples in setting.samples
        for sample in samples
    ]
    point = CurvePoint(x=1, seconds=statistics.median(seconds))
    return CostCurve(name="optimizer_ranked", when={"train_threads": threads}, unit="updates", points=(point,))


def _train_s(sample: dict[str, float]) -> float:
    return sum(sample[phase] for phase in TRAIN)


def _logprob_s(sample: dict[str, float]) -> float:
    return sample[Phase.OLD_LOGPROB]
