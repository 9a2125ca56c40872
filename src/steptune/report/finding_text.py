"""One finding in plain text: how bad, what, why with its source lines, and what to do."""

from steptune.core.estimate import Estimate
from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.report.numbers import estimate_text
from steptune.report.places import Places
from steptune.report.text_page import bullet, to_paste, wrapped

MARKS = {Severity.FAULT: "FAULT", Severity.WARNING: "WARNING", Severity.INFO: "NOTE"}
"""First word of a finding, told apart without colour."""

CHANGES = "changes what is trained"
"""What must stand beside advice that is no speed-up; some advice says it itself."""


def finding_lines(finding: Finding, places: Places) -> list[str]:
    """Return the finding with evidence and remedies; its code in brackets is what scripts look for."""
    lines = wrapped(f"{MARKS[finding.severity]} {finding.title} [{finding.code}]", hang=4)
    if finding.kind is not FindingKind.BOTTLENECK and finding.share is not None:
        lines += bullet(f"share of the step: {estimate_text(finding.share)}", indent=4)
    for evidence in dict.fromkeys(finding.evidence):
        lines += bullet(evidence_text(evidence, places), indent=4)
    for remedy in shown_remedies(finding):
        lines += remedy_lines(remedy, indent=4, mark="=>")
    return lines


def shown_remedies(finding: Finding) -> list[Remedy]:
    """Return the advice, without a source that the evidence has named already."""
    named = " ".join(evidence.text for evidence in finding.evidence)
    return [r.model_copy(update={"source": ""}) if r.source in named else r for r in finding.remedies]


def evidence_text(evidence: Evidence, places: Places) -> str:
    """Return the fact and where it stands."""
    place = places.of(evidence.origin)
    return f"{evidence.text} ({place})" if place else evidence.text


def remedy_lines(remedy: Remedy, indent: int, mark: str, ceiling: Estimate | None = None) -> list[str]:
    """Return what to do, its price in honesty, and the lines to paste."""
    lead = indent + len(mark) + 1
    text = "; ".join([remedy.text, *remedy_notes(remedy, ceiling)])
    return [*bullet(text, indent=indent, mark=mark), *to_paste(remedy.lines, indent=lead + 2)]


def remedy_notes(remedy: Remedy, ceiling: Estimate | None = None) -> list[str]:
    """Return what must be known to follow the advice; a step time that only repeats ``ceiling`` is not said again."""
    is_said = remedy.keeps_algorithm or CHANGES in remedy.text
    notes = [] if is_said else [f"{CHANGES}: not a speed-up"]
    if remedy.step_time is not None and (ceiling is None or remedy.step_time.value != ceiling.value):
        notes.append(f"step time {estimate_text(remedy.step_time)}")
    return [*notes, *([f"source: {remedy.source}"] if remedy.source else [])]
