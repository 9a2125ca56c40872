"""Answers that are cut at the limit, and the metrics that do not show it."""

from steptune.core.finding import Evidence, Finding, Severity
from steptune.core.paste import Series
from steptune.core.truncation import MOST_CUT_FRAC, cut_severity
from steptune.diagnose.job import Job, origin_of, setting_text
from steptune.diagnose.vitals import health_finding, recent_median

FINE_ESS_FRAC = 0.9
"""Effective sample size that looks healthy: 0.989 was printed while 98 % of the answers were cut (K01)."""

_LAST_POINTS = 3


def truncation(job: Job) -> Finding | None:
    """Find a large share of answers that hit the limit, in any of the last steps."""
    series = job.series("clipped_frac")
    if series is None:
        return None
    cut = _worst(series)
    severity = cut_severity(cut)
    if severity is None:
        return None
    limit = job.declared("max_completion_len")
    facts = [_fact(series, cut), *_range(series)] + (
        [Evidence(text=setting_text(limit), origin=limit.origin)] if limit else []
    )
    here = " in the one step that is here" if len(series.finite()) == 1 else ""
    title = (
        f"{_percent(cut)} of the answers{here} are cut at the length limit: fix this first, cut answers cannot be right"
    )
    return health_finding("truncation", title, tuple(facts), severity)


def low_completion(job: Job) -> Finding | None:
    """Find answers that do not end while the effective sample size looks fine."""
    cut, ess = job.series("clipped_frac"), job.series("ess_frac")
    if cut is None or ess is None or not (_worst(cut) >= MOST_CUT_FRAC and min(ess.finite()) >= FINE_ESS_FRAC):
        return None
    title = (
        f"{_percent(_worst(cut))} of the answers never end while the effective sample size looks fine "
        f"({min(ess.finite()):.3f}): it measures weights, not answers"
    )
    facts = (_fact(cut, _worst(cut)), Evidence(text=f"{ess.key} {min(ess.finite()):g}", origin=origin_of(ess)))
    return health_finding("low_completion", title, facts, Severity.FAULT)


def _percent(frac: float) -> str:
    """``43.8 %``, and ``100 %`` without a digit that says nothing."""
    return f"{frac * 100:.3g} %"


def _range(series: Series) -> tuple[Evidence, ...]:
    """Lowest and highest of a run, as one level hides how it wanders."""
    values = series.finite()
    if len(values) < 2 or min(values) == max(values):
        return ()
    text = f"{_percent(min(values))} to {_percent(max(values))} over n={len(values)} steps"
    return (Evidence(text=text, origin=origin_of(series)),)


def _worst(series: Series) -> float:
    """The median of a long run, the worst of a short one."""
    values = series.finite()
    return max(values) if len(values) <= _LAST_POINTS else recent_median(series)


def _fact(series: Series, value: float) -> Evidence:
    at = next((i for i, p in enumerate(series.points) if p.value == value), -1)
    return Evidence(text=f"{series.key} {value:g}", origin=origin_of(series, at))
