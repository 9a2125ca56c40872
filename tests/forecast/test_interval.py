import math

import pytest
from forecast_cases import BASELINE, change, decode, handover, learnt, plan, prefill, profile, train

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.work import PlannedWork
from steptune.forecast.interval import MOVED_LOG, UNMOVED_FRAC, Z_80, apart, ratio_interval
from steptune.forecast.model import fit
from steptune.forecast.taught import LAYOUT_SD, PART_SD, teach

NOISE = 0.02
FASTER = plan(prefill(), decode(x=51), train())


def width(planned: PlannedWork, moved: Change, history: tuple[LearntFrom, ...] = (), **measured: object) -> float:
    model = fit(profile(**measured), BASELINE)  # type: ignore[arg-type]
    ratio = ratio_interval(apart(model, model.predict(planned), moved, planned, BASELINE), teach(history, NOISE), NOISE)
    assert ratio.low < ratio.mid < ratio.high
    return math.log(ratio.high / ratio.mid) / Z_80


def test_the_baseline_is_uncertain_by_the_noise_alone() -> None:
    assert width(BASELINE, change()) == pytest.approx(NOISE)


def rollout_effect(num_moves: int) -> float:
    """What the step does when its rollout, 0.40 s of 1.46 s and once 0.60, takes one standard deviation longer."""
    size = UNMOVED_FRAC + (1 - UNMOVED_FRAC) * min(1, math.log(0.6 / 0.4) / MOVED_LOG)
    sd = PART_SD["rollout"] * math.sqrt(num_moves / math.sqrt(num_moves) * size)
    return math.log((1.46 - 0.40 + 0.40 * math.exp(sd)) / 1.46)


@pytest.mark.parametrize("moves", [{"a": 1}, {"a": 1, "b": 1, "c": 1, "d": 1}])
def test_a_move_is_as_uncertain_as_what_the_step_does_when_its_part_takes_longer(moves: dict) -> None:
    layout = LAYOUT_SD**2 * math.sqrt(len(moves))
    expected = math.sqrt(NOISE**2 + layout + rollout_effect(len(moves)) ** 2)
    assert width(FASTER, change(**moves)) == pytest.approx(expected)


def test_a_change_of_nothing_is_uncertain_by_noise_and_layout() -> None:
    assert width(BASELINE, change(a=1)) == pytest.approx(math.hypot(NOISE, LAYOUT_SD))


def test_the_shorter_of_two_overlapped_sides_adds_next_to_nothing() -> None:
    slow_train = plan(prefill(), decode(), train(count=8), handover(), schedule="one_step_off")
    less_decode = plan(prefill(), decode(x=51), train(count=8), handover(), schedule="one_step_off")
    assert width(less_decode, change(a=1)) < width(slow_train, change(a=1)) * 1.01


def test_extrapolation_widens() -> None:
    assert width(plan(prefill(), decode(x=202), train()), change(a=1)) > width(FASTER, change(a=1))


def test_overlap_that_the_baseline_does_not_have_widens() -> None:
    overlapped = plan(*FASTER.items, schedule="one_step_off")
    assert width(overlapped, change(a=1)) > width(FASTER, change(a=1))


def test_informative_trials_narrow() -> None:
    history = (learnt(0.9, 0.91, a=1), learnt(0.9, 0.9, a=1))
    assert width(FASTER, change(a=1), history) < 0.9 * width(FASTER, change(a=1))


def test_trials_of_whole_steps_also_settle_what_overlap_left_open() -> None:
    overlapped = plan(*FASTER.items, schedule="one_step_off")
    history = tuple(learnt(0.9, 0.9, a=1) for _ in range(20))
    assert width(overlapped, change(a=1), history) < math.hypot(NOISE, LAYOUT_SD) * 1.05
