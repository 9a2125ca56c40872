"""The asynchronous schedule as the tuner sees it: offered only where the owner asks for it and allows the age."""

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.job import JobSpec, KnobsSpec, LimitsSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import SampledLengths
from steptune.core.work import PlannedWork
from steptune.engine.knobs import EngineKnobs


def job_of(max_staleness: int, allow: tuple[str, ...] = (), pin: dict[str, KnobValue] | None = None) -> JobSpec:
    return JobSpec(
        name="j",
        limits=LimitsSpec(max_staleness=max_staleness, allow_corrections=True),
        knobs=KnobsSpec(allow=allow, pin=pin or {}),
    )


def values(job: JobSpec, knob: str) -> tuple[KnobValue, ...]:
    return next(spec.values for spec in knob_specs(job) if spec.name == knob)


def ahead(max_lag: int | None, **more: object) -> EngineKnobs:
    settings = {"schedule": "async", "max_lag": max_lag, "correction": "tis", "rollout_threads": 1, "train_threads": 1}
    return EngineKnobs.model_validate({"compact_finished": True, **settings, **more})


def test_unasked_the_tuner_never_meets_the_asynchronous_schedule() -> None:
    job = job_of(4)
    assert values(job, "schedule") == ("sync", "one_step_off")
    assert values(job, "max_lag") == (None,)
    assert values(job, "inflight_update") == (False,)


@pytest.mark.parametrize("asked", [{"allow": ("schedule", "max_lag")}, {"pin": {"max_lag": 2}}])
def test_asked_for_it_is_offered_as_far_as_the_owner_allows_age(asked: dict[str, tuple[str, ...]]) -> None:
    job = job_of(2, **asked)  # type: ignore[arg-type]
    assert values(job, "schedule") == ("sync", "one_step_off", "async")
    assert values(job, "max_lag") == (None, 1, 2)


def test_without_leave_for_age_it_is_not_offered_though_asked_for() -> None:
    job = job_of(0, allow=("schedule", "max_lag"))
    assert "async" not in values(job, "schedule")
    assert values(job, "max_lag") == (None,)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        (ahead(3), "limits.max_staleness is 2"),
        (ahead(None), "max_lag belongs to schedule=async and to partial_rollout, and they need it"),
        (ahead(0), "max_lag below the updates of one step lets nothing overlap or go on"),
        (ahead(2, correction="none"), "async needs an importance-sampling correction"),
        (ahead(2, handover="alias"), "handover=alias needs rollout and trainer in one process"),
        (ahead(2, rollout_threads=2), "more threads than the 2 cores of the job"),
        (EngineKnobs(max_lag=1), "max_lag belongs to schedule=async and to partial_rollout, and they need it"),
        (EngineKnobs(inflight_update=True), "inflight_update needs schedule=async"),
    ],
)
def test_what_cannot_be_is_said(knobs: EngineKnobs, reason: str) -> None:
    assert reason in conflicts(job_of(2), knobs)


def test_what_fits_may_be_tried() -> None:
    assert conflicts(job_of(2), ahead(2, inflight_update=True)) == ()


def test_the_plan_is_the_overlap_models_with_the_age_of_the_bound() -> None:
    rows = job_of(2).algorithm.rollouts_per_step
    lengths = SampledLengths(prompt=(9,) * rows, completion=(7,) * rows, rollouts_per_step=rows)
    counter = WorkCounter(job=job_of(2), lengths=lengths)
    off = counter.planned(ahead(None, schedule="one_step_off"))
    stream = counter.planned(ahead(2))
    assert (off.lag, stream.lag) == (1, 2)
    assert stream.schedule == off.schedule == "one_step_off"
    assert rollout_side(stream, "rollout/decode") == rollout_side(off, "rollout/decode")
    # the stream runs empty once in three steps, and takes new weights then
    assert rollout_side(stream, "weight_sync") == rollout_side(off, "weight_sync") / 3


def rollout_side(planned: PlannedWork, phase: str) -> float:
    return sum(item.count * item.x for item in planned.items if item.role == "rollout" and item.phase == phase)
