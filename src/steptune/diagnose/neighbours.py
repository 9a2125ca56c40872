"""The nearest published runs, and what differs: an expectation, never a claim.

Distance is a weighted sum over features, each 0 (same) to 1 (unlike); a feature that one side does not state counts
half. A run is a neighbour only if two of the features that set the speed agree, one of them model or device, and its
model is of the same class.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import final

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


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Feature:
    name: str
    label: str
    mine: float | str | None
    theirs: float | str | None

    def distance(self) -> float:
        """0 for the same, 1 for unlike or for numbers a factor of 8 apart."""
        mine, theirs = self.mine, self.theirs
        if mine is None or theirs is None:
            return UNKNOWN_DISTANCE
        if isinstance(mine, float) and isinstance(theirs, float):
            return min(abs(math.log2(mine / theirs)) / OCTAVES, 1.0)
        return 0.0 if mine == theirs else 1.0

    def matches(self) -> bool:
        """Whether both are stated and agree."""
        return self.is_known() and self.distance() * OCTAVES <= math.log2(CLOSE_RATIO)

    def is_known(self) -> bool:
        """Whether both sides state it."""
        return self.mine is not None and self.theirs is not None


def neighbours(job: Job) -> tuple[Neighbour, ...]:
    """Return at most three published runs, the nearest first; none where too little is known of the job."""
    mine = _of_job(job)
    if mine["model"] is None and mine["gpu"] is None:
        return ()
    scored: list[tuple[float, PublishedRun, list[_Feature]]] = []
    for run, theirs in _published():
        features = [_Feature(name=name, label=LABELS[name], mine=mine[name], theirs=theirs[name]) for name in LABELS]
        if _is_near(features):
            scored.append((sum(WEIGHTS[f.name] * f.distance() for f in features), run, features))
    nearest = sorted(scored, key=lambda entry: (entry[0], entry[1].quality, entry[1].id))[:MAX_NEIGHBOURS]
    return tuple(_neighbour(run, features) for _, run, features in nearest)


def _is_near(features: Sequence[_Feature]) -> bool:
    """Two agreements with a model of the same size, three where the size is not known; never another size."""
    same = {f.name for f in features if f.matches()}
    model = next(f for f in features if f.name == "model")
    if model.is_known() and model.distance() > SAME_CLASS_DISTANCE:
        return False
    needed = MIN_MATCHES if model.is_known() else MIN_MATCHES + 1
    return len(same & {"model", "gpu", "framework", "placement"}) >= needed and bool(same & {"model", "gpu"})


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
def _published() -> tuple[tuple[PublishedRun, dict[str, float | str | None]], ...]:
    """Every published run with its features: their names are parsed once a process, not once an answer."""
    return tuple((run, _of_run(run)) for run in published_runs())


def _of_run(run: PublishedRun) -> dict[str, float | str | None]:
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


def _of_job(job: Job) -> dict[str, float | str | None]:
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


def _neighbour(run: PublishedRun, features: list[_Feature]) -> Neighbour:
    unlike = [f for f in features if f.theirs is not None and not f.matches()]
    return Neighbour(
        run_id=run.id,
        source=run.source,
        framework=run.framework,
        model=run.model,
        gpus=f"{run.n_gpus:g} x {run.gpu_type or 'unknown device'}" if run.n_gpus else run.gpu_type,
        step_time_s=run.step_time_s,
        tokens_per_s_per_gpu=run.tokens_per_s_per_gpu,
        differs=tuple(f"{f.label} {_said(f.theirs)} (yours {_said(f.mine)})" for f in unlike),
    )


def _said(value: float | str | None) -> str:
    if value is None:
        return "not stated"
    return value if isinstance(value, str) else f"{value:g}"
