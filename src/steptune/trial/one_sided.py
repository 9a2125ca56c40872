"""Which side of the step a change touches, and so whether a replay of that side alone can settle its speed. Pure.

A synchronous step is the sum of its sides: what leaves one side as it was need not run it again. Two witnesses must
agree: the knobs' own side, and the planned work, whose pieces on every other side and phase have to be the same under
both configurations. The surprise: a knob's label is not enough. How weights are handed over is labelled the trainer's
and moves no second of training; a CPU quota is labelled the rollout's and slows the trainer.

What a replay cannot see: effects on the other side that no plan knows of (another allocator state, heat), the
hand-over, and anything of a run whose sides overlap.
"""

from collections.abc import Collection, Mapping

from steptune.core.knob import KnobSpec
from steptune.core.phase import Phase, Role, parent_phase
from steptune.core.records import canonical_json
from steptune.core.work import PlannedWork, WorkItem

REPLAYED: Mapping[Role, frozenset[Phase]] = {
    Role.TRAINER: frozenset({Phase.TRAIN, Phase.OLD_LOGPROB, Phase.REF_LOGPROB}),
    Role.ROLLOUT: frozenset({Phase.ROLLOUT}),
}
"""Phases that a replay of a side runs."""


def side_touched(moved: Collection[KnobSpec], candidate: PlannedWork, incumbent: PlannedWork) -> Role | None:
    """Return the only side that turning ``moved`` touches; None where there is no such side, or none can be replayed.

    Args:
        moved: knobs whose values differ between the two configurations.
        candidate: work of a step under one of them.
        incumbent: the same under the other.
    """
    if candidate.schedule != "sync" or incumbent.schedule != "sync":
        return None
    roles = {spec.side for spec in moved}
    side = roles.pop() if len(roles) == 1 else None
    if side is None or side not in REPLAYED:
        return None
    changed = _changed(candidate, incumbent)
    inside = all(item.role is side and parent_phase(item.phase) in REPLAYED[side] for item in changed)
    return side if inside else None


def _changed(candidate: PlannedWork, incumbent: PlannedWork) -> list[WorkItem]:
    """Return the pieces of work that only one of the two has."""
    ours, theirs = ({canonical_json(item): item for item in planned.items} for planned in (candidate, incumbent))
    return [item for key, item in {**ours, **theirs}.items() if (key in ours) != (key in theirs)]
