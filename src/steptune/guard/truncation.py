"""Truncation: do more answers hit the length limit than under the baseline?

The reward can hide it: a run with an effective sample size of 0.989 truncated 98 % of its answers [K01]. Pairs
are seeds of the reward test (arms with forced lengths truncate equally by construction and show nothing).
The interval of the paired difference carries the seeds' own spread.
"""

from collections.abc import Sequence

from steptune.core.estimate import Source
from steptune.core.gates import MAX_TRUNCATION_RISE
from steptune.core.verdict import Verdict
from steptune.guard.judge import combined, held, unknown
from steptune.stats.finite import finite_or_none
from steptune.stats.intervals import paired_interval

NAME = "truncation"
"""Name in verdicts."""

MIN_PAIRS = 3
"""Fewest pairs, as for the reward they come with."""


def check_truncation(
    *, baseline_truncated_S: Sequence[float | None], candidate_truncated_S: Sequence[float | None]
) -> Verdict:
    """Judge the truncated fractions (0..1) of paired runs; S = seed, same order in both lists.

    PASS needs the whole 95 % interval of the rise at or below 0.05, FAIL needs it above.
    """
    limit = f"truncated fraction rises by at most {MAX_TRUNCATION_RISE}"
    num_pairs = len(baseline_truncated_S)
    if len(candidate_truncated_S) != num_pairs or num_pairs < MIN_PAIRS:
        got = f"{num_pairs} and {len(candidate_truncated_S)}"
        return combined(NAME, [unknown(f"need {MIN_PAIRS} complete pairs, got lists of {got}")], limit=limit)
    baseline, candidate = finite_or_none(baseline_truncated_S), finite_or_none(candidate_truncated_S)
    if baseline is None or candidate is None or min(*baseline, *candidate) < 0 or max(*baseline, *candidate) > 1:
        return combined(NAME, [unknown("a truncated fraction is missing or outside 0..1")], limit=limit)
    rise = paired_interval(candidate, baseline)
    text = f"truncated fraction changes by {rise.value:+.3g} ({rise.low:+.3g} to {rise.high:+.3g}, n={rise.n})"
    if rise.low <= MAX_TRUNCATION_RISE < rise.high:
        finding = unknown(f"{text}: too few pairs to exclude a rise of {MAX_TRUNCATION_RISE}")
    else:
        finding = held(rise.high <= MAX_TRUNCATION_RISE, text)
    return combined(NAME, [finding], limit=limit, measured=rise.estimate(unit="frac", source=Source.DERIVED))
