"""What the trainer's probes have in common, with one rank and with two: settings, a measured call, curves.

Every setting has a batch per size that fills about that many positions of each rank, so a point holds what one
micro-batch took, the slower rank's where there are two.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.phase import Phase
from steptune.core.profile import START_UP, CostCurve, CurvePoint
from steptune.engine.compiler import COMPILE, asks_for_compile
from steptune.engine.events import Clock, Recorder
from steptune.engine.knobs import DType, EngineKnobs
from steptune.engine.plan import Layout, plan_batch
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.probe_batch import Picked, Row, batch_of, pick_rows, typical_rows
from steptune.engine.threads import torch_threads
from steptune.engine.trainer import Trainer
from steptune.engine.types import ScoredBatch
from steptune.envs.vocabulary import vocabulary_of

UNLIMITED_TOKENS = 10**9
"""Positions per micro-batch that keep any probe batch in one piece."""

LAYOUTS: tuple[Layout, ...] = ("padded", "packed", "shared_prefix")
"""`sorted` costs what `padded` does at equal positions: both are one run of equally wide rows."""

TRAIN_KEYS = ("train_threads", "train_dtype", "recompute", "compile", "layout")
"""Knobs that change what training a position costs."""

LOGPROB_KEYS = ("train_threads", "train_dtype", "layout")

PASS = (str(Phase.OLD_LOGPROB),)
"""The phase that a forward-only pass is booked under."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One call: ``Sample(seconds={"train/forward": 0.05, "train/backward": 0.1, ...}, wall_s=0.17)``."""

    seconds: dict[str, float]
    """By phase."""
    wall_s: float


@final
@dataclass(kw_only=True, slots=True)
class Setting:
    """One setting of the trainer, a batch per size, and what has been measured."""

    knobs: EngineKnobs
    batches: list[ScoredBatch]
    num_positions: list[int]
    """Of the rank that has more, by size."""
    samples: list[list[Sample]] = field(init=False)
    """By size and repetition."""

    def __post_init__(self) -> None:
        self.samples = [[] for _ in self.batches]


def layouts_to_price(job: JobSpec) -> list[Layout]:
    """Return the layouts whose micro-batches are measured: those of the model, or the owner's alone."""
    pinned = job.knobs.pin.get("layout")
    wanted = "padded" if pinned == "sorted" else pinned
    possible: list[Layout] = [name for name in LAYOUTS if name != "shared_prefix" or can_share_prompts(job.model)]
    return [name for name in possible if name == wanted] or possible


def settings_of(
    job: JobSpec,
    threads: Sequence[int],
    dtypes: Sequence[DType],
    recomputes: Sequence[bool],
    *,
    sizes: Sequence[int],
    num_ranks: int = 1,
) -> list[Setting]:
    """Return every combination, each with batches of about ``sizes`` positions per rank."""
    rows = typical_rows(job)
    compiles, layouts = compiles_to_price(job), layouts_to_price(job)
    return [
        _setting(
            job,
            EngineKnobs(
                train_ranks=num_ranks,
                train_threads=number,
                train_dtype=dtype,
                recompute=recompute,
                compile=is_compiled,
                layout=layout,
                micro_batch_tokens=UNLIMITED_TOKENS,
                # what neither of the two changes is measured once
                logprob_batch_tokens=None if recompute or is_compiled != compiles[0] else UNLIMITED_TOKENS,
            ),
            rows,
            sizes,
        )
        for is_compiled, number, dtype, recompute, layout in itertools.product(
            compiles, threads, dtypes, recomputes, layouts
        )
    ]


def compiles_to_price(job: JobSpec) -> list[bool]:
    """Return the values of `compile` that are measured: both only where the owner lets it move."""
    if job.knobs.pin.get(COMPILE) is True:
        return [True]
    return [False, True] if asks_for_compile(job) else [False]


def start_up_curve(warm_up_s: float) -> CostCurve:
    """Return what one launch with `compile` takes longer to start: the compiling itself, at most."""
    return CostCurve(name=START_UP, when={COMPILE: True}, unit="launches", points=(CurvePoint(x=1, seconds=warm_up_s),))


def measured(trainer: Trainer, setting: Setting, size: int, clock: Clock) -> Sample:
    """Train one micro-batch per rank, of the ``size``-th size, and return its times."""
    trainer.configure(setting.knobs)
    recorder, start_s = Recorder(clock=clock), clock()
    with torch_threads(setting.knobs.train_threads):
        prepared = trainer.prepare(setting.batches[size], recorder)
        trainer.update(prepared, weights_version=0, recorder=recorder)
    seconds: dict[str, float] = {}
    for span in recorder.spans:
        seconds[span.phase] = seconds.get(span.phase, 0.0) + span.seconds
    return Sample(seconds=seconds, wall_s=clock() - start_s)


def position_curve(name: str, setting: Setting, keys: Sequence[str], phases: Sequence[str]) -> CostCurve:
    """Return seconds of ``phases`` by positions, at the sizes that were measured."""
    when: dict[str, KnobValue] = setting.knobs.model_dump(include=set(keys))
    points = tuple(
        CurvePoint(x=x, seconds=_median(samples, phases))
        for x, samples in zip(setting.num_positions, setting.samples, strict=True)
        if samples
    )
    return CostCurve(name=name, when=when, unit="tokens", points=points)


def update_curve(name: str, settings: Sequence[Setting], threads: int, phases: Sequence[str]) -> CostCurve:
    """Return what is paid once per update, whatever the micro-batch: the median over all of them."""
    of_threads = [setting for setting in settings if setting.knobs.train_threads == threads]
    samples = [sample for setting in of_threads for of_size in setting.samples for sample in of_size]
    point = CurvePoint(x=1, seconds=_median(samples, phases))
    return CostCurve(name=name, when={"train_threads": threads}, unit="updates", points=(point,))


def _median(samples: Sequence[Sample], phases: Sequence[str]) -> float:
    return statistics.median(sum(sample.seconds[phase] for phase in phases) for sample in samples)


def _setting(job: JobSpec, knobs: EngineKnobs, rows: Sequence[Row], sizes: Sequence[int]) -> Setting:
    group_size, ranks = job.algorithm.group_size, knobs.train_ranks
    picked = [pick_rows(rows, knobs.layout, ranks * size, group_size=group_size) for size in sizes]
    return Setting(
        knobs=knobs,
        batches=[batch_of(chosen, vocabulary_of(job).size) for chosen in picked],
        num_positions=[
            max(_positions(chosen, knobs.layout, rank, ranks) for rank in range(ranks)) for chosen in picked
        ],
    )


def _positions(picked: Picked, layout: Layout, rank: int, num_ranks: int) -> int:
    prompts, completions = zip(*picked.rows, strict=True)
    return plan_batch(
        prompts,
        completions,
        layout=layout,
        token_budget=UNLIMITED_TOKENS,
        max_completion_len=max(completions),
        group_B=picked.group_B,
        rank=rank,
        num_ranks=num_ranks,
    ).padded_tokens
