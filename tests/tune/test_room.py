"""Arms that do not fit beside each other: told apart from a candidate that does not fit, and launched alternately."""

import math
from pathlib import Path

import pytest
from fake_sessions import Ran, run_session

from steptune.core.decision import Outcome
from steptune.core.event import Profiled, TrialEnded
from steptune.core.knob import Effect, KnobValue, Restart
from steptune.core.phase import Role
from steptune.core.trial import TrialState
from steptune.core.verdict import Judgement
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, FakeKnob
from steptune.tune.far_gain import FEW_STEPS_PLAN

BIG, TOO_BIG = 6 * 10**9, 11 * 10**9
"""Of a machine with 10 GB: two of the first do not fit together, one of the second does not by itself."""


def packing(memory: dict[KnobValue, int], *, factor: float = 0.5, is_known: bool = True) -> FakeKnob:
    return FakeKnob(
        name="layout",
        side=Role.TRAINER,
        factors={"padded": 1.0, "packed": factor},
        restart=Restart.RELAUNCH,
        memory_bytes=memory,
        is_memory_known=is_known,
    )


SECOND = FakeKnob(
    name="compact_finished",
    side=Role.ROLLOUT,
    factors={False: 1.0, True: 0.5},
    restart=Restart.RELAUNCH,
    unpriced=frozenset({True}),
)
"""Tried by itself after what has a price: on top of a lead."""


def alternate_trials(ran: Ran) -> list[TrialEnded]:
    return [event for event in ran.trials if event.trial.alternate_because]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_pair_that_overflows_is_launched_alternately_and_the_candidate_not_blamed(
    is_known: bool, tmp_path: Path
) -> None:
    ran = run_session(tmp_path, (packing({"packed": BIG}, is_known=is_known), SECOND))
    # 0.1 and 6.1 GB are up together in the first trial, 6.1 and 6.1 would be in the second
    first, second = ran.trials
    assert first.trial.alternate_because == ""
    assert second.trial.state is TrialState.FINISHED
    assert second.outcome is Outcome.ADOPT
    overflow = "both arms together ran out of memory (fake: 2 runs need 12.2 GB)"
    said = "2 arms need 11635 MiB by measurement or forecast" if is_known else overflow
    assert said in second.trial.alternate_because
    assert second.reasons[-1] == f"in alternate launches, one arm at a time: {second.trial.alternate_because}"
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True}
    assert ran.framework.live == {}
    assert ran.problems() == []


def test_a_candidate_that_does_not_fit_by_itself_is_out_of_memory(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (packing({"padded": BIG, "packed": TOO_BIG}, is_known=False),))
    (event,) = ran.trials
    assert event.trial.state is TrialState.OUT_OF_MEMORY
    assert event.trial.cause == "the candidate by itself: fake: 1 runs need 11.1 GB"
    assert ran.decision.outcome is Outcome.NO_CHANGE
    assert ran.problems() == []


def test_where_everything_is_large_every_stage_runs_one_arm_at_a_time_and_the_decision_says_so(tmp_path: Path) -> None:
    dtype = FakeKnob(
        name="rollout_dtype", side=Role.ROLLOUT, factors={"fp32": 1.0, "bf16": 0.85}, effect=Effect.PRECISION
    )
    # 0.28 + 0.51 s of 1.0 s: not beyond any drift, so that the incumbent has to be run
    ran = run_session(tmp_path, (packing({"padded": BIG, "packed": BIG}, factor=0.7), dtype))
    (profiled,) = [event for event in ran.events if isinstance(event, Profiled) and event.label == "baseline"]
    assert "two launches of the baseline need" in profiled.alternate_because
    assert alternate_trials(ran) == ran.trials
    assert all(verdict.judgement is Judgement.PASS for event in ran.trials for verdict in event.verdicts)
    watched = [arm for event in ran.trials for arm in event.trial.arms if arm.label == "watched"]
    assert len(watched[0].observations) == 12, "what shows over steps is watched in one launch"
    assert all(math.isfinite(end) for tested in ran.state.reward_tests for end in tested.candidate_S)
    assert ran.state.reward_tests
    assert ran.state.confirmed is not None
    assert ran.state.confirmed.alternate_because
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", "rollout_dtype": "bf16"}
    assert any(reason.startswith("confirmed in alternate launches") for reason in ran.decision.reasons)
    assert ran.framework.live == {}
    assert ran.problems() == []


def test_a_machine_that_gives_less_than_it_says_is_found_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeFramework, "total_memory_bytes", lambda _: 10**11)  # as in a container with a limit
    ran = run_session(tmp_path, (packing({"padded": BIG, "packed": BIG}),))
    (profiled,) = [event for event in ran.events if isinstance(event, Profiled) and event.label == "baseline"]
    assert "together ran out of memory (fake: 2 runs need 12.2 GB)" in profiled.alternate_because
    (event,) = ran.trials
    assert "were too many before" in event.trial.alternate_because
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.problems() == []


def test_a_candidate_alone_that_a_waiting_run_crowds_out_is_run_again_without_it(tmp_path: Path) -> None:
    # two baselines of 4.1 GB fit; one of them waits when the candidate of 7.1 GB begins, of which no forecast knows
    ran = run_session(tmp_path, (packing({"padded": 4 * 10**9, "packed": 7 * 10**9}, is_known=False), COMPACTION))
    first = ran.trials[0]
    assert first.trial.state is TrialState.FINISHED
    assert first.outcome is Outcome.ADOPT
    candidate = next(arm for arm in first.trial.arms if arm.label == "candidate")
    assert len(candidate.observations) == FEW_STEPS_PLAN.kept_steps, "it was run alone, beside recorded steps"
    assert list(ran.path.glob("trials/*/alone")), "the first attempt ran out of memory"
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.problems() == []
