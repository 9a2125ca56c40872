"""How bad it is that answers are cut at the length limit: one scale for every command that meets the share.

The surprise: a cut answer is not only a shorter one. Most tasks ask for something at its end, so it cannot be right.
"""

from steptune.core.finding import Severity

MANY_CUT_FRAC = 0.2
"""Cut answers from which the length limit shapes what is learnt; AReaL's guide asks for at most 0.05. Prior."""

MOST_CUT_FRAC = 0.5
"""Cut answers from which most samples carry no finished answer."""


def cut_severity(cut_frac: float) -> Severity | None:
    """Return how much a share of cut answers, 0..1, matters; None below `MANY_CUT_FRAC` and for no fraction.

    >>> cut_severity(0.9).value, cut_severity(0.3).value, cut_severity(0.05), cut_severity(float("nan"))
    ('fault', 'warning', None, None)
    """
    if not MANY_CUT_FRAC <= cut_frac <= 1:
        return None
    return Severity.FAULT if cut_frac >= MOST_CUT_FRAC else Severity.WARNING
