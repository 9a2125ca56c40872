"""What a mismatch metric looks like when all is well, and when it is not, as seen in public."""

from functools import cache
from typing import Literal

from steptune.core.records import Record
from steptune.published.table import read_rows


class MismatchScale(Record):
    """One bound on one side of one metric: k3 is suspicious from 0.01 nat and broken from 0.1."""

    metric: str
    """Canonical series name, or the framework's key."""
    side: Literal["high", "low"]
    suspicious: float
    broken: float
    unit: str
    healthy: str
    source: str

    def is_beyond(self, value: float, bound: float) -> bool:
        """Return whether ``value`` is on the wrong side of ``bound``."""
        return value >= bound if self.side == "high" else value <= bound


@cache
def mismatch_scales() -> tuple[MismatchScale, ...]:
    """Return all bounds; starting values, to be re-measured on the user's own set-up."""
    return tuple(MismatchScale.model_validate(row) for row in read_rows("mismatch_scales.csv"))
