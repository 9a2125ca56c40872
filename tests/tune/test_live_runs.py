"""What a session launches, shares and keeps."""

from pathlib import Path

import pytest

from steptune.core.ages import Ages
from steptune.core.errors import BudgetSpentError, TrialError
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.testing.fake_framework import FakeFramework, FakeSession
from steptune.testing.fake_space import COMPACTION, CORRECTION, CRASHING, PACKING, SCHEDULE
from steptune.tune.runs import Runs

JOB = JobSpec(name="fake", framework="fake")
PADDED: dict[str, KnobValue] = {"layout": "padded", "compact_finished": False}
PACKED: dict[str, KnobValue] = {**PADDED, "layout": "packed"}


class NoFrills:
    """A session that can neither rewind nor turn a knob, as the embedded engine's."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.run_steps, self.evaluate, self.lengths = session.run_steps, session.evaluate, session.lengths

    def close(self) -> None:
        self.session.close()


def runs_of(framework: FakeFramework, *hot: str) -> Runs:
    return Runs(framework=framework, hot=frozenset(hot), clock=lambda: framework.spent_s)


def spec(settings: dict[str, KnobValue]) -> LaunchSpec:
    return LaunchSpec(settings=settings, seed=1)


def test_a_closed_run_waits_and_is_used_again(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION))
    runs = runs_of(framework)
    for _ in range(2):
        runs.launch(JOB, spec(PADDED), tmp_path).close()
    assert framework.launches == 1
    assert runs.serves(spec(PADDED))
    assert not runs.serves(spec(PACKED))


def test_a_run_in_use_is_not_lent_twice_without_a_hot_knob(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION))
    runs = runs_of(framework)
    runs.launch(JOB, spec(PADDED), tmp_path)
    runs.launch(JOB, spec(PACKED), tmp_path)
    assert framework.launches == 2


def test_arms_that_differ_by_hot_knobs_cross_over_inside_one_launch(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION), noise=0.0)
    runs = runs_of(framework, "layout")
    slow, fast = (runs.launch(JOB, spec(s), tmp_path) for s in (PADDED, PACKED))
    times = [arm.run_steps(1)[0].step_time_s for arm in (slow, fast, slow)]
    assert framework.launches == 1
    # 0.6 + 0.4 s, and the update halved
    assert times == pytest.approx([1.0, 0.8, 1.0])


def test_the_start_up_is_what_the_clock_says_beyond_the_steps(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION), start_up_s=20.0)
    runs = runs_of(framework)
    assert runs.start_up_s is None
    arm = runs.launch(JOB, spec(PADDED), tmp_path)
    arm.run_steps(3)
    arm.run_steps(3)
    assert runs.start_up_s == pytest.approx(20.0)


def test_no_block_is_begun_that_would_end_more_than_a_step_after_the_budget(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION), noise=0.0)
    left = [100.0]
    runs = Runs(framework=framework, hot=frozenset(), clock=lambda: framework.spent_s, wall_left_s=lambda: left[0])
    runs.is_capped = True
    arm = runs.launch(JOB, spec(PADDED), tmp_path)
    arm.run_steps(2)
    # a rehearsal and three steps of one second: the fourth may be running when the budget ends
    left[0] = 3.0
    arm.run_steps(3, rehearse_s=0.6)
    left[0] = 2.9
    with pytest.raises(BudgetSpentError, match=r"2\.9 s of the budget left"):
        arm.run_steps(3, rehearse_s=0.6)
    left[0] = 0.0
    with pytest.raises(BudgetSpentError):
        runs.launch(JOB, spec(PACKED), tmp_path)


def test_only_what_serves_the_incumbent_is_kept(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION))
    runs = runs_of(framework)
    arms = [runs.launch(JOB, spec(s), tmp_path) for s in (PADDED, PACKED)]
    for arm in arms:
        arm.close()
    runs.keep_only(spec(PACKED))
    assert [arm.run.session.closed for arm in arms] == [True, False]  # type: ignore[attr-defined]
    runs.stop()
    assert arms[1].run.session.closed  # type: ignore[attr-defined]


SYNC, STALE = Ages(max_staleness=0, own_lag=0), Ages(max_staleness=1, own_lag=0)


def test_a_run_that_waited_is_not_warmed_up_again_and_meets_the_same_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION))
    runs, asked = runs_of(framework), list[int]()
    monkeypatch.setattr(FakeSession, "skip_to", lambda self, step: asked.append(step))
    first = runs.launch(JOB, spec(PADDED), tmp_path)
    assert len(first.warm_up(2, SYNC)) == 2
    first.close()
    before_s = framework.spent_s
    again = runs.launch(JOB, spec(PADDED), tmp_path)
    assert again.warm_up(2, SYNC) == []
    assert asked == [2]
    assert framework.spent_s == before_s


def test_a_run_that_shares_a_launch_is_warmed_up_under_its_own_settings(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION))
    runs = runs_of(framework, "layout")
    runs.launch(JOB, spec(PADDED), tmp_path).warm_up(2, SYNC)
    assert len(runs.launch(JOB, spec(PACKED), tmp_path).warm_up(2, SYNC)) == 2


def test_a_run_that_samples_ahead_is_warmed_up_again_for_its_queue_begins_anew(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION, SCHEDULE, CORRECTION))
    ahead = spec({**PADDED, "schedule": "one_step_off", "correction": "tis"})
    runs = runs_of(framework)
    first = runs.launch(JOB, ahead, tmp_path)
    first.warm_up(2, STALE)
    first.close()
    assert len(runs.launch(JOB, ahead, tmp_path).warm_up(2, STALE)) == 2


def test_a_run_that_died_is_never_used_again(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION, CRASHING))
    runs = runs_of(framework, "graph")
    alive = runs.launch(JOB, spec({**PADDED, "graph": False}), tmp_path)
    dying = runs.launch(JOB, spec({**PADDED, "graph": True}), tmp_path)
    with pytest.raises(TrialError):
        dying.run_steps(1)
    dying.close()
    alive.close()
    assert alive.run.session.closed  # type: ignore[attr-defined]
    runs.launch(JOB, spec({**PADDED, "graph": False}), tmp_path)
    assert framework.launches == 2


def test_a_session_that_cannot_come_back_is_closed_at_once(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING, COMPACTION))

    class Plain:
        def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> NoFrills:
            return NoFrills(framework.launch(job, spec, out_dir))

    runs = Runs(framework=Plain(), hot=frozenset({"layout"}), clock=lambda: 0.0)  # type: ignore[arg-type]
    first = runs.launch(JOB, spec(PADDED), tmp_path)
    assert not runs.can_turn
    first.close()
    assert first.run.session.session.closed  # type: ignore[attr-defined]
    runs.launch(JOB, spec(PADDED), tmp_path)
    assert framework.launches == 2
