"""Growth of the same-weights gap over the training runs of the reward test: the long look that a trial cannot take.

A gap that grows 45 % in 8 steps is far inside every limit while a trial lasts: in 12 steps it is 1.7 times its start,
and one step's k3 of the example job spreads by 40 %. The reward test trains several runs of dozens of steps anyway, so
their growth is read there, one value a run.
"""

import math
import statistics
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS
from steptune.guard.judge import combined, held, unknown
from steptune.guard.mismatch import GROWTH_STEPS, MAX_CHANCE, MAX_GROWTH_FRAC, MIN_GROWTH_LEVEL_FRAC, log_growth
from steptune.stats.finite import finite_or_none
from steptune.stats.intervals import mean_interval
from steptune.stats.trend import chance_of_rise, thinned

NAME = "mismatch_growth"
"""Name in verdicts."""

MIN_RUNS = 3
"""Fewest runs, as for the reward they come with."""


def check_gap_growth(
    *,
    candidate_k3_SK: Sequence[Sequence[float]],
    baseline_k3_SK: Sequence[Sequence[float]],
    max_mismatch_k3: float,
) -> Verdict:
    """Judge k3 (nats) over the steps of training runs; S = seed, K = step that has a gap.

    FAIL needs a mean growth above `MAX_GROWTH_FRAC` in 8 steps, beyond the baseline's own, that is no chance either
    (one-sided `MAX_CHANCE` over all runs). Log slopes, so that growth is the same early and late.
    """
    limit = f"growth of k3 at most {MAX_GROWTH_FRAC:.0%} in {GROWTH_STEPS} steps beyond the baseline's"
    runs, floor = ([thinned(run) for run in runs if run] for runs in (candidate_k3_SK, baseline_k3_SK))
    values = [k3 for run in (*runs, *floor) for k3 in run]
    if finite_or_none(values) is None:
        return combined(NAME, [unknown("k3 of a step is not a number")], limit=limit)
    if min(len(runs), len(floor)) < MIN_RUNS or min(len(run) for run in (*runs, *floor)) < MIN_STEPS:
        return combined(
            NAME, [unknown(f"need {MIN_RUNS} runs of {MIN_STEPS} steps with a gap on each side")], limit=limit
        )
    level = statistics.median(k3 for run in runs for k3 in run)
    if level < MIN_GROWTH_LEVEL_FRAC * max_mismatch_k3:
        because = f"k3 below {MIN_GROWTH_LEVEL_FRAC:.0%} of the limit, growth not judged"
        return combined(NAME, [held(True, because)], limit=limit)
    grown = mean_interval([log_growth(run) for run in runs])
    own, chance = max(0.0, statistics.fmean(log_growth(run) for run in floor)), chance_of_rise(runs)
    low, value, high = (math.expm1(part) for part in (grown.low, grown.value, grown.high))
    grows = chance <= MAX_CHANCE and grown.value > math.log1p(MAX_GROWTH_FRAC) + own
    because = f"k3 grows {value:+.0%} ({low:+.0%} to {high:+.0%}, p={chance:.2g}) in {GROWTH_STEPS} steps, "
    because += f"the baseline's {math.expm1(own):+.0%}"
    measured = Estimate(value=value, low=low, high=high, unit="fraction", source=Source.DERIVED, n=grown.n)
    return combined(NAME, [held(not grows, because)], limit=limit, measured=measured)
