"""Trends: one metric over the steps, each in a row of its own and on a scale of its own.

Surprise: a value that is no finite number breaks the line and is counted in the words beside it; it is never bridged.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from steptune.report.markup import Markup, element
from steptune.report.numbers import count_text, value_text
from steptune.report.svg.axis import axis_over
from steptune.report.svg.rows import row

HEIGHT_PX = 44
"""Height of a trend: enough to see a fall of a tenth."""

BOX = 100.0
"""Side of the drawing's own square, stretched to the row; the stroke keeps its width."""

DOT_R = 1.6
"""Half the width of a lone point, in units of the box."""


def draw_trend(label: str, values: Sequence[float], unit: str, note: str) -> Markup:
    """Return one row: the line, and beside it the first, last and extreme values."""
    said = trend_text(values, unit)
    shapes = [*_lines(values), *_dots(values)]
    inner = element(
        "svg", *shapes, viewBox=f"0 0 {BOX:g} {BOX:g}", preserveAspectRatio="none", width="100%", height="100%"
    )
    parts = (element("title", label), element("desc", said), inner)
    drawn = element("svg", *parts, role="img", width="100%", height=HEIGHT_PX, class_="plot trend")
    return row(f"{label} ({note})" if note else label, drawn, element("span", said, class_="small"))


def trend_text(values: Sequence[float], unit: str) -> str:
    """Return the trend in words.

    >>> trend_text([2.0, 4.0, math.nan], "s")
    '2.00 s to 4.00 s, least 2.00 s, most 4.00 s, 1 value of 3 is no number'
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return f"none of {count_text(len(values), 'value')} is a finite number"
    first, last, least, most = (value_text(v, unit) for v in (known[0], known[-1], min(known), max(known)))
    gaps = len(values) - len(known)
    broken = f", {count_text(gaps, 'value')} of {len(values)} {'is' if gaps == 1 else 'are'} no number" if gaps else ""
    return f"{first} to {last}, least {least}, most {most}{broken}"


def _points(values: Sequence[float]) -> list[tuple[float, float] | None]:
    axis = axis_over(values, from_zero=False)
    across = max(1, len(values) - 1)
    return [
        (BOX * index / across, BOX - axis.percent(value)) if math.isfinite(value) else None
        for index, value in enumerate(values)
    ]


def _lines(values: Sequence[float]) -> list[Markup]:
    drawn = [(one, other) for one, other in pairwise(_points(values)) if one is not None and other is not None]
    if not drawn:
        return []
    path = " ".join(f"M{a[0]:.2f} {a[1]:.2f}L{b[0]:.2f} {b[1]:.2f}" for a, b in drawn)
    return [element("path", d=path, class_="trend-line")]


def _dots(values: Sequence[float]) -> list[Markup]:
    """Return points that no line reaches."""
    held = [None, *_points(values), None]
    lone = [
        here for before, here, after in zip(held, held[1:], held[2:], strict=False) if here and not before and not after
    ]
    return [
        element("rect", x=f"{x - DOT_R:.2f}", y=f"{y - 8:.2f}", width=2 * DOT_R, height=16, class_="trend-dot")
        for x, y in lone
    ]
