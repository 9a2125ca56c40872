"""A run that blows up: the policy leaves its reference, or gradients grow beyond what clipping can hold.

The surprise: the divergence from the reference starts at 0, so it grows by orders of magnitude in every healthy run.
Only a level counts that is also large in itself; one wild step is no trend and is not judged here.
"""

import statistics

from steptune.core.finding import Evidence, Finding, Severity
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.vitals import RECENT, health_finding, recent_median, whole_steps
from steptune.stats.trend import rises

RISE_RATIO = 10.0
"""Level at the end over level at the start from which it is a blow-up: an order of magnitude."""

MIN_STEPS = 9
"""Three steps for each end and as many between."""

EDGE_FRAC = 0.05
"""Part of the steps that stands for the start, and for the end: a start of many steps is already on its way up."""

FAR = {
    "kl_ref": (1.0, "the policy runs away from its reference"),
    "grad_norm": (1.0, "gradients blow up, and clipping decides the step"),
}
"""Smallest level that counts, and what it means. 1 nat a token is a policy that its reference hardly knows, and 1 is
the usual clip of a gradient norm (the default of verl, NeMo RL, TRL and slime). Prior."""


ABSURD = {
    "kl_ref": (
        1e4,
        "no trained policy is that far; as a rule the log-probs compared do not belong together (model, mask)",
    ),
    "grad_norm": (
        1e6,
        "a million times the usual clip and more: look for single tokens with wild ratios and at the scale of the loss",
    ),
}
"""Levels that need no trend: 1 nat a token is far already (see `FAR`), and 1 is the usual clip of a norm. Prior."""


def absurd_level(job: Job) -> Finding | None:
    """Find a divergence from the reference or a gradient norm that stands at an impossible level."""
    for name, (level, meaning) in ABSURD.items():
        series = job.series(name)
        if series is not None and (now := recent_median(series)) >= level:
            num = len(series.finite()[-RECENT:])
            where = "in the one step that is here" if num == 1 else f"as the median of {num} steps"
            fact = Evidence(text=f"{series.key} {series.finite()[-1]:.4g}", origin=origin_of(series))
            title = f"`{series.key}` is {now:.3g} {where}: {meaning}; fix this first"
            return health_finding("divergence", title, (fact,), Severity.WARNING)
    return None


def divergence(job: Job) -> Finding | None:
    """Find a divergence from the reference, or a gradient norm, that rises tenfold or more to a large level."""
    facts: list[Evidence] = []
    titles: list[str] = []
    for name, (far, meaning) in FAR.items():
        series = job.series(name)
        values = [] if series is None else whole_steps(series)
        if series is None or not _blows_up(values, far):
            continue
        first, last = _ends(values)
        titles.append(f"`{series.key}` rises from {first:.3g} to {last:.3g} (at most {max(values):.4g}): {meaning}")
        facts.append(Evidence(text=f"{series.key} {values[-1]:.4g}, n={len(values)} steps", origin=origin_of(series)))
    if not titles:
        return absurd_level(job)
    return health_finding("divergence", f"{'; '.join(titles)}; fix this first", tuple(facts), Severity.WARNING)


def _blows_up(values: list[float], far: float) -> bool:
    if len(values) < MIN_STEPS:
        return False
    first, last = _ends(values)
    return first >= 0 and last >= far and last >= RISE_RATIO * first and rises(values)


def _ends(values: list[float]) -> tuple[float, float]:
    edge = max(MIN_STEPS // 3, int(EDGE_FRAC * len(values)))
    return statistics.median(values[:edge]), statistics.median(values[-edge:])
