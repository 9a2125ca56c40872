"""The table of contents: every framework whose logs can be read, one line each.

A row is the `ROW` of a module; it is imported when a log needs it.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from steptune.readers.reading import FrameworkReader

FRAMEWORKS = {
    "verl": "steptune.readers.verl.row",
    "nemo_rl": "steptune.readers.nemo_rl.row",
    "trl": "steptune.readers.trl.row",
    "prime_rl": "steptune.readers.prime_rl.row",
    "slime": "steptune.readers.slime.row",
    "skyrl": "steptune.readers.skyrl.row",
    "openrlhf": "steptune.readers.openrlhf.row",
    "areal": "steptune.readers.areal.row",
    "torchforge": "steptune.readers.torchforge.row",
}
"""Module of each row, by the name that `Profile.framework` carries; earlier rows win a tie of the detection."""


@cache
def framework(name: str) -> FrameworkReader:
    """Return the row called ``name``, a key of `FRAMEWORKS`."""
    row = import_module(FRAMEWORKS[name]).ROW
    assert isinstance(row, FrameworkReader), f"{FRAMEWORKS[name]}.ROW must be a FrameworkReader"
    assert row.name == name, f"row {row.name} is listed as {name}"
    return row


def every_framework() -> Iterator[FrameworkReader]:
    """Yield all rows in the order of the table."""
    return (framework(name) for name in FRAMEWORKS)
