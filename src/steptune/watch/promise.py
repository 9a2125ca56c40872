"""What a decision promised beyond its trip-wires, as wires: the range it was tested at and the step time it sold.

Surprise: the trip-wire on the step time is the baseline's, where the whole gain is gone. What was promised is the
slow end of the confirmed interval, so a job between the two is told that it got less than it was sold.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from steptune.core.decision import Decision, Range, Tripwire

TUNE_LENGTHS = (
    "profile and tune again at these lengths: micro-batches, cache, concurrency and the split were chosen for shorter "
    "answers"
)
"""What to do when answers have outgrown what was tested."""

TUNE_SHORTER = (
    "profile and tune again at these lengths: the rollout's share has shrunk, and what was chosen for it may now cost "
    "more than it saves"
)
"""What to do when answers have become shorter than where the gain is forecast to last."""

LESS_THAN_PROMISED = "profile again: `steptune diagnose` on this log says which phase grew; tune that side again"
"""What to do when the step is slower than the confirmed interval, but not yet as slow as the baseline's."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Rise:
    """How far a metric may rise above what the decision was made at: `Rise(factor=1.5, action="...")`."""

    factor: float
    action: str

    def wire(self, metric: str, tested: float) -> Tripwire:
        """Return the wire above ``tested``."""
        return Tripwire(metric=metric, bound=tested * self.factor, above=True, action=self.action)


RISES: Mapping[str, Rise] = {
    "gen_batches": Rise(
        factor=4 / 3,
        action="fewer groups are accepted, so every step generates more: profile and tune again, the rollout's share "
        "has grown; or give it prompts nearer to its ability",
    ),
    "tool_time_s": Rise(
        factor=1.5,
        action="look at the tools first; if they stay slow, profile and tune again: concurrency and schedule were "
        "chosen for shorter waits",
    ),
}
"""Wire metric -> its rise. A third more batches is one of four groups no longer accepted, and a rollout that takes a
third longer; tools wait beside others, so it takes more of them. Both are judgement, not measurement."""


def wires_of(decision: Decision) -> tuple[Tripwire, ...]:
    """Return the wires that follow from the range and the promise of ``decision``, its own trip-wires first."""
    own = decision.tripwires
    holds = decision.holds_for
    return (*own, *_range(holds), *_shorter(holds), *_rises(holds), *_promise(decision, own)) if own else ()


def _range(holds: Range | None) -> tuple[Tripwire, ...]:
    if holds is None:
        return ()
    mean, longest = holds.completion_len_mean * gain_lasts_to(holds), float(holds.completion_len_max)
    return tuple(
        Tripwire(metric=metric, bound=bound, above=True, action=TUNE_LENGTHS)
        for metric, bound in (("completion_len_mean", mean), ("completion_len_max", longest))
        if bound > 0
    )


def gain_lasts_to(holds: Range) -> float:
    """Return how many times the tested mean length the gain is forecast to last: 2 where it does at ``2x``.

    Between the forecast ratios at 1x and 2x a straight line is drawn; where it meets 1 the gain is gone. Without both
    nothing is forecast, and only the tested length is safe.

    >>> gain_lasts_to(Range(completion_len_mean=80, completion_len_max=300, forecast_ratio_at={"1x": 0.5, "2x": 1.5}))
    1.5
    """
    once, twice = holds.forecast_ratio_at.get("1x"), holds.forecast_ratio_at.get("2x")
    if once is None or twice is None or not once < 1:
        return 1.0
    if not twice >= 1:
        return 2.0 if twice < 1 else 1.0
    return 1.0 + (1.0 - once) / (twice - once)


def _shorter(holds: Range | None) -> tuple[Tripwire, ...]:
    part = None if holds is None else gain_lasts_down_to(holds)
    if holds is None or part is None:
        return ()
    bound = holds.completion_len_mean * part
    return (Tripwire(metric="completion_len_mean", bound=bound, above=False, action=TUNE_SHORTER),)


def gain_lasts_down_to(holds: Range) -> float | None:
    """Return the part of the tested mean length down to which the gain is forecast to last: 0.5 if it is at ``0.5x``.

    As `gain_lasts_to`, on the other side. None where the decision has no forecast there, as older ones.

    >>> at = {"0.5x": 1.5, "1x": 0.5}
    >>> gain_lasts_down_to(Range(completion_len_mean=80, completion_len_max=300, forecast_ratio_at=at))
    0.75
    """
    once, half = holds.forecast_ratio_at.get("1x"), holds.forecast_ratio_at.get("0.5x")
    if once is None or half is None or not once < 1 or math.isnan(half):
        return None
    return 0.5 if half < 1 else 1.0 - 0.5 * (1.0 - once) / (half - once)


def _rises(holds: Range | None) -> tuple[Tripwire, ...]:
    stated = {} if holds is None else {"gen_batches": holds.gen_batches, "tool_time_s": holds.tool_time_s}
    return tuple(RISES[metric].wire(metric, tested) for metric, tested in stated.items() if tested is not None)


def _promise(decision: Decision, own: tuple[Tripwire, ...]) -> tuple[Tripwire, ...]:
    """The slow end of the promised step: the baseline's step over the low end of the confirmed speed-up."""
    baseline_s = next((wire.bound for wire in own if wire.metric == "step_time_s"), None)
    low = decision.speedup.low if decision.speedup is not None else None
    if baseline_s is None or low is None or not low > 1:
        return ()
    return (Tripwire(metric="step_time_s", bound=baseline_s / low, above=True, action=LESS_THAN_PROMISED),)
