"""A separate pass computes old log-probs that the first training forward computes anyway.

With one optimizer update per rollout batch the weights have not moved when training starts, so that forward
*is* the old policy. With more updates, or an unknown number, the pass has a purpose.
"""

from steptune.core.bottleneck import Bottleneck, BottleneckKind
from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.diagnose.durations import brief
from steptune.diagnose.facts import cost_s, found

LEVERS = ("logprob_batch_tokens",)
"""Knobs that drop the pass or batch it better."""


def redundant_logprob(profile: Profile, planned: PlannedWork | None, threshold: float) -> Bottleneck | None:
    """Find the time of an old-log-prob pass in a job with one update per batch."""
    if profile.work.num_updates != 1:
        return None
    seconds = cost_s(profile, Phase.OLD_LOGPROB)
    return found(
        BottleneckKind.REDUNDANT_LOGPROB,
        profile,
        threshold,
        cost_s=seconds,
        evidence=f"old log-probs take {brief(seconds)} s although there is one update per batch",
        levers=LEVERS,
    )
