import pytest
from forecast_cases import BASELINE, CURVES, decode, plan

from steptune.core.phase import Role
from steptune.core.profile import CostCurve
from steptune.core.work import OneThread
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


def quoted_seconds(cores: float, *, curves: tuple[CostCurve, ...] = CURVES) -> float:
    """Ten iterations of 101 rows on two threads that a quota gives ``cores``."""
    one = OneThread(when={"rollout_threads": 1}, cores=cores)
    item = decode(count=10).model_copy(update={"slowdown": 2 / cores, "one_thread": one})
    return side_costs(plan(item), CostBook(curves=curves)).seconds[Role.ROLLOUT, "rollout/decode"]


def test_threads_that_wait_for_each_other_lose_less_to_a_quota_than_their_cores() -> None:
    # two threads take 11 ms, one 12.2: the work is 1.08 x 12.2 = 13.2 ms of one core, which 1.5 cores do in 8.8
    assert quoted_seconds(1.5) == pytest.approx(0.11)
    # 1.1 cores: 12.0 ms an iteration, and not the 20 ms of two threads that never wait
    assert quoted_seconds(1.1) == pytest.approx(10 * 1.08 * 0.0122 / 1.1)


def test_without_a_price_of_one_thread_the_bound_is_what_there_is() -> None:
    two = tuple(curve for curve in CURVES if curve.when.get("rollout_threads") != 1)
    assert quoted_seconds(1.5, curves=two) == pytest.approx(0.11 * 2 / 1.5)
