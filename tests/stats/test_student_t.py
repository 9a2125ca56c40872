"""Reference values: scipy 1.17.1 `scipy.stats.t`, which agrees with printed tables to their digits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.stats.student_t import incomplete_beta, t_cdf, t_quantile, t_tail

QUANTILES = [
    (0.975, 1, 12.706204736174694),
    (0.975, 2, 4.302652729749462),
    (0.975, 4, 2.7764451051977934),
    (0.95, 9, 1.833112932656237),
    (0.995, 29, 2.756385903670605),
    (0.9995, 1, 636.6192487687897),
    (0.9, 1000, 1.2823987214609247),
    (0.6, 3.5, 0.27326545405577973),
    (0.99, 2.5, 5.353111173030872),
    (0.999999, 5, 24.771029720372493),
]

TAILS = [
    (0.5, 1, 0.35241638234956674),
    (-2.0, 3, 0.9303370157205785),
    (3.0, 10, 0.006671827511284785),
    (8.0, 7, 4.557460585437679e-05),
    (40.0, 4, 1.1670081613006339e-06),
    (-1.1, 250, 0.8638048991675127),
]


@pytest.mark.parametrize(("p", "df", "expected"), QUANTILES)
def test_quantiles_equal_the_reference(p: float, df: float, expected: float) -> None:
    assert t_quantile(p, df) == pytest.approx(expected, rel=1e-9)
    assert t_quantile(1 - p, df) == pytest.approx(-expected, rel=1e-9)


@pytest.mark.parametrize(("t", "df", "expected"), TAILS)
def test_tails_equal_the_reference(t: float, df: float, expected: float) -> None:
    assert t_tail(t, df) == pytest.approx(expected, rel=1e-11)


def test_one_degree_of_freedom_is_the_cauchy_distribution() -> None:
    # the Cauchy distribution puts 1/2 + atan(t)/π at or below t
    for t in (-5.0, -0.3, 0.0, 1.0, 20.0):
        assert t_cdf(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, rel=1e-12)


def test_the_median_is_zero_and_infinity_has_no_tail() -> None:
    assert t_quantile(0.5, 7) == pytest.approx(0.0, abs=1e-12)
    assert t_tail(math.inf, 3) == 0.0
    assert t_cdf(-math.inf, 3) == 0.0


@given(p=st.floats(0.001, 0.999), df=st.floats(0.5, 500))
def test_quantile_inverts_the_cumulative_probability(p: float, df: float) -> None:
    # next to the median the tail is 0.5 minus almost nothing, so only about half of the digits survive
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, rel=1e-8)


@given(a=st.floats(0.1, 50), b=st.floats(0.1, 50), x=st.floats(0.001, 0.999))
def test_incomplete_beta_is_a_probability_with_its_mirror_symmetry(a: float, b: float, x: float) -> None:
    value = incomplete_beta(a, b, x)
    assert 0 <= value <= 1 + 1e-12
    assert value + incomplete_beta(b, a, 1 - x) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("t", "df"), [(math.nan, 3), (1.0, 0), (1.0, -2), (1.0, math.nan), (1.0, math.inf)])
def test_nonsense_is_refused_by_the_tail(t: float, df: float) -> None:
    with pytest.raises(ValueError, match="finite df"):
        t_tail(t, df)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, math.nan])
def test_a_quantile_needs_a_probability_strictly_inside(p: float) -> None:
    with pytest.raises(ValueError, match="0 < p < 1"):
        t_quantile(p, 4)
