"""One training step as a log tells it, before any meaning is given to its keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from steptune.readers.values import bounded


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One number: ``Reading(key="timing_s/gen", value=74.02, text="74.020", line=1)``."""

    key: str
    value: float
    """As printed; may be NaN. What no quantity can be is infinite or 0, see `bounded`."""
    text: str
    """The digits, which tell how far it was rounded."""
    line: int

    def __post_init__(self) -> None:
        if (value := bounded(self.value)) is not self.value:
            object.__setattr__(self, "value", value)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """A value that is there but cannot be believed."""

    key: str
    text: str
    line: int
    why: str


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StepRecord:
    """All readings of one step.

    Example: step 2 of a verl log with 39 readings, one of them ``timing_s/step`` = 96.551.
    """

    number: int | None
    """As the log counts; None when it does not say."""
    path: str
    readings: Mapping[str, Reading]
    dropped: tuple[Dropped, ...] = ()
    is_cut: bool = False
    """Whether the input ended inside the step, so that what is absent may only be missing."""

    def value(self, key: str) -> float | None:
        """Return the number under ``key``; None when absent or dropped."""
        reading = self.readings.get(key)
        return None if reading is None else reading.value

    def has_broken(self, key: str) -> bool:
        """Whether ``key`` is there but was dropped."""
        return any(drop.key == key for drop in self.dropped)


@final
@dataclass(kw_only=True, slots=True)
class StepBuilder:
    """Collects readings until the step is whole."""

    path: str
    number: int | None = None
    readings: dict[str, Reading] = field(default_factory=dict[str, Reading])
    dropped: list[Dropped] = field(default_factory=list[Dropped])

    def holds(self, key: str) -> bool:
        """Whether ``key`` was already seen in this step."""
        return key in self.readings or (bool(self.dropped) and any(drop.key == key for drop in self.dropped))

    def is_empty(self) -> bool:
        """Whether nothing was seen yet."""
        return not self.readings and not self.dropped

    def build(self, *, is_cut: bool = False) -> StepRecord:
        """Return what was collected."""
        return StepRecord(
            number=self.number,
            path=self.path,
            readings=self.readings,
            dropped=tuple(self.dropped),
            is_cut=is_cut,
        )
