"""One cell in HTML: the value, and below it in small print where it came from."""

from steptune.core.estimate import Estimate
from steptune.report.blocks import Cell, Number
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.numbers import detail_text, interval_text, main_text


def cell_markup(cell: Cell) -> Markup:
    """Return the content of a table cell, a figure or a chart's value."""
    if isinstance(cell, Number):
        text, detail = main_text(cell.estimate), _unbroken_interval(cell.estimate)
    else:
        text, detail = cell.text, prose(cell.detail)
    value = element("span", prose(text), class_=f"value tone-{cell.tone}")
    return joined(value, element("span", detail, class_="small")) if detail else value


def _unbroken_interval(estimate: Estimate) -> Markup:
    """Return the small print with its interval on one line."""
    interval, detail = interval_text(estimate), detail_text(estimate)
    if not interval:
        return prose(detail)
    return joined(element("span", interval, class_="interval-text"), prose(detail.removeprefix(interval)))
