"""A change: which knobs move, from what to what, and why."""

import hashlib
import json

from steptune.core.estimate import Estimate
from steptune.core.knob import Effect, KnobValue, Restart, Settings
from steptune.core.records import Record


class Move(Record):
    """One knob moved: ``Move(knob="layout", old="padded", new="packed")``."""

    knob: str
    old: KnobValue
    new: KnobValue

    def __str__(self) -> str:
        return f"{self.knob}: {self.old} -> {self.new}"


class Change(Record):
    """A set of moves away from the baseline that keeps the work and the limits.

    Example: ``Change(moves=(Move(knob="layout", old="padded", new="packed"),), effect=Effect.NONE,
    restart=Restart.HOT, why=("padding_waste",))``.
    """

    moves: tuple[Move, ...]
    """Knobs that differ from the baseline, in name order."""
    effect: Effect
    """Heaviest effect class of its moves."""
    restart: Restart
    """Costliest restart class of its moves."""
    why: tuple[str, ...] = ()
    """Names of the bottlenecks it answers."""

    @property
    def signature(self) -> str:
        """Identity by content: the same moves are never tried twice unknowingly."""
        moved = {move.knob: move.new for move in self.moves}
        return hashlib.sha256(json.dumps(moved, sort_keys=True).encode()).hexdigest()[:10]

    def applied_to(self, baseline: Settings) -> dict[str, KnobValue]:
        """Return the full configuration that the change makes of ``baseline``."""
        return {**baseline, **{move.knob: move.new for move in self.moves}}

    def __str__(self) -> str:
        return ", ".join(str(move) for move in self.moves) or "no change"


class LimitPrice(Record):
    """What one owner's limit costs in speed; printed, never acted on.

    Example: ``LimitPrice(limit="max_staleness", now="0", relaxed="1", forecast_gain=Estimate(1.6 x))``.
    """

    limit: str
    """Name of the limit."""
    now: str
    """The owner's value."""
    relaxed: str
    """The value that would open the best blocked change."""
    gain: Estimate
    """Forecast speed ratio of the best blocked change over the best allowed one."""
