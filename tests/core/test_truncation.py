import pytest

from steptune.core.finding import Severity
from steptune.core.truncation import MANY_CUT_FRAC, MOST_CUT_FRAC, cut_severity


@pytest.mark.parametrize(
    ("frac", "severity"),
    [
        (0.0, None),
        (MANY_CUT_FRAC, Severity.WARNING),
        (0.49, Severity.WARNING),
        (MOST_CUT_FRAC, Severity.FAULT),
        (1.0, Severity.FAULT),
        (1.2, None),
        (float("nan"), None),
    ],
)
def test_most_answers_cut_is_a_fault_and_many_a_warning(frac: float, severity: Severity | None) -> None:
    assert cut_severity(frac) is severity
