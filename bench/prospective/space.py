"""Draws an engine's jobs by seed: every draw is kept but those that cannot run at all.

A knob's values are drawn alike, whatever they are expected to do: nobody looks at a forecast or a clock here. Surprise:
each job has a generator of its own, so that one more job, or another engine's space, changes no other job.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prospective.job import Disturbance, Engine, Job, LengthDraw, Moves
from steptune.core.knob import KnobValue

NUM_CANDIDATES = 5
"""Candidates of a job."""

LEVERS_MOVED = (1, 2, 2, 3, 4, 5)
"""How many knobs a candidate moves, drawn alike (companions come on top): mostly combinations, for these move far."""

MAX_TRIES = 10_000
"""Draws after which a space is taken to hold too few configurations that can run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """One engine's jobs.

    Example: ``Space(engine="trl", num_jobs=7, models=("dense",), prompts=(4, 8), group_sizes=(4,), medians=(12, 24),
    sigmas=(0.3, 0.7), longest=(48,), knobs={"bf16": (False, True)}, disturbances=(None,), problem=...)``.
    """

    engine: Engine
    num_jobs: int
    models: tuple[str, ...]
    prompts: tuple[int, ...]
    group_sizes: tuple[int, ...]
    medians: tuple[float, ...]
    """Median completion length, in tokens."""
    sigmas: tuple[float, ...]
    longest: tuple[int, ...]
    knobs: Mapping[str, tuple[KnobValue, ...]]
    """Every knob with its values; baseline and candidates are drawn from them alike."""
    disturbances: tuple[Disturbance | None, ...]
    problem: Callable[[Job, Mapping[str, KnobValue]], str | None]
    """Why a configuration of a job cannot run; None when it can."""
    companions: Callable[[Mapping[str, KnobValue]], Moves] = lambda settings: {}
    """Moves that a configuration needs to be one at all (a quota fixes the threads); made after every draw."""


def draw_jobs(space: Space, seed: int) -> tuple[Job, ...]:
    """Return the engine's jobs, the same for the same seed and space."""
    return tuple(_draw_job(space, seed, index) for index in range(space.num_jobs))


def _draw_job(space: Space, seed: int, index: int) -> Job:
    rng = random.Random(f"{seed} {space.engine} {index}")
    bare = Job(
        name=f"{space.engine}-{index:02}",
        engine=space.engine,
        seed=rng.randrange(10**6),
        # models and disturbances go round, so that each is there; everything else is drawn
        model=space.models[index % len(space.models)],
        prompts_per_step=rng.choice(space.prompts),
        group_size=rng.choice(space.group_sizes),
        lengths=LengthDraw(
            median=rng.choice(space.medians), sigma=rng.choice(space.sigmas), longest=rng.choice(space.longest)
        ),
        baseline={},
        disturbance=space.disturbances[index % len(space.disturbances)],
        candidates=(),
    )
    baseline = _possible(space, bare, lambda: {knob: rng.choice(values) for knob, values in space.knobs.items()})
    job = bare.model_copy(update={"baseline": baseline})
    return job.model_copy(update={"candidates": _candidates(space, job, rng)})


def _candidates(space: Space, job: Job, rng: random.Random) -> tuple[Moves, ...]:
    found: list[Moves] = []
    while len(found) < NUM_CANDIDATES:
        settings = _possible(space, job, lambda: _moved(space, job, rng))
        moves = {knob: value for knob, value in settings.items() if value != job.baseline[knob]}
        if moves and moves not in found:
            found.append(moves)
    return tuple(found)


def _moved(space: Space, job: Job, rng: random.Random) -> dict[str, KnobValue]:
    movable = [knob for knob, values in space.knobs.items() if len(set(values)) > 1]
    chosen = rng.sample(movable, min(rng.choice(LEVERS_MOVED), len(movable)))
    return {
        **job.baseline,
        **{knob: rng.choice([v for v in space.knobs[knob] if v != job.baseline[knob]]) for knob in chosen},
    }


def _possible(space: Space, job: Job, draw: Callable[[], dict[str, KnobValue]]) -> dict[str, KnobValue]:
    for _ in range(MAX_TRIES):
        settings = draw()
        settings |= space.companions(settings)
        if space.problem(job, settings) is None:
            return settings
    raise ValueError(f"{space.engine}: no configuration that can run in {MAX_TRIES} draws")
