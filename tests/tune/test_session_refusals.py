"""Sessions that must not go on: each ends with an error that says why, and a journal that says so too."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_sessions import SteppingClock, job_of, quiet, run_session

from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.errors import HealthError, JobError, LimitError, StepTuneError, StoreError, TrialError
from steptune.core.event import Event, SessionEnded
from steptune.core.job import BudgetSpec, CpuDevices, JobSpec, LimitsSpec
from steptune.core.knob import Effect
from steptune.core.phase import Role
from steptune.store import files, journal
from steptune.store.journal import read_journal
from steptune.store.lock import session_lock
from steptune.store.replay import fold
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, CORRECTION, LEAKY_DTYPE, PACKING, SCHEDULE, FakeKnob
from steptune.tune.context import Context
from steptune.tune.session import TuneOptions, resume_session

SENTENCE = r"(?s)^.+, got .+; allowed: .+; hint: .+$"


def failing(kind: str) -> FakeKnob:
    """A knob whose very baseline fails."""
    return FakeKnob(name="model", side=Role.TRAINER, factors={"big": 1.0, "small": 0.5}, fails_with={"big": kind})


def events_in(root: Path) -> list[Event]:
    (folder,) = root.glob("fake-*")
    return [entry.body for entry in read_journal(folder / "journal.jsonl")]


def refused(
    error: type[StepTuneError], root: Path, knobs: tuple[FakeKnob, ...], job: JobSpec | None = None, **more: Any
) -> str:
    """Run a session that must be refused; return the message after checking its shape and the journal's last word."""
    with pytest.raises(error, match=SENTENCE) as caught:
        run_session(root, knobs, job=job, **more)
    if any(root.glob("fake-*")):
        last = events_in(root)[-1]
        assert isinstance(last, SessionEnded)
        assert last.why == f"{error.__name__}: {caught.value}"
    return str(caught.value)


def test_a_model_that_produces_nan_is_not_tuned(tmp_path: Path) -> None:
    text = refused(HealthError, tmp_path, (failing("nan"),))
    assert "the baseline produces NaN or infinity" in text
    assert "tune it" in text


def test_a_job_whose_reward_never_varies_is_not_tuned(tmp_path: Path) -> None:
    text = refused(HealthError, tmp_path, (PACKING,), learns=False)
    assert "the reward never varies inside a group, so the run cannot learn" in text
    assert "fix the verifier" in text
    assert [event.kind for event in events_in(tmp_path)] == ["session_started", "session_ended"]


def test_a_baseline_that_runs_out_of_memory_is_an_error_and_no_crash(tmp_path: Path) -> None:
    text = refused(TrialError, tmp_path, (failing("oom"),))
    assert "the baseline itself runs out of memory, got fake: asked for 3.0 GiB" in text


