"""Ranges: points with intervals to be compared within a row, each series with its own shape."""

import math

from steptune.report.blocks import Mark, RangeRow, Ranges, Reference
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.numbers import estimate_text, interval_text, main_text
from steptune.report.svg.axis import Axis, axis_over
from steptune.report.svg.rows import axis_row, chart, drawing, reference_lines, row

LINE_PX = 16
"""Height per series: intervals of one row never hide each other."""

HALF_PX = 5
"""Half the size of a mark."""


def draw_ranges(block: Ranges) -> Markup:
    """Return the chart."""
    marks = [mark.estimate for one in block.rows for mark in one.marks]
    references = [reference for reference in block.references if math.isfinite(reference.value)]
    ends = [value for estimate in marks for value in (estimate.value, estimate.low, estimate.high)]
    axis = axis_over(ends + [reference.value for reference in references], from_zero=False)
    rows = [_row(block, one, axis, references) for one in block.rows]
    return chart(block.caption, rows, axis_row(axis, block.unit, references), _legend(block))


def _row(block: Ranges, one: RangeRow, axis: Axis, references: list[Reference]) -> Markup:
    shapes = reference_lines(references, axis)
    for mark in one.marks:
        shapes += _mark(mark, block.series.index(mark.series), axis)
    said = [f"{mark.series}: {estimate_text(mark.estimate)}" for mark in one.marks]
    height = LINE_PX * len(block.series) + 4
    values = [
        element("span", f"{mark.series} ", element("b", main_text(mark.estimate)), class_="pair") for mark in one.marks
    ]
    note = element("span", prose(one.note), class_="small") if one.note else joined()
    return row(one.label, drawing(one.label, "; ".join(said), shapes, axis, height), joined(*values, note))


def _mark(mark: Mark, series: int, axis: Axis) -> list[Markup]:
    if not math.isfinite(mark.estimate.value):
        return []
    y = 2 + LINE_PX * series + LINE_PX // 2
    shapes: list[Markup] = []
    low, high = mark.estimate.low, mark.estimate.high
    if interval_text(mark.estimate) and low is not None and high is not None and math.isfinite(low + high):
        ends = {"x1": f"{axis.percent(low)}%", "x2": f"{axis.percent(high)}%"}
        shapes.append(element("line", **ends, y1=y, y2=y, class_=f"interval series-{series}"))
    at = f"{axis.percent(mark.estimate.value)}%"
    point = element("svg", _shape(series), x=at, y=y, overflow="visible", class_=f"series-{series}")
    return [*shapes, point]


def _shape(series: int) -> Markup:
    """Return circle, square or diamond around the origin: told apart without colour."""
    if series == 0:
        return element("circle", r=HALF_PX, class_="hollow")
    if series == 1:
        return element("rect", x=-HALF_PX, y=-HALF_PX, width=2 * HALF_PX, height=2 * HALF_PX)
    return element("path", d=f"M0 -{HALF_PX + 2} L{HALF_PX + 2} 0 L0 {HALF_PX + 2} L-{HALF_PX + 2} 0 Z")


def _legend(block: Ranges) -> Markup:
    return element("div", *(_key(index, name) for index, name in enumerate(block.series)), class_="legend")


def _key(series: int, name: str) -> Markup:
    point = element("svg", _shape(series), x=8, y=8, overflow="visible", class_=f"series-{series}")
    swatch = element("svg", point, width=16, height=16, aria_hidden="true")
    return element("span", swatch, name, class_="key")
