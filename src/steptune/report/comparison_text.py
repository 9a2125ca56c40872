"""The answer of `steptune compare` in plain text: the verdict first, then everything it rests on."""

from collections.abc import Iterable
from itertools import groupby

from steptune.core.comparison import Comparison, SettingDifference, SpeedVerdict
from steptune.core.estimate import Estimate
from steptune.core.finding import Finding
from steptune.core.profile import Origin
from steptune.report.blocks import Table
from steptune.report.comparison_tables import TOUCHES, by_touch, phases_table, sides, work_table
from steptune.report.finding_text import finding_lines
from steptune.report.numbers import estimate_text
from steptune.report.places import Places
from steptune.report.text_page import bullet, section, wrapped
from steptune.report.text_table import WIDTH, cell_text, table_lines

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
    lines += _table(work_table(comparison.work))
    lines += section("Settings that differ, and what each may change", _settings(comparison.settings))
    lines += _table(phases_table(comparison.phases))
    places = Places(origin.path for origin in origins(comparison.findings))
    lines += section("Findings", [line for f in comparison.findings for line in finding_lines(f, places)])
    lines += section("What would settle it", [line for text in comparison.settle for line in bullet(text, indent=0)])
    return "\n".join(lines) + "\n"


def _table(table: Table) -> list[str]:
    return ["", *table_lines(table)] if table.rows else []


def _settings(settings: Iterable[SettingDifference]) -> list[str]:
    """Return one line a setting, never broken inside its name, under what it touches."""
    lines: list[str] = []
    for touches, held in groupby(by_touch(settings), key=lambda difference: difference.touches):
        lines.append(TOUCHES.get(touches, touches))
        for difference in held:
            a, b = (cell_text(cell) for cell in sides(difference))
            lines += bullet(f"{difference.key}: {a} -> {b}")
    return lines


def version_text(comparison: Comparison) -> str:
    """Return the versions of both sides."""
    a, b = comparison.versions
    return f"version {a} on both sides" if a == b else f"versions differ: A {a}, B {b}"


def origins(findings: Iterable[Finding]) -> list[Origin]:
    """Return every place the findings name."""
    return [e.origin for finding in findings for e in finding.evidence if e.origin is not None]


def _ratios(comparison: Comparison) -> list[str]:
    named = (("tokens per device-second, B / A", comparison.throughput_ratio),)
    named = (*named, ("step time as logged, A / B", comparison.raw_step_ratio))
    lines = [line for name, ratio in named if ratio for line in bullet(f"{name}: {_said(name, ratio)}", indent=0)]
    return [*lines, *bullet(version_text(comparison), indent=0)]


def _said(name: str, ratio: Estimate) -> str:
    """Return the ratio; a note that only repeats its name is left out."""
    return estimate_text(ratio.model_copy(update={"note": ""}) if ratio.note in name else ratio)
