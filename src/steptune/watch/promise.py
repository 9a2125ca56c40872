"""What a decision promised beyond its trip-wires, as wires: the range it was tested at and the step time it sold.

Surprise: the trip-wire on the step time is the baseline's, where the whole gain is gone. What was promised is the
slow end of the confirmed interval, so a job between the two is told that it got less than it was sold.
"""

from steptune.core.decision import Decision, Range, Tripwire

TUNE_LENGTHS = (
    "profile and tune again at these lengths: micro-batches, cache, concurrency and the split were chosen for shorter "
    "answers"
)
"""What to do when answers have outgrown what was tested."""

LESS_THAN_PROMISED = "profile again: `steptune diagnose` on this log says which phase grew; tune that side again"
"""What to do when the step is slower than the confirmed interval, but not yet as slow as the baseline's."""


def wires_of(decision: Decision) -> tuple[Tripwire, ...]:
    """Return the wires that follow from the range and the promise of ``decision``, its own trip-wires first."""
    own = decision.tripwires
    return (*own, *_range(decision.holds_for), *_promise(decision, own)) if own else ()


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


def _promise(decision: Decision, own: tuple[Tripwire, ...]) -> tuple[Tripwire, ...]:
    """The slow end of the promised step: the baseline's step over the low end of the confirmed speed-up."""
    baseline_s = next((wire.bound for wire in own if wire.metric == "step_time_s"), None)
    low = decision.speedup.low if decision.speedup is not None else None
    if baseline_s is None or low is None or not low > 1:
        return ()
    return (Tripwire(metric="step_time_s", bound=baseline_s / low, above=True, action=LESS_THAN_PROMISED),)
