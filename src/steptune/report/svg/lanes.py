"""Lanes: what each role does during one step, all on one time scale."""

import math

from steptune.core.phase import Phase
from steptune.report.blocks import Lane, Lanes, Number, Segment
from steptune.report.html_cells import cell_markup
from steptune.report.markup import Markup, element, joined
from steptune.report.numbers import estimate_text, main_text
from steptune.report.svg.axis import Axis, axis_over
from steptune.report.svg.rows import axis_row, chart, drawing, row

HEIGHT_PX = 34
"""Height of a lane: a line of text with room around it."""

WIDE_PX, NARROW_PX = 430.0, 320.0
"""Least width of the drawing on a wide window and on a phone, by the style sheet's grid."""

CHARACTER_PX, MARGIN_PX = 6.6, 10.0
"""Mean width of a 12 px character of the system fonts, and the room beside a name."""

PATTERNS = {"exposed_wait": "url(#hatch)", "unattributed": "url(#dots)"}
"""What is drawn over the colour of the phase, by kind of segment."""

PHASES = frozenset(Phase)
"""Phases that have a colour of their own in the style sheet."""


def draw_lanes(block: Lanes) -> Markup:
    """Return the chart."""
    ends = [sum(_seconds(segment) for segment in lane.segments) for lane in block.lanes]
    axis = axis_over(ends, from_zero=True)
    rows: list[Markup] = []
    group = ""
    for lane in block.lanes:
        if lane.group != group:
            rows.append(element("div", lane.group, class_="group"))
            group = lane.group
        rows.append(_row(lane, axis))
    return chart(block.caption, rows, axis_row(axis, "s"), _legend(block))


def _row(lane: Lane, axis: Axis) -> Markup:
    shapes: list[Markup] = []
    at_s = 0.0
    for segment in lane.segments:
        shapes += _segment(segment, at_s, axis)
        at_s += _seconds(segment)
    title = f"{lane.group}: {lane.label}"
    description = "; ".join([*map(_said, lane.segments), *([lane.note] if lane.note else [])])
    return row(lane.label, drawing(title, description, shapes, axis, HEIGHT_PX), _value(lane))


def _value(lane: Lane) -> Markup:
    wall = cell_markup(Number(estimate=lane.wall))
    return joined(wall, element("span", lane.note, class_="small")) if lane.note else wall


def _segment(segment: Segment, at_s: float, axis: Axis) -> list[Markup]:
    """Return a nested SVG, which clips the name to the segment; nothing for zero or NaN."""
    if _seconds(segment) <= 0:
        return []
    left, right = axis.percent(at_s), axis.percent(at_s + _seconds(segment))
    box = {"width": "100%", "height": "100%"}
    shapes = [element("title", _said(segment)), element("rect", **box, class_=f"fill {phase_class(segment.phase)}")]
    if segment.kind != "busy":
        shapes.append(element("rect", **box, fill=PATTERNS[segment.kind]))
    shapes += _names(segment, (right - left) / 100)
    place = {"x": f"{left}%", "y": 5, "width": f"{right - left:.2f}%", "height": HEIGHT_PX - 10}
    return [element("svg", *shapes, **place, class_=f"segment {segment.kind}")]


def _names(segment: Segment, width_frac: float) -> list[Markup]:
    """Return the longest name that fits, for either window; the table below has every number."""
    name = f"waits: {segment.phase}" if segment.kind == "exposed_wait" else segment.phase
    options = (f"{name} {main_text(segment.seconds)}", name, "")
    wide, narrow = (next(o for o in options if _fits(o, width_frac * px)) for px in (WIDE_PX, NARROW_PX))
    if wide == narrow:
        return [_name(wide, "name")]
    return [_name(wide, "name wide-only"), _name(narrow, "name narrow-only")]


def _fits(text: str, width_px: float) -> bool:
    return not text or len(text) * CHARACTER_PX + MARGIN_PX <= width_px


def _name(text: str, css: str) -> Markup:
    return element("text", text, x=6, y=17, class_=css) if text else joined()


def _said(segment: Segment) -> str:
    return f"{segment.phase}, {segment.kind.replace('_', ' ')}: {estimate_text(segment.seconds)}"


def _seconds(segment: Segment) -> float:
    value = segment.seconds.value
    return value if math.isfinite(value) and value > 0 else 0.0


def phase_class(phase: str) -> str:
    """Return the style class of a phase; an unknown one looks unattributed."""
    return f"phase-{phase}" if phase in PHASES else "phase-unattributed"


def _legend(block: Lanes) -> Markup:
    keys = dict.fromkeys((s.phase, s.kind) for lane in block.lanes for s in lane.segments if _seconds(s) > 0)
    busy = [phase for phase, kind in keys if kind == "busy"]
    kinds = {kind for _, kind in keys}
    items = [_key(phase, phase, "busy") for phase in busy]
    items += [_key("waits for the phase named", "unattributed", "exposed_wait")] if "exposed_wait" in kinds else []
    items += [_key("unattributed", "unattributed", "unattributed")] if "unattributed" in kinds else []
    return element("div", *items, class_="legend")


def _key(text: str, phase: str, kind: str) -> Markup:
    box = {"width": 14, "height": 14}
    over = element("rect", **box, fill=PATTERNS[kind]) if kind in PATTERNS else joined()
    square = element("rect", **box, class_=f"fill {phase_class(phase)}")
    return element("span", element("svg", square, over, **box, aria_hidden="true", class_=kind), text, class_="key")
