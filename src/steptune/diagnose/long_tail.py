"""A few long completions keep the whole batch waiting.

Two costs, by what the engine does with finished rows. If they stay in the decode batch, every position after
a row's end is computed for nothing. If they leave, the last iterations still run almost empty::

    rows   ################            # real token
           ######..........            . finished, still decoded (rows stay) or gone (rows leave)
           ####............
           ###.............
                  ^p90    ^max         the tail: iterations after nine rows in ten have ended
"""

import math

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile, SampledLengths, SummaryLengths
from steptune.core.work import PlannedWork
from steptune.diagnose.facts import cost_s, found

MIN_STRETCH = 2.0
"""Longest / mean completion from which a summary of lengths (no samples) counts as a tail. Prior."""

MAX_CLIPPED_FRAC = 0.1
"""Clipped completions above which the length limit, not a tail, ends the batch: then p90 is the maximum."""

LEVERS = ("compact_finished", "rollout_concurrency", "schedule")
"""Knobs that stop a tail from costing."""


def long_tail(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find decode time spent on rows that have ended, or on the few that have not."""
    rows_stay = profile.settings.get("compact_finished") is False
    lengths = profile.lengths
    if isinstance(lengths, SampledLengths):
        frac, evidence = _from_samples(lengths, rows_stay=rows_stay)
    else:
        frac, evidence = _from_summary(lengths)
    return found(
        BottleneckKind.LONG_TAIL,
        profile,
        threshold,
        cost_s=frac * cost_s(profile, Phase.ROLLOUT),
        evidence=evidence,
        levers=LEVERS,
    )


def _from_samples(lengths: SampledLengths, *, rows_stay: bool) -> tuple[float, str]:
    size = lengths.rollouts_per_step
    steps = [sorted(lengths.completion[i : i + size]) for i in range(0, len(lengths.completion), size)]
    longest = sum(step[-1] for step in steps)
    if not longest:
        return 0.0, ""
    if rows_stay:
        dead_frac = 1 - sum(sum(step) for step in steps) / sum(len(step) * step[-1] for step in steps)
        return (
            dead_frac,
            f"finished rows stay in the batch: {dead_frac:.0%} of decoded positions come after a row's end",
        )
    tail_frac = 1 - sum(step[math.ceil(0.9 * len(step)) - 1] for step in steps) / longest
    return tail_frac, f"{tail_frac:.0%} of decode iterations run after nine rows in ten have ended"


def _from_summary(lengths: SummaryLengths) -> tuple[float, str]:
    mean, longest, clipped = lengths.completion_mean, lengths.completion_max, lengths.clipped_frac
    if mean is None or longest is None or not longest >= MIN_STRETCH * mean > 0:
        return 0.0, ""
    if clipped is not None and not clipped <= MAX_CLIPPED_FRAC:
        return 0.0, ""
    frac = 1 - mean / longest
    return (
        frac,
        f"the longest completion has {longest:.0f} tokens, the mean {mean:.0f}: slots stand up to {frac:.0%} unused",
    )
