"""Student's t distribution: tail, cumulative probability and quantile, to about 12 digits.

Why not a library: steptune's core depends on pydantic alone. The tail is half a regularised incomplete beta
function, evaluated by its continued fraction (DLMF 8.17.4, 8.17.22, https://dlmf.nist.gov/8.17).
"""

import math
from functools import lru_cache

CONVERGED = 1e-15
"""Relative step at which the continued fraction has settled (a few units of double rounding)."""

BISECTIONS = 80
"""Halvings of the quantile's bracket: 2^-80 of it is below double rounding."""


def _fraction_term(a: float, b: float, x: float, index: int) -> float:
    """Return the partial numerator d_index of DLMF 8.17.23."""
    m = index // 2
    if index % 2 == 0:
        return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
    return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return 1 + d1/(1 + d2/(1 + ...)) by Lentz's method. Converges fast for x < (a+1)/(a+b+2)."""
    value, c, d, step, index = 1.0, 1.0, 0.0, 0.0, 0
    while abs(step - 1.0) >= CONVERGED:
        index += 1
        term = _fraction_term(a, b, x, index)
        d = 1.0 / (1.0 + term * d)
        c = 1.0 + term / c
        step = c * d
        value *= step
    return value


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    return front / _beta_fraction(a, b, x)


def t_tail(t: float, df: float) -> float:
    """Return P(T > t) with ``df`` degrees of freedom; exact far into the tail, where 1 - cdf is not.

    Raises:
        ValueError: ``t`` is NaN or ``df`` is not above 0 and finite.
    """
    if math.isnan(t) or not 0 < df < math.inf:
        raise ValueError(f"need a number and finite df above 0, got t={t}, df={df}")
    half = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
    return half if t >= 0 else 1.0 - half


def t_cdf(t: float, df: float) -> float:
    """Return P(T <= t) with ``df`` degrees of freedom. Raises as `t_tail`."""
    return t_tail(-t, df)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return t with P(T <= t) = p.

    Raises:
        ValueError: ``p`` is not strictly between 0 and 1, or ``df`` is not above 0 and finite.
    """
    if not 0 < p < 1:
        raise ValueError(f"need 0 < p < 1, got {p}")
    if p < 0.5:
        return -t_quantile(1.0 - p, df)
    low, high = 0.0, 1.0
    while t_tail(high, df) > 1.0 - p:
        low, high = high, 2.0 * high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if t_tail(middle, df) > 1.0 - p else (low, middle)
    return 0.5 * (low + high)
