"""What the trainer's primitives cost on this machine, for the job's real model: the forecaster's price list.

Each measurement is a real `Trainer` call on one micro-batch, so nothing is timed that a step does not do.
Rounds go over all settings and sizes in turn: a slow moment of the machine is spread over every curve instead
of bending one. All settings share one model and its optimizer: a pretrained one fits into memory once, not 24 times;
its weights stay where they are (`probe_batch.STILL_LR`).
The surprise: repetitions are bought with a time budget, cheapest first. Cost is close to a straight line in
positions (1 thread, 1 M parameters, fp32: 88 to 92 us per position from 400 to 8,000), so a curve that gets only
its two small sizes still extrapolates, with less certainty.
"""

import time
from collections.abc import Sequence

from steptune.core.job import JobSpec
from steptune.core.profile import CostCurve
from steptune.engine.events import Clock
from steptune.engine.knobs import DType, EngineKnobs
from steptune.engine.new_model import new_model
from steptune.engine.probe_batch import probe_algorithm, typical_rows
from steptune.engine.probe_train import (
    LOGPROB_KEYS,
    PASS,
    TRAIN_KEYS,
    Setting,
    compiles_to_price,
    measured,
    position_curve,
    settings_of,
    start_up_curve,
    update_curve,
)
from steptune.engine.trainer import Trainer
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

TRAIN = ("train/plan", "train/forward", "train/backward")
"""Children of `train` that grow with a micro-batch; the optimizer is paid once an update."""


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
    ``start_up``, where `compile` is priced: seconds of compiling before a launch's first step.
    The small sizes are always measured; ``budget_s`` bounds everything beyond them, twice where both ways are priced.
    """
    stop_s = clock() + budget_s * len(compiles_to_price(job))
    # without it the log-prob pass is measured, too, so only the owner's "never" leaves anything out
    recomputes = (False,) if job.knobs.pin.get("recompute") is False else (False, True)
    trainer = Trainer(new_model(job), probe_algorithm(job), EngineKnobs(), vocabulary_of(job).pad_id)
    settings = settings_of(job, thread_options, dtype_options, recomputes, sizes=SIZES)
    warm_ups_s = [_begun(trainer, setting, clock) for setting in settings]
    stop_s += sum(warm_ups_s)
    num_sizes = sizes_needed(sum(typical_rows(job)[-1]) * job.algorithm.rollouts_per_step)
    measured(trainer, settings[0], num_sizes - 1, clock)  # not kept: the first large call pays for the allocator
    for rep in range(MAX_REPS):
        for size in range(num_sizes):
            for setting in sorted(settings, key=lambda s: _predicted_s(s, size)):
                is_owed = rep == 0 and size < NUM_OWED_SIZES
                if is_owed or clock() + _predicted_s(setting, size) <= stop_s:
                    setting.samples[size].append(measured(trainer, setting, size, clock))
    return [
        *(position_curve("train", s, TRAIN_KEYS, TRAIN) for s in settings),
        *(position_curve("logprob", s, LOGPROB_KEYS, PASS) for s in settings if s.knobs.logprob_batch_tokens),
        *(update_curve("optimizer", settings, threads, ("train/optimizer",)) for threads in thread_options),
        *([start_up_curve(max(warm_ups_s))] if True in compiles_to_price(job) else []),
    ]


def _begun(trainer: Trainer, setting: Setting, clock: Clock) -> float:
    """Make a setting's first call, which pays for the start of threads and kernels, and return what it compiled for."""
    before_s = trainer.gradients.warm_up_s
    measured(trainer, setting, 0, clock)
    return trainer.gradients.warm_up_s - before_s


def sizes_needed(step_positions: int) -> int:
    """Return how many of `SIZES` are measured: up to the first that a whole step of the job fits in, at least two."""
    return max(2, min(len(SIZES), 1 + sum(size < step_positions for size in SIZES)))


def _predicted_s(setting: Setting, size: int) -> float:
    """Seconds that measuring this size will take, judged by the nearest size measured so far; 0 if none."""
    known = next((smaller for smaller in range(size, -1, -1) if setting.samples[smaller]), None)
    if known is None:
        return 0.0
    return setting.samples[known][-1].wall_s * setting.num_positions[size] / setting.num_positions[known]
