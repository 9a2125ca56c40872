"""Our own forecasts, pooled over run folders: only what was written before its trial began counts.

First forecasts, made from the baseline profile alone, are never pooled with later ones. A trial that stopped, failed or
ran out of memory is an infinite error. Two arms stand beside: *no change*, and *best past trial*, which forecasts for
every trial the best ratio measured so far. Surprise: sessions weigh the same, however many trials they had.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

from steptune.core.event import Event, Forecasted, Profiled, TrialEnded, TrialStarted, Waterfall
from steptune.core.records import Record
from steptune.core.trial import TrialState
from steptune.score.errors import LARGE_MOVE
from steptune.score.forecasts import Fate, ForecastScore, forecast_scores
from steptune.score.quantiles import as_frac, equal_weight_quantile

UNCHANGED = 1.0
"""Ratio to the baseline that *no change* forecasts."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One forecast that came before its trial, with what the best past trial would have said."""

    score: ForecastScore
    best_past_ratio: float
    """Lowest measured ratio to the baseline before this forecast was written; 1 when there was none."""


@final
class ProspectiveLine(Record):
    """One arm on one sort of forecast: ``ProspectiveLine(what="first forecasts", arm="no change", ...)``."""

    what: str
    arm: str
    num_scored: int
    num_unfinished: int
    """Trials that stopped, failed or ran out of memory; infinite errors."""
    median_frac: float | None
    p90_frac: float | None
    inside_frac: float | None = None
    """Measured ratios inside the 80 % interval; the forecast alone has one."""
    half_width_frac: float | None = None
    """Median half width of the interval / forecast."""


Sort = tuple[str, Callable[[Judged], bool]]
"""Name of a sort of forecast, and which belong to it."""

SORTS: tuple[Sort, ...] = (
    ("first forecasts", lambda judged: judged.score.is_first),
    ("later forecasts", lambda judged: not judged.score.is_first),
    ("first forecasts, one lever", lambda judged: judged.score.is_first and num_levers(judged) == 1),
    ("first forecasts, two levers", lambda judged: judged.score.is_first and num_levers(judged) == 2),
    ("first forecasts, three levers or more", lambda judged: judged.score.is_first and num_levers(judged) > 2),
    ("first forecasts, moves over 10 %", lambda judged: judged.score.is_first and is_large(judged)),
)
"""Rows of the table, in order."""


def judge_session(events: Sequence[Event]) -> tuple[Judged, ...]:
    """Return every forecast of a session that was written before its trial or waterfall began, once."""
    ends = [event for event in events if isinstance(event, TrialEnded)]
    waterfalls = [event for event in events if isinstance(event, Waterfall)]
    kept: dict[tuple[str, str, bool], Judged] = {}
    for place, event in enumerate(events):
        if isinstance(event, Forecasted) and not _has_begun(event, events[:place]):
            (score,) = forecast_scores([event], ends, waterfalls)
            key = (score.target, score.change.signature, score.is_first)
            kept.setdefault(key, Judged(score=score, best_past_ratio=_best(events[:place])))
    return tuple(kept.values())


def prospective_lines(sessions: Mapping[str, Sequence[Event]]) -> tuple[ProspectiveLine, ...]:
    """Return the table of all sessions, by name; sorts without a scored forecast are left out."""
    return lines_of({name: judge_session(events) for name, events in sessions.items()}, SORTS)


def lines_of(judged: Mapping[str, Sequence[Judged]], sorts: Sequence[Sort]) -> tuple[ProspectiveLine, ...]:
    """Return the table of judged forecasts by session or job; sorts without a scored forecast are left out."""
    lines: list[ProspectiveLine] = []
    for what, belongs in sorts:
        chosen = {
            name: [one for one in session if one.score.is_scored and belongs(one)] for name, session in judged.items()
        }
        if any(chosen.values()):
            lines += [_forecast_line(what, chosen), *_arm_lines(what, chosen)]
    return tuple(lines)


def aa_noise_frac(sessions: Iterable[Sequence[Event]]) -> float | None:
    """Return the median over sessions of how far their A/A repeat lay from 1; None when none has one."""
    baselines = [
        event.profile
        for events in sessions
        for event in events
        if isinstance(event, Profiled) and event.label == "baseline"
    ]
    ratios = [profile.noise.aa_ratio.value for profile in baselines if profile.noise is not None]
    repeats = [abs(math.log(ratio)) for ratio in ratios if ratio > 0]
    return as_frac(median(repeats)) if repeats else None


def _has_begun(event: Forecasted, before: Sequence[Event]) -> bool:
    if event.purpose == "trial":
        starts = (other for other in before if isinstance(other, TrialStarted))
        return any(start.number == event.trial_number for start in starts)
    signature = event.forecast.change.signature
    rows = (row for other in before if isinstance(other, Waterfall) for row in other.rows)
    return any(row.signature == signature for row in rows)


def _best(before: Sequence[Event]) -> float:
    ratios = [
        event.ratio_to_baseline.value
        for event in before
        if isinstance(event, TrialEnded)
        and event.trial.state is TrialState.FINISHED
        and event.ratio_to_baseline is not None
    ]
    return min([UNCHANGED, *(ratio for ratio in ratios if ratio > 0)])


def _forecast_line(what: str, chosen: Mapping[str, Sequence[Judged]]) -> ProspectiveLine:
    scores = [one.score for session in chosen.values() for one in session]
    widths = [width for score in scores if (width := _half_width(score)) is not None]
    line = _line(what, "forecast", chosen, lambda one: one.score.forecast.value if one.score.forecast else None)
    inside = sum(score.fate is Fate.INSIDE for score in scores) / len(scores)
    return line.model_copy(update={"inside_frac": inside, "half_width_frac": median(widths) if widths else None})


def _arm_lines(what: str, chosen: Mapping[str, Sequence[Judged]]) -> list[ProspectiveLine]:
    return [
        _line(what, "no change", chosen, lambda one: UNCHANGED),
        _line(what, "best past trial", chosen, lambda one: one.best_past_ratio),
    ]


def _line(
    what: str, arm: str, chosen: Mapping[str, Sequence[Judged]], ratio_of: Callable[[Judged], float | None]
) -> ProspectiveLine:
    errors = {name: [_error(one.score, ratio_of(one)) for one in session] for name, session in chosen.items()}
    flat = [one.score for session in chosen.values() for one in session]
    return ProspectiveLine(
        what=what,
        arm=arm,
        num_scored=len(flat),
        num_unfinished=sum(score.fate is Fate.NOT_FINISHED for score in flat),
        median_frac=as_frac(equal_weight_quantile(errors, 0.5)),
        p90_frac=as_frac(equal_weight_quantile(errors, 0.9)),
    )


def _error(score: ForecastScore, ratio: float | None) -> float:
    measured = score.measured.value if score.measured is not None else math.nan
    finished = score.fate is not Fate.NOT_FINISHED and 0 < measured < math.inf
    if not finished or ratio is None or not 0 < ratio < math.inf:
        return math.inf
    return abs(math.log(ratio / measured))


def _half_width(score: ForecastScore) -> float | None:
    forecast = score.forecast
    if forecast is None or forecast.low is None or forecast.high is None or not forecast.value:
        return None
    return (forecast.high - forecast.low) / 2 / forecast.value


def num_levers(judged: Judged) -> int:
    """Return how many knobs the change moves."""
    return len(judged.score.change.moves)


def is_large(judged: Judged) -> bool:
    """Return whether the measured ratio moved by more than 10 %."""
    measured = judged.score.measured
    return measured is not None and measured.value > 0 and abs(math.log(measured.value)) > LARGE_MOVE
