"""Ages of trained tokens: what a trial measured, and how far the forecast was off."""

import math

import pytest

from steptune.core.change import Change
from steptune.core.estimate import Estimate, Source
from steptune.core.knob import Effect, Restart
from steptune.core.lag import LagDistribution, LagShare
from steptune.core.profile import GapStats, LagStats
from steptune.core.trial import Observation, QueueCount, QueueStats
from steptune.score.lags import LagScore, measured_lag

NOTHING = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT)


def gap(num_tokens: int) -> GapStats:
    return GapStats(k1=0.0, k3=0.0, mean_abs=0.0, max_abs=0.0, mult_prob_error=1.0, ess_frac=1.0, num_tokens=num_tokens)


def step(older: dict[int, int], *, tokens: int = 100, lag_mean: float | None = None) -> Observation:
    none = QueueCount(generated=0, trained=0, dropped=0, buffered=0)
    return Observation(
        step=0,
        step_time_s=1.0,
        wall_by_role_s={},
        spans=(),
        prompt_tokens=1,
        completion_tokens=tokens,
        padded_tokens=tokens,
        decode_iterations=1,
        num_rollouts=1,
        completion_len_p50=1.0,
        completion_len_max=1,
        truncated_frac=0.0,
        reward_mean=0.0,
        mixed_groups_frac=None,
        entropy=None,
        grad_norm=None,
        loss=None,
        mismatch=None,
        off_policy=tuple(LagStats(lag=lag, gap=gap(count)) for lag, count in older.items()),
        lag_max=max(older, default=0),
        memory_peak_bytes=None,
        weight_version=1,
        queue=None if lag_mean is None else QueueStats(groups=none, tokens=none, lag_mean=lag_mean),
    )


def forecast(*shares: tuple[int, float]) -> LagDistribution:
    def estimate(value: float, unit: str) -> Estimate:
        return Estimate(value=value, unit=unit, source=Source.FORECAST)

    rows = tuple(LagShare(lag=lag, share=estimate(share, "frac")) for lag, share in shares)
    return LagDistribution(mean=estimate(sum(lag * share for lag, share in shares), "updates"), shares=rows)


def score(ages: LagDistribution, measured: LagDistribution | None) -> LagScore:
    return LagScore(target="trial 1", change=NOTHING, is_first=True, forecast=ages, measured=measured)


def shares_of(ages: LagDistribution | None) -> dict[int, float]:
    assert ages is not None
    return {row.lag: row.share.value for row in ages.shares}


def test_tokens_that_no_older_age_has_are_fresh() -> None:
    found = measured_lag([step({1: 30, 2: 10}), step({1: 50})], num_updates=1)
    assert shares_of(found) == pytest.approx({0: 0.55, 1: 0.40, 2: 0.05})
    assert found is not None
    assert found.mean is not None
    assert found.mean.value == pytest.approx(0.5)
    assert found.mean.n == 2


def test_the_queues_own_mean_counts_where_every_step_has_one_by_its_tokens() -> None:
    found = measured_lag([step({1: 30}, lag_mean=0.3), step({1: 300}, tokens=300, lag_mean=1.0)], num_updates=1)
    assert found is not None
    assert found.mean is not None
    assert found.mean.value == pytest.approx((100 * 0.3 + 300 * 1.0) / 400)


def test_later_updates_of_a_batch_are_taken_off_the_mean_and_their_shares_not_told() -> None:
    # one step ahead, two updates a step: half of the tokens are trained on 2 and half 3 updates late
    found = measured_lag([step({2: 50, 3: 50})], num_updates=2)
    assert found is not None
    assert found.mean is not None
    assert found.mean.value == pytest.approx(2.0)
    assert found.shares == ()


def test_without_steps_or_tokens_or_with_nan_nothing_is_claimed() -> None:
    assert measured_lag([], num_updates=1) is None
    for steps in ([step({}, tokens=0)], [step({1: 10}, lag_mean=math.nan)]):
        found = measured_lag(steps, num_updates=1)
        assert found is not None
        assert found.mean is None
        assert found.unknown


def test_the_error_is_of_the_mean_and_of_the_worst_share() -> None:
    made = score(forecast((1, 0.8), (2, 0.2)), measured_lag([step({1: 60, 2: 30})], num_updates=1))
    assert made.mean_error == pytest.approx(1.2 - 1.2)
    assert made.share_error == pytest.approx(0.2)


def test_what_was_not_told_or_not_measured_has_no_error() -> None:
    untold = LagDistribution(mean=None, unknown="profile it")
    assert score(untold, measured_lag([step({1: 60})], num_updates=1)).mean_error is None
    assert score(forecast((1, 1.0)), None).mean_error is None
    assert score(forecast((1, 1.0)), None).share_error is None
