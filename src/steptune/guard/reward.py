"""Reward: paired training runs of baseline and candidate, judged on the same held-out problems.

Two traps are closed. Runs in which nothing was learnt agree perfectly and prove nothing, so the baseline
itself must gain twice the margin. And a PASS is only as good as its power, so the verdict carries the
smallest drop it could have seen.
"""

import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.judge import combined, unknown
from steptune.stats.finite import finite_or_none
from steptune.stats.intervals import Interval, mean_interval
from steptune.stats.power import ONE_SIDED_CONFIDENCE, POWER, smallest_detectable_drop

NAME = "reward"
"""Name in verdicts."""

MIN_PAIRS = 3
"""Fewest paired seeds: with two, the interval is 12.7 standard errors either way and can decide nothing."""

MIN_GAIN_MARGINS = 2.0
"""Gain of the baseline itself, in margins, below which the runs are no evidence: they did not learn."""


def check_reward(
    *, start_S: Sequence[float], baseline_S: Sequence[float], candidate_S: Sequence[float], margin: float
) -> Verdict:
    """Judge the final held-out reward (S = seed, same order in all three lists).

    PASS needs the whole 95 % interval of candidate - baseline above ``-margin`` and the power to see a fall of
    ``margin``: noisy pairs that agree by luck let twice the margin through in 0.2 % of sessions, not in 0.1.
    FAIL needs the interval below; anything else, NaN, too few pairs and a baseline that learns nothing included, is
    INCONCLUSIVE.

    Args:
        start_S: reward of each seed before its runs.
        baseline_S: reward after the baseline's run.
        candidate_S: reward after the candidate's run.
        margin: the owner's largest acceptable fall, in reward units.
    """
    limit = f"95 % interval of candidate - baseline above -{margin:g}"
    num_pairs = len(baseline_S)
    if not len(start_S) == len(candidate_S) == num_pairs or num_pairs < MIN_PAIRS:
        lengths = f"{len(start_S)}, {num_pairs} and {len(candidate_S)}"
        return combined(NAME, [unknown(f"need {MIN_PAIRS} complete pairs, got lists of {lengths}")], limit=limit)
    if finite_or_none((*start_S, *baseline_S, *candidate_S)) is None:
        return combined(NAME, [unknown("a reward is missing or not finite")], limit=limit)
    diff_S = [c - b for b, c in zip(baseline_S, candidate_S, strict=True)]
    interval = mean_interval(diff_S)
    gain = statistics.fmean(b - s for s, b in zip(start_S, baseline_S, strict=True))
    detectable = _detectable(diff_S)
    judgement, because = _judge(interval, gain, margin, detectable.value)
    return Verdict(
        guard=NAME,
        judgement=judgement,
        measured=interval.estimate(unit="reward", source=Source.DERIVED, note="candidate - baseline, paired seeds"),
        limit=limit,
        because=because,
        detectable=detectable,
    )


def _judge(interval: Interval, gain: float, margin: float, detectable: float) -> tuple[Judgement, str]:
    text = f"candidate - baseline {interval.value:+.3g} ({interval.low:+.3g} to {interval.high:+.3g}, n={interval.n})"
    if interval.high < -margin:
        return Judgement.FAIL, text
    if gain < MIN_GAIN_MARGINS * margin:
        because = f"the baseline gains {gain:+.3g}, less than {MIN_GAIN_MARGINS:g} margins: "
        return Judgement.INCONCLUSIVE, because + "two runs that learn nothing are not evidence"
    if interval.low > -margin and detectable > margin:
        return Judgement.INCONCLUSIVE, f"{text}, but a fall of {detectable:.3g} is the smallest these pairs could see"
    if interval.low > -margin:
        return Judgement.PASS, f"{text}; the baseline gains {gain:+.3g}"
    return Judgement.INCONCLUSIVE, f"{text} reaches below -{margin:g}"


def _detectable(diff_S: Sequence[float]) -> Estimate:
    drop = smallest_detectable_drop(num_pairs=len(diff_S), sd=statistics.stdev(diff_S))
    note = f"at {POWER:.0%} power, one-sided {ONE_SIDED_CONFIDENCE:.0%}"
    return Estimate(value=drop, unit="reward", source=Source.DERIVED, n=len(diff_S), note=note)
