import pytest
from decision_records import verdict, verdicts

from steptune.core.knob import EFFECT_ORDER, Effect
from steptune.core.verdict import Judgement
from steptune.decide.owed import OWED_AT_DECISION, OWED_AT_TRIAL, REWARD, REWARD_RATE, absent, failures, undecided
from steptune.guard import GUARDS


def test_every_owed_guard_exists() -> None:
    owed = {guard for table in (OWED_AT_TRIAL, OWED_AT_DECISION) for guards in table.values() for guard in guards}
    assert owed <= set(GUARDS)


def test_only_the_algorithm_class_has_no_way_in() -> None:
    tunable = [effect for effect in EFFECT_ORDER if effect is not Effect.ALGORITHM]
    assert list(OWED_AT_TRIAL) == list(OWED_AT_DECISION) == tunable


def test_a_heavier_class_owes_at_least_as_much_at_its_trial() -> None:
    none, precision, staleness = (set(OWED_AT_TRIAL[effect]) for effect in EFFECT_ORDER[:3])
    assert none <= precision <= staleness


@pytest.mark.parametrize("effect", OWED_AT_TRIAL)
def test_a_decision_owes_everything_its_trial_owed(effect: Effect) -> None:
    assert set(OWED_AT_TRIAL[effect]) < set(OWED_AT_DECISION[effect])


@pytest.mark.parametrize("effect", OWED_AT_TRIAL)
def test_every_change_must_show_that_its_weights_arrived_and_that_its_none_moves_are_none(effect: Effect) -> None:
    assert "weights_arrived" in OWED_AT_TRIAL[effect]
    assert "update_parity" in OWED_AT_DECISION[effect]


def test_only_staleness_owes_reward_per_device_hour() -> None:
    assert [effect for effect in OWED_AT_TRIAL if REWARD_RATE in OWED_AT_DECISION[effect]] == [Effect.STALENESS]


def test_rule_5_parity_settles_none_and_the_others_owe_a_reward_test() -> None:
    assert REWARD not in OWED_AT_DECISION[Effect.NONE]
    for effect in (Effect.PRECISION, Effect.STALENESS):
        assert {"mismatch", "truncation", "entropy", REWARD} <= set(OWED_AT_DECISION[effect])
    assert "off_policy" in OWED_AT_DECISION[Effect.STALENESS]
    assert REWARD not in OWED_AT_TRIAL[Effect.STALENESS]


def test_every_change_must_show_that_answers_kept_their_length() -> None:
    assert all("length" in OWED_AT_DECISION[effect] for effect in OWED_AT_DECISION)
    assert not any("length" in owed for owed in OWED_AT_TRIAL.values()), "timed arms are forced to one length"


def test_verdicts_are_sorted_into_failed_absent_and_undecided() -> None:
    given = verdicts(["a", "b", "c"], b=Judgement.FAIL, c=Judgement.INCONCLUSIVE)
    assert failures(given) == ("b failed: b says FAIL",)
    assert absent(["a", "b", "d"], given) == ("d",)
    assert undecided(["a", "c"], given) == (verdict("c", Judgement.INCONCLUSIVE),)
    assert undecided(["a"], given) == ()


def test_of_two_verdicts_by_one_guard_the_worse_counts() -> None:
    given = [verdict("memory"), verdict("memory", Judgement.INCONCLUSIVE)]
    assert len(undecided(["memory"], given)) == 1
