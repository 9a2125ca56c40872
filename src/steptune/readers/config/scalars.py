"""Scalars as configuration files spell them.

The surprise: `1e-6` is a number here, though plain YAML 1.1 reads it as text; every framework converts it.
"""

import re

from steptune.core.knob import KnobValue

_INT = re.compile(r"[-+]?(?:0|[1-9](?:_?\d){0,17})")
_FLOAT = re.compile(r"[-+]?(?:\d(?:_?\d)*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_BOOLS = {"true": True, "false": False}
_YAML_BOOLS = {"yes": True, "no": False, "on": True, "off": False}
_NULLS = frozenset({"", "null", "none", "~"})


def parse_scalar(text: str) -> KnobValue:
    """Return the value of unquoted ``text``: bool, int, finite float, None or the text itself.

    >>> parse_scalar("True"), parse_scalar("1e-6"), parse_scalar("null"), parse_scalar("1_000"), parse_scalar("nan")
    (True, 1e-06, None, 1000, 'nan')
    """
    bare = text.strip()
    lowered = bare.lower()
    if lowered in _BOOLS:
        return _BOOLS[lowered]
    if lowered in _NULLS:
        return None
    if _INT.fullmatch(bare):
        return int(bare)
    if _FLOAT.fullmatch(bare) and (value := float(bare)) - value == 0:  # infinity minus itself is NaN
        return value
    return bare


def parse_yaml_scalar(text: str) -> KnobValue:
    """Return the value of a plain YAML scalar, where `yes`, `no`, `on` and `off` are booleans too."""
    lowered = text.strip().lower()
    return _YAML_BOOLS[lowered] if lowered in _YAML_BOOLS else parse_scalar(text)


def unquote(text: str) -> tuple[str, bool]:
    """Return ``text`` without one pair of surrounding quotes, and whether there was one."""
    bare = text.strip()
    if len(bare) >= 2 and bare[0] == bare[-1] and bare[0] in "'\"":
        return bare[1:-1], True
    return bare, False


def parse_quoted_or_bare(text: str) -> KnobValue:
    """Return text for a quoted value and the parsed scalar otherwise."""
    inner, is_quoted = unquote(text)
    return inner if is_quoted else parse_scalar(inner)
