"""What each lever brought, added one on top of the other in one interleaved run.

Surprise: shares are of the logarithm of the total gain, the only split in which the factors of a product add up
to one; the order of the levers still matters where they overlap.
"""

import math
from itertools import pairwise

from steptune.core.event import WaterfallStep
from steptune.report.blocks import Bar, Bars, Cell, Table, Tone
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.numbers import derived, estimate_text
from steptune.report.session_view import SessionView, added_text


def card(view: SessionView) -> Shown | NotApplicable:
    """Draw the cumulative configurations from baseline to winner."""
    if not view.waterfalls:
        return NotApplicable(why="no waterfall was measured")
    rows = view.waterfalls[-1].rows
    if not rows:
        return NotApplicable(why="the waterfall has no rows")
    return Shown(takeaway=_takeaway(rows), blocks=(_bars(view, rows), _table(view, rows)))


def _takeaway(rows: tuple[WaterfallStep, ...]) -> str:
    ratios = [(row.added, row.ratio_to_previous) for row in rows if row.ratio_to_previous is not None]
    known = [(added, ratio) for added, ratio in ratios if math.isfinite(ratio.value)]
    if not known:
        return f"no lever was measured on top of {rows[0].added}"
    added, ratio = min(known, key=lambda pair: pair[1].value)
    if ratio.value >= 1:
        return f"no lever made the step shorter; the best, {added}, took {estimate_text(ratio)} of the step before it"
    return f"the largest lever is {added}: {estimate_text(ratio)} of the step before it"


def _bars(view: SessionView, rows: tuple[WaterfallStep, ...]) -> Bars:
    first = rows[0].step_time.value
    bars = [Bar(label=rows[0].added, start=0, end=first, cell=number(rows[0].step_time))]
    for before, row in pairwise(rows):
        start, end = before.step_time.value, row.step_time.value
        tone = Tone.GOOD if end < start else Tone.BAD
        bars.append(Bar(label=added_text(view, row), start=start, end=end, cell=number(row.step_time), tone=tone))
    if len(rows) > 1:
        last = rows[-1].step_time
        bars.append(Bar(label="all together", start=0, end=last.value, cell=number(last)))
    caption = "Step time after each lever; a floating bar is what that lever took away (or added)"
    return Bars(caption=caption, unit="s", bars=tuple(bars))


def _table(view: SessionView, rows: tuple[WaterfallStep, ...]) -> Table:
    total = _log_ratio(rows[0], rows[-1])
    body: list[tuple[Cell, ...]] = []
    for index, row in enumerate(rows):
        share = _log_ratio(rows[index - 1], row) / total if index and total else None
        body.append(
            (
                words(added_text(view, row) if index else row.added),
                number(row.step_time),
                number(row.ratio_to_previous, missing="first row" if not index else "not measured"),
                number(row.ratio_to_baseline, missing="first row" if not index else "not measured"),
                number(derived(share, "frac")) if share is not None else muted("none"),
            )
        )
    heads = (
        column("added"),
        numbers("step time", "this lever and those above"),
        numbers("ratio to previous", "below 1 is faster"),
        numbers("ratio to baseline"),
        numbers("share of the gain", "of its logarithm"),
    )
    return Table(caption="Lever by lever", columns=heads, rows=tuple(body))


def _log_ratio(before: WaterfallStep, after: WaterfallStep) -> float:
    old, new = before.step_time.value, after.step_time.value
    return math.log(old / new) if old > 0 and new > 0 else math.nan
