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
