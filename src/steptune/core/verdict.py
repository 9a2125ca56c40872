"""A verdict: what one guard says about one candidate."""

from enum import StrEnum

from steptune.core.estimate import Estimate
from steptune.core.records import Record


class Judgement(StrEnum):
    """Three answers. Missing, NaN or too little data is INCONCLUSIVE, never PASS."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Verdict(Record):
    """One guard's answer.

    Example: ``Verdict(guard="mismatch", judgement=Judgement.PASS, measured=Estimate(k3 2.1e-6 nat ...),
    limit="at most 1e-3 nat", because="median k3 2.1e-06 over 12 steps")``.
    """

    guard: str
    judgement: Judgement
    measured: Estimate | None = None
    limit: str
    """The bound it was held against, with its unit."""
    because: str
    """One sentence with the numbers."""
    detectable: Estimate | None = None
    """Smallest effect this guard could have seen with its data; None where it does not apply."""
