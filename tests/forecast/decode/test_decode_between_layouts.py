import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.core.errors import DeviceError
from steptune.footprint.layout import RolloutLayout
from steptune.forecast.curve import ForecastError
from steptune.forecast.decode.fit import PRIORS, features, fit, solve
from steptune.forecast.decode.forecast import DecodePoint, decode_forecaster
from steptune.forecast.decode.terms import Workload, running_rows, terms
from steptune.hardware.devices import named_device
from steptune.shapes.registry import named_shape

QWEN = named_shape("qwen3-8b")
H100 = named_device("H100")
ONE = RolloutLayout(share=0.9, longest=4_096)
TWO = ONE.model_copy(update={"tensor": 2})
FACTORS = tuple(prior.mean + 0.3 * (-1) ** i for i, (_, prior) in enumerate(PRIORS))
"""An engine that is not the prior's."""


def work(rows: int, prompt: float = 1_024, answer: float = 1_024) -> Workload:
    return Workload(rows=rows, prompt=prompt, answer=answer)


def true_s(layout: RolloutLayout, traffic: Workload) -> float:
    own = features(terms(QWEN, layout, H100, traffic))
    return sum(math.exp(f) * x for f, x in zip(FACTORS, own, strict=True))


def points(layout: RolloutLayout = ONE) -> list[DecodePoint]:
    return [DecodePoint(layout=layout, work=work(n), seconds=true_s(layout, work(n))) for n in (4, 32, 128)]


def test_measured_points_are_given_back() -> None:
    forecaster = decode_forecaster(QWEN, H100, points())
    for point in points():
        assert forecaster.step(ONE, point.work).value == pytest.approx(point.seconds, rel=0.03)


def test_rows_between_the_points_and_another_layout_come_near_an_engine_that_is_not_the_prior() -> None:
    forecaster = decode_forecaster(QWEN, H100, points())
    assert forecaster.step(ONE, work(64)).value == pytest.approx(true_s(ONE, work(64)), rel=0.03)
    found = forecaster.step(TWO, work(64))
    assert found.value == pytest.approx(true_s(TWO, work(64)), rel=0.15)
    assert found.low is not None
    assert found.high is not None
    assert found.low < true_s(TWO, work(64)) < found.high


def test_a_layout_that_was_not_measured_gets_a_wider_interval_and_says_so() -> None:
    forecaster = decode_forecaster(QWEN, H100, points())
    here, there = forecaster.step(ONE, work(64)), forecaster.step(TWO, work(64))
    assert here.low is not None
    assert there.low is not None
    assert there.value / there.low > here.value / here.low
    assert "another layout" in there.note
    assert "another layout" not in here.note


def test_prompts_of_others_lie_between_two_tokens() -> None:
    task = terms(QWEN, ONE, H100, work(5, prompt=8_192, answer=100))
    alone = terms(QWEN, ONE, H100, work(1, prompt=8_192, answer=100))
    assert alone.prefill_s == 0
    # 4 / 100 prompts x 8,192 tokens x 2 x 6.95e9 FLOP and the attention of 4,096 keys, at 989 TFLOP/s
    matrices = 0.04 * 8_192 * 2 * 6.95e9 / 989e12
    attention = 0.04 * 8_192 * 36 * 4 * 4_096 * 4_096.5 / 989e12
    assert task.prefill_s == pytest.approx(matrices + attention, rel=0.01)


def test_sequences_that_the_cache_cannot_hold_wait_and_take_no_time() -> None:
    many = work(5_000, prompt=8_192)
    running = running_rows(QWEN, ONE, H100, many)
    # 0.9 x 80 GiB less 16.4 GB of weights and the profiling batch, over 8,704 tokens of 147,456 bytes
    assert 40 < running < 50
    assert terms(QWEN, ONE, H100, many) == terms(QWEN, ONE, H100, work(10_000, prompt=8_192))


def test_attention_ranks_of_their_own_hold_the_whole_latent_cache_each_but_share_the_rows() -> None:
    shape, device = named_shape("deepseek-r1"), named_device("B200")
    layout = RolloutLayout(tensor=8, share=0.9, weight_bytes=1, kv_bytes=1, longest=4_096)
    divided = layout.model_copy(update={"tensor": 1, "data": 8, "expert": 8})
    whole, apart = (terms(shape, one, device, work(64)) for one in (layout, divided))
    assert apart.cache_s == pytest.approx(whole.cache_s / 8)  # tensor parallelism divides no latent cache
    assert apart.rows == whole.rows / 8
    assert apart.weights_s > whole.weights_s  # every rank keeps all of attention


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from([ONE, TWO]))
def test_more_sequences_are_never_forecast_to_be_faster(one: int, two: int, layout: RolloutLayout) -> None:
    forecaster = decode_forecaster(QWEN, H100, points())
    few, many = sorted((one, two))
    assert forecaster.step(layout, work(few)).value <= forecaster.step(layout, work(many)).value * (1 + 1e-9)


def test_a_machine_twice_as_slow_is_forecast_to_take_twice_as_long_between_the_points() -> None:
    # with noise of 5 % a point and priors of a factor 1.6, the points are followed to a few percent
    slow = [DecodePoint(layout=p.layout, work=p.work, seconds=2 * p.seconds) for p in points()]
    fast, slower = decode_forecaster(QWEN, H100, points()), decode_forecaster(QWEN, H100, slow)
    assert slower.step(ONE, work(64)).value / fast.step(ONE, work(64)).value == pytest.approx(2, rel=0.05)


def test_one_number_of_sequences_is_refused_with_what_to_measure() -> None:
    with pytest.raises(ForecastError, match="lowest, a middle and the highest"):
        decode_forecaster(QWEN, H100, points()[:1] * 3)


def test_seconds_that_are_no_number_never_pass() -> None:
    for seconds in (math.nan, math.inf, 0.0, -1.0):
        bad = [points()[0], DecodePoint(layout=ONE, work=work(64), seconds=seconds)]
        with pytest.raises(ForecastError, match="positive finite"):
            decode_forecaster(QWEN, H100, bad)


def test_a_degree_that_divides_no_heads_is_refused() -> None:
    forecaster = decode_forecaster(QWEN, H100, points())
    with pytest.raises(ForecastError, match="divisor of its 32 attention heads"):
        forecaster.step(ONE.model_copy(update={"tensor": 12}), work(8))


def test_a_workload_that_cannot_be_is_refused() -> None:
    for rows, prompt, answer in ((0, 1, 1), (1, -1, 1), (1, 1, 0), (1, math.nan, 1), (1, 1, math.nan)):
        with pytest.raises(ForecastError, match="no decode workload"):
            Workload(rows=rows, prompt=prompt, answer=answer)


def test_a_device_without_figures_is_refused_by_name() -> None:
    with pytest.raises(DeviceError, match="hbm_gbyte_per_s"):
        decode_forecaster(QWEN, named_device("Ascend 910B"), points())


def test_the_equations_are_solved() -> None:
    assert solve([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0]) == pytest.approx([1 / 11, 7 / 11])


def test_more_points_leave_less_doubt() -> None:
    measured = [(terms(QWEN, ONE, H100, p.work), p.seconds) for p in points()]
    task = terms(QWEN, TWO, H100, work(64))
    assert fit(measured).log_sd(task) < fit(measured[:1]).log_sd(task)
