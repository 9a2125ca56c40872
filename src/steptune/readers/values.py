"""Numbers as logs print them, and what one must be to be reckoned or counted with."""

import math
import re

MAX_MAGNITUDE = 1e60
"""No quantity of a run is larger; products of five such numbers still fit a float. Its inverse is the smallest."""

MAX_COUNT = 10**9
"""Largest count of devices, steps or samples that is believed."""

NUMBER_PATTERN = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF])"
"""Every text that `parse_number` takes but those in the name of a type; `float` takes it too."""

_PLAIN = re.compile(NUMBER_PATTERN)
_WRAPPED = re.compile(r"(?:np\.|numpy\.|torch\.)?(?:float|int|uint|bfloat|tensor)\w*\((?P<inner>[^()]+)\)")


def parse_number(text: str) -> float | None:
    """Return the number in ``text``, or None when it is none. NaN and infinity come back as such.

    >>> parse_number("np.float64(21.47)"), parse_number("8.1e-06"), parse_number("nan"), parse_number("21.")
    (21.47, 8.1e-06, nan, 21.0)
    >>> parse_number("np.float64(21."), parse_number("1e-"), parse_number("72%")
    (None, None, None)
    """
    wrapped = _WRAPPED.fullmatch(text)
    inner = wrapped["inner"] if wrapped else text
    return float(inner) if _PLAIN.fullmatch(inner) else None


def bounded(value: float) -> float:
    """Return ``value``, or infinity where it is beyond `MAX_MAGNITUDE` and 0 where it is below its inverse.

    So no sum, product or quotient of readings overflows. NaN comes back as such.

    >>> bounded(21.47), bounded(-1e308), bounded(5e-324)
    (21.47, -inf, 0.0)
    """
    size = abs(value)
    if size > MAX_MAGNITUDE:
        return math.copysign(math.inf, value)
    return 0.0 if size < 1 / MAX_MAGNITUDE else value


def whole_count(value: float | None, *, tolerance: float = 0.0) -> int | None:
    """Return the count that ``value`` is within ``tolerance`` of, or None: not finite, below 1, or between two.

    >>> whole_count(8.0004, tolerance=1e-3), whole_count(8.4), whole_count(math.nan), whole_count(math.inf)
    (8, None, None, None)
    """
    if value is None or not 1 - tolerance <= value <= MAX_COUNT:
        return None
    count = round(value)
    return count if abs(value - count) <= tolerance else None
