"""Which change a replay of one side can settle."""

from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, KnobValue
from steptune.core.phase import Role
from steptune.core.profile import SampledLengths
from steptune.core.work import PlannedWork, WorkItem
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, CORRECTION, PACKING, SCHEDULE, FakeKnob
from steptune.trial.one_sided import side_touched

JOB = JobSpec(name="fake", framework="fake")
LENGTHS = SampledLengths(prompt=(8,), completion=(8,), rollouts_per_step=1)
SPLIT = FakeKnob(
    name="cores", side=Role.ROLLOUT, factors={1: 1.0, 2: 0.5}, across={1: 1.0, 2: 1.5}
)  # gives the rollout what it takes from the trainer
KNOBS = (PACKING, COMPACTION, SCHEDULE, CORRECTION, SPLIT)
BASE: dict[str, KnobValue] = {k.name: next(iter(k.factors)) for k in KNOBS}


def planned(**moved: KnobValue) -> PlannedWork:
    return FakeFramework(knob_table=KNOBS).planned_work(JOB, {**BASE, **moved}, LENGTHS)


def touched(before: PlannedWork | None = None, **moved: KnobValue) -> Role | None:
    specs: list[KnobSpec] = [k.spec() for k in KNOBS if k.name in moved]
    return side_touched(specs, planned(**moved), before or planned())


def test_a_trainer_knob_is_settled_by_the_trainer_and_a_rollout_knob_by_the_rollout() -> None:
    assert touched(layout="packed") is Role.TRAINER
    assert touched(compact_finished=True) is Role.ROLLOUT


def test_a_change_of_both_sides_is_not_one_sided() -> None:
    assert touched(layout="packed", compact_finished=True) is None


def test_a_knob_that_slows_the_other_side_by_the_plan_is_not_one_sided() -> None:
    assert touched(cores=2) is None


def test_sides_that_overlap_are_not_settled_alone() -> None:
    overlapped = planned(schedule="one_step_off", correction="tis", layout="packed")
    before = planned(schedule="one_step_off", correction="tis")
    assert side_touched([PACKING.spec()], overlapped, before) is None
    assert side_touched([PACKING.spec()], planned(layout="packed"), before) is None


def test_work_outside_the_replayed_phases_is_not_settled() -> None:
    handover = WorkItem(
        role=Role.TRAINER, phase="weight_sync", curve="handover", when={"handover": "file"}, x=1, count=1
    )
    more = planned().model_copy(update={"items": (*planned().items, handover)})
    assert side_touched([PACKING.spec()], more, planned()) is None


def test_nothing_moved_touches_no_side() -> None:
    assert touched() is None
