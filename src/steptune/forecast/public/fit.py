"""Fits the free parameters on public rows: a maximum of the posterior, jobs weighted equally, by coordinate descent.

Two sorts of evidence: ratios of two rows of a job, which is what is scored, and phases that a row states in seconds,
which say how generation and training share a step that a row gives as one number. Surprise: with a handful of jobs the
priors carry most of it; leaving a source out says whether the rest generalises.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from steptune.forecast.public.arm import PublicForecaster
from steptune.forecast.public.job import Job
from steptune.forecast.public.parameters import NAMES, PRIOR, Free, moved, penalty
from steptune.forecast.public.schedule import Phase, phases
from steptune.published.public_run import PublicRun

RATIO_SCALE = 0.15
"""Log error of a ratio at which the loss turns from square to straight: the aim on held-out sources."""

PHASE_SCALE = 0.5
"""The same of one phase in absolute seconds: software of two years lies that far apart."""

LOG_STEPS = (0.3, 0.1, 0.03)
MOST_ROUNDS = 6
"""Rounds over all parameters at each step size."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioEvidence:
    """Two measured rows of one job."""

    group: str
    base: PublicRun
    other: PublicRun


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseEvidence:
    """Seconds of one phase as a row states them, on the devices of that phase."""

    group: str
    job: Job
    phase: Phase
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What a fit sees."""

    ratios: Sequence[RatioEvidence]
    phases: Sequence[PhaseEvidence]


def fit(evidence: Evidence) -> Free:
    """Return the parameters with the largest posterior found from the priors' centres."""
    best, best_loss = PRIOR, loss(PRIOR, evidence)
    for log_step in LOG_STEPS:
        for _ in range(MOST_ROUNDS):
            before = best_loss
            for name in NAMES:
                for sign in (1, -1):
                    tried = moved(best, name, sign * log_step)
                    tried_loss = loss(tried, evidence)
                    if tried_loss < best_loss:
                        best, best_loss = tried, tried_loss
            if best_loss > before - 1e-6:
                break
    return best


def loss(free: Free, evidence: Evidence) -> float:
    """Return penalty and Huber losses, each job's mean counted once for ratios and once for phases."""
    ratio_losses: dict[str, list[float]] = defaultdict(list)
    model = PublicForecaster(free)
    for one in evidence.ratios:
        error = ratio_error(model, one)
        if error is not None:
            ratio_losses[one.group].append(_huber(error / RATIO_SCALE))
    phase_losses: dict[str, list[float]] = defaultdict(list)
    for seen in evidence.phases:
        error = math.log(getattr(phases(seen.job, free), seen.phase) / seen.seconds)
        phase_losses[seen.group].append(_huber(error / PHASE_SCALE))
    groups = [*ratio_losses.values(), *phase_losses.values()]
    return penalty(free) + math.fsum(math.fsum(values) / len(values) for values in groups)


def ratio_error(model: PublicForecaster, one: RatioEvidence) -> float | None:
    """Return forecast less measured log ratio; None where the model refuses."""
    assert one.base.step_time_s is not None
    assert one.other.step_time_s is not None
    forecast = model.step_s(one.other, measured=one.base)
    return None if forecast is None else math.log(forecast / one.other.step_time_s)


def _huber(error: float) -> float:
    size = abs(error)
    return error * error / 2 if size < 1 else size - 0.5
