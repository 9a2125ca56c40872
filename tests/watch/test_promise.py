"""What follows from range and promise of a decision."""

import pytest

from steptune.core.change import Change
from steptune.core.decision import Decision, Outcome, Range, Tripwire
from steptune.core.estimate import Estimate, Source
from steptune.core.knob import Effect, Restart
from steptune.watch.promise import gain_lasts_to, wires_of

HOLDS = Range(completion_len_mean=100, completion_len_max=400, forecast_ratio_at={"1x": 0.5, "2x": 0.7})
STEP = Tripwire(metric="step_time_s", bound=30, above=True, action="gone")


def decision(*, tripwires: tuple[Tripwire, ...] = (STEP,), low: float | None = 2.0) -> Decision:
    return Decision(
        outcome=Outcome.ADOPT,
        change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT),
        settings={},
        speedup=Estimate(value=2.2, low=low, high=None if low is None else 2.4, unit="x", source=Source.MEASURED),
        reasons=(),
        tripwires=tripwires,
        holds_for=HOLDS,
        cost_wall_s=1,
        cost_device_s=1,
        break_even_step=None,
    )


def test_lengths_and_the_promised_step_are_wires_beside_the_decisions_own() -> None:
    found = [(wire.metric, wire.bound) for wire in wires_of(decision())]
    # baseline 30 s at a speed-up of at least 2.0 is 15 s; the gain is forecast to last to twice the mean length
    assert found == [
        ("step_time_s", 30),
        ("completion_len_mean", 200),
        ("completion_len_max", 400),
        ("step_time_s", 15),
    ]


def test_what_the_range_states_below_and_beside_the_lengths_is_watched_too() -> None:
    stated = {"forecast_ratio_at": {"0.5x": 0.9, "1x": 0.5, "2x": 0.7}, "gen_batches": 1.5, "tool_time_s": 4.0}
    holds = HOLDS.model_copy(update=stated)
    found = {
        (wire.metric, wire.above): wire.bound for wire in wires_of(decision().model_copy(update={"holds_for": holds}))
    }
    assert found["completion_len_mean", False] == 50
    assert found["gen_batches", True] == pytest.approx(2.0)  # a third more
    assert found["tool_time_s", True] == 6.0  # half as long again


def test_without_an_interval_nothing_was_promised() -> None:
    assert [wire.bound for wire in wires_of(decision(low=None)) if wire.metric == "step_time_s"] == [30]


def test_a_baseline_that_was_handed_back_has_no_wires() -> None:
    assert wires_of(decision(tripwires=())) == ()


def test_the_gain_lasts_to_where_the_forecast_line_meets_the_baseline() -> None:
    # 0.5 at 1x, 1.25 at 2x: reaches 1 after 0.5 / 0.75 of the way
    crossing = HOLDS.model_copy(update={"forecast_ratio_at": {"1x": 0.5, "2x": 1.25}})
    assert abs(gain_lasts_to(crossing) - (1 + 2 / 3)) < 1e-12
    for unknown in ({}, {"1x": 0.5}, {"1x": float("nan"), "2x": 0.6}, {"1x": 0.5, "2x": float("nan")}):
        assert gain_lasts_to(HOLDS.model_copy(update={"forecast_ratio_at": unknown})) == 1.0
