"""Are two printed numbers one value? Consoles print three digits, metrics files all of them.

Surprise: the digits stand in the text, not in the float: 0.30 tells two of them.
"""

import math
from decimal import Decimal, InvalidOperation

from steptune.readers.step import Reading

MIN_DIGITS = 2
"""Digits a value needs to tell anything: `0.0`, `1` and `0.5` are the same in many runs."""


def has_digits(reading: Reading) -> bool:
    """Whether the value has digits enough to be one run's alone."""
    return math.isfinite(reading.value) and len(_digits(reading).strip("0")) >= MIN_DIGITS


def agree(a: Reading, b: Reading) -> bool:
    """Whether two printed numbers are one value, rounded or cut to the digits of the coarser one."""
    return abs(a.value - b.value) <= 1.01 * max(_last_place(a), _last_place(b))


def _digits(reading: Reading) -> str:
    return "".join(map(str, _exact(reading).as_tuple().digits))


def _last_place(reading: Reading) -> float:
    exponent = _exact(reading).as_tuple().exponent
    return 10.0**exponent if isinstance(exponent, int) else 0.0


def _exact(reading: Reading) -> Decimal:
    """The number with the digits it was printed with; where the text is wrapped or scaled, those it has."""
    try:
        written = Decimal(reading.text.strip())
    except InvalidOperation:
        written = Decimal(repr(reading.value))
    is_same = written.is_finite() and math.isclose(float(written), reading.value, rel_tol=1e-9, abs_tol=1e-300)
    return written if is_same else Decimal(repr(reading.value))
