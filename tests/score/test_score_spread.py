import math

from hypothesis import given
from hypothesis import strategies as st

from steptune.published.memory_cases import MemoryLabel, fourth_cases, known_cases, memory_cases, third_cases
from steptune.score.memory import case_sets
from steptune.score.quantiles import equal_weight_quantile
from steptune.score.spread import of_share, over_groups, weighted_mean, weighted_median

ERRORS = {"a": [0.1, 0.2], "b": [0.3], "c": [0.4, 0.5, 0.6]}


def test_a_median_lies_inside_its_interval() -> None:
    bounds = over_groups(ERRORS, weighted_median)
    median = equal_weight_quantile(ERRORS, 0.5)
    assert bounds is not None
    assert median is not None
    assert bounds[0] <= median <= bounds[1]


def test_one_job_has_no_interval() -> None:
    assert over_groups({"a": [0.1, 0.2], "b": []}, weighted_median) is None


def test_jobs_that_agree_have_a_narrow_one() -> None:
    assert over_groups({"a": [0.2], "b": [0.2, 0.2]}, weighted_mean) == (0.2, 0.2)


def test_a_job_weighs_one_however_many_rows_it_has() -> None:
    assert weighted_mean([[1.0], [0.0] * 99], [1, 1]) == 0.5
    assert weighted_median([[1.0, 1.0, 1.0], [0.0] * 99], [2, 1]) == 1.0


def test_a_share_of_ten_right_of_ten_is_not_certain() -> None:
    bounds = of_share(10, 10)
    assert bounds is not None
    assert math.isclose(bounds[1], 1.0)
    assert bounds[0] < 0.9
    assert of_share(0, 0) is None


@given(st.integers(1, 60), st.integers(0, 60))
def test_a_share_lies_inside_its_interval(of: int, right: int) -> None:
    bounds = of_share(min(right, of), of)
    assert bounds is not None
    assert bounds[0] - 1e-12 <= min(right, of) / of <= bounds[1] + 1e-12


def test_what_a_fault_explains_is_in_no_other_set() -> None:
    sets = case_sets(memory_cases(), known_cases())
    faults = {case.id for case in sets["explained by a fault"]}
    assert faults == {"slime-1951", "oumi-32b-unlaunched"}
    assert all(not faults & {case.id for case in members} for name, members in sets.items() if "fault" not in name)


def test_the_two_halves_share_no_source() -> None:
    sets = case_sets(memory_cases(), known_cases())
    assert not {case.source for case in sets["known, held"]} & {case.source for case in sets["known, train"]}


def test_the_set_labelled_last_comes_first_and_without_weak_labels() -> None:
    sets = case_sets(memory_cases(), known_cases(), third_cases(), fourth_cases())
    assert list(sets)[:2] == ["fourth", "third"]
    assert len(sets["fourth"]) == 88
    assert all(case.label is not MemoryLabel.WEAK for case in sets["fourth"])
