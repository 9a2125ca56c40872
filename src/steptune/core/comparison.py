"""A comparison of two jobs' logs: is this speed-up real?"""

from enum import StrEnum

from steptune.core.estimate import Estimate
from steptune.core.finding import Finding
from steptune.core.paste import SettingValue
from steptune.core.records import Record


class SpeedVerdict(StrEnum):
    """What may be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_PROOF = "no proof"


class WorkDifference(Record):
    """One part of the work that differs: ``WorkDifference(what="group size", a=5.0, b=4.0, declared=True)``."""

    what: str
    a: float | None
    b: float | None
    unit: str = ""
    is_declared: bool
    """Declared work (batch, group, limits, updates) was asked for; realised work (tokens, lengths) came out."""


class SettingDifference(Record):
    """One setting that differs. ``a`` or ``b`` None with `a_is_default` true means the framework's default."""

    key: str
    a: SettingValue = None
    b: SettingValue = None
    a_is_default: bool = False
    b_is_default: bool = False
    touches: str
    """``algorithm``, ``precision``, ``staleness``, ``none`` or ``unknown``: what it may change besides speed."""


class PhaseChange(Record):
    """One phase of both, per 1,000 tokens where tokens are known."""

    phase: str
    a_s: float
    """Seconds per step."""
    b_s: float
    a_s_per_1k: float | None = None
    b_s_per_1k: float | None = None
    ratio: Estimate | None = None
    """a / b of the standardised time: above 1 means B is faster."""


class Comparison(Record):
    """The answer of `compare`."""

    verdict: SpeedVerdict
    reason: str
    """One sentence."""
    raw_step_ratio: Estimate | None = None
    """Step time a / b as logged; not a speed-up where the work differs."""
    throughput_ratio: Estimate | None = None
    """Tokens per device-second b / a: the speed-up at the same work."""
    work: tuple[WorkDifference, ...] = ()
    settings: tuple[SettingDifference, ...] = ()
    versions: tuple[str, str] = ("unknown", "unknown")
    phases: tuple[PhaseChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    settle: tuple[str, ...] = ()
    """What would settle an open question."""
