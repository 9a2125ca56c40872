"""The tables of a comparison: work, settings and phases, side by side."""

from collections.abc import Iterable

from steptune.core.comparison import Comparison, PhaseChange, SettingDifference, WorkDifference
from steptune.core.estimate import Estimate
from steptune.core.paste import SettingValue
from steptune.report.blocks import Cell, Table
from steptune.report.cells import column, muted, numbers, words
from steptune.report.numbers import digits, interval_text, main_text, value_text

TOUCHES = {
    "algorithm": "algorithm: not a speed-up",
    "precision": "precision",
    "staleness": "staleness",
    "none": "speed only",
    "unknown": "unknown",
}
"""What a setting may change besides speed, in words."""


def difference_tables(comparison: Comparison) -> list[Table]:
    """Return the tables of what differs, work and settings, as far as they hold something."""
    return [table for table in (work_table(comparison.work), settings_table(comparison.settings)) if table.rows]


def work_table(work: Iterable[WorkDifference]) -> Table:
    """Return what was done differently, asked for first."""
    rows: list[tuple[Cell, ...]] = [
        (
            words(difference.what),
            _amount(difference.a, difference.unit),
            _amount(difference.b, difference.unit),
            words("asked for" if difference.is_declared else "came out"),
        )
        for difference in sorted(work, key=lambda d: not d.is_declared)
    ]
    heads = (column("work that differs"), numbers("A"), numbers("B"), column("how"))
    return Table(caption="Work: step times compare only at the same work", columns=heads, rows=tuple(rows))


def settings_table(settings: Iterable[SettingDifference]) -> Table:
    """Return the settings that differ, those that change the training first."""
    rows: list[tuple[Cell, ...]] = [
        (words(held.key), *sides(held), words(TOUCHES.get(held.touches, held.touches))) for held in by_touch(settings)
    ]
    heads = (column("setting"), column("A"), column("B"), column("touches"))
    return Table(caption="Settings that differ, and what each may change", columns=heads, rows=tuple(rows))


def phases_table(phases: Iterable[PhaseChange]) -> Table:
    """Return seconds per step and per 1,000 tokens of both sides."""
    rows: list[tuple[Cell, ...]] = [
        (
            words(change.phase),
            words(value_text(change.a_s, "s")),
            words(value_text(change.b_s, "s")),
            _rate(change.a_s_per_1k),
            _rate(change.b_s_per_1k),
            _ratio(change.ratio),
        )
        for change in phases
    ]
    heads = (
        column("phase"),
        numbers("A per step"),
        numbers("B per step"),
        numbers("A s/1k tok"),
        numbers("B s/1k tok"),
        numbers("A / B"),
    )
    caption = "Phases: per step, and per 1,000 tokens with its ratio (derived; above 1 B is faster)"
    return Table(caption=caption, columns=heads, rows=tuple(rows))


def by_touch(settings: Iterable[SettingDifference]) -> list[SettingDifference]:
    """Return the settings, those that change the training first."""
    order = {name: rank for rank, name in enumerate(TOUCHES)}
    return sorted(settings, key=lambda difference: order.get(difference.touches, len(order)))


def sides(difference: SettingDifference) -> tuple[Cell, Cell]:
    """Return both values as cells."""
    return (
        _setting(difference.a, is_default=difference.a_is_default),
        _setting(difference.b, is_default=difference.b_is_default),
    )


def value_of_setting(value: SettingValue) -> str:
    """Return a setting as it would be written."""
    if isinstance(value, tuple):
        return "[" + ",".join(value_of_setting(item) for item in value) + "]"
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _amount(value: float | None, unit: str) -> Cell:
    if value is None:
        return muted("not stated")
    return words(f"{value:,.0f} {unit}".rstrip() if float(value).is_integer() else value_text(value, unit or "1"))


def _ratio(ratio: Estimate | None) -> Cell:
    """Return the value and its interval in few characters: six columns must fit a line of text."""
    if ratio is None:
        return muted("tokens unknown")
    interval = interval_text(ratio)
    return words(f"{main_text(ratio)} ({interval})" if interval else main_text(ratio))


def _rate(value: float | None) -> Cell:
    return muted("unknown") if value is None else words(digits(value))


def _setting(value: SettingValue, *, is_default: bool) -> Cell:
    text = value_of_setting(value)
    if is_default:
        return muted("default" if value is None else f"{text} (default)")
    return words(text)
