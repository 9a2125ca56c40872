"""P(lag = k) of a plan: refused with what to measure, counted where nobody races, else with what it leaves open."""

import pytest
from forecast_cases import BASELINE, TOTAL_BYTES, change, decode, handover, plan, prefill, profile, train
from hypothesis import given, settings
from hypothesis import strategies as st
from lag_cases import stream

from steptune.core.forecast import Forecast
from steptune.core.job import Objective
from steptune.core.lag import CountedLag, LagDistribution, StreamLag
from steptune.core.profile import Lengths, SampledLengths, SummaryLengths
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import forecast_change
from steptune.forecast.lag.forecast import with_lag

ROWS = 200
LENGTHS = SampledLengths(
    prompt=(9,) * ROWS, completion=tuple(5 + 7 * i % 31 for i in range(ROWS)), rollouts_per_step=50
)


def asynchronous(ages: CountedLag | StreamLag | None, *, micro_batches: float = 2) -> PlannedWork:
    made = plan(prefill(), decode(x=51), train(count=micro_batches), handover(), schedule="one_step_off")
    return made.model_copy(update={"ages": ages, "lag": 2})


def forecast(planned: PlannedWork, lengths: Lengths = LENGTHS) -> Forecast:
    of = profile(lengths=lengths)
    made = forecast_change(
        profile=of,
        planned_baseline=BASELINE,
        planned=planned,
        change=change(schedule="async"),
        history=(),
        total_memory_bytes=TOTAL_BYTES,
        headroom_frac=0.2,
        objective=Objective.STEP_TIME,
    )
    return with_lag(made, profile=of, planned_baseline=BASELINE, planned=planned, history=())


def ages_of(planned: PlannedWork, lengths: Lengths = LENGTHS) -> LagDistribution:
    ages = forecast(planned, lengths).ages
    assert ages is not None
    return ages


def queue(**changes: object) -> StreamLag:
    return stream(**{"groups_per_step": 10, "group_size": 5, "num_slots": 50, "max_lag": 2, **changes})


def test_a_synchronous_step_trains_on_what_its_own_weights_said() -> None:
    fresh = BASELINE.model_copy(update={"ages": CountedLag(shares=((0, 1.0),))})
    ages = ages_of(fresh)
    assert ages.mean is not None
    assert ages.mean.value == 0.0
    assert [(share.lag, share.share.value) for share in ages.shares] == [(0, 1.0)]
    assert ages.unknown == ""


def test_a_plan_that_does_not_say_how_its_queue_works_is_refused_and_told_what_measures_it() -> None:
    ages = ages_of(asynchronous(None))
    assert (ages.mean, ages.shares) == (None, ())
    assert "a bound of 2 updates and nothing on its queue" in ages.unknown
    assert "a trial measures it" in ages.unknown


def test_without_lengths_of_single_rollouts_a_race_is_refused_and_told_what_measures_them() -> None:
    ages = ages_of(asynchronous(queue()), lengths=SummaryLengths(completion_mean=20.0))
    assert ages.mean is None
    assert "lengths as `summary`" in ages.unknown
    assert "--advise-only" in ages.unknown


def test_a_trainer_that_is_far_the_slower_side_trains_at_the_bound() -> None:
    ages = ages_of(asynchronous(queue(), micro_batches=40))
    assert ages.mean is not None
    assert ages.mean.value == pytest.approx(2.0)
    assert [(share.lag, share.share.value) for share in ages.shares] == [(2, 1.0)]


def test_near_balance_it_says_that_a_little_decides() -> None:
    # decoding takes 0.24 s a step, and about as much training lies between lags of one and of two
    told = [ages_of(asynchronous(queue(), micro_batches=n)) for n in (0.2, 0.6, 1.0, 1.4, 40)]
    widths = [ages.mean.high - ages.mean.low for ages in told if ages.mean and ages.mean.high is not None]  # type: ignore[operator]
    assert max(widths[:4]) > widths[4]
    assert told[4].unknown == ""


def test_a_forecast_is_made_twice_alike() -> None:
    assert forecast(asynchronous(queue())) == forecast(asynchronous(queue()))


def test_a_refused_forecast_says_nothing_of_ages() -> None:
    unpriced = asynchronous(queue()).model_copy(update={"items": (decode(threads=7), train())})
    made = forecast(unpriced)
    assert made.refused is not None
    assert made.ages is None


@settings(max_examples=12, deadline=None)
@given(st.floats(0.1, 6.0), st.integers(0, 3), st.booleans(), st.integers(1, 2))
def test_shares_add_up_to_one_and_the_mean_lies_within_the_bound(
    micro_batches: float, max_lag: int, in_flight: bool, replicas: int
) -> None:
    plan_of = queue(max_lag=max_lag, takes_in_flight=in_flight, num_replicas=replicas, num_slots=50 // replicas)
    ages = ages_of(asynchronous(plan_of, micro_batches=micro_batches))
    assert ages.mean is not None
    low, mid, high = ages.mean.low, ages.mean.value, ages.mean.high
    assert low is not None
    assert high is not None
    assert 0 <= low <= mid <= high <= max_lag + 1e-12
    assert sum(share.share.value for share in ages.shares) == pytest.approx(1.0)
    assert sum(share.lag * share.share.value for share in ages.shares) == pytest.approx(mid)
    assert all(0 <= share.share.value <= 1 for share in ages.shares)


def test_ages_that_are_no_distribution_are_refused() -> None:
    with pytest.raises(ValueError, match="shares of ages are not a distribution"):
        CountedLag(shares=((0, 0.5), (1, 0.4)))
    with pytest.raises(ValueError, match="rising ages"):
        CountedLag(shares=((1, 0.5), (0, 0.5)))
