import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_rows import JOB, row

from steptune.published.public_run import PublicRun, public_runs
from steptune.score.errors import (
    errors_alone,
    errors_calibrated,
    errors_left_out,
    errors_of_ratio,
    is_large,
    is_structural,
)
from steptune.score.groups import scored_groups
from steptune.score.model import InverseDevices, NoChange, stated
from steptune.score.quantiles import equal_weight_mean, equal_weight_quantile

GROUPS = scored_groups(JOB)


class Table:
    """Knows step times by id, times a factor."""

    def __init__(self, times: dict[str, float | None], factor: float = 1.0) -> None:
        self.name, self._times, self._factor = "table", times, factor

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        seconds = self._times[run.id]
        return None if seconds is None else seconds * self._factor


TRUTH: dict[str, float | None] = {"base": 100.0, "tp1": 80.0, "overlapped": 50.0}


def test_a_model_that_knows_has_no_error() -> None:
    assert errors_alone(Table(TRUTH), GROUPS).median_frac == pytest.approx(0)


def test_a_common_factor_costs_the_error_alone_but_not_the_ratio() -> None:
    biased = Table(TRUTH, factor=1.2)
    assert errors_alone(biased, GROUPS).median_frac == pytest.approx(0.2)
    assert errors_of_ratio(biased, GROUPS).median_frac == pytest.approx(0)


def test_no_change_is_wrong_by_the_move_itself() -> None:
    # |ln ratios|: 100/80 and 80/50 and 100/50, each twice: 1.25, 1.6, 2.0
    errors = errors_calibrated(NoChange(), GROUPS)
    assert errors.median_frac == pytest.approx(0.6)
    assert errors.num_asked == 6


def test_no_change_says_nothing_without_a_measured_row() -> None:
    errors = errors_alone(NoChange(), GROUPS)
    assert (errors.num_answered, errors.num_asked, errors.median_frac) == (0, 3, None)


def test_twice_the_devices_take_half_the_time_in_the_arm_that_says_so() -> None:
    wide = row("wide", 50.0, n_gpus=16, gpus_train=16)
    assert InverseDevices().step_s(wide, measured=row("base", 100.0)) == 50.0
    unknown = row("unknown", 50.0, n_gpus=None)
    assert InverseDevices().step_s(unknown, measured=row("base", 100.0)) == 100.0


def test_a_refusal_is_counted_and_is_no_error() -> None:
    errors = errors_of_ratio(Table({**TRUTH, "tp1": None}), GROUPS)
    assert (errors.num_answered, errors.num_asked) == (2, 6)


@pytest.mark.parametrize("nonsense", [0.0, -3.0, math.inf, math.nan])
def test_an_answer_that_is_no_time_is_a_refusal(nonsense: float) -> None:
    assert errors_alone(Table({**TRUTH, "tp1": nonsense}), GROUPS).num_answered == 2


def test_large_moves_are_those_over_ten_percent() -> None:
    (group,) = scored_groups([row("base", 100.0), row("near", 109.0, train_tp=1), row("far", 112.0, train_tp=4)])
    large = {(pair.base.id, pair.other.id) for pair in group.pairs if is_large(pair)}
    assert large == {("base", "far"), ("far", "base")}


def test_a_model_never_sees_what_it_must_forecast() -> None:
    for run in public_runs():
        blind = stated(run)
        assert blind.step_time_s is blind.train_s is blind.tokens_per_s_per_gpu is blind.notes is None
        assert "derived_mean_total_len_from_throughput" not in blind.other_settings
        assert blind.n_gpus == run.n_gpus


def test_each_source_is_scored_by_the_model_fitted_without_it() -> None:
    rows = [
        *JOB,
        *(run.model_copy(update={"source": "other/repo:x", "job_group": "second", "id": f"{run.id}2"}) for run in JOB),
    ]
    asked: list[str] = []

    def model_for(owner: str) -> NoChange:
        asked.append(owner)
        return NoChange()

    errors = errors_left_out(model_for, scored_groups(rows), is_structural)
    assert asked == ["other", "someone"]
    assert errors.num_answered == 12


def test_a_job_of_many_rows_weighs_as_much_as_a_job_of_two() -> None:
    errors = {"many": [0.1] * 100, "one": [0.5], "two": [0.6, 0.7]}
    assert equal_weight_quantile(errors, 0.5) == 0.5
    assert equal_weight_mean(errors) == pytest.approx((0.1 + 0.5 + 0.65) / 3)


def test_infinite_errors_stay_in_the_count_and_nan_is_refused() -> None:
    assert equal_weight_quantile({"a": [0.1, math.inf]}, 0.9) == math.inf
    assert equal_weight_quantile({}, 0.5) is None
    with pytest.raises(ValueError, match="NaN"):
        equal_weight_quantile({"a": [math.nan]}, 0.5)


@given(st.lists(st.lists(st.floats(0, 5), min_size=1, max_size=6), min_size=1, max_size=5))
def test_a_quantile_is_one_of_the_errors_and_grows_with_q(groups: list[list[float]]) -> None:
    by_group = {str(index): errors for index, errors in enumerate(groups)}
    found = [equal_weight_quantile(by_group, q) for q in (0.0, 0.25, 0.5, 0.9, 1.0)]
    flat = [error for errors in groups for error in errors]
    assert all(error in flat for error in found)
    assert found == sorted(found)  # pyright: ignore[reportArgumentType]
    assert found[-1] == max(flat)
