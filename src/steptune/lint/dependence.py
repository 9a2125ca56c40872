"""Which rules a value can touch: changing one key only asks for the rules that rest on it again."""

from functools import cache

from steptune.core.finding import Severity
from steptune.lint.formula import names_in
from steptune.lint.load import rule_set
from steptune.lint.rule import Allocation, AtMost, Divides, Equal, Ignored, InRange, Missing, Rule, Together


@cache
def fault_rules_on(framework: str, name: str) -> tuple[Rule, ...]:
    """Return the rules of severity fault in ``framework``'s file that rest on ``name``, directly or by formula."""
    rules = rule_set(framework)
    return tuple(r for r in rules.rules if r.severity is Severity.FAULT and name in _names(framework, r))


def formulas(rule: Rule) -> tuple[str, ...]:
    """Return every formula and name that decides whether ``rule`` fires."""
    match rule.check:
        case Divides(value=value, by=other) | AtMost(value=value, limit=other) | Equal(value=value, to=other):
            return (*rule.when, value, other)
        case Together(all_of=conditions):
            return (*rule.when, *conditions)
        case InRange(names=names) | Ignored(names=names) | Missing(names=names):
            return (*rule.when, *names)
        case Allocation(names=names, num_gpus=formula):
            return (*rule.when, *names, formula)
        case _:
            return rule.when


def _names(framework: str, rule: Rule) -> frozenset[str]:
    known = rule_set(framework).names
    found: set[str] = set()
    waiting = [name for text in formulas(rule) for name in names_in(text)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            spec = known.get(name)
            waiting += [n for text in (spec.formula, spec.default_if) if text for n in names_in(text)] if spec else []
    return frozenset(found)
