"""Forecast against measured: every forecast, first ones apart, every miss by name."""

import math
from collections.abc import Sequence

from steptune.report.blocks import Block, Cell, Figure, Figures, Mark, RangeRow, Ranges, Reference, Table, Tone, Words
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.lag_text import lag_text
from steptune.report.numbers import count_text, derived, main_text
from steptune.report.session_view import SessionView
from steptune.score.forecasts import Fate, ForecastScore, forecast_scores, median_error_frac
from steptune.score.lags import LagScore, lag_scores

GROUPS = (
    (True, "first forecasts, from the baseline profile alone"),
    (False, "later forecasts, after trials were seen"),
)
"""A forecaster that has seen trials is another forecaster: the two are never pooled."""

FATE_TONES = {
    Fate.INSIDE: Tone.GOOD,
    Fate.OUTSIDE: Tone.BAD,
    Fate.NOT_FINISHED: Tone.BAD,
    Fate.NOT_TRIED: Tone.MUTED,
    Fate.REFUSED: Tone.MUTED,
}
"""Tone of each fate."""


def card(view: SessionView) -> Shown | NotApplicable:
    """Score every forecast against its trial."""
    scores = forecast_scores(view.forecasts, view.trial_ends, view.waterfalls)
    if not scores:
        return NotApplicable(why="no forecast was written")
    if all(score.fate is Fate.REFUSED for score in scores):
        line = f"{count_text(len(scores), 'forecast')}, all refused: no number was given"
        return Shown(takeaway=line, blocks=(_table("Refused forecasts", scores),))
    blocks: list[Block] = [Figures(figures=tuple(f for is_first, _ in GROUPS for f in _figures(scores, is_first)))]
    for is_first, name in GROUPS:
        rows = tuple(_row(score) for score in scores if score.is_first is is_first and score.forecast is not None)
        if rows:
            blocks.append(_ranges(name, rows))
    misses = [score for score in scores if score.is_miss]
    if misses:
        blocks.append(_table("Misses", misses))
    blocks.append(_table("All forecasts", scores))
    blocks += _ages(view)
    return Shown(takeaway=_takeaway(scores), blocks=tuple(blocks))


def _ages(view: SessionView) -> tuple[Block, ...]:
    """Hold the forecast ages of trained tokens against the trials'; nothing where no candidate could be a step old."""
    if view.started is None:
        return ()
    updates = view.started.job.algorithm.num_updates
    rows = tuple(_age_cells(s) for s in lag_scores(view.forecasts, view.trial_ends, num_updates=updates))
    heads = (
        column("written for"),
        column("change"),
        column("kind"),
        column("forecast age", "updates at a step's first update"),
        column("measured age"),
        numbers("mean off by", "forecast - measured, updates"),
        numbers("share off by", "largest of any age"),
    )
    return (Table(caption="Age of trained tokens, forecast and measured", columns=heads, rows=rows),) if rows else ()


def _age_cells(score: LagScore) -> tuple[Cell, ...]:
    mean, share = score.mean_error, score.share_error
    return (
        words(score.target),
        words(str(score.change)),
        words("first" if score.is_first else "later"),
        words(lag_text(score.forecast)),
        words(lag_text(score.measured)) if score.measured else muted("none"),
        number(derived(mean, "updates")) if mean is not None else muted("none"),
        number(derived(share, "frac")) if share is not None else muted("none"),
    )


def _takeaway(scores: Sequence[ForecastScore]) -> str:
    scored = [score for score in scores if score.is_scored]
    if not scored:
        return f"{count_text(len(scores), 'forecast')}, none has a result to be held against"
    misses = sum(score.is_miss for score in scored)
    first = median_error_frac([score for score in scored if score.is_first])
    median = f"; median error of the first ones {_percent(first)}" if first is not None else ""
    inside = f"{len(scored) - misses} of {len(scored)} scored forecasts inside their interval"
    return f"{inside}, {misses} missed{median} (derived)"


def _percent(error: float) -> str:
    return "infinite: half or more have no measured ratio" if math.isinf(error) else main_text(derived(error, "frac"))


def _figures(scores: Sequence[ForecastScore], is_first: bool) -> tuple[Figure, ...]:
    group = [score for score in scores if score.is_first is is_first and score.is_scored]
    name = "first" if is_first else "later"
    if not group:
        return (Figure(label=f"{name} forecasts", cell=muted("none scored")),)
    inside = sum(score.fate is Fate.INSIDE for score in group)
    error = median_error_frac(group)
    return (
        Figure(label=f"{name}: median error", cell=_median_cell(error, len(group))),
        Figure(
            label=f"{name}: inside the interval",
            cell=Words(text=f"{inside} of {len(group)}", detail="derived; an 80 % interval should hold 4 in 5"),
        ),
    )


def _median_cell(error: float | None, num_scored: int) -> Cell:
    if error is None or math.isinf(error):
        return Words(text="infinite", detail="half or more have no measured ratio", tone=Tone.BAD)
    return number(derived(error, "frac", n=num_scored, note="trials without a ratio count as infinite"))


def _row(score: ForecastScore) -> RangeRow:
    marks = [Mark(series="forecast", estimate=score.forecast)] if score.forecast else []
    marks += [Mark(series="measured", estimate=score.measured)] if score.measured else []
    return RangeRow(label=f"{score.target}: {score.change}", marks=tuple(marks), note=_fate_text(score))


def _ranges(name: str, rows: tuple[RangeRow, ...]) -> Ranges:
    return Ranges(
        caption=f"Step time over baseline, {name}: 80 % forecast interval, 95 % measured interval",
        unit="x",
        series=("forecast", "measured"),
        rows=rows,
        references=(Reference(value=1.0, label="baseline"),),
    )


def _fate_text(score: ForecastScore) -> str:
    error = score.error_frac
    text = str(score.fate) if error is None else f"{score.fate}, error {main_text(derived(error, 'frac'))}"
    return f"{text}: {score.why}" if score.why else text


def _table(caption: str, scores: Sequence[ForecastScore]) -> Table:
    heads = (
        column("written for"),
        column("change"),
        column("kind"),
        numbers("forecast ratio", "80 % interval"),
        numbers("measured ratio", "95 % interval"),
        numbers("error", "forecast / measured - 1"),
        column("inside interval?"),
    )
    return Table(caption=caption, columns=heads, rows=tuple(_cells(score) for score in scores))


def _cells(score: ForecastScore) -> tuple[Cell, ...]:
    error = score.error_frac
    return (
        words(score.target),
        words(str(score.change)),
        words("first" if score.is_first else "later"),
        number(score.forecast, missing="refused"),
        number(score.measured, missing="none"),
        number(derived(error, "frac")) if error is not None else muted("none"),
        Words(text=str(score.fate), detail=score.why, tone=FATE_TONES[score.fate]),
    )
