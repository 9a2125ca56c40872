"""Numbers: value, interval, unit, source, whatever the value is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.estimate import Estimate, Source
from steptune.report.numbers import digits, estimate_text, knob_text, value_text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.4321, "x", "2.43 x"),
        (0.0042, "s", "0.00420 s"),
        (203.0, "s", "3 m 23 s"),
        (0.412, "frac", "41.2 %"),
        (2.1e-6, "nat", "2.10e-6 nat"),
        (1.5 * 2**30, "bytes", "1.50 GiB"),
        (1.5 * 2**20, "bytes", "1.50 MiB"),
        (784.0, "steps", "784 steps"),
        (1.0, "updates", "1 update"),
        (2.0, "trials", "2 trials"),
        (0.0, "1", "0"),
        (-0.006, "1", "-0.00600"),
        (math.nan, "s", "NaN s"),
        (math.nan, "1", "NaN"),
        (math.inf, "s", "+inf s"),
    ],
)
def test_values_are_written_as_people_read_them(value: float, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_an_estimate_carries_interval_source_n_and_note() -> None:
    estimate = Estimate(value=2.43, low=2.34, high=2.52, unit="x", source=Source.MEASURED, n=24, note="forced lengths")
    assert estimate_text(estimate) == "2.43 x (2.34 to 2.52 x, measured, n=24, forced lengths)"


def test_the_unit_is_repeated_where_the_ends_of_an_interval_differ_in_it() -> None:
    estimate = Estimate(value=60.0, low=55.0, high=65.0, unit="s", source=Source.DERIVED)
    assert estimate_text(estimate) == "1 m 00 s (55.0 s to 1 m 05 s, derived)"


def test_an_unknown_interval_is_left_out_not_invented() -> None:
    assert estimate_text(Estimate(value=1.0, low=0.9, unit="x", source=Source.FORECAST)) == "1.00 x (forecast)"


def test_a_feature_that_is_off_is_called_off() -> None:
    assert [knob_text(value) for value in (None, True, 4096, "packed")] == ["off", "true", "4096", "packed"]


@given(st.floats(min_value=1e-12, max_value=1e12), st.booleans())
def test_three_digits_are_within_half_a_percent(size: float, is_negative: bool) -> None:
    value = -size if is_negative else size
    assert float(digits(value)) == pytest.approx(value, rel=0.0051)


@given(st.floats(), st.sampled_from(["s", "x", "frac", "bytes", "1", "nat", "tokens"]))
def test_every_float_has_a_text(value: float, unit: str) -> None:
    text = value_text(value, unit)
    assert ("NaN" in text) == math.isnan(value)
