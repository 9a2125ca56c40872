"""A number a user sees: value, interval, unit, and where it came from."""

from enum import StrEnum
from typing import Self

from pydantic import model_validator

from steptune.core.records import Record


class Source(StrEnum):
    """Where a number came from. There is no default: whoever makes an Estimate must say."""

    MEASURED = "measured"
    """Read off a clock or counter in a run of this session, or stated by a log."""
    DERIVED = "derived"
    """Computed from measured values (a ratio, a sum, a standardised time)."""
    FORECAST = "forecast"
    """Computed before the run that could measure it."""
    PUBLISHED = "published"
    """Stated by a named public source."""
    VIRTUAL = "virtual"
    """Measured on the virtual clock, never on real devices."""


class Estimate(Record):
    """One number with its interval.

    Example: a step time of 1.02 s, measured over 8 steps::

        Estimate(value=1.02, low=0.99, high=1.06, unit="s", source=Source.MEASURED, n=8)

    prints as ``1.02 s (0.99 to 1.06, measured, n=8)``.
    """

    value: float
    """The central value, in ``unit``."""
    low: float | None = None
    """Lower end of the interval (95 % unless ``note`` says otherwise); None when unknown."""
    high: float | None = None
    """Upper end of the interval."""
    unit: str
    """Unit as printed: ``s``, ``x`` (ratio), ``frac``, ``bytes``, ``nat``, ``1``."""
    source: Source
    """Where the number came from."""
    n: int | None = None
    """Independent observations behind it; None when it is not an average."""
    note: str = ""
    """What the reader must know to not misread it."""

    @model_validator(mode="after")
    def _interval_holds_value(self) -> Self:
        low, high = self.low, self.high
        if low is not None and high is not None and low > high:
            raise ValueError(f"interval is upside down: {low} > {high}")
        return self

    def __str__(self) -> str:
        parts = [] if self.low is None or self.high is None else [f"{self.low:.3g} to {self.high:.3g}"]
        parts.append(str(self.source))
        if self.n is not None:
            parts.append(f"n={self.n}")
        unit = "" if self.unit == "1" else self.unit
        return f"{self.value:.3g} {unit}".rstrip() + f" ({', '.join(parts)})"
