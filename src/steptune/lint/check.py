"""The one entry of the linter: a paste in, findings out.

Rules are data (``rules/*.toml``); this file turns a rule that fires into a finding with the lines it rests on and
the nearest valid values, each labelled by whether it still trains the same thing.
"""

import re
from collections.abc import Iterator

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Paste
from steptune.lint.dependence import fault_rules_on
from steptune.lint.formula import evaluate, holds
from steptune.lint.hit import Hit
from steptune.lint.kinds.table import check_hits
from steptune.lint.load import ANY, rule_set
from steptune.lint.nearest_values import nearest_values
from steptune.lint.render import change_line
from steptune.lint.rule import Adjust, Fix, Refusal, Rule, RuleSet
from steptune.lint.stated import stated_findings
from steptune.lint.view import View

PLACEHOLDER = re.compile(r"\{(\w+)\}")
"""A word that a message leaves open."""

STOPS: dict[Refusal, str] = {
    "at start": "the framework stops such a job at its start",
    "after setup": "the framework stops such a job only after its setup",
    "never": "the framework lets such a job run",
}
"""When the framework itself says no: the later, the more a warning beforehand is worth."""

SEVERITIES = (Severity.FAULT, Severity.WARNING, Severity.INFO)
"""Worst first."""


def lint(paste: Paste) -> tuple[Finding, ...]:
    """Return everything wrong with the settings of ``paste``, and what its error texts say of them, faults first."""
    stated = list(stated_findings(paste))
    if not paste.settings:
        return tuple(stated)
    sets = [rule_set(name) for name in (ANY, paste.framework) if name is not None]
    found = stated + [finding for rules in sets for finding in _findings(View.of(paste, rules), rules)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _findings(view: View, rules: RuleSet) -> Iterator[Finding]:
    for rule in rules.rules:
        for hit in rule_hits(rule, view):
            yield Finding(
                code=f"lint/{rules.framework}/{rule.id}",
                kind=FindingKind.LINT,
                severity=rule.severity,
                title=_fill(rule.message, hit, view),
                evidence=tuple(dict.fromkeys((*hit.evidence, *view.evidence(*rule.when), _reason(rule)))),
                remedies=tuple(_remedies(rule, hit, view, rules)),
            )


def _reason(rule: Rule) -> Evidence:
    return Evidence(text=f"{rule.why}; {STOPS[rule.refused]}; source: {rule.source}")


def rule_hits(rule: Rule, view: View) -> tuple[Hit, ...]:
    """Return where ``rule`` fires: its conditions hold and its check finds something."""
    return check_hits(rule.check, view) if all(holds(condition, view) for condition in rule.when) else ()


def _remedies(rule: Rule, hit: Hit, view: View, rules: RuleSet) -> Iterator[Remedy]:
    for fix in rule.fixes:
        yield _fixed(fix, rule, hit, view)
    for adjust in rule.adjust:
        yield from _adjusted(adjust, rule, view, rules)


def _fixed(fix: Fix, rule: Rule, hit: Hit, view: View) -> Remedy:
    values = ((name, evaluate(formula, view)) for name, formula in fix.set.items())
    lines = tuple(change_line(name, value, view) for name, value in values if value is not None)
    text = f"{_fill(fix.text, hit, view)} ({_label(fix.same_algorithm)})"
    return Remedy(text=text, lines=lines, keeps_algorithm=fix.same_algorithm, source=rule.source)


def _adjusted(adjust: Adjust, rule: Rule, view: View, rules: RuleSet) -> Iterator[Remedy]:
    others = [r for r in fault_rules_on(rules.framework, adjust.name) if r.id != rule.id and not rule_hits(r, view)]

    def is_valid(changed: View) -> bool:
        return not rule_hits(rule, changed) and not any(rule_hits(other, changed) for other in others)

    for value in nearest_values(adjust.name, view, is_valid):
        line = change_line(adjust.name, value, view)
        text = f"nearest valid value {value} instead of {view.value(adjust.name)} ({_label(adjust.same_algorithm)})"
        yield Remedy(text=text, lines=(line,), keeps_algorithm=adjust.same_algorithm, source=rule.source)


def _label(same_algorithm: bool) -> str:
    return "same algorithm" if same_algorithm else "changes what is trained"


def _fill(text: str, hit: Hit, view: View) -> str:
    return PLACEHOLDER.sub(lambda match: _word(match.group(1), hit, view), text)


def _word(name: str, hit: Hit, view: View) -> str:
    if name in hit.words:
        return hit.words[name]
    value = view.value(name)
    if value is not None:
        return f"{value:g}" if isinstance(value, float) else str(value)
    setting = view.setting(name)
    return setting.text if setting is not None else "(not set)"
