"""A share of the cores fits its threads and its schedule, or is refused."""

from pathlib import Path

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.knobs import knob_specs
from steptune.core.errors import JobError
from steptune.core.job import JobSpec, KnobsSpec, LimitsSpec
from steptune.core.phase import Role
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.quota.split import Split, split_conflicts, split_of, splits

JOB = JobSpec(name="job", limits=LimitsSpec(max_staleness=1, allow_corrections=True))


def knobs(share: float | None, rollout: int = 1, trainer: int = 2, **more: object) -> EngineKnobs:
    settings = {"schedule": "one_step_off", "correction": "tis", **more}
    return EngineKnobs.model_validate(
        {"rollout_cores": share, "rollout_threads": rollout, "train_threads": trainer, **settings}
    )


def test_two_cores_have_nine_even_splits_and_every_one_is_allowed() -> None:
    shares = splits(2)
    assert shares == (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8)
    assert len(shares) >= 8, "the engine's own aim, no quota not counted"
    for share in shares:
        fitting = knobs(share, 1 if share <= 1 else 2, 1 if share >= 1 else 2)
        assert conflicts(JOB, fitting) == ()
        split = split_of(2, fitting)
        assert split is not None
        assert (split.rollout, split.rollout + split.trainer) == (share, pytest.approx(2))


def test_the_trainer_gets_the_rest() -> None:
    assert split_of(2, knobs(0.75)) == Split(rollout=0.75, trainer=1.25)
    assert split_of(2, EngineKnobs()) is None


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (knobs(0.5, schedule="sync", correction="none"), "two processes"),
        (knobs(2.0, 2, 1), "leaves nothing"),
        (knobs(0.5, 2, 2), "rollout_threads"),
        (knobs(0.5, 1, 1), "train_threads"),
    ],
)
def test_a_split_that_cannot_be_is_refused_with_its_reason(refused: EngineKnobs, reason: str) -> None:
    assert any(reason in text for text in split_conflicts(2, refused))
    with pytest.raises(JobError, match="rollout_cores"):
        split_of(2, refused)


def test_the_tuner_moves_it_only_where_the_owner_names_it() -> None:
    def values(job: JobSpec) -> tuple[object, ...]:
        return next(spec.values for spec in knob_specs(job) if spec.name == "rollout_cores")

    assert values(JOB) == (None,)
    named = JOB.model_copy(update={"knobs": KnobsSpec(allow=("rollout_cores", "schedule"))})
    assert values(named) == (None, *splits(2))


def test_planned_work_prices_each_side_at_threads_over_cores(tmp_path: Path) -> None:
    framework = EmbeddedFramework(cache_dir=tmp_path)
    lengths = SampledLengths(prompt=(8,) * 256, completion=tuple(1 + i % 40 for i in range(256)), rollouts_per_step=256)
    planned = framework.planned_work(JOB, knobs(0.75).model_dump(), lengths)
    slowdowns = {item.role: item.slowdown for item in planned.items}
    # one thread on 0.75 cores, two on 1.25
    assert slowdowns == {Role.ROLLOUT: pytest.approx(1 / 0.75), Role.TRAINER: pytest.approx(2 / 1.25)}
    assert (planned.rollout_cores, planned.trainer_cores, planned.num_devices) == (0.75, 1.25, 2.0)
    free = framework.planned_work(JOB, knobs(None, 1, 1).model_dump(), lengths)
    assert {item.slowdown for item in free.items} == {1.0}
