"""A trial's spans correct each side of the step by itself."""

import math

import pytest
from forecast_cases import BASELINE, change, decode, plan, prefill, profile, train
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.trial import Observation, SpanTime
from steptune.forecast.model import fit
from steptune.forecast.residual import learn
from steptune.forecast.sides import Sides, side_errors, sides_of
from steptune.testing.fake_framework import _observation

NOISE = 0.02
SYNC = Sides(schedule="sync", rollout_s=0.6, trainer_s=0.4, serial_s=0.0)
OFF = Sides(schedule="one_step_off", rollout_s=0.6, trainer_s=0.4, serial_s=0.0)


def taught(errors: tuple[float, float] | None, error: float = 0.0, **moved: object) -> LearntFrom:
    return LearntFrom(
        change=change(**moved), raw_forecast_ratio=1.0, measured_ratio=math.exp(error), side_errors=errors
    )


@pytest.mark.parametrize("schedule", ["sync", "one_step_off"])
def test_totals_give_the_step_that_the_phases_gave(schedule: str) -> None:
    step = fit(profile(), BASELINE).predict(plan(prefill(), decode(), train(), schedule=schedule))
    assert sides_of(step).step_s() == pytest.approx(step.time.step_s)


@given(rollout=st.floats(-1, 1), trainer=st.floats(-1, 1))
def test_a_side_that_hides_behind_the_other_moves_an_overlapped_step_least(rollout: float, trainer: float) -> None:
    for sides in (SYNC, OFF):
        assert sides.step_s(rollout, trainer) >= sides.step_s(min(rollout, 0), min(trainer, 0))
    # 0.6 hides 0.4: ten per cent of it are 8 % of 0.04 s
    assert OFF.step_s(0.0, math.log(1.1)) == pytest.approx(OFF.step_s() + 0.08 * 0.04)


def spans(rollout_s: float, train_s: float) -> list[Observation]:
    return [_observation(0, rollout_s, train_s, is_off=False)]


def test_a_trial_tells_how_far_each_side_was_missed() -> None:
    model = fit(profile(), BASELINE)
    sides = sides_of(model.baseline)
    measured = spans(1.2 * sides.rollout_s, 0.9 * sides.trainer_s)
    errors = side_errors(model.baseline, measured, measured[0].step_time_s)
    assert errors is not None
    assert errors == pytest.approx((math.log(1.2), math.log(0.9)))
    # a machine that was twice as slow during the trial is taken out by the trial's own ratio
    halved = side_errors(model.baseline, measured, measured[0].step_time_s / 2)
    assert halved == pytest.approx((math.log(0.6), math.log(0.45)))


def test_children_count_where_their_parent_has_no_span() -> None:
    model = fit(profile(), BASELINE)
    whole = spans(1.0, 1.0)
    halves = tuple(
        SpanTime(role="rollout", phase=f"rollout/{name}", kind="busy", seconds=0.5) for name in ("prefill", "decode")
    )
    rest = tuple(span for span in whole[0].spans if (span.role, span.kind) != ("rollout", "busy"))
    split = [whole[0].model_copy(update={"spans": (*halves, *rest)})]
    both = [whole[0].model_copy(update={"spans": (*halves, *whole[0].spans)})]
    expected = side_errors(model.baseline, whole, 2.0)
    assert side_errors(model.baseline, split, 2.0) == pytest.approx(expected)
    assert side_errors(model.baseline, both, 2.0) == pytest.approx(expected)


def test_a_side_without_seconds_teaches_nothing() -> None:
    model = fit(profile(), BASELINE)
    assert side_errors(model.baseline, (), 1.0) is None
    assert side_errors(model.baseline, spans(1.0, 0.0), 1.0) is None
    assert side_errors(model.baseline, spans(math.nan, 1.0), 1.0) is None


def test_a_missed_rollout_corrects_the_rollout_and_leaves_the_trainer_alone() -> None:
    # the step was missed by 0.1; all of it was the rollout's
    residuals = learn((taught((0.17, 0.0), 0.1, a=1, b=1),), NOISE)
    only_rollout, only_trainer = (
        Sides(schedule="sync", rollout_s=r, trainer_s=t, serial_s=0.0) for r, t in ((1.0, 0.0), (0.0, 1.0))
    )
    assert residuals.log_correction(change(a=1, b=1), only_rollout) == pytest.approx(0.17, rel=0.1)
    assert residuals.log_correction(change(a=1, b=1), only_trainer) == 0
    assert residuals.log_correction(change(c=1), only_rollout) == 0


def test_misses_that_cancel_in_the_step_still_correct_its_overlap_and_widen_what_is_believed() -> None:
    booked_wrong, right = taught((0.9, -0.64), 0.0, schedule=1, split=1), taught((0.0, 0.0), 0.0, schedule=1, split=1)
    residuals = learn((booked_wrong,), NOISE)
    again: Change = change(schedule=1, split=2)
    # half of each side's miss stays with the schedule: the rollout grows and the trainer shrinks
    assert residuals.log_correction(again, OFF) > 0.3
    assert residuals.prior_var > learn((right,), NOISE).prior_var


def test_without_spans_a_trial_corrects_the_step_as_a_whole() -> None:
    plain = learn((taught(None, 0.1, a=1),), NOISE)
    assert plain.side_means is None
    assert plain.log_correction(change(a=1), SYNC) == plain.log_correction(change(a=1))


def test_a_trial_without_spans_among_others_is_taken_to_miss_both_sides_alike() -> None:
    residuals = learn((taught(None, 0.1, a=1), taught((0.2, 0.2), 0.2, b=1)), NOISE)
    assert residuals.log_correction(change(a=1), SYNC) == pytest.approx(residuals.log_correction(change(a=1)))
