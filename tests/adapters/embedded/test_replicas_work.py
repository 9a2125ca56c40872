"""What several rollout replicas ask of the machine, and that nobody prices them with one replica's curves."""

from pathlib import Path
from typing import Any

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.memory import WORKER_PROCESS_BYTES
from steptune.adapters.embedded.rollout_work import shares
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.job import JobSpec, KnobsSpec, LimitsSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve, CurvePoint, SampledLengths
from steptune.core.work import PlannedWork
from steptune.engine.knobs import EngineKnobs
from steptune.forecast.curve import CostBook, ForecastError
from steptune.forecast.side import side_costs

JOB = JobSpec(
    name="job",
    limits=LimitsSpec(max_staleness=1, allow_corrections=True),
    knobs=KnobsSpec(allow=("rollout_replicas", "rollout_routing", "rollout_cores", "max_lag")),
)
LENGTHS = SampledLengths(
    prompt=tuple(6 + i // 8 % 5 for i in range(256)),
    completion=tuple(3 + (7 * i) % 30 for i in range(256)),
    rollouts_per_step=256,
)
TWO: dict[str, Any] = {
    "rollout_replicas": 2,
    "rollout_threads": 1,
    "share_prefill": True,
    "compact_finished": True,
}


def planned(**knobs: Any) -> PlannedWork:
    settings = EngineKnobs.model_validate({**TWO, **knobs})
    return WorkCounter(job=JOB, lengths=LENGTHS).planned(settings)


def total(work: PlannedWork, curve: str) -> float:
    return sum(item.x * item.count for item in work.items if item.curve == curve)


def test_the_items_are_the_slower_replicas_and_every_group_is_whole() -> None:
    knobs = EngineKnobs.model_validate(TWO)
    parts = shares(JOB, knobs, (LENGTHS.prompt, LENGTHS.completion))
    size = JOB.algorithm.group_size
    groups = [tuple(LENGTHS.completion[i : i + size]) for i in range(0, 256, size)]
    found = [tuple(part[1][i : i + size]) for part in parts for i in range(0, len(part[1]), size)]
    assert sorted(found) == sorted(groups)
    two, one = planned(), planned(rollout_replicas=1)
    assert total(one, "decode") == sum(LENGTHS.completion)
    assert total(two, "decode_replicated") == max(sum(part[1]) for part in parts)
    iterations = sum(item.count for item in two.items if item.curve == "decode_replicated")
    assert iterations == max(max(part[1]) for part in parts)
    assert total(two, "prefill_replicated") == total(one, "prefill") / 2
    assert {item.when["rollout_replicas"] for item in two.items if item.curve.startswith(("decode", "prefill"))} == {2}


def test_a_stream_of_two_replicas_has_half_the_slots_each() -> None:
    stream = {"schedule": "async", "max_lag": 1, "inflight_update": True, "correction": "tis"}
    two, one = planned(**stream), planned(rollout_replicas=1, **stream)
    most_rows = max(item.x for item in two.items if item.curve == "decode_replicated")
    assert most_rows == max(item.x for item in one.items if item.curve == "decode") / 2
    assert total(two, "decode_replicated") < 0.6 * total(one, "decode")


def curve(name: str, **when: KnobValue) -> CostCurve:
    points = (CurvePoint(x=1, seconds=0.001), CurvePoint(x=1000, seconds=0.1))
    return CostCurve(name=name, when=dict(when), unit="tokens", points=points)


ONE = tuple(curve(name) for name in ("decode", "prefill", "train", "logprob", "optimizer", "handover", "load"))
MEASURED = tuple(curve(f"{name}_replicated") for name in ("decode", "prefill", "handover", "load"))


@pytest.mark.parametrize("how", [{}, {"schedule": "one_step_off", "correction": "tis"}], ids=["sync", "one_step_off"])
def test_no_curve_of_one_replica_prices_two(how: dict[str, Any]) -> None:
    work = planned(**how)
    rollouts = {item.curve for item in work.items if item.role == "rollout"}
    assert all(name.endswith("_replicated") for name in rollouts)
    handed = [item.curve for item in work.items if item.phase == "weight_sync"]
    assert handed == (["handover_replicated"] if not how else ["handover", "load_replicated"])
    with pytest.raises(ForecastError, match="no cost curve `decode_replicated` was measured"):
        side_costs(work, CostBook(curves=ONE))
    assert side_costs(work, CostBook(curves=ONE + MEASURED)).seconds
    other = tuple(c.model_copy(update={"when": {"rollout_replicas": 4}}) for c in MEASURED)
    with pytest.raises(ForecastError, match="no cost curve `decode_replicated` was measured"):
        side_costs(work, CostBook(curves=ONE + other))


def test_the_knobs_move_only_where_they_are_asked_for() -> None:
    def values(job: JobSpec) -> list[tuple[object, ...]]:
        return [spec.values for spec in knob_specs(job) if spec.name in ("rollout_replicas", "rollout_routing")]

    asked = JOB.model_copy(update={"knobs": KnobsSpec(allow=("rollout_replicas",))})
    assert values(JOB.model_copy(update={"knobs": KnobsSpec()})) == [(1,), ("round_robin",)]
    assert values(asked) == [(1, 2), ("round_robin", "least_tokens")]
    many = asked.model_copy(update={"devices": JOB.devices.model_copy(update={"num_cores": 16})})
    assert values(many)[0] == (1, 2, 4, 8)
    assert {spec.effect for spec in knob_specs(asked) if spec.name.startswith("rollout_r")} == {"none"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"rollout_routing": "least_tokens"}, None),
        ({"rollout_threads": 2}, "2 rollout_replicas of 2 rollout_threads are more threads than the 2 cores"),
        ({"handover": "alias"}, "handover=alias cannot reach them"),
        ({"handover": "file"}, "measured by nobody"),
        ({"rollout_replicas": 1, "rollout_routing": "least_tokens"}, "needs rollout_replicas above 1"),
        ({"schedule": "one_step_off", "correction": "tis", "train_threads": 1}, "more threads than the 2 cores"),
        (
            {"schedule": "one_step_off", "correction": "tis", "train_threads": 1, "rollout_cores": 1.5},
            None,
        ),
        (
            {
                "schedule": "one_step_off",
                "correction": "tis",
                "train_threads": 1,
                "rollout_cores": 1.5,
                "rollout_threads": 2,
            },
            "each replica's share of rollout_cores rounded up",
        ),
    ],
)
def test_threads_of_all_replicas_count_and_a_quota_is_shared_out(more: dict[str, Any], reason: str | None) -> None:
    found = conflicts(JOB, EngineKnobs.model_validate({**TWO, **more}))
    assert (found == ()) if reason is None else any(reason in text for text in found)


