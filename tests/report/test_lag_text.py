"""Ages in words."""

from steptune.core.estimate import Estimate, Source
from steptune.core.lag import LagDistribution, LagShare
from steptune.report.lag_text import lag_text


def forecast(value: float, unit: str = "updates", low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit=unit, source=Source.FORECAST)


def test_mean_interval_and_shares_are_told_in_one_line_and_tiny_shares_left_out() -> None:
    shares = ((0, 0.001), (1, 0.329), (2, 0.67))
    ages = LagDistribution(
        mean=forecast(1.669, low=1.62, high=1.72),
        shares=tuple(LagShare(lag=lag, share=forecast(share, "frac")) for lag, share in shares),
    )
    assert lag_text(ages) == "mean 1.67 updates (1.62 to 1.72): 32.9 % 1 update old, 67.0 % 2 updates old"


def test_what_is_left_open_is_said_behind_the_numbers() -> None:
    assert lag_text(LagDistribution(mean=forecast(1.0), unknown="a trial tells")) == "mean 1.00 updates; a trial tells"


def test_what_nobody_can_tell_is_said_with_what_to_measure() -> None:
    assert lag_text(LagDistribution(mean=None, unknown="profile it")) == "cannot tell: profile it"
