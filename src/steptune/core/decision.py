"""A decision: what leaves the tool, and on what grounds."""

from enum import StrEnum

from steptune.core.change import Change
from steptune.core.estimate import Estimate
from steptune.core.knob import KnobValue
from steptune.core.records import Record
from steptune.core.verdict import Verdict


class Outcome(StrEnum):
    """What happens to a candidate."""

    ADOPT = "ADOPT"
    """Faster beyond the noise, every guard its effect class owes passed."""
    PROVISIONAL = "PROVISIONAL"
    """As ADOPT, but a test (reward, length, growth of the gap) was under-powered: use its trip-wires."""
    REJECT = "REJECT"
    """Slower, no gain, or a guard failed."""
    EXTEND = "EXTEND"
    """Not decidable with the data so far; more of it could decide."""
    NO_CHANGE = "NO_CHANGE"
    """The baseline is handed back."""


class Tripwire(Record):
    """A condition under which the decision no longer holds.

    Example: ``Tripwire(metric="mismatch_k3", bound=1e-3, above=True, action="return to the baseline")``.
    """

    metric: str
    bound: float
    above: bool
    """Whether exceeding (True) or falling below (False) the bound trips it."""
    action: str


class Range(Record):
    """Where the decision was tested and what is forecast beyond."""

    completion_len_mean: float
    completion_len_max: int
    forecast_ratio_at: dict[str, float]
    """Forecast ratio to the baseline at ``0.5x``, ``1x``, ``2x`` and ``longest`` completion length."""
    gen_batches: float | None = None
    """Batches generated for one that is trained, where dynamic sampling throws groups away; else None."""
    tool_time_s: float | None = None
    """Mean seconds of tool calls in an episode; None where none were timed."""


class Decision(Record):
    """The end of a session.

    Example: ADOPT packing, compaction and one-step-off: 2.9x (2.7 to 3.1) per step, confirmed on 24 unseen steps.
    """

    outcome: Outcome
    change: Change
    settings: dict[str, KnobValue]
    """The whole configuration handed back."""
    speedup: Estimate | None
    """Baseline / tuned step time from the confirmation run; None for NO_CHANGE."""
    speedup_over_best_practice: Estimate | None = None
    verdicts: tuple[Verdict, ...] = ()
    reasons: tuple[str, ...]
    tripwires: tuple[Tripwire, ...] = ()
    holds_for: Range | None = None
    cost_wall_s: float
    """Of the whole session until here, not of its stages alone."""
    cost_device_s: float
    break_even_step: int | None
    """Step of the tuned job at which tuning has paid for itself in wall time; None if it never does."""