def test_a_quota_slows_each_replica_by_its_own_share() -> None:
    half = planned(schedule="one_step_off", correction="tis", train_threads=1, rollout_cores=1.5)
    slowdowns = {item.slowdown for item in half.items if item.curve == "decode_replicated"}
    assert slowdowns == {1 / 0.75}
    assert half.rollout_cores == 1.5
    assert planned().rollout_cores == 2.0


def test_a_further_replica_is_a_process_with_a_model_and_its_part_of_the_rows() -> None:
    two, one = planned(), planned(rollout_replicas=1)
    added = (two.memory_bytes or 0) - (one.memory_bytes or 0)
    # a model of a megabyte: the process is nearly all; caches and logits are the same rows'
    assert added == pytest.approx(WORKER_PROCESS_BYTES, rel=0.2)
    assert added > WORKER_PROCESS_BYTES


@pytest.mark.parametrize("kind", ["default", "best_practice", "expert"])
def test_a_baseline_with_pinned_replicas_can_run(tmp_path: Path, kind: str) -> None:
    job = JOB.model_copy(update={"knobs": KnobsSpec(pin={"rollout_replicas": 2})})
    levers = EmbeddedFramework(cache_dir=tmp_path).baseline(job, kind)  # type: ignore[arg-type]
    settings = {lever.knob: lever.value for lever in levers}
    assert settings["rollout_threads"] == 1
    assert conflicts(job, EngineKnobs.model_validate(settings)) == ()


def test_the_slowest_is_who_takes_most_iterations() -> None:
    knobs = EngineKnobs.model_validate(TWO)
    long = ((5,) * 256, (1,) * 8 + (30,) + (1,) * 247)
    parts = shares(JOB, knobs, long)
    assert [max(part[1]) for part in parts] == [1, 30]
    work = WorkCounter(
        job=JOB, lengths=SampledLengths(prompt=long[0], completion=long[1], rollouts_per_step=256)
    ).planned(knobs)
    assert sum(item.count for item in work.items if item.curve == "decode_replicated") == 30
