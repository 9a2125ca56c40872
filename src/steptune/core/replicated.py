"""A replication: what a pack says of baseline and winner, and what the same two do on another machine."""

from steptune.core.estimate import Estimate
from steptune.core.event import Machine
from steptune.core.knob import KnobValue
from steptune.core.records import Record


class Side(Record):
    """One machine's result: ``Side(machine=..., baseline_step=..., winner_step=..., speedup=2.2 (2.0 to 2.4))``."""

    machine: Machine
    baseline_step: Estimate
    """Seconds per step."""
    winner_step: Estimate
    speedup: Estimate
    """Baseline / winner in the job's objective, over fresh launches."""


class Replicated(Record):
    """Both sides and what may be said of them together."""

    name: str
    """Run folder that was packed."""
    winner: dict[str, KnobValue]
    there: Side
    here: Side
    is_same_code: bool
    """Whether the steptune here is, to the byte, the one that made the pack's session."""
    verdict: str
    """One sentence."""
