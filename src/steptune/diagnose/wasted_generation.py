"""Generated samples are thrown away before they train anything: too old, filtered, or surplus."""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, cost_bottleneck
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, origin_of

MIN_WASTE_FRAC = 0.2
"""Part of the samples thrown away from which it is named: dynamic sampling drops some by design. Prior."""


def wasted_generation(job: Job, step_s: float, threshold: float) -> Cause | None:
    """Find samples evicted against samples added; what they cost is their part of what the step pays for generation."""
    evicted, added = job.series("evicted"), job.series("added")
    if evicted is None or added is None or job.profile is None:
        return None
    num_evicted, num_added = sum(evicted.finite()), sum(added.finite())
    if not (num_added > 0 and num_evicted >= MIN_WASTE_FRAC * num_added):
        return None
    waste_frac = min(num_evicted / num_added, 1.0)
    paid_s = cost_s(job.profile, Phase.ROLLOUT, Phase.ENV_WAIT)
    text = (
        f"{num_evicted:g} of {num_added:g} samples are thrown away ({waste_frac:.1%}) of {said(paid_s)} of generation"
    )
    if not waste_frac * paid_s >= threshold * step_s:
        return None
    bottleneck = cost_bottleneck(
        BottleneckKind.WASTED_GENERATION, step_s=step_s, cost_s=waste_frac * paid_s, evidence=text
    )
    facts = tuple(Evidence(text=f"{s.key} {sum(s.finite()):g}", origin=origin_of(s)) for s in (evicted, added))
    return Cause(bottleneck=bottleneck, title="Generating samples that never train", evidence=facts)
