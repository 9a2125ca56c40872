"""How durations and shares are written in titles, so that every sentence says them the same way."""

from steptune.core.units import duration_text

MINUTE_S = 60.0
"""Below it seconds are written with three digits: 22.5 s, not 22.49 s."""


def said(seconds: float) -> str:
    """Return a duration for a sentence.

    >>> said(22.494), said(96.551), said(12850), said(0.4)
    ('22.5 s', '1 m 37 s', '3 h 34 m', '400 ms')
    """
    if 1.0 <= seconds < MINUTE_S:
        return f"{seconds:.3g} s"
    return duration_text(seconds)


def from_to(before_s: float, after_s: float) -> str:
    """Return ``9 h 00 m to 3 h 34 m``."""
    return f"{said(before_s)} to {said(after_s)}"


def brief(seconds: float) -> str:
    """Return seconds with three digits, or whole ones from a thousand on, where ``1.68e+04`` would stand.

    >>> brief(0.55), brief(66.55), brief(16783.4)
    ('0.55', '66.5', '16783')
    """
    return f"{seconds:.0f}" if abs(seconds) >= 1000 else f"{seconds:.3g}"
