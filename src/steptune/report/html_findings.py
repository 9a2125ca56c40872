"""Findings in HTML: how bad in a word and a stripe, evidence with its lines, and lines to copy."""

from collections.abc import Iterable

from steptune.core.estimate import Estimate
from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.report.blocks import Number
from steptune.report.finding_text import remedy_notes, shown_remedies
from steptune.report.html_cells import cell_markup
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.places import Places

WORDS = {Severity.FAULT: "Fault", Severity.WARNING: "Warning", Severity.INFO: "Note"}
"""How bad, in words."""


def findings_markup(findings: Iterable[Finding], places: Places) -> Markup:
    """Return one block per finding."""
    return joined(*(finding_markup(finding, places) for finding in findings))


def finding_markup(finding: Finding, places: Places) -> Markup:
    """Return a finding with everything it rests on."""
    mark = element("span", WORDS[finding.severity], class_="severity")
    title = element("h3", mark, " ", prose(finding.title), " ", element("code", finding.code, class_="code"))
    evidence = [element("li", evidence_markup(one, places)) for one in dict.fromkeys(finding.evidence)]
    return element(
        "article",
        title,
        _figures(finding),
        element("ul", *evidence, class_="evidence") if evidence else joined(),
        *(remedy_markup(remedy, finding.ceiling) for remedy in shown_remedies(finding)),
        class_=f"finding {finding.severity}",
    )


def evidence_markup(evidence: Evidence, places: Places) -> Markup:
    """Return the fact, and in small print where it stands."""
    place = places.of(evidence.origin)
    return joined(prose(evidence.text), element("span", place, class_="place") if place else joined())


def remedy_markup(remedy: Remedy, ceiling: Estimate | None) -> Markup:
    """Return what to do, what it costs in honesty, and the lines to copy."""
    lines = "\n".join(remedy.lines)
    return element(
        "div",
        element("p", prose(remedy.text)),
        element("pre", element("code", lines), tabindex=0, aria_label="lines to copy") if lines else joined(),
        *(element("p", note, class_="small") for note in remedy_notes(remedy, ceiling)),
        class_="remedy" if remedy.keeps_algorithm else "remedy changes",
    )


def _figures(finding: Finding) -> Markup:
    named = (("share of the step", finding.share), ("step time without it", finding.ceiling))
    tiles = [
        element("div", element("dt", name), element("dd", cell_markup(Number(estimate=estimate))), class_="figure")
        for name, estimate in named
        if estimate is not None and finding.kind is FindingKind.BOTTLENECK
    ]
    return element("dl", *tiles, class_="figures") if tiles else joined()
