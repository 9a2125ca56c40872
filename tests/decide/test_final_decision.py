import math

import pytest
from decision_records import BASELINE, decided, noise, packing, times, verdicts

from steptune.core.change import Change
from steptune.core.decision import Decision, Outcome, Range, Tripwire
from steptune.core.estimate import Estimate
from steptune.core.knob import Effect, Restart
from steptune.core.verdict import Judgement
from steptune.decide.final import NOTHING_CHANGED, Costs
from steptune.decide.owed import MAKES_PROVISIONAL, OWED_AT_DECISION

SPEEDUP = times(2.5, 2.3, 2.7)
WIRES = (Tripwire(metric="lag_max", bound=0, above=True, action="return"),)
RANGE = Range(completion_len_mean=15, completion_len_max=40, forecast_ratio_at={"1x": 0.4})


def owed(effect: Effect = Effect.NONE) -> tuple[str, ...]:
    return OWED_AT_DECISION[effect]


def hands_back_the_baseline(decision: Decision) -> bool:
    return (
        decision.settings == BASELINE
        and decision.tripwires == ()
        and decision.holds_for is None
        and decision.break_even_step is None
    )


@pytest.mark.parametrize("effect", OWED_AT_DECISION)
def test_a_proven_gain_is_adopted_with_its_settings_range_and_trip_wires(effect: Effect) -> None:
    decision = decided(SPEEDUP, verdicts(owed(effect)), effect=effect, tripwires=WIRES, holds_for=RANGE)
    assert decision.outcome is Outcome.ADOPT
    assert decision.settings == {"layout": "packed", "recompute": True}
    assert (decision.tripwires, decision.holds_for) == (WIRES, RANGE)
    assert decision.speedup == SPEEDUP
    assert decision.speedup_over_best_practice == times(1.3, 1.25, 1.35)
    # 540 s / (1.0 s - 0.4 s) = 900 steps
    assert decision.break_even_step == 900
    assert (decision.cost_wall_s, decision.cost_device_s) == (540.0, 1080.0)


def test_an_under_powered_reward_test_alone_makes_it_provisional_with_trip_wires() -> None:
    given = verdicts(owed(Effect.PRECISION), reward=Judgement.INCONCLUSIVE)
    decision = decided(SPEEDUP, given, effect=Effect.PRECISION, tripwires=WIRES)
    assert decision.outcome is Outcome.PROVISIONAL
    assert decision.settings["layout"] == "packed"
    assert decision.tripwires == WIRES
    assert any("reward is inconclusive" in reason for reason in decision.reasons)


def test_staleness_owes_reward_per_device_hour() -> None:
    def with_rate(judgement: Judgement | None) -> Decision:
        given = verdicts(owed(Effect.STALENESS), reward_rate=judgement)
        return decided(SPEEDUP, given, effect=Effect.STALENESS, tripwires=WIRES)

    assert with_rate(Judgement.PASS).outcome is Outcome.ADOPT
    assert with_rate(Judgement.INCONCLUSIVE).outcome is Outcome.PROVISIONAL
    assert with_rate(Judgement.FAIL).outcome is Outcome.REJECT
    assert with_rate(None).outcome is Outcome.REJECT


@pytest.mark.parametrize("guard", [g for g in OWED_AT_DECISION[Effect.STALENESS] if g not in MAKES_PROVISIONAL])
def test_any_other_inconclusive_guard_keeps_the_change_in_the_tool(guard: str) -> None:
    given = verdicts(owed(Effect.STALENESS), reward=Judgement.INCONCLUSIVE, **{guard: Judgement.INCONCLUSIVE})
    decision = decided(SPEEDUP, given, effect=Effect.STALENESS, tripwires=WIRES, holds_for=RANGE)
    assert decision.outcome is Outcome.REJECT
    assert hands_back_the_baseline(decision)


@pytest.mark.parametrize("guard", OWED_AT_DECISION[Effect.STALENESS])
def test_an_owed_guard_that_never_ran_rejects_reward_included(guard: str) -> None:
    decision = decided(SPEEDUP, verdicts(owed(Effect.STALENESS), **{guard: None}), effect=Effect.STALENESS)
    assert decision.outcome is Outcome.REJECT
    assert f"{guard} was not checked" in decision.reasons[-1]