def test_a_baseline_that_dies_names_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="exit code -11"):
        run_session(tmp_path, (failing("crash"),))


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (LimitsSpec(max_mismatch_k3=1e-7), "`limits.max_mismatch_k3` is below the baseline's own mismatch"),
        (LimitsSpec(memory_headroom_frac=1.0), "`limits.memory_headroom_frac` cannot be met by the baseline"),
    ],
)
def test_a_limit_that_nothing_can_meet_is_refused_before_the_budget_is_spent(
    limits: LimitsSpec, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent(*_: object) -> None:
        raise AssertionError("the costs were probed for a job that cannot be tuned")

    monkeypatch.setattr(FakeFramework, "probe_costs", spent)
    assert what in refused(LimitError, tmp_path, (PACKING,), job_of(limits=limits))


def test_a_gap_that_is_nan_is_below_no_limit(tmp_path: Path) -> None:
    broken = FakeKnob(
        name="dtype", side=Role.ROLLOUT, factors={"bad": 1.0, "good": 0.9}, mismatch_k3={"bad": float("inf")}
    )
    text = refused(HealthError, tmp_path, (broken,))
    assert "rollout-trainer gap is not a number, got k3 inf" in text


def test_pins_that_break_a_limit_are_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    job = job_of(pin={"schedule": "one_step_off", "correction": "tis"})
    text = refused(LimitError, tmp_path, (PACKING, SCHEDULE, CORRECTION), job)
    assert "limits.max_staleness is 0; limits.allow_corrections is false" in text
    assert list(tmp_path.glob("fake-*")) == []


def test_more_cores_than_the_machine_has_are_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    job = job_of().model_copy(update={"devices": CpuDevices(num_cores=4096)})
    assert "got 4096" in refused(JobError, tmp_path, (PACKING,), job)
    assert list(tmp_path.glob("fake-*")) == []


def test_a_budget_that_pays_for_no_trial_is_refused_before_it_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent(*_: object) -> None:
        raise AssertionError("the costs were probed though no trial can follow")

    monkeypatch.setattr(FakeFramework, "probe_costs", spent)
    # a step takes 1 s: repeat, trial, waterfall and confirmation are 237 of them
    small = job_of(budget=BudgetSpec(device_time_s=1000, wall_time_s=200))
    text = refused(LimitError, tmp_path, (PACKING,), small, noise=0.0)
    assert "the budget ends before a first trial could begin, got 200 s left of `budget.wall_time_s` 200" in text
    assert "set `budget.wall_time_s` to 402 and `budget.device_time_s` to 804 or more" in text
    of_devices = job_of(budget=BudgetSpec(device_time_s=400, wall_time_s=1000))
    assert "got 200 s left" in refused(LimitError, tmp_path / "devices", (PACKING,), of_devices)


def test_advice_costs_no_trial_so_its_budget_need_not_pay_for_one(tmp_path: Path) -> None:
    job = job_of(budget=BudgetSpec(device_time_s=1e-6, wall_time_s=1e-6))
    assert run_session(tmp_path, (PACKING,), job=job, is_advice_only=True).state.proposed is not None


def test_what_only_the_reward_test_would_not_fit_behind_leaves_other_changes_to_try(tmp_path: Path) -> None:
    exact_alone = BudgetSpec(device_time_s=1000, wall_time_s=250)  # 165 s are kept without a reward test, 305 with one
    knobs = (PACKING, LEAKY_DTYPE)
    ran = run_session(tmp_path / "short", knobs, job=job_of(budget=exact_alone))
    assert [trial.trial.change.effect for trial in ran.trials] == [Effect.NONE]
    assert ran.decision.outcome is Outcome.ADOPT
    assert any(t.trial.change.effect is not Effect.NONE for t in run_session(tmp_path / "long", knobs).trials)


def test_a_decision_without_a_trial_says_so(tmp_path: Path) -> None:
    useless = FakeKnob(name="useless", side=Role.TRAINER, factors={"a": 1.0, "b": 1.4})
    ran = run_session(tmp_path, (useless,))
    assert (ran.decision.outcome, ran.trials) == (Outcome.NO_CHANGE, [])
    assert ran.decision.reasons[0].startswith("no change was tried: ")


@pytest.mark.parametrize("allowed_writes", range(0, 46, 5))
def test_a_full_disk_at_any_moment_is_a_store_error_and_loses_nothing(
    allowed_writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = (PACKING, COMPACTION)
    with monkeypatch.context() as patch:
        full = _full_after(allowed_writes + 8)  # the first few make the folder and its first line
        patch.setattr(files, "write_all", full)
        patch.setattr(journal, "write_all", full)
        with pytest.raises(StoreError, match="the disk is full"):
            run_session(tmp_path, knobs)
    (folder,) = tmp_path.glob("fake-*")
    before = [entry.body for entry in read_journal(folder / "journal.jsonl")]
    resume_session(folder, FakeFramework(knob_table=knobs), TuneOptions(root=tmp_path), SteppingClock(), quiet)
    after = [entry.body for entry in read_journal(folder / "journal.jsonl")]
    assert after[: len(before)] == before
    decision = fold(after).decision
    assert decision is not None
    assert decision.settings == {"layout": "packed", "compact_finished": True}


def test_an_error_of_ours_leaves_the_session_open_for_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("a bug")

    knobs = (PACKING, COMPACTION)
    with monkeypatch.context() as patch:
        patch.setattr("steptune.tune.winner.confirm", broken)
        with pytest.raises(AssertionError, match="a bug"):
            run_session(tmp_path, knobs)
    (folder,) = tmp_path.glob("fake-*")
    trials = len(fold(events_in(tmp_path)).ended)
    resume_session(folder, FakeFramework(knob_table=knobs), TuneOptions(root=tmp_path), SteppingClock(), quiet)
    state = fold(events_in(tmp_path))
    assert state.decision is not None
    assert len(state.ended) == trials


def test_two_sessions_on_one_run_folder_are_refused(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING,))
    with session_lock(ran.path), pytest.raises(StoreError, match="is in use by another session"):
        resume_session(ran.path, ran.framework, TuneOptions(root=tmp_path), SteppingClock(), quiet)


def test_a_confirmed_winner_whose_profile_was_not_written_gets_it_at_the_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_context: Context, _change: Change) -> None:
        raise KeyboardInterrupt

    knobs = (PACKING, COMPACTION)
    with monkeypatch.context() as patch:
        patch.setattr("steptune.tune.winner.record_tuned_profile", killed)
        with pytest.raises(KeyboardInterrupt):
            run_session(tmp_path, knobs)
    (folder,) = tmp_path.glob("fake-*")
    assert events_in(tmp_path)[-1].kind == "confirmed"
    resume_session(folder, FakeFramework(knob_table=knobs), TuneOptions(root=tmp_path), SteppingClock(), quiet)
    kinds = [event.kind for event in events_in(tmp_path)]
    assert kinds[-4:] == ["session_resumed", "profiled", "decided", "session_ended"]
    assert kinds.count("confirmed") == 1


def _full_after(num_writes: int) -> Callable[[int, bytes], None]:
    write_all, left = files.write_all, num_writes

    def write(descriptor: int, data: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(descriptor, data)

    return write
