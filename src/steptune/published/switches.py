"""Which flag or line makes a framework print what a diagnosis needs."""

from functools import cache

from steptune.core.records import Record
from steptune.published.table import read_rows


class Switch(Record):
    """One thing to switch on: ``Switch(framework="slime", line="--use-tensorboard", ...)``."""

    framework: str
    line: str
    """As the user writes it, or the file to look for."""
    where: str
    """``override``, ``flag``, ``yaml``, ``python`` or ``file``."""
    prints: str
    """What it makes visible."""
    source: str


def switches(framework: str) -> tuple[Switch, ...]:
    """Return the switches of ``framework``, the most telling first; none for an unknown one."""
    return tuple(switch for switch in _all() if switch.framework == framework)


@cache
def _all() -> tuple[Switch, ...]:
    return tuple(Switch.model_validate(row) for row in read_rows("switches.csv"))
