"""Whether several configurations have room in memory beside each other, before a launch and after one that failed.

The surprise: a candidate that runs out of memory may fit. Two arms were up, and their sum did not; so the candidate is
tried by itself before it is blamed, unless the others held next to nothing.
"""

from collections.abc import Sequence

from steptune.core.event import Profiled
from steptune.core.knob import Settings
from steptune.core.units import mib
from steptune.forecast.memory import memory_peak
from steptune.tune.context import Context

NEGLIGIBLE_FRAC = 0.05
"""Part of the machine's memory up to which what others hold is not the reason that a candidate does not fit: of all
candidates that need more than is left beside it, few would fit into these 5 % more. It saves a launch."""


def too_large_together(context: Context, arms: Sequence[Settings]) -> str:
    """Return why ``arms`` should not be up together, by their peaks; empty where they may, or nobody knows.

    Point values: where the sum is a little below the machine's memory the launch itself will tell.
    """
    peaks = _peaks(context, arms)
    total = context.framework.total_memory_bytes()
    if peaks is None:
        return ""
    needed, least = sum(peaks), _least_overflow(context)
    said = f"{len(arms)} arms need {mib(needed):.0f} MiB by measurement or forecast"
    if needed > total:
        return f"{said}, the machine has {mib(total):.0f}"
    if least is not None and needed >= least:
        return f"{said}, and {mib(least):.0f} were too many before"
    return ""


def may_be_crowded_out(context: Context, others: Sequence[Settings]) -> bool:
    """Return whether ``others`` hold, or may hold, enough to be the reason that one more did not fit."""
    peaks = _peaks(context, others)
    return peaks is None or sum(peaks) > NEGLIGIBLE_FRAC * context.framework.total_memory_bytes()


def _peaks(context: Context, arms: Sequence[Settings]) -> list[float] | None:
    """Return the peak of each arm in bytes, as a trial has measured it, else by forecast; None where one is unknown."""
    planned_baseline, peaks = context.planned(context.baseline_settings), list[float]()
    for settings in arms:
        peak = _measured(context, settings)
        if peak is None:
            forecast = memory_peak(context.baseline, planned_baseline, context.planned(settings))
            peak = forecast.value if forecast is not None else None
        if peak is None:
            return None
        peaks.append(peak)
    return peaks


def _measured(context: Context, settings: Settings) -> float | None:
    """Return the highest peak that trials have seen of this configuration; None where none says."""
    peaks = [
        step.memory_peak_bytes
        for event in context.state.ended
        if event.trial.change.applied_to(context.baseline_settings) == settings
        for arm in event.trial.arms
        if arm.signature == event.trial.change.signature
        for step in arm.observations
    ]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if known and len(known) == len(peaks) else None


def _least_overflow(context: Context) -> float | None:
    """Return the smallest forecast sum of two arms that this session has launched one at a time; None without any."""
    changes = {event.trial.change.signature: event.trial.change for event in context.state.ended}
    baseline = context.baseline_settings
    pairs: list[tuple[Settings, Settings]] = []
    for trial in (event.trial for event in context.state.ended if event.trial.alternate_because):
        incumbent = changes.get(trial.incumbent_signature)
        pairs.append((incumbent.applied_to(baseline) if incumbent else baseline, trial.change.applied_to(baseline)))
    if any(isinstance(event, Profiled) and event.alternate_because for event in context.journal.events):
        pairs.append((baseline, baseline))
    sums = [sum(peaks) for pair in pairs if (peaks := _peaks(context, pair)) is not None]
    return min(sums, default=None)
