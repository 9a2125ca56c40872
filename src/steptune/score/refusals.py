"""Why a step model refused: reasons counted over the pairs it was asked about.

A refusal is no error in the tables, so what was refused must stand beside them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, final, runtime_checkable

from steptune.core.records import Record
from steptune.published.public_run import PublicRun
from steptune.score.groups import Group
from steptune.score.model import StepModel, stated


@runtime_checkable
class Explains(Protocol):
    """A step model that says why it refuses."""

    def refusal(self, run: PublicRun, *, measured: PublicRun | None) -> str | None:
        """Return the reason; None where it answers."""
        ...


@final
class RefusalLine(Record):
    """One reason: ``RefusalLine(side="test", arm="step model", reason="the model is not known", num_pairs=2)``."""

    side: str
    arm: str
    reason: str
    num_pairs: int


def refusal_lines(side: str, arms: Sequence[StepModel], groups: Sequence[Group]) -> Iterable[RefusalLine]:
    """Yield every reason of every arm that gives reasons, most frequent first."""
    for arm in arms:
        if not isinstance(arm, Explains):
            continue
        asked = (arm.refusal(stated(pair.other), measured=pair.base) for group in groups for pair in group.pairs)
        for reason, num_pairs in Counter(reason for reason in asked if reason is not None).most_common():
            yield RefusalLine(side=side, arm=arm.name, reason=reason, num_pairs=num_pairs)
