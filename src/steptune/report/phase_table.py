"""The phase table in plain text: one row per phase, with a bar that tells busy from waiting without colour.

Surprise: the last column is cut before anything else when a line would get too wide; it names the line of the log
and the key as the log spells it.
"""

import math
from collections.abc import Collection, Sequence

from steptune.core.estimate import Source
from steptune.core.finding import Diagnosis, PhaseRow
from steptune.core.phase import Phase, is_child
from steptune.core.profile import Origin, Profile
from steptune.report.numbers import digits, value_text
from steptune.report.phase_rows import is_merged, is_small, row_name, row_origin, shown_rows
from steptune.report.places import Places
from steptune.report.text_page import wrapped
from steptune.report.text_table import WIDTH, plain

BAR = 14
"""Characters of a full bar: the whole wall time of the role."""

NAME = 30
"""Characters of the widest name before it is cut."""

HEADS = ("", "per step", "share", "s/1k tok", "if free", "", "read at")

NUMBERS = (1, 2, 3, 4)
"""Columns that are right-aligned."""


def phase_lines(diagnosis: Diagnosis, places: Places) -> list[str]:
    """Return the table and what its marks mean, or nothing without phases."""
    rows = shown_rows(diagnosis)
    if not rows:
        return []
    profile = diagnosis.paste.profile
    merged = is_merged(diagnosis)
    origins = [row_origin(diagnosis.paste, row) for row in rows]
    files = {origin.path for origin in origins if origin is not None}
    named = [_place(origin, places, is_only_file=len(files) == 1) for origin in origins]
    cells = [_cells(row, place, indent=0 if merged else 2) for row, place in zip(rows, named, strict=True)]
    head, *lines = _aligned([HEADS, *cells])
    drawn = lines if merged else _under_roles(profile, rows, lines)
    return [head, *drawn, *_legend(rows, _lines_of(profile, files, places), merged=merged)]


def _lines_of(profile: Profile | None, files: Collection[str], places: Places) -> str:
    """Return what the line numbers count; of a mean over steps they are the first step's."""
    steps = profile.num_steps if profile else 1
    first = f", of the first of {steps} averaged steps" if steps > 1 else ""
    if len(files) != 1:
        return f"; lines are{first.removeprefix(',')}" if first and files else ""
    return f"; lines of {places.file(next(iter(files)))}{first}"


def _place(origin: Origin | None, places: Places, *, is_only_file: bool) -> str:
    """Return where a row was read; the one file that all rows come from is named below the table."""
    if origin is None or not is_only_file or origin.line < 1:
        return places.of(origin)
    return f":{origin.line}"


def _under_roles(profile: Profile | None, rows: Sequence[PhaseRow], lines: Sequence[str]) -> list[str]:
    drawn: list[str] = []
    role = None
    for row, line in zip(rows, lines, strict=True):
        drawn += [plain(_role(profile, row))] if row.role is not role else []
        drawn.append(line)
        role = row.role
    return drawn


def _role(profile: Profile | None, row: PhaseRow) -> str:
    role = profile.role(row.role) if profile else None
    if role is None:
        return str(row.role)
    held = f", {role.num_devices:g} devices" if role.num_devices is not None else ""
    return f"{row.role}{held}, wall {value_text(role.wall_s, 's')}"


def _cells(row: PhaseRow, place: str, indent: int) -> tuple[str, ...]:
    name = plain(f"{' ' * indent}{'  ' if is_child(row.phase) else ''}{row_name(row)}")
    short_key = row.key.rsplit("/", 1)[-1]
    small = is_small(row)
    return (
        name if len(name) <= NAME else name[: NAME - 1] + "…",
        value_text(row.seconds.value, row.seconds.unit) + ("*" if row.seconds.source is Source.DERIVED else ""),
        "< 0.1 %" if small else "" if row.share is None else value_text(row.share, "frac"),
        "" if row.s_per_1k_tokens is None or small else digits(row.s_per_1k_tokens),
        "" if row.if_free is None or small else value_text(row.if_free.value, row.if_free.unit),
        _bar(row),
        plain(" ".join(part for part in (place, short_key) if part)),
    )


def _bar(row: PhaseRow) -> str:
    if row.share is None:
        return ""
    if not math.isfinite(row.share):
        return "?".ljust(BAR)
    length = min(BAR, max(0, round(BAR * row.share)))
    return (_glyph(row) * length or ("|" if row.share > 0 else "")).ljust(BAR)


def _glyph(row: PhaseRow) -> str:
    return "." if row.phase == Phase.UNATTRIBUTED else "/" if row.is_wait else "#"


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines; a column that no row fills is left out, the last is cut to the width of the page."""
    filled = [any(line[index] for line in table[1:]) for index in range(len(HEADS))]
    widths = [max(len(line[index]) for line in table) if filled[index] else 0 for index in range(len(HEADS))]
    widths[-1] = min(widths[-1], WIDTH - sum(widths[:-1]) - 2 * sum(width > 0 for width in widths[:-1]))
    return [_line(line, widths) for line in table]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [
        text[:width].rjust(width) if index in NUMBERS else text[:width].ljust(width)
        for index, (text, width) in enumerate(zip(cells, widths, strict=True))
        if width > 0
    ]
    return "  ".join(parts).rstrip()


def _legend(rows: Sequence[PhaseRow], only: str, *, merged: bool) -> list[str]:
    if all(row.share is None for row in rows):
        return wrapped(f"seconds alone: the step that they are part of is not timed{only}", hang=2)
    marks = {"#": "busy", "/": "waiting", ".": "unattributed"}
    drawn = {_glyph(row) for row in rows}
    bar = ", ".join(f"{glyph} {name}" for glyph, name in marks.items() if glyph in drawn)
    full = "the whole step" if merged else "the role's whole step"
    derived = "; * derived, else as logged" if any(r.seconds.source is Source.DERIVED for r in rows) else ""
    first = f"bar: {bar}, full width is {full}{derived}{only}"
    free = "if free: step time if the row took nothing, everything else as it is (derived)"
    return [*wrapped(first, hang=2), *([free] if any(row.if_free is not None for row in rows) else [])]
