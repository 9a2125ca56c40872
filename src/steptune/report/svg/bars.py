"""Bars: lengths from zero, or floating ones that show a difference."""

import math

from steptune.report.blocks import Bar, Bars, Number, Reference
from steptune.report.html_cells import cell_markup
from steptune.report.markup import Markup, element
from steptune.report.numbers import estimate_text
from steptune.report.svg.axis import Axis, axis_over
from steptune.report.svg.rows import axis_row, chart, drawing, reference_lines, row


def draw_bars(block: Bars) -> Markup:
    """Return the chart."""
    ends = [value for bar in block.bars for value in (bar.start, bar.end, *_interval(bar))]
    references = [reference for reference in block.references if math.isfinite(reference.value)]
    axis = axis_over(ends + [reference.value for reference in references], from_zero=True)
    rows = [_row(bar, axis, references) for bar in block.bars]
    return chart(block.caption, rows, axis_row(axis, block.unit, references))


def _row(bar: Bar, axis: Axis, references: list[Reference]) -> Markup:
    said = estimate_text(bar.cell.estimate) if isinstance(bar.cell, Number) else bar.cell.text
    shapes = [*_bar(bar, axis), *_whisker(bar, axis), *reference_lines(references, axis)]
    return row(bar.label, drawing(bar.label, said, shapes, axis), cell_markup(bar.cell))


def _bar(bar: Bar, axis: Axis) -> list[Markup]:
    if not (math.isfinite(bar.start) and math.isfinite(bar.end)):
        return []
    left, right = sorted((axis.percent(bar.start), axis.percent(bar.end)))
    return [
        element("rect", x=f"{left}%", y=5, width=f"{right - left:.2f}%", height=16, rx=2, class_=f"bar tone-{bar.tone}")
    ]


def _whisker(bar: Bar, axis: Axis) -> list[Markup]:
    ends = [end for end in _interval(bar) if end is not None and math.isfinite(end)]
    if len(ends) < 2:
        return []
    low, high = (f"{axis.percent(end)}%" for end in ends)
    return [element("line", x1=low, x2=high, y1=13, y2=13, class_="whisker")]


def _interval(bar: Bar) -> tuple[float | None, float | None]:
    return (bar.cell.estimate.low, bar.cell.estimate.high) if isinstance(bar.cell, Number) else (None, None)
