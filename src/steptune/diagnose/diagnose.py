"""Runs every rule over a profile. `RULES` is the table of contents: one file a cause, one line here."""

import math
from collections.abc import Callable

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.environment_bound import environment_bound
from steptune.diagnose.facts import share_threshold
from steptune.diagnose.long_tail import long_tail
from steptune.diagnose.mode_switch import mode_switch
from steptune.diagnose.padding_waste import padding_waste
from steptune.diagnose.recompute_cost import recompute_cost
from steptune.diagnose.redundant_logprob import redundant_logprob
from steptune.diagnose.rollout_bound import rollout_bound
from steptune.diagnose.serialised_sides import serialised_sides
from steptune.diagnose.thread_split import thread_split
from steptune.diagnose.trainer_bound import trainer_bound
from steptune.diagnose.weight_sync_bound import weight_sync_bound

Rule = Callable[[Profile, PlannedWork | None, float], Bottleneck | None]
"""Profile, the baseline's planned work where known, smallest share worth a name -> the bottleneck, if there."""

RULES: dict[BottleneckKind, Rule] = {
    BottleneckKind.ROLLOUT_BOUND: rollout_bound,
    BottleneckKind.TRAINER_BOUND: trainer_bound,
    BottleneckKind.LONG_TAIL: long_tail,
    BottleneckKind.PADDING_WASTE: padding_waste,
    BottleneckKind.RECOMPUTE_COST: recompute_cost,
    BottleneckKind.SERIALISED_SIDES: serialised_sides,
    BottleneckKind.WEIGHT_SYNC_BOUND: weight_sync_bound,
    BottleneckKind.ENVIRONMENT_BOUND: environment_bound,
    BottleneckKind.MODE_SWITCH: mode_switch,
    BottleneckKind.REDUNDANT_LOGPROB: redundant_logprob,
    BottleneckKind.THREAD_SPLIT: thread_split,
}
"""Every kind of bottleneck with the rule that finds it."""


def diagnose(profile: Profile, planned: PlannedWork | None) -> tuple[Bottleneck, ...]:
    """Return the bottlenecks of a profile, the largest share first.

    Shares overlap (padding is part of training), so they do not add up to one. ``planned`` is the work of the
    profiled configuration; None for a pasted log. A profile without a positive step time has none.
    """
    step_s = profile.step_time.value
    if not (math.isfinite(step_s) and step_s > 0):
        return ()
    threshold = share_threshold(profile)
    found = [rule(profile, planned, threshold) for rule in RULES.values()]
    return tuple(sorted((b for b in found if b is not None), key=lambda b: -b.share.value))
