"""The report for a terminal: every card, readable without colour and safe to paste."""

import math
from collections.abc import Sequence
from textwrap import wrap

from steptune.report.blocks import Bar, Bars, Block, Figure, Figures, Lane, Lanes, Ranges, Segment, Table, Text
from steptune.report.card import Card, NotApplicable, Report, Shown
from steptune.report.numbers import estimate_text, value_text
from steptune.report.svg.axis import axis_over
from steptune.report.text_table import WIDTH, cell_text, plain, table_lines

DRAWING = 40
"""Characters of a bar or lane."""

GLYPHS = {"busy": "#", "exposed_wait": "/", "unattributed": "."}
"""One character per kind of time."""


def render_text(report: Report) -> str:
    """Return the whole report."""
    title = plain(f"steptune report: {report.job_name or 'unknown job'}")
    lines = [title, "=" * len(title)]
    for number, card in enumerate(report.cards, start=1):
        lines += ["", *card_lines(number, card)]
    return "\n".join(lines) + "\n"


def card_lines(number: int, card: Card) -> list[str]:
    """Return one card."""
    title = f"{number}. {card.title}"
    head = [title, "-" * len(title)]
    body = card.body
    if isinstance(body, Shown):
        blocks = [line for block in body.blocks for line in ["", *block_lines(block)]]
        return [*head, *_wrapped(body.takeaway), *blocks]
    if isinstance(body, NotApplicable):
        return [*head, *_wrapped(f"not applicable: {body.why}")]
    return [*head, *_wrapped(f"this card could not be made: {body.error} ({body.where})")]


def block_lines(block: Block) -> list[str]:
    """Return one block."""
    if isinstance(block, Text):
        heading = [f"[{plain(block.heading)}]"] if block.heading else []
        return [*heading, *(line for text in block.lines for line in _wrapped(f"- {text}", indent="  "))]
    if isinstance(block, Figures):
        label = max((len(figure.label) for figure in block.figures), default=0)
        return [line for figure in block.figures for line in _figure(figure, label + 2)]
    if isinstance(block, Table):
        return table_lines(block)
    return _chart(block)


def _figure(figure: Figure, label: int) -> list[str]:
    head, indent = figure.label.ljust(label), " " * label
    return wrap(cell_text(figure.cell), WIDTH, initial_indent=head, subsequent_indent=indent)


def _chart(block: Lanes | Bars | Ranges) -> list[str]:
    caption = _wrapped(f"[{block.caption}]")
    if isinstance(block, Lanes):
        return [*caption, "# busy, / waiting, . unattributed", *_lanes(block.lanes)]
    if isinstance(block, Bars):
        references = [f"{reference.label}: {value_text(reference.value, block.unit)}" for reference in block.references]
        return [*caption, *_bars(block.bars), *map(plain, references)]
    lines = caption
    for row in block.rows:
        lines += _wrapped(f"- {row.label}{': ' + row.note if row.note else ''}", indent="  ")
        lines += [f"    {mark.series.ljust(10)} {plain(estimate_text(mark.estimate))}" for mark in row.marks]
    return lines


def _bars(bars: Sequence[Bar]) -> list[str]:
    top = axis_over([value for bar in bars for value in (bar.start, bar.end)], from_zero=True).high
    lines: list[str] = []
    for bar in bars:
        lines.append(plain(bar.label))
        left, right = sorted((_column(bar.start, top), _column(bar.end, top)))
        lines.append(f"  |{' ' * left}{'#' * (right - left)}".ljust(DRAWING + 3) + f"| {cell_text(bar.cell)}")
    return lines


def _lanes(lanes: Sequence[Lane]) -> list[str]:
    top = axis_over([sum(map(_seconds, lane.segments)) for lane in lanes], from_zero=True).high
    lines: list[str] = []
    for lane in lanes:
        drawn, at_s = "", 0.0
        for segment in lane.segments:
            at_s += _seconds(segment)
            drawn = drawn.ljust(_column(at_s, top), GLYPHS[segment.kind])
        note = f"; {lane.note}" if lane.note else ""
        lines.append(plain(f"{lane.group}, {lane.label}"))
        lines.append(f"  |{drawn.ljust(DRAWING)}| {plain(estimate_text(lane.wall) + note)}")
    return lines


def _seconds(segment: Segment) -> float:
    return segment.seconds.value if math.isfinite(segment.seconds.value) else 0.0


def _column(value: float, top: float) -> int:
    return round(DRAWING * value / top) if math.isfinite(value) else 0


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(plain(text), WIDTH, subsequent_indent=indent)
