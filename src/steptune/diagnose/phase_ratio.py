"""A log-prob pass that takes nearly as long as training: a forward alone should cost a fraction of it.

The opposite of a slow backward. One public log showed 1.08 where others show 2.3 to 6.5: the pass ran with a micro
batch much smaller than training did.
"""

from steptune.core.bottleneck import BottleneckKind
from steptune.core.estimate import Estimate, Source
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.phase import Phase
from steptune.core.profile import Origin
from steptune.diagnose.backward_slow import NORMAL_RATIO_MAX, NORMAL_RATIO_MIN, update_ratio
from steptune.diagnose.durations import said
from steptune.diagnose.facts import busy_s, share_threshold
from steptune.diagnose.job import Job
from steptune.diagnose.remedies import remedies

ODD_RATIO = 1.5
"""Update / old-log-prob ratio below which the pass is odd: a backward alone costs two forwards. Prior."""


def phase_ratio(job: Job) -> Finding | None:
    """Find an old-log-prob pass that is too slow for a forward, where it takes a visible part of the step."""
    profile, step_s = job.profile, job.profile.step_time.value if job.profile else 0.0
    ratio = update_ratio(profile, job.positive("update_epochs") or 1.0) if profile else None
    if profile is None or ratio is None or not ratio < ODD_RATIO:
        return None
    logprob_s, update_s = busy_s(profile, Phase.OLD_LOGPROB), busy_s(profile, Phase.TRAIN)
    if not share_threshold(profile) * step_s <= logprob_s <= step_s:
        return None
    excess_s = max(logprob_s - update_s / NORMAL_RATIO_MIN, 0.0)
    ceiling = Estimate(value=step_s - excess_s, unit="s", source=Source.DERIVED)
    title = (
        f"The old log-probs take {said(logprob_s)}, the update {said(update_s)}: a ratio of {ratio:.2f} where others "
        f"show {NORMAL_RATIO_MIN:g}-{NORMAL_RATIO_MAX:g}; look at the micro batch of that pass"
    )
    return Finding(
        code="implausible/phase_ratio",
        kind=FindingKind.IMPLAUSIBLE,
        severity=Severity.INFO,
        title=title,
        evidence=(Evidence(text=f"update / old log-probs = {ratio:.2f}", origin=_origin(job)),),
        remedies=remedies(job, BottleneckKind.REDUNDANT_LOGPROB, ceiling),
    )


def _origin(job: Job) -> Origin | None:
    spans = [p for r in job.profile.roles for p in r.phases] if job.profile else []
    return next((p.origin for p in spans if p.phase == Phase.OLD_LOGPROB.value and p.origin), None)
