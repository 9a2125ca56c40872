"""The noise that every engine's errors stand on: the incumbent against itself, and how well one trial knows its ratio.

An error below it is luck. Surprise: a repeat compares two launches, a trial's own spread does not: of two launches that
differ, the spread over blocks sees nothing.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median, stdev

from prospective.backend import PairTimes
from prospective.campaign_journal import Body, SameDone, TrialDone
from prospective.job import Engine, Job
from steptune.core.records import Record
from steptune.score.quantiles import as_frac, equal_weight_quantile
from steptune.stats.ratio import block_means, paired_ratios

LEVELS = (0.5, 0.9)
"""Quantiles of the repeats' errors that are told."""


class Floor(Record):
    """One engine: ``Floor(engine="trl", num_repeats=7, median_frac=0.034, p90_frac=0.069, trial_log_se=0.019)``."""

    engine: Engine
    num_repeats: int
    median_frac: float | None
    p90_frac: float | None
    trial_log_se: float | None
    """Median over trials of the standard error of the log ratio, from its pairs of blocks; None without two pairs."""


def floors(events: Sequence[Body], jobs: Sequence[Job]) -> tuple[Floor, ...]:
    """Return every engine that has a repeat or a trial."""
    engine_of: Mapping[str, Engine] = {job.name: job.engine for job in jobs}
    found: list[Floor] = []
    for engine in sorted(set(engine_of.values())):
        own = [e for e in events if isinstance(e, SameDone | TrialDone) and engine_of.get(e.job) == engine]
        same = {e.job: [abs(math.log(e.pair.ratio))] for e in own if isinstance(e, SameDone) and e.pair is not None}
        errors = [se for e in own if e.pair is not None and (se := log_se(e.pair)) is not None]
        if not same and not errors:
            continue
        middle, high = (as_frac(equal_weight_quantile(same, level)) for level in LEVELS)
        found.append(
            Floor(
                engine=engine,
                num_repeats=len(same),
                median_frac=middle,
                p90_frac=high,
                trial_log_se=median(errors) if errors else None,
            )
        )
    return tuple(found)


def log_se(pair: PairTimes) -> float | None:
    """Return the standard error of a trial's log ratio over its pairs of blocks; None of fewer than two."""
    logs = [math.log(r) for r in paired_ratios(block_means(pair.candidate_s), block_means(pair.incumbent_s))]
    return stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None


def floor_lines(found: Sequence[Floor]) -> list[str]:
    """Return a line per engine, ready to print beside its score."""
    return [
        f"noise of {line.engine}: A/A median {_percent(line.median_frac)}, 90th percentile {_percent(line.p90_frac)} "
        f"of {line.num_repeats} repeats; a trial's own standard error {_percent(line.trial_log_se)} (median)"
        for line in found
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
