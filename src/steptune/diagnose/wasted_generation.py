"""Generated samples or tokens are thrown away before they train anything: too old, filtered, masked or surplus."""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Evidence
from steptune.core.paste import Series
from steptune.core.phase import Phase
from steptune.diagnose.cause import Cause, is_worth_a_name
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s
from steptune.diagnose.job import Job, mean_of, origin_of

MIN_WASTE_FRAC = 0.2
"""Part thrown away from which it is named: dynamic sampling drops some by design. Prior."""

_SUBJECT = "generating what never trains"


def wasted_generation(job: Job, step_s: float | None, threshold: float) -> Cause | None:
    """Find samples evicted against samples added, or effective against raw tokens a second.

    What they cost is their part of what the step pays for generation.
    """
    found = _evicted(job) or _ineffective(job)
    if found is None or found[0] < MIN_WASTE_FRAC:
        return None
    waste_frac, text, series = found
    facts = tuple(Evidence(text=f"{s.key} {mean_of(s):g}", origin=origin_of(s)) for s in series)
    paid_s = cost_s(job.profile, Phase.ROLLOUT, Phase.ENV_WAIT) if job.profile else 0.0
    if step_s is None or paid_s <= 0:
        return Cause(kind=BottleneckKind.WASTED_GENERATION, subject=_SUBJECT, text=text, facts=facts)
    if not is_worth_a_name(waste_frac * paid_s, step_s, threshold):
        return None
    return Cause(
        kind=BottleneckKind.WASTED_GENERATION,
        subject=_SUBJECT,
        text=f"{text}, of {said(paid_s)} that the step pays for generation",
        facts=facts,
        cost_s=waste_frac * paid_s,
        step_s=step_s,
    )


def _evicted(job: Job) -> tuple[float, str, tuple[Series, ...]] | None:
    evicted, added = job.series("evicted"), job.series("added")
    if evicted is None or added is None:
        return None
    num_evicted, num_added = sum(evicted.finite()), sum(added.finite())
    if not 0 < num_added < float("inf"):
        return None
    frac = min(num_evicted / num_added, 1.0)
    return frac, f"{num_evicted:g} of {num_added:g} samples are thrown away ({frac:.1%})", (evicted, added)


def _ineffective(job: Job) -> tuple[float, str, tuple[Series, ...]] | None:
    raw, effective = job.series("tokens_per_device_s"), job.series("effective_tokens_per_device_s")
    if raw is None or effective is None or not 0 < mean_of(effective) <= mean_of(raw):
        return None
    kept = mean_of(effective) / mean_of(raw)
    text = f"{mean_of(effective):.0f} of {mean_of(raw):.0f} tokens/s per GPU are effective ({kept:.0%})"
    return 1 - kept, f"{text}: the rest is filtered away or masked", (effective, raw)
