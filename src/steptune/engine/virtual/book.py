"""Who did what when, on the virtual clock: per device, busy and waiting add up with idle to the time that passed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from steptune.core.phase import Role, SpanKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device in one role: ``Device(role=Role.ROLLOUT, index=3)`` prints as ``rollout 3``."""

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role} {self.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A stretch of virtual time of one device."""

    phase: str
    kind: SpanKind
    start_s: float
    end_s: float


@final
@dataclass(kw_only=True, slots=True)
class Book:
    """Every stretch of every device, in order; neighbours of the same phase are joined."""

    stretches: dict[Device, list[Stretch]] = field(default_factory=dict[Device, list[Stretch]])

    def add(self, device: Device, phase: str, kind: SpanKind, start_s: float, end_s: float) -> None:
        """Book a stretch; it may not begin before the device's last one ended."""
        own = self.stretches.setdefault(device, [])
        if end_s <= start_s:
            return
        assert not own or start_s >= own[-1].end_s - ROUNDING_S, f"{device} does two things at once"
        if own and own[-1].phase == phase and own[-1].kind is kind and start_s - own[-1].end_s <= ROUNDING_S:
            start_s = own.pop().start_s
        own.append(Stretch(phase=phase, kind=kind, start_s=start_s, end_s=end_s))

    def within(self, device: Device, start_s: float, end_s: float) -> dict[tuple[str, SpanKind], float]:
        """Return the device's seconds by phase and kind inside a window."""
        seconds: dict[tuple[str, SpanKind], float] = {}
        for s in self.stretches.get(device, []):
            inside_s = min(s.end_s, end_s) - max(s.start_s, start_s)
            if inside_s > 0:
                seconds[s.phase, s.kind] = seconds.get((s.phase, s.kind), 0.0) + inside_s
        return seconds


ROUNDING_S = 1e-9
"""Virtual seconds below which two times are the same: sums of floats."""


def total(seconds: Iterable[tuple[tuple[str, SpanKind], float]], kind: SpanKind) -> float:
    """Return the seconds of one kind."""
    return sum(s for (_, k), s in seconds if k is kind)
