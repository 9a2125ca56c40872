"""The frame all charts share: a figure of rows (label, drawing, value), then the axis."""

from collections.abc import Iterable, Sequence

from steptune.report.blocks import Reference
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.numbers import digits, value_text
from steptune.report.svg.axis import Axis

EDGE_PERCENT = 8.0
"""Distance from an end of the axis inside which a tick label is anchored inward instead of centred."""


def chart(caption: str, rows: Iterable[str], axis: Markup, legend: Markup | None = None) -> Markup:
    """Return the whole figure."""
    head = element("figcaption", caption)
    return element("figure", head, legend or joined(), element("div", *rows, axis, class_="rows"), class_="chart")


def row(label: str, drawing: Markup, value: Markup) -> Markup:
    """Return one row; on a phone its three parts stand below each other."""
    parts = (element("div", prose(label), class_="row-label"), drawing, element("div", value, class_="row-value"))
    return element("div", *parts, class_="row")


def drawing(title: str, description: str, shapes: Iterable[Markup], axis: Axis, height_px: int = 26) -> Markup:
    """Return the SVG of one row: what it is and all its numbers for those who hear it, then the shapes."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *gridlines(axis),
        *shapes,
        role="img",
        width="100%",
        height=height_px,
        class_="plot",
    )


def gridlines(axis: Axis) -> list[Markup]:
    """Return thin lines at the ticks."""
    places = [f"{axis.percent(tick)}%" for tick in axis.ticks()]
    return [element("line", x1=x, x2=x, y1="0", y2="100%", class_="grid") for x in places]


def reference_lines(references: Sequence[Reference], axis: Axis) -> list[Markup]:
    """Return dashed lines at the marked values."""
    places = [f"{axis.percent(reference.value)}%" for reference in references]
    return [element("line", x1=x, x2=x, y1="0", y2="100%", class_="reference") for x in places]


def axis_row(axis: Axis, unit: str, references: Sequence[Reference] = ()) -> Markup:
    """Return the last row: tick labels, and what the dashed lines are."""
    named = [f"{reference.label} {value_text(reference.value, unit)} (dashed)" for reference in references]
    ticks = axis.ticks()
    labels = [_tick(axis, tick, unit if tick == ticks[-1] else "1") for tick in ticks]
    svg = element(
        "svg", element("title", f"axis in {unit}"), *labels, role="img", width="100%", height=18, class_="axis"
    )
    return row("", svg, element("span", ", ".join(named), class_="small"))


def _tick(axis: Axis, tick: float, unit: str) -> Markup:
    at = axis.percent(tick)
    anchor = "start" if at < EDGE_PERCENT else "end" if at > 100 - EDGE_PERCENT else "middle"
    text = f"{digits_short(tick)} {unit}" if unit != "1" else digits_short(tick)
    return element("text", text, x=f"{at}%", y=13, text_anchor=anchor)


def digits_short(value: float) -> str:
    """Return a tick's value without trailing zeros.

    >>> digits_short(0.30000000000000004), digits_short(2.0)
    ('0.3', '2')
    """
    text = digits(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
