"""Durations as people and frameworks write them become seconds."""

import re

_UNIT_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|[dhms])")
_PARTS = re.compile(rf"~?\s*(?:{_PART.pattern.replace('?P<number>', '?:').replace('?P<unit>', '?:')}\s*)+")
_CLOCK = re.compile(r"(?:(?P<days>\d+) days?, )?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d{2}(?:\.\d+)?)")


def parse_duration_s(text: str) -> float | None:
    """Return seconds, or None when ``text`` is no duration. A bare number is none: it does not state its unit.

    >>> parse_duration_s("9h00m23s"), parse_duration_s("2:55:16"), parse_duration_s("15m 56s")
    (32423.0, 10516.0, 956.0)
    >>> parse_duration_s("12"), parse_duration_s("1m Ys")
    (None, None)
    """
    stripped = text.strip()
    if _PARTS.fullmatch(stripped):
        return sum(float(part["number"]) * _UNIT_S[part["unit"]] for part in _PART.finditer(stripped))
    clock = _CLOCK.fullmatch(stripped)
    if clock is None:
        return None
    days, hours, minutes = (float(clock[name] or 0) for name in ("days", "hours", "minutes"))
    return days * _UNIT_S["d"] + hours * _UNIT_S["h"] + minutes * _UNIT_S["m"] + float(clock["seconds"])
