"""The answer of `steptune compare` in plain text: the verdict first, then everything it rests on."""

from collections.abc import Iterable

from steptune.core.comparison import Comparison, PhaseChange, SettingDifference, SpeedVerdict, WorkDifference
from steptune.core.estimate import Estimate
from steptune.core.finding import Finding
from steptune.core.paste import SettingValue
from steptune.core.profile import Origin
from steptune.report.blocks import Cell, Table
from steptune.report.cells import column, muted, numbers, words
from steptune.report.finding_text import finding_lines
from steptune.report.numbers import digits, estimate_text, interval_text, main_text, value_text
from steptune.report.places import Places
from steptune.report.text_page import bullet, section, wrapped
from steptune.report.text_table import WIDTH, table_lines

TOUCHES = {
    "algorithm": "algorithm: not a speed-up",
    "precision": "precision",
    "staleness": "staleness",
    "none": "speed only",
    "unknown": "unknown",
}
"""What a setting may change besides speed, in words."""


VERDICTS = {
    SpeedVerdict.FASTER: "FASTER",
    SpeedVerdict.SLOWER: "SLOWER",
    SpeedVerdict.NO_PROOF: "NO PROOF",
}
"""First words of the answer."""


def comparison_text(comparison: Comparison, name_a: str = "A", name_b: str = "B") -> str:
    """Return the whole answer; ``name_a`` and ``name_b`` are what the user called the two sides."""
    lines = [*wrapped(f"steptune compare: A {name_a}, B {name_b}", hang=4), "=" * WIDTH]
    lines += wrapped(f"{VERDICTS[comparison.verdict]}: {comparison.reason}", hang=2)
    lines += ["", *_ratios(comparison)]
    for table in (*difference_tables(comparison), phases_table(comparison.phases)):
        lines += ["", *table_lines(table)] if table.rows else []
    places = Places(origin.path for origin in origins(comparison.findings))
    lines += section("Findings", [line for f in comparison.findings for line in finding_lines(f, places)])
    lines += section("What would settle it", [line for text in comparison.settle for line in bullet(text, indent=0)])
    return "\n".join(lines) + "\n"


def difference_tables(comparison: Comparison) -> list[Table]:
    """Return the tables of what differs, work and settings, as far as they hold something."""
    return [table for table in (work_table(comparison.work), settings_table(comparison.settings)) if table.rows]


def version_text(comparison: Comparison) -> str:
    """Return the versions of both sides."""
    a, b = comparison.versions
    return f"version {a} on both sides" if a == b else f"versions differ: A {a}, B {b}"


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
    order = {name: rank for rank, name in enumerate(TOUCHES)}
    rows: list[tuple[Cell, ...]] = [
        (
            words(difference.key),
            _setting(difference.a, is_default=difference.a_is_default),
            _setting(difference.b, is_default=difference.b_is_default),
            words(TOUCHES.get(difference.touches, difference.touches)),
        )
        for difference in sorted(settings, key=lambda d: order.get(d.touches, len(order)))
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


def origins(findings: Iterable[Finding]) -> list[Origin]:
    """Return every place the findings name."""
    return [e.origin for finding in findings for e in finding.evidence if e.origin is not None]


def value_of_setting(value: SettingValue) -> str:
    """Return a setting as it would be written."""
    if isinstance(value, tuple):
        return "[" + ",".join(value_of_setting(item) for item in value) + "]"
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ratios(comparison: Comparison) -> list[str]:
    named = (("tokens per device-second, B / A", comparison.throughput_ratio),)
    named = (*named, ("step time as logged, A / B", comparison.raw_step_ratio))
    lines = [line for name, ratio in named if ratio for line in bullet(f"{name}: {_said(name, ratio)}", indent=0)]
    return [*lines, *bullet(version_text(comparison), indent=0)]


def _said(name: str, ratio: Estimate) -> str:
    """Return the ratio; a note that only repeats its name is left out."""
    return estimate_text(ratio.model_copy(update={"note": ""}) if ratio.note in name else ratio)


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
