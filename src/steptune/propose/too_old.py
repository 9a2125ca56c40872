"""Candidates that would train on tokens older than the owner allows, whichever side is faster: refused untried.

Surprise: where two sides race each other no age is certain. There the framework keeps a bound, and whether that bound
is within the owner's is one of its conflicts. What is certain is an age that follows from the plan.
"""

from collections import Counter
from collections.abc import Sequence

from steptune.core.lag import certain_lag
from steptune.core.work import PlannedWork
from steptune.propose.candidates import Proposal, Refusal


def without_too_old(
    proposal: Proposal, planned: Sequence[PlannedWork], max_staleness: int
) -> tuple[Proposal, tuple[PlannedWork, ...]]:
    """Return the changes whose tokens may keep the limit, with their plans; the others are counted as refused.

    ``planned`` belongs to the proposal's changes, place by place; ``max_staleness`` is in updates.
    """
    ages = [certain_lag(work.ages) for work in planned]
    late = Counter(age for age in ages if age > max_staleness)
    if not late:
        return proposal, tuple(planned)
    kept = [index for index, age in enumerate(ages) if age <= max_staleness]
    refused = tuple(
        Refusal(
            reason=f"limits.max_staleness is {max_staleness}: some tokens would be {age} updates old for sure",
            count=count,
        )
        for age, count in sorted(late.items())
    )
    smaller = proposal.model_copy(
        update={
            "changes": tuple(proposal.changes[index] for index in kept),
            "num_refused": proposal.num_refused + late.total(),
            "refusals": (*proposal.refusals, *refused),
        }
    )
    return smaller, tuple(planned[index] for index in kept)
