"""What a trial's and a confirmation's steps may show, fault by fault: the one guard that is there for it says so."""

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from fake_sessions import run_session

from steptune.core.change import Change
from steptune.core.event import Confirmed
from steptune.core.knob import Effect
from steptune.core.profile import LagStats
from steptune.core.trial import Arm, Observation, QueueCount, QueueStats, Trial
from steptune.core.verdict import Judgement, Verdict
from steptune.store.replay import SessionState
from steptune.testing.fake_framework import MEMORY_BYTES
from steptune.testing.fake_space import PACKING
from steptune.tune.step_guards import guard_confirmation, guard_trial


@dataclass(frozen=True, kw_only=True)
class Known:
    """A session that is over, its journal read once."""

    state: SessionState
    trial: Trial
    change: Change
    confirmed: Confirmed


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # earlier than the folder's own: the machine lock must not be the real one
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("machine")))
        state = run_session(tmp_path_factory.mktemp("runs"), (PACKING,)).state
    assert state.confirmed is not None
    trial = state.ended[0].trial
    return Known(state=state, trial=trial, change=trial.change, confirmed=state.confirmed)


Step = Callable[[Observation], dict[str, Any]]
"""What a fault changes in a step."""


def arrived(**fields: object) -> Step:
    return lambda step: {"arrivals": tuple(a.model_copy(update=fields) for a in step.arrivals)}


def gap(**fields: object) -> Step:
    def changed(step: Observation) -> dict[str, Any]:
        assert step.mismatch is not None
        return {"mismatch": step.mismatch.model_copy(update=fields)}

    return changed


def stale(step: Observation) -> dict[str, Any]:
    assert step.mismatch is not None
    return {"lag_max": 2, "off_policy": (LagStats(lag=2, gap=step.mismatch),)}


def filling(step: Observation) -> dict[str, Any]:
    groups = QueueCount(generated=9 * step.step + 9, trained=4 * step.step + 4, dropped=0, buffered=5 * step.step + 5)
    return {"lag_max": 0, "queue": QueueStats(groups=groups, tokens=groups, lag_mean=1.0)}


