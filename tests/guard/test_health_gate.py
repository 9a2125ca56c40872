import math
from typing import Any

import pytest
from observation_factory import steps, steps_with

from steptune.core.estimate import Estimate, Source
from steptune.core.profile import Health, Profile
from steptune.core.trial import Observation
from steptune.guard.health import health_problem
from steptune.testing.arrivals import whole_arrival

HEALTHY = {"reward_mean": 0.4, "mixed_groups_frac": 0.6, "truncated_frac": 0.02, "entropy": 0.5}


def profile(**changed: Any) -> Profile:
    return Profile(
        framework="embedded",
        step_time=Estimate(value=1.0, unit="s", source=Source.MEASURED),
        roles=(),
        health=Health(**{**HEALTHY, **changed}),
        num_steps=8,
    )


def test_a_run_that_learns_has_no_problem() -> None:
    assert health_problem(profile(), steps()) is None
    assert health_problem(profile()) is None


SICK: dict[str, tuple[dict[str, Any], str]] = {
    "reward never varies": ({"mixed_groups_frac": 0.0}, "never varies"),
    "variation unknown": ({"mixed_groups_frac": None}, "not known whether rewards vary"),
    "NaN flag": ({"has_nan": True}, "NaN"),
    "NaN reward": ({"reward_mean": math.nan}, "NaN"),
    "NaN mixed groups": ({"mixed_groups_frac": math.nan}, "NaN"),
    "truncation": ({"truncated_frac": 0.95}, "95% truncated"),
    "collapse": ({"entropy": 0.001}, "collapsed"),
}


@pytest.mark.parametrize(("changed", "says"), SICK.values(), ids=SICK.keys())
def test_a_sick_baseline_is_refused_with_what_to_fix_first(changed: dict[str, Any], says: str) -> None:
    problem = health_problem(profile(**changed), steps())
    assert problem is not None
    assert says in problem
    assert "hint:" in problem


@pytest.mark.parametrize("field", ["loss", "grad_norm", "reward_mean", "entropy"])
def test_one_broken_step_is_enough(field: str) -> None:
    problem = health_problem(profile(), steps_with(field, [0.4, 0.4, math.nan, 0.4]))
    assert problem is not None
    assert "got 1 broken metrics" in problem


def test_a_collapse_late_in_the_steps_is_seen_although_the_mean_is_fine() -> None:
    collapsing = steps_with("entropy", [0.5, 0.4, 0.3, 0.001, 0.001, 0.001])
    problem = health_problem(profile(), collapsing)
    assert problem is not None
    assert "0.001 nat" in problem


def test_rewards_that_vary_without_any_gradient_are_no_learning() -> None:
    problem = health_problem(profile(), steps(grad_norm=0.0))
    assert problem is not None
    assert "no update has a gradient" in problem
    assert "hint:" in problem
    assert health_problem(profile(), steps_with("grad_norm", [0.0, 0.0, 0.1])) is None
    assert health_problem(profile(), steps(grad_norm=None)) is None


def test_gradients_that_move_no_weight_are_no_learning() -> None:
    def handed(num_moved: list[int | None]) -> list[Observation]:
        arrivals = [(whole_arrival(i).model_copy(update={"num_moved": moved}),) for i, moved in enumerate(num_moved)]
        return steps_with("arrivals", arrivals)

    problem = health_problem(profile(), handed([None, 0, 0, 0]))
    assert problem is not None
    assert "no weight ever moves" in problem
    assert "hint:" in problem
    assert health_problem(profile(), handed([None, 0, 3, 0])) is None
    assert health_problem(profile(), handed([None])) is None, "the first version has none before it"


@pytest.mark.parametrize("wrong", [{"num_wrong": 1}, {"version": 0}])
def test_a_baseline_that_samples_from_other_weights_is_refused(wrong: dict[str, int]) -> None:
    whole = [(whole_arrival(i),) for i in range(4)]
    assert health_problem(profile(), steps_with("arrivals", whole)) is None
    broken = [*whole[:3], (whole_arrival(3).model_copy(update=wrong),)]
    problem = health_problem(profile(), steps_with("arrivals", broken))
    assert problem is not None
    assert "does not hold the trainer's weights, got other tensors or another version after 1 of 4" in problem


def test_unknown_truncation_and_entropy_are_not_sickness() -> None:
    assert health_problem(profile(truncated_frac=None, entropy=None), steps(entropy=None)) is None


def test_truncation_of_ninety_percent_is_still_let_through() -> None:
    assert health_problem(profile(truncated_frac=0.9)) is None
