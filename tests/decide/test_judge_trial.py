import math

import pytest
from decision_records import noise, times, trial, verdict, verdicts

from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate, Source
from steptune.core.knob import Effect
from steptune.core.profile import NoiseFloor
from steptune.core.trial import TrialState
from steptune.core.verdict import Judgement
from steptune.decide.owed import OWED_AT_TRIAL
from steptune.decide.trial import judge_trial

OWED = OWED_AT_TRIAL[Effect.NONE]
FASTER = times(0.71, 0.69, 0.73)
BROKEN_NOISE = NoiseFloor(within_launch_cv=math.nan, between_launch_frac=0.01, aa_ratio=FASTER, num_steps=8)


@pytest.mark.parametrize("effect", OWED_AT_TRIAL)
def test_faster_beyond_the_noise_with_every_owed_guard_passed_is_adopted(effect: Effect) -> None:
    outcome, reasons = judge_trial(trial(FASTER, effect=effect), verdicts(OWED_AT_TRIAL[effect]), noise())
    assert outcome is Outcome.ADOPT
    assert "0.71" in reasons[0]
    assert "noise band 2.0%" in reasons[0]


@pytest.mark.parametrize(
    ("ratio", "says"), [(times(1.2, 1.1, 1.3), "slower"), (times(0.99, 0.985, 0.995), "no difference worth having")]
)
def test_slower_and_inside_the_noise_are_results(ratio: Estimate, says: str) -> None:
    outcome, reasons = judge_trial(trial(ratio), verdicts(OWED), noise())
    assert outcome is Outcome.REJECT
    assert says in reasons[0]


def test_a_wide_interval_asks_for_more_blocks() -> None:
    outcome, reasons = judge_trial(trial(times(0.9, 0.6, 1.3)), verdicts(OWED), noise())
    assert outcome is Outcome.EXTEND
    assert reasons[0].startswith("cannot tell: ")
    assert "4 pairs show a gain of" in reasons[0]
    assert judge_trial(trial(times(0.9, n=1)), verdicts(OWED), noise())[0] is Outcome.EXTEND


def test_a_likely_gain_is_followed_as_a_lead_and_not_called_faster() -> None:
    outcome, reasons = judge_trial(trial(times(0.9, 0.75, 1.08)), verdicts(OWED), noise())
    assert outcome is Outcome.ADOPT
    assert reasons[0].startswith("a lead, for the confirmation to prove")


@pytest.mark.parametrize(
    "ratio", [None, times(math.nan, 0.6, 0.8), times(0.7, math.nan, 0.8), times(0.7, n=4), times(0.7, low=0.6)]
)
def test_a_missing_or_broken_ratio_never_wins(ratio: Estimate | None) -> None:
    assert judge_trial(trial(ratio), verdicts(OWED), noise())[0] is Outcome.REJECT


def test_without_a_noise_floor_no_gain_is_claimed() -> None:
    outcome, reasons = judge_trial(trial(FASTER), verdicts(OWED), BROKEN_NOISE)
    assert outcome is Outcome.REJECT
    assert "noise floor" in reasons[0]


@pytest.mark.parametrize("guard", [*OWED, "update_parity", "reward"])
def test_any_failed_guard_rejects_owed_or_not(guard: str) -> None:
    outcome, reasons = judge_trial(trial(FASTER), verdicts(OWED, **{guard: Judgement.FAIL}), noise())
    assert outcome is Outcome.REJECT
    assert reasons == (f"{guard} failed: {guard} says FAIL",)


def test_a_lead_whose_replay_is_blind_is_not_followed_and_no_more_pairs_are_asked_for() -> None:
    blind = verdicts([*OWED, "update_parity"], update_parity=Judgement.INCONCLUSIVE)
    outcome, reasons = judge_trial(trial(FASTER), blind, noise())
    assert outcome is Outcome.REJECT
    assert reasons[-1] == "cannot tell: update_parity is inconclusive: update_parity says INCONCLUSIVE"


@pytest.mark.parametrize("guard", OWED)
def test_an_inconclusive_owed_guard_extends_and_an_absent_one_rejects(guard: str) -> None:
    outcome, reasons = judge_trial(trial(FASTER), verdicts(OWED, **{guard: Judgement.INCONCLUSIVE}), noise())
    assert outcome is Outcome.EXTEND
    assert f"{guard} is inconclusive" in reasons[-1]
    outcome, reasons = judge_trial(trial(FASTER), verdicts(OWED, **{guard: None}), noise())
    assert outcome is Outcome.REJECT
    assert f"{guard} was not checked" in reasons[0]


