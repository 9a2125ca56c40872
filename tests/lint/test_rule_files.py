"""The rule files themselves: every rule can be read, has a source, and names only what exists."""

import re

import pytest

from steptune.core.finding import Severity
from steptune.lint.check import PLACEHOLDER
from steptune.lint.dependence import formulas
from steptune.lint.formula import names_in
from steptune.lint.load import frameworks, rule_set
from steptune.lint.rule import Ignored, Missing, Rule, RuleSet
from steptune.lint.view import DEVICES, VERSION

MIN_RULES = 60
"""What the issue asks for over all frameworks."""

FREE_WORDS = {"left", "right", "key", "got", "new", "active", "first"}
"""Words that checks provide to messages."""

RULES = [(name, rule) for name in frameworks() for rule in rule_set(name).rules]


def test_there_are_enough_rules_and_all_eight_frameworks_have_some() -> None:
    assert len(RULES) >= MIN_RULES
    assert set(frameworks()) >= {"any", "verl", "nemo_rl", "trl", "prime_rl", "slime", "skyrl", "openrlhf", "areal"}


@pytest.mark.parametrize("framework", frameworks())
def test_no_id_is_used_twice(framework: str) -> None:
    ids = [rule.id for rule in rule_set(framework).rules]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("framework", "rule"), RULES, ids=[f"{name}/{rule.id}" for name, rule in RULES])
def test_a_rule_names_only_what_its_file_knows(framework: str, rule: Rule) -> None:
    names = {*rule_set(framework).names, DEVICES, VERSION}
    texts = (*formulas(rule), *(text for fix in rule.fixes for text in fix.set.values()))
    used = {name for text in texts for name in names_in(text)} | {adjust.name for adjust in rule.adjust}
    set_names = {name for fix in rule.fixes for name in fix.set}
    words = set(PLACEHOLDER.findall(" ".join((rule.message, *(fix.text for fix in rule.fixes)))))
    assert (used | set_names) - {"True", "False"} <= names
    assert words - FREE_WORDS <= names


@pytest.mark.parametrize(("framework", "rule"), RULES, ids=[f"{name}/{rule.id}" for name, rule in RULES])
def test_a_rule_says_why_and_where_it_was_read(framework: str, rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9_]+", rule.id)
    assert len(rule.why) > 10
    assert re.match(r"https://|[\w.-]+/[\w.-]+", rule.source)
    assert not rule.message.endswith(".")


@pytest.mark.parametrize("framework", frameworks())
def test_names_do_not_run_in_circles(framework: str) -> None:
    names = rule_set(framework).names

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"{' -> '.join((*path, name))}"
        known = names.get(name)
        for text in (known.formula, known.default_if) if known else ():
            for used in names_in(text) if text else ():
                visit(used, (*path, name))

    for name in names:
        visit(name, ())


@pytest.mark.parametrize("framework", frameworks())
def test_a_name_has_keys_or_a_formula(framework: str) -> None:
    for name, known in rule_set(framework).names.items():
        assert bool(known.keys) != bool(known.formula), name


@pytest.mark.parametrize("framework", frameworks())
def test_no_name_is_left_that_no_rule_asks_for(framework: str) -> None:
    rules = rule_set(framework)
    used = {name for rule in rules.rules for name in _asked(rule)}
    while more := {n for k in used for n in _below(rules, k)} - used:
        used |= more
    assert set(rules.names) - used == set()


def _asked(rule: Rule) -> set[str]:
    texts = (*formulas(rule), *(text for fix in rule.fixes for text in fix.set.values()))
    words = PLACEHOLDER.findall(" ".join((rule.message, *(fix.text for fix in rule.fixes))))
    active = {rule.check.active} if isinstance(rule.check, Ignored) else set()
    names = {name for text in texts for name in names_in(text)}
    return names | {a.name for a in rule.adjust} | {n for fix in rule.fixes for n in fix.set} | set(words) | active


def _below(rules: RuleSet, name: str) -> set[str]:
    known = rules.names.get(name)
    texts = (known.formula, known.default_if) if known else ()
    return {used for text in texts if text for used in names_in(text)}


@pytest.mark.parametrize(("framework", "rule"), RULES, ids=[f"{name}/{rule.id}" for name, rule in RULES])
def test_what_is_not_there_is_never_a_fault(framework: str, rule: Rule) -> None:
    # a paste may be cut: an option that was not read may still stand in the file
    assert not (isinstance(rule.check, Missing) and rule.severity is Severity.FAULT), framework
