"""Lines of fields between pipes: `Time: 5.13s | LR: 1.00e-06 | Peak Mem.: 5.1/23.7 GiB (21.4%)`.

A field is a name and the first number after it; what follows (unit, share, total) belongs to the framework.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.values import parse_number

_FIELD = re.compile(
    r"\s*(?P<name>[A-Za-z][\w.\- ]*?)(?::\s*|=\s*|\s+)(?P<number>[-+]?[\d.]+(?:[eE][-+]?\d+)?|[-+]?nan|[-+]?inf)"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)

_DURATION_STARTS = ("~", *"0123456789")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """Example: ``Field(name="Peak Mem.", value=5.1, text="5.1", rest="/23.7 GiB (21.4%)")``."""

    name: str
    value: float
    text: str
    rest: str
    """What follows the number: tells its unit."""


def read_fields(text: str) -> Iterator[Field]:
    """Yield the numeric fields of one line in order. A duration without a name is called ``Time``, in seconds."""
    for part in text.split("|"):
        seconds = parse_duration_s(part) if part.lstrip()[:1] in _DURATION_STARTS else None
        found = _FIELD.fullmatch(part)
        if seconds is not None:
            yield Field(name="Time", value=seconds, text=part.strip(), rest="")
        elif found is not None and (value := parse_number(found["number"])) is not None:
            yield Field(name=found["name"].strip(), value=value, text=found["number"], rest=found["rest"].strip())
