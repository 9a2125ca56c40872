"""Ages of trained tokens in words: ``mean 1.67 updates (1.62 to 1.72): 33 % 1 update old, 67 % 2 updates``."""

from steptune.core.lag import LagDistribution
from steptune.report.numbers import count_text, digits, main_text

SMALL_FRAC = 0.005
"""Share of tokens below which an age is not worth a word."""


def lag_text(ages: LagDistribution) -> str:
    """Return a distribution in one line; where nobody can tell, why, and what to measure."""
    if ages.mean is None:
        return f"cannot tell: {ages.unknown}"
    low, high = ages.mean.low, ages.mean.high
    interval = "" if low is None or high is None else f" ({digits(low)} to {digits(high)})"
    shares = ", ".join(
        f"{main_text(row.share)} {count_text(row.lag, 'update')} old"
        for row in ages.shares
        if row.share.value >= SMALL_FRAC
    )
    text = f"mean {digits(ages.mean.value)} updates{interval}"
    return f"{text}{': ' if shares else ''}{shares}{'; ' if ages.unknown else ''}{ages.unknown}"
