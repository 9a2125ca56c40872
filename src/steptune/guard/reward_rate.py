"""Reward per device-hour: does a faster step that may learn less still learn more for the same device time?

The surprise: reward at equal *steps* cannot tell. A change that takes 0.8 of the time and learns as in 0.8 of the steps
passes any margin near the end of a run, where the curve is flat, and has gained nothing. So the candidate's end is held
against the baseline where the baseline has spent as much device time: at step ``N * ratio``. What the baseline gains
from there to its own end is what a speed-up of that size is worth; the verdict says how much of it was kept.
"""

import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.verdict import Verdict
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.stats.finite import finite_or_none
from steptune.stats.intervals import Interval, mean_interval
from steptune.stats.power import ONE_SIDED_CONFIDENCE, POWER, smallest_detectable_drop

NAME = "reward_rate"
"""Name in verdicts."""

LIMIT = "more reward than the baseline for the same device time: 95 % interval of the difference above 0"
"""What a verdict is held against."""

MIN_PAIRS = 3
"""Fewest paired seeds, as for the reward they come with."""

MIN_KEPT_FRAC = 0.5
"""Part of what the saved time is worth that must still be possible, or slower learning has cancelled the gain."""


def equal_time_step(num_steps: int, device_ratio: float) -> int:
    """Return the baseline's step after as much device time as ``num_steps`` of the candidate, 1 to ``num_steps``.

    ``device_ratio``: device-seconds per step, candidate / baseline.

    >>> equal_time_step(40, 0.8), equal_time_step(40, 0.001), equal_time_step(40, 1.3)
    (32, 1, 40)
    """
    return min(num_steps, max(1, round(num_steps * device_ratio)))


def unanswered(why: str) -> Verdict:
    """Return the verdict where equal device time was not measured: INCONCLUSIVE, never PASS."""
    return combined(NAME, [unknown(why)], limit=LIMIT)


def check_reward_rate(
    *, baseline_equal_S: Sequence[float | None], baseline_end_S: Sequence[float | None], candidate_S: Sequence[float]
) -> Verdict:
    """Judge held-out rewards of paired runs at equal device time (S = seed, same order in all lists).

    PASS needs the whole 95 % interval of candidate - baseline above 0. FAIL: the interval is not, and its upper end is
    below half of what the baseline gains in the device time that the candidate saves.

    Args:
        baseline_equal_S: the baseline where it has spent the device time of the candidate's whole run.
        baseline_end_S: the baseline after as many steps as the candidate.
        candidate_S: the candidate at its end.
    """
    num_pairs = len(candidate_S)
    if not len(baseline_equal_S) == len(baseline_end_S) == num_pairs or num_pairs < MIN_PAIRS:
        lengths = f"{len(baseline_equal_S)}, {len(baseline_end_S)} and {num_pairs}"
        return combined(NAME, [unknown(f"need {MIN_PAIRS} complete pairs, got lists of {lengths}")], limit=LIMIT)
    lists = [finite_or_none(rewards) for rewards in (baseline_equal_S, baseline_end_S, candidate_S)]
    if any(rewards is None for rewards in lists):
        return combined(NAME, [unknown("a reward is missing or not finite")], limit=LIMIT)
    equal_S, end_S, ours_S = (rewards or () for rewards in lists)
    diff_S = [ours - equal for ours, equal in zip(ours_S, equal_S, strict=True)]
    worth = statistics.fmean(end_S) - statistics.fmean(equal_S)
    interval = mean_interval(diff_S)
    measured = interval.estimate(unit="reward", source=Source.DERIVED, note="candidate - baseline, equal device time")
    verdict = combined(NAME, [_judge(interval, worth)], limit=LIMIT, measured=measured)
    return verdict.model_copy(update={"detectable": _detectable(diff_S)})


def _judge(interval: Interval, worth: float) -> Finding:
    text = f"candidate - baseline {interval.value:+.3g} ({interval.low:+.3g} to {interval.high:+.3g}, n={interval.n})"
    text += f" at equal device time; the time saved is worth {worth:+.3g} to the baseline"
    if interval.low > 0:
        return held(True, text)
    if interval.high < 0:
        return held(False, f"{text}: it learns less than the baseline does in that time")
    if worth <= 0:
        return unknown(f"{text}: a baseline that gains nothing more shows no difference")
    if interval.high < MIN_KEPT_FRAC * worth:
        return held(False, f"{text}: slower learning cancels the faster step")
    return unknown(f"{text}: too few pairs to tell")


def _detectable(diff_S: Sequence[float]) -> Estimate:
    drop = smallest_detectable_drop(num_pairs=len(diff_S), sd=statistics.stdev(diff_S))
    note = f"at {POWER:.0%} power, one-sided {ONE_SIDED_CONFIDENCE:.0%}"
    return Estimate(value=drop, unit="reward", source=Source.DERIVED, n=len(diff_S), note=note)