FAULTS: dict[str, tuple[str, Judgement, Step]] = {
    "no weights": ("weights_arrived", Judgement.FAIL, arrived(num_wrong=12)),
    "one tensor missing": ("weights_arrived", Judgement.FAIL, arrived(num_wrong=1)),
    "a stale replica": ("weights_arrived", Judgement.FAIL, arrived(version=0, trainer_version=1)),
    "a skipped step": ("weights_arrived", Judgement.FAIL, arrived(num_moved=0)),
    "nobody looked": ("weights_arrived", Judgement.INCONCLUSIVE, lambda _: {"arrivals": ()}),
    "a stale cache": ("mismatch", Judgement.FAIL, gap(k3=0.2)),
    "another temperature": ("mismatch", Judgement.FAIL, gap(mult_prob_error=1.2)),
    "one wild token": ("mismatch", Judgement.FAIL, gap(max_abs=5.0)),
    "none that is not": ("mismatch", Judgement.FAIL, gap(k3=5e-4)),
    "a NaN gap": ("mismatch", Judgement.INCONCLUSIVE, gap(k3=math.nan)),
    "collapse": ("entropy", Judgement.FAIL, lambda _: {"entropy": 0.1}),
    "a wild gradient": ("entropy", Judgement.FAIL, lambda _: {"grad_norm": 9.0}),
    "a NaN gradient": ("entropy", Judgement.INCONCLUSIVE, lambda _: {"grad_norm": math.nan}),
    "full memory": ("memory", Judgement.FAIL, lambda _: {"memory_peak_bytes": MEMORY_BYTES}),
    "memory that grows": (
        "memory",
        Judgement.INCONCLUSIVE,
        lambda step: {"memory_peak_bytes": MEMORY_BYTES // 10 + step.step * MEMORY_BYTES // 100},
    ),
    "less work": ("same_work", Judgement.FAIL, lambda _: {"completion_tokens": 30}),
    "fewer rollouts": ("same_work", Judgement.FAIL, lambda _: {"num_rollouts": 3}),
    "old tokens": ("off_policy", Judgement.FAIL, stale),
    "a queue that fills": ("steady", Judgement.INCONCLUSIVE, filling),
    "compiling": ("steady", Judgement.INCONCLUSIVE, lambda _: {"num_compiled": 1}),
}


def broken(arm: Arm, fault: Step) -> Arm:
    steps = tuple(step.model_copy(update=fault(step)) for step in arm.observations)
    return arm.model_copy(update={"observations": steps})


def said(verdicts: tuple[Verdict, ...], guard: str) -> Judgement:
    return next(verdict.judgement for verdict in verdicts if verdict.guard == guard)


def in_trial(known: Known, fault: Step) -> tuple[Verdict, ...]:
    trial = known.trial
    arms = tuple(broken(arm, fault) if arm.label == "candidate" else arm for arm in trial.arms)
    return guard_trial(known.state, trial.model_copy(update={"arms": arms}))


def in_confirmation(known: Known, fault: Step) -> tuple[Verdict, ...]:
    confirmed = known.confirmed
    arms = tuple(broken(arm, fault) if arm.label == "candidate" else arm for arm in confirmed.arms)
    return guard_confirmation(known.state, known.change, confirmed.model_copy(update={"arms": arms}))


@pytest.mark.parametrize("where", [in_trial, in_confirmation])
def test_without_a_fault_every_guard_passes(known: Known, where: Callable[[Known, Step], tuple[Verdict, ...]]) -> None:
    assert {verdict.judgement for verdict in where(known, lambda _: {})} == {Judgement.PASS}


@pytest.mark.parametrize("where", [in_trial, in_confirmation])
@pytest.mark.parametrize(("guard", "judgement", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_seen_by_its_guard_in_trial_and_confirmation(
    known: Known, guard: str, judgement: Judgement, fault: Step, where: Callable[[Known, Step], tuple[Verdict, ...]]
) -> None:
    assert said(where(known, fault), guard) is judgement


def test_a_change_of_precision_may_leave_the_repeats_range_up_to_the_owners_limit(known: Known) -> None:
    trial = known.trial
    change = trial.change.model_copy(update={"effect": Effect.PRECISION})
    arms = tuple(broken(arm, gap(k3=5e-4)) if arm.label == "candidate" else arm for arm in trial.arms)
    verdicts = guard_trial(known.state, trial.model_copy(update={"arms": arms, "change": change}))
    assert said(verdicts, "mismatch") is Judgement.PASS


ANSWERS: dict[str, tuple[str, Judgement, Step]] = {
    "shorter": ("length", Judgement.FAIL, lambda step: {"completion_tokens": round(0.8 * step.completion_tokens)}),
    "longer": ("length", Judgement.FAIL, lambda step: {"completion_tokens": round(1.3 * step.completion_tokens)}),
    "cut": ("truncation", Judgement.FAIL, lambda _: {"truncated_frac": 0.5}),
    "unknown": ("truncation", Judgement.INCONCLUSIVE, lambda _: {"truncated_frac": None}),
}


@pytest.mark.parametrize(("guard", "judgement", "fault"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answers_of_natural_length_are_paired_with_the_baselines(
    known: Known, guard: str, judgement: Judgement, fault: Step
) -> None:
    confirmed, change = known.confirmed, known.change
    natural = tuple(broken(arm, fault) if arm.label == "candidate" else arm for arm in confirmed.natural)
    worse = confirmed.model_copy(update={"natural": natural})
    assert said(guard_confirmation(known.state, change, worse), guard) is judgement
    trained: Change = change.model_copy(update={"effect": Effect.PRECISION})
    guards = [verdict.guard for verdict in guard_confirmation(known.state, trained, worse)]
    assert guard not in guards, "the reward test trains pairs of natural length"


def test_a_trial_whose_candidate_never_ran_has_no_verdicts(known: Known) -> None:
    assert guard_trial(known.state, known.trial.model_copy(update={"arms": ()})) == ()
