import math

import pytest
from forecast_cases import BASELINE, change, decode, learnt, plan, prefill, profile, train

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import interval_of
from steptune.forecast.interval import UNMOVED_FRAC, Z_80
from steptune.forecast.model import fit
from steptune.forecast.residual import PRIOR_MOVE_SD, learn

NOISE = 0.02
FASTER = plan(prefill(), decode(x=51), train())


def width(planned: PlannedWork, moved: Change, history: tuple[LearntFrom, ...] = ()) -> float:
    model = fit(profile(), BASELINE)
    ratio = interval_of(model, model.predict(planned), moved, learn(history, NOISE), NOISE)
    assert ratio.low < ratio.mid < ratio.high
    return math.log(ratio.high / ratio.mid) / Z_80


def test_the_baseline_is_uncertain_by_the_noise_alone() -> None:
    assert width(BASELINE, change()) == pytest.approx(NOISE)


# decode takes 40 x 6 ms instead of 40 x 11: 0.2 of the measured 1.66 s (decode's factor is 1)
MOVED = UNMOVED_FRAC + (1 - UNMOVED_FRAC) * 0.2 / 1.66


def test_a_move_is_as_uncertain_as_the_part_of_the_step_that_it_changes() -> None:
    assert width(FASTER, change(a=1)) == pytest.approx(math.hypot(NOISE, PRIOR_MOVE_SD * math.sqrt(MOVED)))
    assert width(BASELINE, change(a=1)) == pytest.approx(math.hypot(NOISE, PRIOR_MOVE_SD * math.sqrt(UNMOVED_FRAC)))


def test_moves_that_come_along_add_less_than_their_own_variance() -> None:
    # four moves: four times the variance of one, over the square root of four
    assert width(FASTER, change(a=1, b=1, c=1, d=1)) == pytest.approx(
        math.sqrt(NOISE**2 + 2 * MOVED * PRIOR_MOVE_SD**2)
    )


def test_extrapolation_widens() -> None:
    assert width(plan(prefill(), decode(x=202), train()), change(a=1)) > width(FASTER, change(a=1))


def test_overlap_that_the_baseline_does_not_have_widens() -> None:
    overlapped = plan(*FASTER.items, schedule="one_step_off")
    assert width(overlapped, change(a=1)) > width(FASTER, change(a=1))


def test_informative_trials_narrow() -> None:
    history = (learnt(0.9, 0.91, a=1), learnt(0.9, 0.9, a=1))
    assert width(FASTER, change(a=1), history) < width(FASTER, change(a=1)) / 2


def test_trials_also_settle_what_overlap_left_open() -> None:
    # after informative trials of the same move neither its own nor the contention's prior is left
    overlapped = plan(*FASTER.items, schedule="one_step_off")
    history = tuple(learnt(0.9, 0.9, a=1) for _ in range(20))
    assert width(overlapped, change(a=1), history) < NOISE * 1.05
