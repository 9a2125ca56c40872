import pytest
from paste_cases import series

from steptune.diagnose.vitals import growth, recent_median, whole_steps


def test_growth_is_last_third_over_first_third() -> None:
    assert growth([1.0, 1.0, 5.0, 9.0, 3.0, 3.0]) == pytest.approx(3.0)
    assert growth([0.0, 0.0, 1.0, 2.0, 3.0, 4.0]) is None
    assert growth([1.0, 2.0, 3.0]) is None


def test_the_recent_median_forgets_the_beginning() -> None:
    assert recent_median(series("x", *[100.0] * 20, *[1.0] * 8)) == 1.0


def test_points_of_one_step_are_one_value_and_only_the_last_run_counts() -> None:
    # two runs; in the second every rank prints its own value
    points = [(1, 100.0), (2, 110.0), (1, 400.0), (1, 420.0), (2, 300.0), (2, float("nan"))]
    one = series("x", *[value for _, value in points])
    steps = tuple(p.model_copy(update={"step": step}) for p, (step, _) in zip(one.points, points, strict=True))
    assert whole_steps(one.model_copy(update={"points": steps})) == [410.0, 300.0]
    unnumbered = tuple(p.model_copy(update={"step": None}) for p in one.points[:3])
    assert whole_steps(one.model_copy(update={"points": unnumbered})) == [100.0, 110.0, 400.0]
