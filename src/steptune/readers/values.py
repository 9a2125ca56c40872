"""Numbers as logs print them."""

import re

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_PLAIN = re.compile(rf"{_NUMBER}|[-+]?(?:nan|inf)", re.IGNORECASE)
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