def test_an_inconclusive_guard_does_not_keep_a_slow_change_alive() -> None:
    given = verdicts(OWED, mismatch=Judgement.INCONCLUSIVE)
    assert judge_trial(trial(times(1.2, 1.1, 1.3)), given, noise())[0] is Outcome.REJECT


def test_an_inconclusive_guard_that_is_not_owed_is_no_hindrance() -> None:
    given = [*verdicts(OWED), verdict("reward", Judgement.INCONCLUSIVE), verdict("length", Judgement.INCONCLUSIVE)]
    assert judge_trial(trial(FASTER), given, noise())[0] is Outcome.ADOPT


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (TrialState.OUT_OF_MEMORY, Outcome.REJECT),
        (TrialState.FAILED, Outcome.REJECT),
        (TrialState.STOPPED, Outcome.REJECT),
        (TrialState.ABANDONED, Outcome.EXTEND),
        (TrialState.RUNNING, Outcome.EXTEND),
        (TrialState.PLANNED, Outcome.EXTEND),
    ],
)
def test_only_a_finished_trial_can_win(state: TrialState, expected: Outcome) -> None:
    outcome, reasons = judge_trial(trial(FASTER, state=state, cause="exit code -11"), verdicts(OWED), noise())
    assert outcome is expected
    assert reasons == (f"the trial is {state.replace('_', ' ')}: exit code -11",)


def test_a_trial_without_a_cause_ends_its_sentence() -> None:
    assert judge_trial(trial(None, state=TrialState.RUNNING), (), noise())[1] == ("the trial is running",)


def test_another_algorithm_is_never_adopted() -> None:
    outcome, reasons = judge_trial(trial(FASTER, effect=Effect.ALGORITHM), verdicts(OWED), noise())
    assert outcome is Outcome.REJECT
    assert "never tuned" in reasons[0]


def replayed(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit="x", source=Source.DERIVED, n=8)


def test_one_block_of_whole_steps_bears_out_what_a_replay_has_shown() -> None:
    one_block = trial(times(0.86, n=1))
    outcome, reasons = judge_trial(one_block, verdicts(OWED), noise(), replayed(0.85, 0.83, 0.87))
    assert outcome is Outcome.ADOPT
    assert reasons[0].startswith("a lead, for the confirmation to prove: a replay of its side")


@pytest.mark.parametrize(
    ("whole", "replay"),
    [(0.95, (0.85, 0.83, 0.87)), (1.2, (0.85, 0.83, 0.87)), (0.86, (0.97, 0.94, 1.0)), (math.nan, (0.85, 0.83, 0.87))],
)
def test_one_block_that_contradicts_its_replay_or_has_none_that_leads_asks_for_both_arms(
    whole: float, replay: tuple[float, float, float]
) -> None:
    outcome, _ = judge_trial(trial(times(whole, n=1)), verdicts(OWED), noise(), replayed(*replay))
    assert outcome is Outcome.EXTEND


def test_one_block_whose_guard_is_open_is_no_lead() -> None:
    open_guard = verdicts(OWED, mismatch=Judgement.INCONCLUSIVE)
    outcome, _ = judge_trial(trial(times(0.86, n=1)), open_guard, noise(), replayed(0.85, 0.83, 0.87))
    assert outcome is Outcome.EXTEND


def test_one_block_beyond_any_drift_is_a_lead_without_a_replay() -> None:
    # launches 2 % apart: at most 0.7 x exp(3 x 0.02) = 0.743 < 0.98 x 0.8
    outcome, reasons = judge_trial(trial(times(0.7, n=1)), verdicts(OWED), noise())
    assert outcome is Outcome.ADOPT
    assert reasons[0].startswith("a lead beyond any drift, for the confirmation to prove: 0.7 of")


@pytest.mark.parametrize("ratio", [0.76, 1.0, math.nan])
def test_one_block_that_a_faster_machine_may_have_made_asks_for_both_arms(ratio: float) -> None:
    outcome, _ = judge_trial(trial(times(ratio, n=1)), verdicts(OWED), noise())
    assert outcome is Outcome.EXTEND


def test_a_failed_guard_rejects_one_block_beyond_any_drift() -> None:
    failed = verdicts(OWED, mismatch=Judgement.FAIL)
    assert judge_trial(trial(times(0.5, n=1)), failed, noise())[0] is Outcome.REJECT
