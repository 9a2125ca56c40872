"""Spaces to search in: their optimum is known, and beliefs err by as much as was asked."""

import math
from itertools import product

import pytest

from steptune.testing.search_spaces import SHAPES, SearchSpace, draw_space, median_difference, misled

SMALL = [shape for shape in SHAPES if draw_space(shape, 0).num_configurations < 2000]


def best_ratio(space: SearchSpace) -> float:
    """Over what can run."""
    found = 1.0
    for values in product(*(knob.factors for knob in space.knobs)):
        settings = {knob.name: value for knob, value in zip(space.knobs, values, strict=True)}
        dies = any(settings[knob.name] in knob.fails_with for knob in space.knobs)
        is_off = settings.get("schedule") == "one_step_off"
        if not dies and is_off == (settings.get("correction") == "tis"):
            found = min(found, space.true_ratio(settings))
    return found


def test_a_seed_fixes_a_space_and_another_seed_draws_another() -> None:
    assert draw_space("overlap", 3) == draw_space("overlap", 3)
    assert draw_space("overlap", 3).knobs != draw_space("overlap", 4).knobs


def test_one_shape_has_more_than_a_hundred_thousand_configurations() -> None:
    assert draw_space("large", 0).num_configurations == 177_147


@pytest.mark.parametrize("shape", SMALL)
def test_there_is_a_gain_to_find_unless_the_shape_says_otherwise(shape: str) -> None:
    best = [1 / best_ratio(draw_space(shape, seed)) for seed in range(3)]
    if shape == "nothing_helps":
        assert max(best) < 1.03
    else:
        assert min(best) > 1.3


def test_a_split_alone_loses_and_with_the_schedule_it_balances_the_sides() -> None:
    space = draw_space("overlap", 0)
    overlapped = {**space.baseline, "schedule": "one_step_off", "correction": "tis"}
    # 0.6 and 0.4 s: five parts of eight for the rollout make 0.48 and 0.53
    assert space.true_ratio({**space.baseline, "split": 3}) > 1.0
    assert space.true_ratio(overlapped) == pytest.approx(0.6)
    assert space.true_ratio({**overlapped, "split": 3}) == pytest.approx(0.4 / 0.75)


@pytest.mark.parametrize("error", [0.05, 0.2])
@pytest.mark.parametrize("shape", ["rollout_bound", "overlap", "small_gains"])
def test_beliefs_err_by_as_much_as_was_asked(shape: str, error: float) -> None:
    space = draw_space(shape, 1)
    assert median_difference(misled(space, error), space) == pytest.approx(error, rel=0.1)


def test_no_error_is_the_truth_and_the_baseline_is_never_misjudged() -> None:
    space = draw_space("rollout_bound", 2)
    assert misled(space, 0.0) is space
    for knob in misled(space, 0.2).knobs:
        assert next(iter(knob.believed.values())) == 1.0


def test_a_bias_makes_every_other_value_look_faster() -> None:
    space = draw_space("rollout_bound", 2)
    plain, biased = misled(space, 0.1), misled(space, 0.1, bias=0.08)
    moved = [
        b.believed[value] / p.believed[value]
        for p, b in zip(plain.knobs, biased.knobs, strict=True)
        for value in list(p.factors)[1:]
    ]
    assert moved == pytest.approx([math.exp(-0.08)] * len(moved))
