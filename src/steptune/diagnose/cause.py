"""A cause of a slow step on its way to a finding: the bottleneck, and what was read where."""

from dataclasses import dataclass
from typing import final

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Evidence


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Example: V22's ``Cause(bottleneck=..., title="the update takes 40x the old log-probs", evidence=(...))``."""

    bottleneck: Bottleneck
    title: str = ""
    """What it is, without numbers of the ceiling; empty for the kind's own words."""
    evidence: tuple[Evidence, ...] = ()
    """Facts besides the bottleneck's own sentence, with their places."""


def cost_bottleneck(kind: BottleneckKind, *, step_s: float, cost_s: float, evidence: str, note: str = "") -> Bottleneck:
    """Return the bottleneck that ``cost_s`` of a step of ``step_s`` seconds make, at most all of it."""
    cost_s = min(cost_s, step_s)
    return Bottleneck(
        kind=kind,
        share=Estimate(value=cost_s / step_s, unit="frac", source=Source.DERIVED, note=note),
        ceiling=Estimate(value=step_s - cost_s, unit="s", source=Source.DERIVED, note=note),
        evidence=evidence,
    )
