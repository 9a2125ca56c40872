"""Do trainer and rollout agree? Level, trend and the traps of the measure itself, each on its own.

The surprise: the level alone is not enough. One fp8 run began at a fine level and grew 45 % in eight steps, and an
importance ratio of 0.90 was no mismatch at all but the mass that ``top_p=0.8`` leaves out.
"""

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.mismatch_settings import sampling_params, tight_clip, unproven_hardware
from steptune.diagnose.vitals import RECENT, growth, recent_median, whole_steps
from steptune.published.mismatch_scales import MismatchScale, mismatch_scales
from steptune.stats.trend import rises

FAST_GROWTH = 1.3
"""Last third / first third of the excess from which a rise is called growth: bf16 grew 12 % in eight steps, fp8
tensorwise 45 % (needs study, V29). Prior between them."""


def mismatch(job: Job) -> list[Finding]:
    """Return what the mismatch metrics and the settings around them say."""
    sampling = sampling_params(job)
    measured = [f for scale in mismatch_scales() if (f := _judge(job, scale, has_reason=sampling is not None))]
    others = [sampling, tight_clip(job), unproven_hardware(job)]
    return [*measured, *(finding for finding in others if finding is not None)]


def _finding(code: str, title: str, evidence: tuple[Evidence, ...], severity: Severity) -> Finding:

    return Finding(
        code=f"mismatch/{code}", kind=FindingKind.MISMATCH, severity=severity, title=title, evidence=evidence
    )


def _judge(job: Job, scale: MismatchScale, *, has_reason: bool) -> Finding | None:
    series = job.series(scale.metric)
    if series is None or (has_reason and scale.metric == "is_ratio_mean"):
        return None
    level = recent_median(series)
    value = abs(level) if scale.metric == "mismatch_k1" else level
    facts = (
        Evidence(text=f"{series.key} {level:.4g} ({_over(series)})", origin=origin_of(series)),
        Evidence(text=f"healthy: {scale.healthy}; suspicious from {scale.suspicious:g}, broken from {scale.broken:g}"),
        Evidence(text=f"scale: {scale.source}"),
    )
    if scale.is_beyond(value, scale.suspicious):
        is_broken = scale.is_beyond(value, scale.broken)
        word = "broken" if is_broken else "suspicious"
        title = f"Trainer and rollout disagree: `{series.key}` is {level:.4g}, {word} by public scales"
        return _finding("high", title, facts, Severity.FAULT if is_broken else Severity.WARNING)
    if scale.side == "high" and (grown := _grown(series, scale)):
        title = f"The mismatch grows: `{series.key}` is still {level:.4g}, but {grown:.1f} times what it was at first"
        return _finding("growing", title, facts, Severity.WARNING)
    return None


def _over(series: Series) -> str:
    """Over how many steps a level is the median."""
    num_steps = len(series.finite()[-RECENT:])
    return "one step only" if num_steps == 1 else f"median of the last {num_steps} steps"


def _grown(series: Series, scale: MismatchScale) -> float | None:
    """Growth of the part above "no mismatch" (1 for ratios, 0 for the others), where it is more than chance."""
    floor = 1.0 if scale.metric in ("mult_prob_error", "is_ratio_mean") else 0.0
    excess = [value - floor for value in whole_steps(series)]
    grown = growth(excess) if rises(excess) else None
    return grown if grown is not None and grown >= FAST_GROWTH else None
