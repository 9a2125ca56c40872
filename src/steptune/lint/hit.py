"""What a check found: which values, and the words its message may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from steptune.core.finding import Evidence


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One place where a rule fires: the lines it rests on and extra words for its message."""

    evidence: tuple[Evidence, ...]
    words: Mapping[str, str] = field(default_factory=dict[str, str])


def plain(value: float) -> str:
    """Return a number as messages show it, without the tail of floats; whole numbers of any size stay exact."""
    return str(value) if isinstance(value, int) else f"{value:g}"
