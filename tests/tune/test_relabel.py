"""A move labelled *none* that makes another update: relabelled, and tried on only if the owner allows it."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_sessions import job_of, run_session

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.event import TrialEnded
from steptune.core.job import LimitsSpec
from steptune.core.knob import Effect, Restart, heaviest
from steptune.core.trial import Trial, TrialState
from steptune.core.verdict import Judgement, Verdict
from steptune.store.replay import SessionState
from steptune.testing.fake_space import COMPACTION, HALVED_GRADIENT, PACKING, FakeKnob
from steptune.tune.relabel import has_old_label, labels_then, relabelled

ALLOWED = job_of(limits=LimitsSpec(allow_other_updates=True))
SAID = "micro_batch_tokens: 512 -> 8192 is labelled none, but its updates are not the baseline's up to rounding"
KNOBS = (PACKING, COMPACTION, HALVED_GRADIENT)


def test_without_the_owners_leave_the_move_is_left_out_and_the_decision_says_why(tmp_path: Path) -> None:
    ran = run_session(tmp_path, KNOBS)
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True, "micro_batch_tokens": 512}
    assert ran.state.reward_tests == ()
    assert ran.decision.reasons[-1] == (
        f"{SAID}: relabelled precision and left out, for `limits.allow_other_updates` is false"
    )
    assert ran.problems() == []


def test_with_it_the_move_owes_what_precision_owes_and_may_be_adopted(tmp_path: Path) -> None:
    ran = run_session(tmp_path, KNOBS, job=ALLOWED)
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True, "micro_batch_tokens": 8192}
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.change.effect is Effect.PRECISION
    assert {verdict.guard for verdict in ran.decision.verdicts} >= {"reward", "truncation", "mismatch_growth"}
    assert ran.state.reward_tests[-1].signature == ran.decision.change.signature
    assert ran.decision.reasons[-1] == f"{SAID}: relabelled precision, with its proofs"
    last = ran.trials[-1]
    assert last.trial.change.effect is Effect.PRECISION
    assert last.replayed is not None
    assert last.replayed.distance == 0.0, "only the moves that still claim to change nothing are replayed"
    assert ran.problems() == []


def test_a_relabelled_move_that_costs_reward_is_banned_by_its_test(tmp_path: Path) -> None:
    lazy: FakeKnob = replace(HALVED_GRADIENT, reward_drop={8192: 0.2})
    ran = run_session(tmp_path, (PACKING, lazy), job=ALLOWED)
    assert any(v.judgement is Judgement.FAIL for tested in ran.state.reward_tests for v in tested.verdicts)
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == {"layout": "packed", "micro_batch_tokens": 512}
    assert ran.decision.reasons[-1].endswith("it is not in the configuration decided on")
    assert ran.problems() == []


EFFECTS = {"a": Effect.NONE, "b": Effect.NONE, "dtype": Effect.PRECISION}


def ended(number: int, knobs: str, said: Judgement) -> TrialEnded:
    moves = tuple(Move(knob=knob, old=0, new=1) for knob in knobs.split())
    effect = heaviest(tuple(EFFECTS[move.knob] for move in moves))
    return TrialEnded(
        trial=Trial(
            number=number,
            change=Change(moves=moves, effect=effect, restart=Restart.HOT),
            state=TrialState.FINISHED,
        ),
        verdicts=(Verdict(guard="update_parity", judgement=said, limit="", because=""),),
        outcome=Outcome.REJECT,
        reasons=(),
    )


def test_the_move_is_found_by_group_tests_and_trials_before_count_no_more() -> None:
    pair = ended(1, "a b dtype", Judgement.FAIL)
    assert relabelled(SessionState(ended=(pair,)), EFFECTS) == {}
    alone = ended(2, "b", Judgement.PASS)
    found = relabelled(SessionState(ended=(pair, alone)), EFFECTS)
    assert found == {("a", 1): 2}
    assert has_old_label(pair.trial.change, 1, found)
    assert not has_old_label(pair.trial.change, 3, found)
    assert not has_old_label(alone.trial.change, 2, found)
    assert labels_then(pair, EFFECTS, found)["a"] is Effect.NONE
    assert labels_then(ended(3, "a b", Judgement.PASS), EFFECTS, found)["a"] is Effect.PRECISION
    # what is replayed after that says nothing of it
    later = ended(3, "a b dtype", Judgement.PASS)
    assert relabelled(SessionState(ended=(pair, alone, later)), EFFECTS) == found


@pytest.mark.parametrize("said", [Judgement.INCONCLUSIVE, Judgement.PASS])
def test_a_replay_that_is_blind_or_passes_relabels_nothing(said: Judgement) -> None:
    assert relabelled(SessionState(ended=(ended(1, "a", said),)), EFFECTS) == {}
