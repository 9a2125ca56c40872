"""A profile takes no more than a trial and what follows it leave, and says so before it spends more."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet

from steptune.core.decision import Outcome
from steptune.core.errors import LimitError, TrialError
from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import BudgetSpec, JobSpec
from steptune.core.profile import CostCurve
from steptune.profile.measure import NATURAL_STEPS
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import PACKING
from steptune.trial.blocks import BlockPlan
from steptune.tune.baseline import AA_PLAN
from steptune.tune.profile_budget import STEPS_AFTER_SEARCH, STEPS_OF_A_TRIAL, repeat_steps
from steptune.tune.session import TuneOptions, start_session

AFTER_S = float(STEPS_OF_A_TRIAL + STEPS_AFTER_SEARCH)
"""Seconds of a trial and what follows it, at a second a step."""


def tuned(root: Path, framework: FakeFramework, budget_s: float, *, is_advice_only: bool = False) -> Ran:
    job = job_of(budget=BudgetSpec(wall_time_s=budget_s, device_time_s=1e6))
    options = TuneOptions(root=root, is_advice_only=is_advice_only)
    return Ran(start_session(job, framework, options, SteppingClock(), quiet, lambda: framework.spent_s), framework)


def probing(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the probe take that long."""
    whole: Callable[[FakeFramework, JobSpec, Path], tuple[CostCurve, ...]] = FakeFramework.probe_costs

    def slow(self: FakeFramework, job: JobSpec, out_dir: Path) -> tuple[CostCurve, ...]:
        self.order("probe", seconds)
        return whole(self, job, out_dir)

    monkeypatch.setattr(FakeFramework, "probe_costs", slow)


def test_a_job_far_too_slow_for_its_budget_is_refused_after_two_steps(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING,), noise=0.0)
    with pytest.raises(LimitError, match=r"(?s)^the budget ends before .+, got .+; allowed: .+; hint: set .+$"):
        tuned(tmp_path, framework, 100.0)
    assert framework.spent_s == pytest.approx(2.0)


def test_advice_takes_what_it_takes(tmp_path: Path) -> None:
    framework = FakeFramework(knob_table=(PACKING,), noise=0.0)
    assert tuned(tmp_path, framework, 1.0, is_advice_only=True).state.proposed is not None


@pytest.mark.parametrize(("spare_s", "num_pairs"), [(0.5, 4), (-1.0, 3), (-9.0, 2)])
def test_the_repeat_is_as_long_as_its_share_pays_for(
    spare_s: float, num_pairs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probing(monkeypatch, 100.0)
    monkeypatch.setattr(FakeFramework, "replay_updates", replayed_at_once)
    framework = FakeFramework(knob_table=(PACKING,), noise=0.0)
    # 8 natural steps, the probe, the whole repeat of 36 steps, and what follows
    ran = tuned(tmp_path, framework, 8 + 100 + 36 + AFTER_S + spare_s)
    assert [len(arm.observations) for arm in ran.state.baseline_arms] == [num_pairs * AA_PLAN.kept_steps] * 2


def test_a_repeat_that_turns_slow_ends_after_two_pairs(tmp_path: Path) -> None:
    framework, steps = FakeFramework(knob_table=(PACKING,), noise=0.0), list[int]()

    def hiccup() -> None:
        steps.append(1)
        framework.spend("hiccup", 12.0 if len(steps) > NATURAL_STEPS else 0.0)

    framework.on_step = hiccup
    # the share of the repeat is 41 s, and its first pair with the warm-up takes 130
    ran = tuned(tmp_path, framework, 8 + 6.4 + 36 + AFTER_S + 5)
    assert [len(arm.observations) for arm in ran.state.baseline_arms] == [2 * AA_PLAN.kept_steps] * 2
    assert ran.decision.outcome is Outcome.NO_CHANGE


def test_a_probe_that_takes_more_than_its_share_is_stopped_and_the_session_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probing(monkeypatch, 300.0)
    framework = FakeFramework(knob_table=(PACKING,), noise=0.0)
    with pytest.raises(LimitError, match="the budget ends before a first trial could begin"):
        tuned(tmp_path, framework, 500.0)
    assert "update parity" not in framework.spent_on
    # of 492 s behind 8 natural steps, 201 and a repeat of 20 stay
    assert framework.spent_s == pytest.approx(500.0 - 221.0)


def test_a_probe_that_fails_by_itself_is_no_matter_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(self: FakeFramework, job: JobSpec, out_dir: Path) -> tuple[CostCurve, ...]:
        raise TrialError("probe failed with exit code 1")

    monkeypatch.setattr(FakeFramework, "probe_costs", dies)
    with pytest.raises(TrialError, match="exit code 1"):
        tuned(tmp_path, FakeFramework(knob_table=(PACKING,), noise=0.0), 500.0)


def test_a_repeat_of_four_pairs_is_as_long_as_a_trial() -> None:
    assert repeat_steps(AA_PLAN.max_pairs, AA_PLAN) == STEPS_OF_A_TRIAL
    assert repeat_steps(2, BlockPlan(max_pairs=4, kept_steps=3)) == 20


def test_a_replay_that_the_budget_has_no_time_for_leaves_its_lead_unproven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = FakeFramework(knob_table=(PACKING,))
    whole = FakeFramework.replay_updates

    def slow(self: FakeFramework, job: JobSpec, parity: list[ParityInput], out_dir: Path) -> list[ParityOutput]:
        self.spend("update parity", 100.0 * len(parity))
        return whole(self, job, parity, out_dir)

    monkeypatch.setattr(FakeFramework, "replay_updates", slow)
    # 8 natural steps, 4 replays of 101.6 s; of 226 s a short repeat and a trial leave less than two replays
    ran = tuned(tmp_path, framework, 8 + 4 * 101.6 + 226)
    assert [bool(event.replayed and event.replayed.problem) for event in ran.trials[:1]] == [True]
    assert "a replay takes about" in ran.decision.reasons[1]
    assert ran.problems() == []


def test_a_replay_that_takes_longer_than_was_thought_ends_with_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = FakeFramework.replay_updates

    def slow(self: FakeFramework, job: JobSpec, parity: list[ParityInput], out_dir: Path) -> list[ParityOutput]:
        if any(item.settings["layout"] == "packed" for item in parity):
            self.order("update parity", 1e6)
        return whole(self, job, parity, out_dir)

    monkeypatch.setattr(FakeFramework, "replay_updates", slow)
    ran = tuned(tmp_path, FakeFramework(knob_table=(PACKING,)), 400.0)
    assert ran.framework.spent_s <= 401.1
    assert ran.trials[0].replayed is not None
    assert "was stopped, it takes too long" in ran.trials[0].replayed.problem
    assert ran.problems() == []


def replayed_at_once(self: FakeFramework, job: JobSpec, parity: list[ParityInput], out_dir: Path) -> list[ParityOutput]:
    """Replay without taking time."""
    before_s = self.spent_s
    made = _REPLAY(self, job, parity, out_dir)
    self.spent_s = before_s
    return made


_REPLAY = FakeFramework.replay_updates
