import pytest

from steptune.core.verdict import Judgement
from steptune.guard.judge import Finding, combined, held, unknown

PASS, FAIL, OPEN = held(True, "fine"), held(False, "broken"), unknown("missing")


@pytest.mark.parametrize(
    ("findings", "expected", "because"),
    [
        ([PASS, PASS], Judgement.PASS, "fine; fine"),
        ([PASS, OPEN], Judgement.INCONCLUSIVE, "missing"),
        ([OPEN, FAIL, PASS], Judgement.FAIL, "broken"),
    ],
)
def test_the_worst_finding_decides_and_explains(findings: list[Finding], expected: Judgement, because: str) -> None:
    verdict = combined("some_guard", findings, limit="a bound")
    assert (verdict.guard, verdict.judgement, verdict.because) == ("some_guard", expected, because)
