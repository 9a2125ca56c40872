from pathlib import Path

import pytest

from steptune.core.change import Change, Move
from steptune.core.errors import TrialError
from steptune.core.framework import LaunchSpec, Session
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.core.trial import Observation, Trial, TrialState
from steptune.testing.fake_framework import FakeFramework, FakeSession
from steptune.testing.fake_space import CRASHING, HUNGRY, PACKING, FakeKnob
from steptune.trial.blocks import BlockPlan, KeepGoing
from steptune.trial.run import finished_trial, paired_ratio, pairs_of, run_trial

JOB = JobSpec(name="fake", framework="fake")
PLAN = BlockPlan(max_pairs=4, kept_steps=3)


class Watched:
    """A fake framework whose sessions can die in the middle, and that remembers them."""

    def __init__(
        self, knobs: tuple[FakeKnob, ...], dies_after: int | None = None, error: type[Exception] = TrialError
    ) -> None:
        self.framework = FakeFramework(knob_table=knobs, noise=0.01, on_step=self._step)
        self.left = dies_after
        self.error = error
        self.sessions: list[FakeSession] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.framework, name)

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> FakeSession:
        self.sessions.append(self.framework.launch(job, spec, out_dir))
        return self.sessions[-1]

    def _step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.error("it died in the middle")


def tried(
    watched: Watched,
    folder: Path,
    old: KnobValue,
    new: KnobValue,
    keep_going: KeepGoing = lambda pairs: None,
    *,
    clear_after: int = 99,
    num_watched: int = 0,
) -> Trial:
    knob = watched.framework.knob_table[0].name
    incumbent: Session = watched.framework.launch(JOB, LaunchSpec(settings={knob: old}, seed=1), folder / "incumbent")
    change = Change(moves=(Move(knob=knob, old=old, new=new),), effect=Effect.NONE, restart=Restart.HOT)
    return run_trial(
        watched,  # type: ignore[arg-type]
        JOB,
        LaunchSpec(settings={knob: new}, seed=1),
        number=3,
        change=change,
        incumbent=incumbent,
        incumbent_signature="base",
        plan=PLAN,
        keep_going=keep_going,
        is_clear=lambda pairs: len(pairs) >= clear_after,
        num_watched=num_watched,
        out_dir=folder / "candidate",
    )


def test_a_finished_trial_holds_both_arms_and_a_paired_ratio(tmp_path: Path) -> None:
    watched = Watched((PACKING,))
    trial = tried(watched, tmp_path, "padded", "packed")
    assert trial.state is TrialState.FINISHED
    assert trial.number == 3
    assert [arm.label for arm in trial.arms] == ["incumbent", "candidate"]
    assert [len(arm.observations) for arm in trial.arms] == [12, 12]
    assert trial.ratio is not None
    assert trial.ratio.low is not None
    assert trial.ratio.high is not None
    assert trial.ratio.low < 0.8 < trial.ratio.high  # 0.6 + 0.2 of 1.0 s
    assert trial.ratio.n == 4
    assert trial.cost_device_s == pytest.approx(trial.cost_wall_s * JOB.devices.num_cores)
    assert watched.sessions[0].closed


def test_a_trial_is_stopped_with_the_cause_it_was_given(tmp_path: Path) -> None:
    watched = Watched((PACKING,))
    trial = tried(watched, tmp_path, "padded", "packed", lambda pairs: "enough" if len(pairs) == 2 else None)
    assert (trial.state, trial.cause) == (TrialState.STOPPED, "enough")
    assert len(trial.arms[1].observations) == 6
    assert watched.sessions[0].closed


def test_a_won_candidate_is_watched_alone_for_the_rest_of_its_steps(tmp_path: Path) -> None:
    trial = tried(Watched((PACKING,)), tmp_path, "padded", "packed", clear_after=2, num_watched=12)
    assert trial.state is TrialState.FINISHED
    # two pairs of three steps are compared, six more steps of the candidate are seen
    assert [(arm.label, len(arm.observations)) for arm in trial.arms] == [
        ("incumbent", 6),
        ("candidate", 6),
        ("watched", 6),
    ]
    steps = [step.step for arm in trial.arms[1:] for step in arm.observations]
    assert steps == list(range(steps[0], steps[0] + 12))
    assert trial.ratio is not None
    assert trial.ratio.n == 2
    assert len(pairs_of(trial)) == 2


def test_a_candidate_that_dies_while_it_is_watched_has_not_won(tmp_path: Path) -> None:
    # warm-up of the candidate 2 steps, two pairs of 6 steps, and it dies in the second watched one
    watched = Watched((PACKING,), dies_after=15)
    trial = tried(watched, tmp_path, "padded", "packed", clear_after=2, num_watched=12)
    assert trial.state is TrialState.FAILED
    assert watched.sessions[0].closed


def test_one_pair_has_a_ratio_but_no_interval(tmp_path: Path) -> None:
    trial = tried(Watched((PACKING,)), tmp_path, "padded", "packed", lambda pairs: "enough")
    assert trial.ratio is not None
    assert trial.ratio.low is None
    assert trial.ratio.high is None
    assert trial.ratio.n == 1
    assert "no interval" in trial.ratio.note


@pytest.mark.parametrize(
    ("knob", "old", "new", "state"),
    [(HUNGRY, True, False, TrialState.OUT_OF_MEMORY), (CRASHING, False, True, TrialState.FAILED)],
)
def test_a_launch_that_fails_is_a_result_without_arms(
    knob: FakeKnob, old: KnobValue, new: KnobValue, state: TrialState, tmp_path: Path
) -> None:
    trial = tried(Watched((knob,)), tmp_path, old, new)
    assert trial.state is state
    assert trial.cause
    assert trial.arms == ()
    assert trial.ratio is None
    assert trial.step_time is None


@pytest.mark.parametrize(("error", "state"), [(TrialError, TrialState.FAILED), (MemoryError, TrialState.OUT_OF_MEMORY)])
def test_a_death_in_the_middle_keeps_the_pairs_before_it_and_closes_the_run(
    error: type[Exception], state: TrialState, tmp_path: Path
) -> None:
    # warm-up of the candidate 2 steps, pair one 8, then it dies in pair two
    watched = Watched((PACKING,), dies_after=13, error=error)
    trial = tried(watched, tmp_path, "padded", "packed")
    assert (trial.state, trial.cause) == (state, "it died in the middle")
    assert len(trial.arms[0].observations) == 3
    assert watched.sessions[0].closed


def test_a_bug_of_ours_is_not_taken_for_a_result_but_the_run_is_closed(tmp_path: Path) -> None:
    watched = Watched((PACKING,), dies_after=5, error=AssertionError)
    with pytest.raises(AssertionError, match="in the middle"):
        tried(watched, tmp_path, "padded", "packed")
    assert watched.sessions[0].closed


def test_no_ratio_is_made_of_no_pairs() -> None:
    with pytest.raises(IndexError):
        paired_ratio([])
    none: list[Observation] = []
    trial = finished_trial(
        [],
        number=1,
        change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT),
        state=TrialState.FAILED,
        cause="never ran",
        incumbent_signature="base",
        wall_s=2.0,
        num_cores=2,
        load_avg=None,
    )
    assert (trial.ratio, trial.step_time, list(trial.arms)) == (None, None, none)
    assert trial.cost_device_s == 4.0
