"""One line of a bytes table: what, how many with their bounds, and where the formula comes from."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate, Source


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """Bytes of one kind on one device.

    Example: ``Term(name="logits", low=6e9, mid=10e9, high=14e9, source="...")``.
    """

    name: str
    low: float
    mid: float
    high: float
    source: str

    def scaled(self, factor: float) -> "Term":
        """Return the term times ``factor``."""
        return Term(
            name=self.name, low=self.low * factor, mid=self.mid * factor, high=self.high * factor, source=self.source
        )

    def estimate(self) -> Estimate:
        """Return the bytes with their interval."""
        return Estimate(
            value=self.mid, low=self.low, high=self.high, unit="bytes", source=Source.FORECAST, note=self.source
        )


def exact(name: str, num_bytes: float, source: str) -> Term:
    """Return a term that arithmetic fixes."""
    return Term(name=name, low=num_bytes, mid=num_bytes, high=num_bytes, source=source)


def total(terms: Iterable[Term]) -> Estimate:
    """Return the sum; the bounds of different terms are taken as independent, so their distances add as squares."""
    kept = tuple(terms)
    mid = math.fsum(term.mid for term in kept)
    below = math.sqrt(math.fsum((term.mid - term.low) ** 2 for term in kept))
    above = math.sqrt(math.fsum((term.high - term.mid) ** 2 for term in kept))
    return Estimate(
        value=mid, low=mid - below, high=mid + above, unit="bytes", source=Source.FORECAST, note="sum of the terms"
    )
