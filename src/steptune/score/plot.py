"""The scoreboard as one picture: an SVG that needs nothing else, written by hand.

A row is an arm on a statistic; a dot is its median error, a line runs to its 90th percentile, on a logarithmic scale.
The grey band is the noise of publishing: left of it nobody can be. Infinite errors end in an arrow at the edge.
"""

import math
from collections.abc import Sequence
from html import escape

from steptune.score.board import Board, ErrorLine

WIDTH, LEFT, RIGHT, TOP, ROW = 820, 330, 60, 46, 20
"""Pixels: page, room for labels and for figures, head, one row."""

LOW_FRAC, HIGH_FRAC = 0.01, 4.0
"""Ends of the axis: 1 % and 400 %; what lies beyond is drawn at the end."""

TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)

COLOURS = ("#1b6ca8", "#b5542b", "#3d7d3d", "#7a4a96", "#6b6b6b")
"""By arm, in order of first appearance; told apart in print by the label as well."""

STYLE = "text{font:12px system-ui,sans-serif;fill:#222}.s{fill:#666}.t{stroke:#ddd}.h{font-weight:600}"


def board_svg(board: Board, side: str = "test") -> str:
    """Return the errors of one side as SVG text."""
    lines = [line for line in board.errors if line.side == side and line.median_frac is not None]
    arms = list(dict.fromkeys(line.arm for line in lines))
    height = TOP + ROW * (len(lines) + len({line.statistic for line in lines})) + 40
    body = [*_axis(height), _noise_band(board, height), *_rows(lines, arms)]
    title = f"Ratio and step errors on public runs, side {side}, {board.date}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            f'<text class="h" x="10" y="20">{escape(title)}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


def _axis(height: int) -> list[str]:
    bottom = height - 30
    parts: list[str] = []
    for tick in TICKS:
        x = _x(tick)
        parts.append(f'<line class="t" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="s" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{100 * tick:g} %</text>')
    return parts


def _noise_band(board: Board, height: int) -> str:
    repeat = board.noise[0]
    if repeat.median_frac is None or repeat.worst_frac is None:
        return ""
    x, right = _x(repeat.median_frac), _x(repeat.worst_frac)
    what = f"{repeat.what}: median {100 * repeat.median_frac:.1f} %, worst {100 * repeat.worst_frac:.1f} %"
    return (
        f'<rect x="{x:.1f}" y="{TOP - 8}" width="{right - x:.1f}" height="{height - 22 - TOP}" '
        f'fill="#999" fill-opacity="0.18"><title>{escape(what)}</title></rect>'
        f'<text class="s" x="{x:.1f}" y="{TOP - 12}">{escape(what)}</text>'
    )


def _rows(lines: Sequence[ErrorLine], arms: Sequence[str]) -> list[str]:
    parts: list[str] = []
    y, statistic = TOP, ""
    for line in lines:
        if line.statistic != statistic:
            statistic = line.statistic
            y += ROW
            parts.append(f'<text class="h" x="10" y="{y}">{escape(statistic)}</text>')
        y += ROW
        parts += _mark(line, y, COLOURS[arms.index(line.arm) % len(COLOURS)])
    return parts


def _mark(line: ErrorLine, y: int, colour: str) -> list[str]:
    assert line.median_frac is not None
    x, end = _x(line.median_frac), _x(line.p90_frac if line.p90_frac is not None else line.median_frac)
    label = f"{line.arm} ({line.num_groups} jobs)"
    arrow = line.p90_frac is not None and line.p90_frac > HIGH_FRAC
    return [
        f'<text x="24" y="{y}">{escape(label)}</text>',
        f'<line x1="{x:.1f}" x2="{end:.1f}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{x:.1f}" cy="{y - 4}" r="5" fill="{colour}"/>',
        f'<text x="{WIDTH - RIGHT + 12}" y="{y}">{_figure(line.median_frac)}{" →" if arrow else ""}</text>',
    ]


def _figure(frac: float) -> str:
    return "inf" if math.isinf(frac) else f"{100 * frac:.1f} %"


def _x(frac: float) -> float:
    """Return the pixel of an error, clipped to the axis."""
    clipped = min(max(frac, LOW_FRAC), HIGH_FRAC)
    share = math.log(clipped / LOW_FRAC) / math.log(HIGH_FRAC / LOW_FRAC)
    return LEFT + share * (WIDTH - LEFT - RIGHT)
