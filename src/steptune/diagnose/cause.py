"""A cause of a slow step on its way to a finding: what it costs, and what was read where.

The surprise: a cost may be known while the step is not (a log of the rollout side alone, one timer of a save). Such a
cause is a finding without share and ceiling; it never becomes a `Bottleneck`.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Evidence
from steptune.core.profile import Origin


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Example: ``Cause(kind=BACKWARD_SLOW, subject="a slow backward pass", text="the update takes ...", ...)``."""

    kind: BottleneckKind
    subject: str
    """What costs the time, as it stands inside a sentence."""
    text: str
    """The measured facts, one sentence."""
    facts: tuple[Evidence, ...] = ()
    """The values behind it, with their places."""
    cost_s: float | None = None
    """What it adds to the step in seconds; None when the step is unknown."""
    step_s: float | None = None
    """The step it is a part of."""
    note: str = ""
    """What the ceiling assumes."""
    is_bound: bool = False
    """Whether the cost is the most it can be, not what it is."""
    levers: tuple[str, ...] = ()

    def bottleneck(self) -> Bottleneck | None:
        """Return it with share and ceiling, or None where the step is unknown. A cost is at most the step."""
        if self.cost_s is None or self.step_s is None:
            return None
        cost_s = min(self.cost_s, self.step_s)
        return Bottleneck(
            kind=self.kind,
            share=Estimate(value=cost_s / self.step_s, unit="frac", source=Source.DERIVED, note=self.note),
            ceiling=Estimate(value=self.step_s - cost_s, unit="s", source=Source.DERIVED, note=self.note),
            evidence=self.text,
            levers=self.levers,
        )

    def origin(self) -> Origin | None:
        """Return where its first value stands."""
        return next((fact.origin for fact in self.facts if fact.origin is not None), None)


def is_worth_a_name(cost_s: float, step_s: float, threshold: float) -> bool:
    """Return whether a cost reaches ``threshold`` of the step; NaN does not."""
    return cost_s >= threshold * step_s > 0
