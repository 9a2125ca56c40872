"""The nearest published runs, and what differs: an expectation, never a claim.

Distance is a weighted sum over features, each 0 (same) to 1 (unlike); a feature that one side does not state counts
half. A run is a neighbour only if two of the features that set the speed agree, one of them model or device, and its
model is of the same class.
"""

import math
from collections.abc import Mapping
from functools import cache

from steptune.core.finding import Neighbour
from steptune.diagnose.job import Job, model_billions, num_devices, plain_number
from steptune.hardware.devices import find_device
from steptune.published.runs import PublishedRun, published_runs

MAX_NEIGHBOURS = 3
MIN_MATCHES = 2
"""Features that must agree before a run is worth showing; one more where the model's size is unknown."""

WEIGHTS = {
    "model": 3.0,
    "gpu": 2.0,
    "framework": 1.5,
    "num_gpus": 1.0,
    "placement": 1.0,
    "group": 0.5,
    "prompts": 0.5,
    "max_len": 1.0,
}
"""How much a feature sets the step time. Priors, to be replaced by a fit over the table."""

CLOSE_RATIO = 1.25
"""Numbers within this factor count as the same: 7B and 8B models."""

OCTAVES = 3.0
"""Doublings after which two numbers are as unlike as can be: a factor of 8."""

SAME_CLASS_DISTANCE = 1 / OCTAVES
"""Models up to a factor of 2 apart may be neighbours."""

UNKNOWN_DISTANCE = 0.5

SPEED_FEATURES = ("model", "gpu", "framework", "placement")
"""Features of which some must agree."""


Features = Mapping[str, float | str | None]
"""Value of every feature, None where it is not stated."""


def neighbours(job: Job) -> tuple[Neighbour, ...]:
    """Return at most three published runs, the nearest first; none where too little is known of the job."""
    mine = _of_job(job)
    if mine["model"] is None and mine["gpu"] is None:
        return ()
    near = [(run, theirs) for run, theirs in _published() if _is_near(mine, theirs)]
    scored = [(_distance_of(mine, theirs), run.quality, run.id, run, theirs) for run, theirs in near]
    nearest = sorted(scored, key=lambda entry: entry[:3])[:MAX_NEIGHBOURS]
    return tuple(_neighbour(run, mine, theirs) for *_, run, theirs in nearest)


def _is_near(mine: Features, theirs: Features) -> bool:
    """Two agreements with a model of the same size, three where the size is not known; never another size.

    Called for every published run of every answer, so the cheapest questions come first.
    """
    is_model_known = mine["model"] is not None and theirs["model"] is not None
    if is_model_known and _distance(mine["model"], theirs["model"]) > SAME_CLASS_DISTANCE:
        return False
    same = [name for name in SPEED_FEATURES if _matches(mine[name], theirs[name])]
    needed = MIN_MATCHES if is_model_known else MIN_MATCHES + 1
    return len(same) >= needed and ("model" in same or "gpu" in same)


def _distance_of(mine: Features, theirs: Features) -> float:
    return sum(weight * _distance(mine[name], theirs[name]) for name, weight in WEIGHTS.items())


def _distance(mine: float | str | None, theirs: float | str | None) -> float:
    """0 for the same, 1 for unlike or for numbers a factor of 8 apart."""
    if mine is None or theirs is None:
        return UNKNOWN_DISTANCE
    if isinstance(mine, str) or isinstance(theirs, str):
        return 0.0 if mine == theirs else 1.0
    return min(abs(math.log2(mine / theirs)) / OCTAVES, 1.0)


def _matches(mine: float | str | None, theirs: float | str | None) -> bool:
    """Whether both are stated and agree."""
    if mine is None or theirs is None:
        return False
    return mine == theirs or _distance(mine, theirs) * OCTAVES <= math.log2(CLOSE_RATIO)


LABELS = {
    "model": "model size in billions",
    "gpu": "device",
    "framework": "framework",
    "num_gpus": "devices",
    "placement": "placement",
    "group": "group size",
    "prompts": "prompts per step",
    "max_len": "length limit",
}
"""Features as people say them."""


@cache
def _published() -> tuple[tuple[PublishedRun, Features], ...]:
    """Every published run with its features: their names are parsed once a process, not once an answer."""
    return tuple((run, _of_run(run)) for run in published_runs())


def _of_run(run: PublishedRun) -> Features:
    found: dict[str, float | str | None] = {
        "model": run.model_billions,
        "gpu": run.gpu_type or None,
        "framework": run.framework or None,
        "num_gpus": run.n_gpus,
        "placement": run.placement or None,
        "group": run.group_size,
        "prompts": run.prompts_per_step,
        "max_len": run.max_response_len,
    }
    return {name: _positive(value) for name, value in found.items()}


def _of_job(job: Job) -> Features:
    work = job.profile.work if job.profile else None
    found: dict[str, float | str | None] = {
        "model": model_billions(job),
        "gpu": _device_name(job),
        "framework": job.paste.framework,
        "num_gpus": num_devices(job),
        "placement": job.profile.placement if job.profile else None,
        "group": _or(work and work.group_size, job.positive("group_size")),
        "prompts": _or(work and work.prompts_per_step, job.positive("prompts_per_step")),
        "max_len": _or(work and work.max_completion_len, job.positive("max_completion_len")),
    }
    return {name: _positive(value) for name, value in found.items()}


def _device_name(job: Job) -> str | None:
    claim = job.paste.devices
    device = find_device(claim.name) if claim is not None and claim.name else None
    return None if device is None else device.name.split(" ")[0]


def _or(first: float | None, second: float | None) -> float | None:
    return second if (value := plain_number(first)) is None else value


def _positive(value: float | str | None) -> float | str | None:
    return value if isinstance(value, str) or (value is not None and value > 0) else None


def _neighbour(run: PublishedRun, mine: Features, theirs: Features) -> Neighbour:
    unlike = [name for name in LABELS if theirs[name] is not None and not _matches(mine[name], theirs[name])]
    return Neighbour(
        run_id=run.id,
        source=run.source,
        framework=run.framework,
        model=run.model,
        gpus=f"{run.n_gpus:g} x {run.gpu_type or 'unknown device'}" if run.n_gpus else run.gpu_type,
        step_time_s=run.step_time_s,
        tokens_per_s_per_gpu=run.tokens_per_s_per_gpu,
        differs=tuple(f"{LABELS[name]} {_said(theirs[name])} (yours {_said(mine[name])})" for name in unlike),
    )


def _said(value: float | str | None) -> str:
    if value is None:
        return "not stated"
    return value if isinstance(value, str) else f"{value:g}"
