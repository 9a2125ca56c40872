import pytest
from forecast_cases import BASELINE, CURVES, decode, plan

from steptune.core.phase import Role
from steptune.forecast.curve import CostBook
from steptune.forecast.side import side_costs


def test_a_side_is_the_sum_of_count_times_price() -> None:
    costs = side_costs(BASELINE, CostBook(curves=CURVES))
    assert costs.seconds == {
        (Role.ROLLOUT, "rollout/prefill"): pytest.approx(0.1),
        (Role.ROLLOUT, "rollout/decode"): pytest.approx(0.44),
        (Role.TRAINER, "train"): pytest.approx(0.8),
    }
    assert costs.stretched_s == {}


def test_seconds_beyond_the_measured_sizes_are_kept_apart() -> None:
    # 202 rows lie one whole curve end beyond 101; each iteration costs 21.1 ms
    costs = side_costs(plan(decode(count=10), decode(x=202, count=2)), CostBook(curves=CURVES))
    assert costs.stretched_s == {(Role.ROLLOUT, "rollout/decode"): pytest.approx(0.0422)}


def test_a_quota_lengthens_every_repetition() -> None:
    half = decode(count=10).model_copy(update={"slowdown": 2.0})
    book = CostBook(curves=CURVES)
    whole_s, half_s = (
        side_costs(plan(item), book).seconds[Role.ROLLOUT, "rollout/decode"] for item in (decode(count=10), half)
    )
    assert half_s == pytest.approx(2 * whole_s)
