"""The phase table in plain text: one row per phase under its role, with a bar that tells busy from waiting.

Surprise: the last column is cut before anything else when a line would get too wide; it names the key as the log
spells it and the line it stands on.
"""

import math
from collections.abc import Sequence

from steptune.core.estimate import Source
from steptune.core.finding import Diagnosis, PhaseRow
from steptune.core.phase import Phase, SpanKind, is_child
from steptune.core.profile import Origin, Profile
from steptune.report.numbers import digits, value_text
from steptune.report.places import Places
from steptune.report.text_table import WIDTH, plain

BAR = 12
"""Characters of a full bar: the whole wall time of the role."""

NAME = 30
"""Characters of the widest name before it is cut."""

HEADS = ("", "per step", "share", "s/1k tok", "if free", "", "as logged")

LEGEND = (
    "# busy, / waiting, . unattributed; a full bar is the role's whole step; * derived, else as logged",
    "s/1k tok: seconds per 1,000 tokens of the step; if free: step time if the row took nothing (derived)",
)
"""What the marks mean."""


def phase_lines(diagnosis: Diagnosis, places: Places) -> list[str]:
    """Return the table, or nothing without phases."""
    if not diagnosis.phases:
        return []
    profile = diagnosis.paste.profile
    table = [HEADS, *(_cells(row, places.of(row_origin(profile, row))) for row in diagnosis.phases)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADS))]
    widths[-1] = min(widths[-1], WIDTH - sum(widths[:-1]) - 2 * (len(widths) - 1))
    head, *lines = [_line(line, widths) for line in table]
    drawn: list[str] = []
    role = None
    for row, line in zip(diagnosis.phases, lines, strict=True):
        drawn += [plain(_role(profile, row))] if row.role is not role else []
        drawn.append(line)
        role = row.role
    return [head, *drawn, *LEGEND]


def row_origin(profile: Profile | None, row: PhaseRow) -> Origin | None:
    """Return where the seconds of ``row`` were read."""
    kind = SpanKind.EXPOSED_WAIT if row.is_wait else SpanKind.BUSY
    role = profile.role(row.role) if profile else None
    same = [p for p in role.phases if p.phase == row.phase and p.kind is kind] if role else []
    named = [p.origin for p in same if p.origin is not None]
    return next((o for o in named if o.key == row.key), named[0] if named else None)


def row_name(row: PhaseRow) -> str:
    """Return what the row is: a wait says so."""
    return f"waits for {row.phase}" if row.is_wait else row.phase


def _role(profile: Profile | None, row: PhaseRow) -> str:
    role = profile.role(row.role) if profile else None
    if role is None:
        return str(row.role)
    held = f", {role.num_devices:g} devices" if role.num_devices is not None else ""
    return f"{row.role}{held}, wall {value_text(role.wall_s, 's')}"


def _cells(row: PhaseRow, place: str) -> tuple[str, ...]:
    name = plain(f"{'    ' if is_child(row.phase) else '  '}{row_name(row)}")
    short_key = row.key.rsplit("/", 1)[-1]
    return (
        name if len(name) <= NAME else name[: NAME - 1] + "…",
        value_text(row.seconds.value, row.seconds.unit) + ("*" if row.seconds.source is Source.DERIVED else ""),
        value_text(row.share, "frac"),
        "" if row.s_per_1k_tokens is None else digits(row.s_per_1k_tokens),
        "" if row.if_free is None else value_text(row.if_free.value, row.if_free.unit),
        _bar(row),
        plain(" ".join(part for part in (place, short_key) if part)),
    )


def _bar(row: PhaseRow) -> str:
    if not math.isfinite(row.share):
        return "?".ljust(BAR)
    glyph = "." if row.phase == Phase.UNATTRIBUTED else "/" if row.is_wait else "#"
    length = min(BAR, max(0, round(BAR * row.share)))
    return (glyph * length or ("|" if row.share > 0 else "")).ljust(BAR)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [
        text[:width].rjust(width) if 0 < index < 5 else text[:width].ljust(width)
        for index, (text, width) in enumerate(zip(cells, widths, strict=True))
        if width > 0
    ]
    return "  ".join(parts).rstrip()