@pytest.mark.parametrize("guard", [*OWED_AT_DECISION[Effect.NONE], "length"])
def test_a_failed_guard_rejects_and_the_baseline_is_handed_back_with_the_reason(guard: str) -> None:
    decision = decided(SPEEDUP, verdicts(owed(), **{guard: Judgement.FAIL}), tripwires=WIRES, holds_for=RANGE)
    assert decision.outcome is Outcome.REJECT
    assert hands_back_the_baseline(decision)
    assert decision.reasons == (f"{guard} failed: {guard} says FAIL",)
    assert decision.change == packing()
    assert decision.speedup == SPEEDUP


@pytest.mark.parametrize(
    "speedup",
    [
        times(1.01, 1.005, 1.015),  # above 1, but less than the least gain worth having
        times(1.3, 0.9, 1.8),  # could be nothing
        None,
        times(2.5),
        times(math.nan, 2.3, 2.7),
        times(2.5, -0.1, 2.7),
    ],
)
def test_a_gain_that_is_noise_or_not_confirmed_changes_nothing(speedup: Estimate | None) -> None:
    decision = decided(speedup, verdicts(owed()), tripwires=WIRES, holds_for=RANGE)
    assert decision.outcome is Outcome.NO_CHANGE
    assert hands_back_the_baseline(decision)
    assert decision.change == NOTHING_CHANGED
    assert decision.speedup is None
    assert decision.speedup_over_best_practice is None


def test_a_confirmation_that_is_slower_rejects_and_shows_it() -> None:
    decision = decided(times(0.8, 0.75, 0.85), verdicts(owed()))
    assert decision.outcome is Outcome.REJECT
    assert "slower" in decision.reasons[0]
    assert decision.speedup == times(0.8, 0.75, 0.85)


@pytest.mark.parametrize(
    ("speedup", "says"),
    [
        (times(2.5, 2.3, 2.7), "faster: confirmed"),
        (times(0.8, 0.75, 0.85), "slower: confirmed"),
        (times(1.0, 0.995, 1.005), "no difference worth having: confirmed"),
        (times(1.05, 0.95, 1.16), "cannot tell: confirmed"),
    ],
)
def test_a_confirmation_ends_in_one_of_four_verdicts(speedup: Estimate, says: str) -> None:
    assert decided(speedup, verdicts(owed())).reasons[0].startswith(says)


def test_a_confirmation_that_cannot_tell_says_what_it_could_have_seen() -> None:
    (reason,) = decided(times(1.05, 0.95, 1.16, n=3), verdicts(owed())).reasons
    assert "3 launches show a gain of" in reason
    assert "one as measured would take about" in reason


def test_nothing_won_is_a_result() -> None:
    nothing = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT)
    decision = decided(None, (), change=nothing)
    assert decision.outcome is Outcome.NO_CHANGE
    assert hands_back_the_baseline(decision)


def test_a_broken_noise_floor_allows_no_claim() -> None:
    broken = noise().model_copy(update={"between_launch_frac": math.nan})
    assert decided(SPEEDUP, verdicts(owed()), noise=broken).outcome is Outcome.NO_CHANGE


def test_the_heavier_of_the_changes_own_and_the_relabelled_effect_counts() -> None:
    parity_only = verdicts(owed(Effect.NONE))
    assert decided(SPEEDUP, parity_only, effect=Effect.PRECISION).outcome is Outcome.REJECT
    precise = packing(Effect.PRECISION)
    assert decided(SPEEDUP, parity_only, change=precise, effect=Effect.NONE).outcome is Outcome.REJECT


def test_another_algorithm_never_leaves_the_tool() -> None:
    decision = decided(SPEEDUP, verdicts(owed(Effect.STALENESS)), effect=Effect.ALGORITHM)
    assert decision.outcome is Outcome.REJECT
    assert "never tuned" in decision.reasons[-1]


def test_an_adopted_change_that_saves_no_wall_time_never_breaks_even() -> None:
    costs = Costs(wall_s=540.0, device_s=1080.0, paid_s=540.0, baseline_step_s=1.0, tuned_step_s=1.0)
    assert decided(SPEEDUP, verdicts(owed()), costs=costs).break_even_step is None


def test_fewer_devices_at_a_longer_step_are_refused() -> None:
    gain = times(1.7, 1.6, 1.8)
    assert decided(gain, verdicts(owed()), step_speedup=times(1.01, 0.99, 1.03)).outcome is Outcome.ADOPT
    refused = decided(gain, verdicts(owed()), step_speedup=times(0.85, 0.83, 0.87))
    assert refused.outcome is Outcome.REJECT
    assert "longer step" in refused.reasons[0]
    assert refused.settings == BASELINE
