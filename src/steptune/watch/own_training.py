"""A run of `steptune train` as a `Paste`, so that one judgement holds for our own engine and for every pasted log."""

import math
from collections.abc import Callable, Mapping

from steptune.core.paste import Paste, Series, SeriesPoint
from steptune.core.training import TrainedStep, Training

GIB = 1024**3

TOLD: Mapping[str, Callable[[TrainedStep], float | None]] = {
    "step_time": lambda step: step.step_time_s,
    "reward": lambda step: step.reward_mean,
    "entropy": lambda step: step.entropy,
    "loss": lambda step: step.loss,
    "grad_norm": lambda step: step.grad_norm,
    "zero_std_frac": lambda step: None if step.mixed_groups_frac is None else 1 - step.mixed_groups_frac,
    "mismatch_k3": lambda step: step.mismatch_k3,
    "ess_frac": lambda step: step.ess_frac,
    "lag_max": lambda step: step.lag_max,
    "clipped_frac": lambda step: step.truncated_frac,
    "memory_reserved_gib": lambda step: None if step.memory_peak_bytes is None else step.memory_peak_bytes / GIB,
    "completion_max": lambda step: step.completion_len_max,
    "completion_mean": lambda step: step.completion_len_mean,
    "gen_batches": lambda step: _gen_batches(step.mixed_groups_frac),
}
"""Canonical series name -> where a trained step holds it."""


def _gen_batches(mixed_groups_frac: float | None) -> float | None:
    """Return the batches to be generated for one in which every group's rewards differ."""
    if mixed_groups_frac is None:
        return None
    return math.inf if mixed_groups_frac == 0 else 1 / mixed_groups_frac


def training_paste(training: Training, path: str) -> Paste:
    """Return ``training`` as series; the record is one line, so every origin is its first."""
    series = (_series(name, read, training, path) for name, read in TOLD.items())
    return Paste(
        paths=(path,),
        framework="steptune",
        series=tuple(one for one in series if one.points),
        num_steps_seen=len(training.steps),
        num_lines=1,
    )


def _series(name: str, read: Callable[[TrainedStep], float | None], training: Training, path: str) -> Series:
    told = ((step.step, read(step)) for step in training.steps)
    points = tuple(SeriesPoint(step=step, value=value, line=1) for step, value in told if value is not None)
    return Series(name=name, key=name, points=points, path=path)
