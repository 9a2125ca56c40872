"""Repeated looks at a mean of unknown spread: intervals that keep their 95 % although the first clear one ends it all.

A plain 95 % interval looked at four times, stopping at the first that excludes nothing-changed, is wrong in 8 to 14 %
of all cases. A `LookPlan` fixes beforehand after how many observations one looks, and how rare a result each look asks
for: little is spent on the first looks, most on the last (Jennison & Turnbull 2000, ch. 7 and 11.4, "repeated
confidence intervals" with t quantiles at each look).

The surprise: the plan needs no spread at all. A t statistic of equal normal observations has one distribution, whatever
their spread is, so the chance that *any* look errs is one number per plan; `tests/stats/test_looks.py` counts it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from steptune.stats.intervals import DEFAULT_CONFIDENCE, Interval
from steptune.stats.ratio import ratio_interval


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LookPlan:
    """``LookPlan(tails={4: 0.0090, 8: 0.0181})``: looks after 4 and 8 observations, together 2.5 % a side."""

    tails: Mapping[int, float]
    """Observations at a look, in rising order -> chance of error that this look's interval has on either side."""

    @property
    def first(self) -> int:
        """Observations at the first look."""
        return min(self.tails)

    @property
    def last(self) -> int:
        """Observations at the last look."""
        return max(self.tails)

    def tail_of(self, num: int) -> float:
        """Return the chance of error on either side that a printed interval of ``num`` observations has.

        Before the first look nothing is decided and a plain 95 % interval is printed.
        """
        return (1.0 - DEFAULT_CONFIDENCE) / 2 if num < self.first else self.tail_at(num)

    def tail_at(self, num: int) -> float:
        """Return the chance of error on either side after ``num`` observations: that of the coming or last look."""
        return self.tails[next((look for look in self.tails if look >= num), self.last)]


TRIAL_LOOKS = LookPlan(tails={4: 0.0090, 8: 0.0181})
"""Pairs of blocks of a trial: those of its first launch, and with those of its second (simulated as below)."""

CONFIRM_LOOKS = LookPlan(tails={3: 0.0019, 4: 0.0034, 5: 0.0053, 6: 0.0077, 7: 0.0104, 8: 0.0136})
"""Fresh launches of a confirmation. Two have one degree of freedom and show nothing below a factor of ten.
The shares grow with the square of the look (simulated once with 600,000 sequences, rounded down)."""


def repeated_ratio_interval(above: Sequence[float], below: Sequence[float], plan: LookPlan) -> Interval:
    """Return the geometric mean of above / below at one look of ``plan``; 95 % over all of its looks.

    Raises:
        ValueError: as `ratio_interval`.
    """
    single_look = ratio_interval(above, below, 1.0 - 2.0 * plan.tail_at(len(above)))
    return replace(single_look, confidence=DEFAULT_CONFIDENCE)
