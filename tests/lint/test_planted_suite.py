"""Every planted fault is found, every near miss is left alone, and healthy configurations raise nothing."""

import pytest
from planted import Case, bases, cases, healthy, near_miss, planted

from steptune.core.finding import Severity
from steptune.lint.check import lint
from steptune.lint.load import frameworks, rule_set

CASES = cases()

MIN_CASES = 60
"""What the issue asks for."""


def test_the_suite_is_large_enough() -> None:
    assert len(CASES) >= MIN_CASES


def test_every_rule_has_a_case() -> None:
    wanted = {f"lint/{name}/{rule.id}" for name in frameworks() for rule in rule_set(name).rules}
    assert wanted == {case.code for case in CASES}


@pytest.mark.parametrize("base", bases())
def test_a_healthy_configuration_raises_nothing_of_weight(base: str) -> None:
    paste = healthy(base)
    assert len(paste.settings) > 5
    assert [f.code for f in lint(paste) if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.code}" for n, case in enumerate(CASES)])
def test_a_planted_fault_is_found_and_nothing_else_of_weight(case: Case) -> None:
    found = lint(planted(case))
    assert case.code in {finding.code for finding in found}
    allowed = {case.code, *(f"lint/{case.framework}/{rule}" for rule in case.also)}
    assert {f.code for f in found if f.severity is not Severity.INFO} <= allowed


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.code}" for n, case in enumerate(CASES)])
def test_a_near_miss_is_left_alone(case: Case) -> None:
    assert case.code not in {finding.code for finding in lint(near_miss(case))}


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.code}" for n, case in enumerate(CASES)])
def test_a_finding_shows_the_lines_it_rests_on(case: Case) -> None:
    finding = next(finding for finding in lint(planted(case)) if finding.code == case.code)
    touched = {*case.plant, *case.repeat}
    shown = " ".join(fact.text for fact in finding.evidence).replace("-", "_")
    if touched:
        assert any(key.removeprefix("env.").replace("-", "_") in shown for key in touched)
    assert "{" not in finding.title
    assert "(not set)" not in finding.title or "top_" in finding.title
