"""How numbers are written: three significant digits, the unit, and always where they came from.

Surprise: fractions are printed as percent and bytes as MiB or GiB; the JSON report keeps the raw value.
"""

import math

from steptune.core.estimate import Estimate, Source
from steptune.core.knob import KnobValue
from steptune.core.units import BYTES_PER_GIB, duration_text, gib, mib

SIGNIFICANT = 3
"""Significant digits shown; the intervals are seldom tighter than one percent."""

PLAIN_FROM, PLAIN_TO = 1e-3, 1e6
"""Magnitudes written without an exponent."""

WHOLE_UNITS = frozenset({"1", "updates", "steps", "tokens", "trials"})
"""Units that count things: whole values lose their decimals."""

MINUTE_S = 60.0
"""Seconds from which a time is written in minutes."""


def digits(value: float) -> str:
    """Return ``value`` with three significant digits; NaN and infinity by name.

    >>> digits(0.8312), digits(24), digits(2.1e-6), digits(float("nan"))
    ('0.831', '24.0', '2.10e-6', 'NaN')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}"
    if value == 0:
        return "0"
    if not PLAIN_FROM <= abs(value) < PLAIN_TO:
        mantissa, exponent = f"{value:.{SIGNIFICANT - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{max(0, SIGNIFICANT - 1 - math.floor(math.log10(abs(value))))}f}"


def value_text(value: float, unit: str) -> str:
    """Return ``value`` with its unit as people read it.

    >>> value_text(0.412, "frac"), value_text(203, "s"), value_text(3 * 2**29, "bytes"), value_text(1, "updates")
    ('41.2 %', '3 m 23 s', '1.50 GiB', '1 update')
    """
    if not math.isfinite(value):
        return f"{digits(value)} {unit}" if unit not in ("1", "frac") else digits(value)
    if unit == "frac":
        return f"{digits(100 * value)} %"
    if unit == "s" and value >= MINUTE_S:
        return duration_text(value)
    if unit == "bytes":
        return f"{digits(gib(value))} GiB" if value >= BYTES_PER_GIB else f"{digits(mib(value))} MiB"
    if unit in WHOLE_UNITS and float(value).is_integer():
        return f"{value:.0f}" if unit == "1" else count_text(int(value), unit.removesuffix("s"))
    return digits(value) if unit == "1" else f"{digits(value)} {unit}"


def interval_text(estimate: Estimate) -> str:
    """Return ``low to high`` without repeating the unit where both ends share it; empty when unknown."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (value_text(end, estimate.unit) for end in (estimate.low, estimate.high))
    low_number, _, low_unit = low.rpartition(" ")
    _, _, high_unit = high.rpartition(" ")
    shares_unit = low.count(" ") == high.count(" ") == 1 and low_unit == high_unit
    return f"{low_number if shares_unit else low} to {high}"


def main_text(estimate: Estimate) -> str:
    """Return the value alone: ``2.43 x``."""
    return value_text(estimate.value, estimate.unit)


def detail_text(estimate: Estimate) -> str:
    """Return the small print: interval, source, n and note."""
    parts = [interval_text(estimate), str(estimate.source)]
    parts += [] if estimate.n is None else [f"n={estimate.n}"]
    parts += [estimate.note] if estimate.note else []
    return ", ".join(part for part in parts if part)


def estimate_text(estimate: Estimate) -> str:
    """Return value and small print: ``2.43 x (2.31 to 2.56 x, measured, n=24)``."""
    return f"{main_text(estimate)} ({detail_text(estimate)})"


def measured(value: float, unit: str, *, n: int | None = None, note: str = "") -> Estimate:
    """Return a number read off one clock or counter, which has no interval of its own."""
    return Estimate(value=value, unit=unit, source=Source.MEASURED, n=n, note=note)


def derived(value: float, unit: str, *, n: int | None = None, note: str = "") -> Estimate:
    """Return a number this report computed from recorded ones."""
    return Estimate(value=value, unit=unit, source=Source.DERIVED, n=n, note=note)


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 trial``, ``3 trials``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def knob_text(value: KnobValue) -> str:
    """Return a knob's setting as a job file would say it; None is ``off``.

    >>> knob_text(True), knob_text(None), knob_text("packed")
    ('true', 'off', 'packed')
    """
    if value is None:
        return "off"
    return str(value).lower() if isinstance(value, bool) else str(value)
