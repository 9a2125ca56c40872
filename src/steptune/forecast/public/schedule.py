"""Phases into a step: one after the other, or the longer of two sides with what overlap does not hide.

Roles: an asynchronous trainer's phases may be longer than the step is in a row's own columns; here a side's seconds are
its own, and only `step_s` says how they meet.
"""

from dataclasses import dataclass
from typing import Literal

from steptune.forecast.public.generation import generation_s
from steptune.forecast.public.job import Job
from steptune.forecast.public.parameters import Free
from steptune.forecast.public.training import logprob_s, train_s
from steptune.shapes.count import parameters

Phase = Literal["generation", "logprob", "train", "other"]
PHASES: tuple[Phase, ...] = ("generation", "logprob", "train", "other")

HAND_OVER_S = 7.5
"""Seconds to hand 30e9 parameters to the engines: geometric mean of the 30B rows of verl and miles (side `fit`)."""

HAND_OVER_POWER = 0.5
"""How that grows with parameters: larger models have more devices to send from."""

BOOKKEEPING_S = 3.0
"""Rewards, advantages, logging. Prior."""

OVERLAPPED_OTHER = 0.5
"""Part of hand-over and bookkeeping that stays where sides overlap. Prior."""

FULL_STALENESS = 0.5
"""Stale part of a batch from which on engines never drain. Prior: verl's rows gain nothing beyond 0.3 to 0.5."""

STREAM_CHUNKS = 4
"""Parts in which a streamed batch is trained: the last one waits for the last sample."""

LENDING = 0.9
"""Step with trainer devices that help to generate over without (verl, side `fit`: 0.85 and 0.90)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Phases:
    """Seconds by phase, each on its devices. Example: ``Phases(generation=178, logprob=54, train=114, other=9)``."""

    generation: float
    logprob: float
    train: float
    other: float

    def scaled(self, factors: dict[Phase, float]) -> "Phases":
        """Return the phases times their factors."""
        return Phases(**{name: getattr(self, name) * factors[name] for name in PHASES})


def phases(job: Job, free: Free) -> Phases:
    """Return a job's raw phases."""
    generation = generation_s(job, free, job.num_rollout, is_steady=False)
    if job.is_steady:
        hidden = 1.0 if job.stale_frac is None else min(1.0, job.stale_frac / FULL_STALENESS)
        steady = generation_s(job, free, job.num_rollout, is_steady=True)
        generation = generation + (steady - generation) * hidden
    billions = parameters(job.shape).total / 1e9
    other = HAND_OVER_S * (billions / 30) ** HAND_OVER_POWER + BOOKKEEPING_S
    return Phases(
        generation=generation, logprob=logprob_s(job, free), train=train_s(job, free), other=other * free.switch
    )


def step_s(job: Job, given: Phases, free: Free) -> float:
    """Return the step that a job's phases make under its schedule."""
    trainer = given.train + (0.0 if hides_logprobs(job) else given.logprob)
    if not job.is_async or job.is_shared:
        return given.generation + trainer + given.other
    if not job.is_steady and job.stale_frac is not None:  # streamed, fresh: the last part waits for the last sample
        return max(given.generation, trainer) + min(given.generation, trainer) / STREAM_CHUNKS + given.other
    long, short = max(given.generation, trainer), min(given.generation, trainer)
    seconds = long + free.overlap * short + OVERLAPPED_OTHER * given.other
    return seconds * (LENDING if job.lends else 1.0)


def hides_logprobs(job: Job) -> bool:
    """Return whether old log-probabilities are the engine's own: verl's fully asynchronous trainer asks for none."""
    return job.framework.startswith("verl") and job.is_async and (job.stale_frac is not None)
