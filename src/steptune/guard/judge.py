"""How several findings become one verdict: FAIL beats INCONCLUSIVE beats PASS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate
from steptune.core.verdict import Judgement, Verdict

WORST_FIRST = (Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.PASS)
"""A proven break outranks a missing metric: more data would not take it back."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One test inside a guard: ``Finding(judgement=Judgement.PASS, because="smallest ESS 0.99")``."""

    judgement: Judgement
    because: str


def held(holds: bool, because: str) -> Finding:
    """Return PASS if ``holds``, else FAIL."""
    return Finding(judgement=Judgement.PASS if holds else Judgement.FAIL, because=because)


def unknown(because: str) -> Finding:
    """Return an INCONCLUSIVE finding."""
    return Finding(judgement=Judgement.INCONCLUSIVE, because=because)


def combined(guard: str, findings: Sequence[Finding], *, limit: str, measured: Estimate | None = None) -> Verdict:
    """Return the verdict of the worst finding, explained by every finding that is as bad (at least one given)."""
    worst = min((finding.judgement for finding in findings), key=WORST_FIRST.index)
    because = "; ".join(finding.because for finding in findings if finding.judgement is worst)
    return Verdict(guard=guard, judgement=worst, measured=measured, limit=limit, because=because)
