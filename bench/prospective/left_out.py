"""Two constants fitted in retrospect, each job scored with those of the other jobs.

How far forecasts lean, and how wide intervals would have to be. Nothing here was known before the trials; it says what
a campaign teaches the next one. Both constants are one engine's and one sort's (first or later): the median of
ln(measured / forecast), taken off, and what the interval's half width has to be multiplied by so that 80 % of the
*other* jobs' forecasts fall inside.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.records import Record
from steptune.score.forecasts import Fate
from steptune.score.prospective import Judged
from steptune.score.quantiles import as_frac, equal_weight_mean, equal_weight_quantile

LEVEL = 0.8
"""Part of the measured ratios that an interval is to hold."""

MIN_JOBS = 3
"""Jobs of one engine below which two constants say nothing about a third."""


class LeftOutLine(Record):
    """One engine and sort: ``LeftOutLine(what="trl, first forecasts", num_jobs=7, median_frac=0.06, ...)``."""

    what: str
    num_jobs: int
    num_scored: int
    median_frac: float | None
    inside_frac: float | None
    half_width_frac: float | None
    lean: float
    """Median of measured over forecast, of all jobs: above 1 forecasts were too fast."""
    widening: float
    """What half widths have to be multiplied by, from all jobs."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Miss:
    """One forecast with its trial: logs of measured over forecast, and of the interval's half width."""

    lean: float
    half_width: float


def left_out_lines(by_engine: Mapping[str, Mapping[str, Sequence[Judged]]]) -> tuple[LeftOutLine, ...]:
    """Return a line for first and one for later forecasts of every engine with enough jobs.

    ``by_engine`` holds the forecasts of every job by engine and job. Trials without a ratio cannot teach a constant and
    are left out here; the campaign's own table counts them.
    """
    return tuple(
        line
        for engine, jobs in by_engine.items()
        for is_first, sort in ((True, "first forecasts"), (False, "later forecasts"))
        if (line := _line(f"{engine}, {sort}", _misses(jobs, is_first=is_first))) is not None
    )


def _misses(jobs: Mapping[str, Sequence[Judged]], *, is_first: bool) -> dict[str, list[Miss]]:
    found = {name: [_miss(one) for one in judged if one.score.is_first == is_first] for name, judged in jobs.items()}
    return {name: kept for name, misses in found.items() if (kept := [miss for miss in misses if miss is not None])}


def _miss(judged: Judged) -> Miss | None:
    score = judged.score
    if score.fate is Fate.NOT_FINISHED or score.forecast is None or score.measured is None:
        return None
    low, high = score.forecast.low, score.forecast.high
    if low is None or high is None:
        return None
    return Miss(lean=math.log(score.measured.value / score.forecast.value), half_width=math.log(high / low) / 2)


def _line(what: str, misses: Mapping[str, Sequence[Miss]]) -> LeftOutLine | None:
    if len(misses) < MIN_JOBS:
        return None
    errors, inside, widths = dict[str, list[float]](), dict[str, list[float]](), dict[str, list[float]]()
    for name, own in misses.items():
        lean, widening = _fit({other: found for other, found in misses.items() if other != name})
        errors[name] = [abs(miss.lean - lean) for miss in own]
        inside[name] = [float(abs(miss.lean - lean) <= widening * miss.half_width) for miss in own]
        widths[name] = [widening * miss.half_width for miss in own]
    lean, widening = _fit(misses)
    return LeftOutLine(
        what=what,
        num_jobs=len(misses),
        num_scored=sum(map(len, misses.values())),
        median_frac=as_frac(equal_weight_quantile(errors, 0.5)),
        inside_frac=equal_weight_mean(inside),
        half_width_frac=as_frac(equal_weight_quantile(widths, 0.5)),
        lean=math.exp(lean),
        widening=widening,
    )


def _fit(misses: Mapping[str, Sequence[Miss]]) -> tuple[float, float]:
    """Return the lean and the widening, jobs weighted equally."""
    lean = equal_weight_quantile({name: [miss.lean for miss in found] for name, found in misses.items()}, 0.5) or 0.0
    asked = {name: [abs(miss.lean - lean) / miss.half_width for miss in found] for name, found in misses.items()}
    return lean, equal_weight_quantile(asked, LEVEL) or 0.0
