"""Growing answers and vanishing entropy: apart they may be learning, together they are a collapse."""

from steptune.core.finding import Evidence, Finding, Severity
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.vitals import ends, growth, health_finding, recent_median, whole_steps
from steptune.stats.trend import rises

COLLAPSED_NAT = 0.01
"""Entropy per token below which a policy repeats itself; 0.001 was printed by one that did (V15). Prior."""

STATE_STEPS = 3
"""Steps from which a low entropy is a state of the run and no accident of one batch."""

GROWN_RATIO = 1.5
"""Last third / first third of the mean length from which it is worth a word. Prior."""


def entropy_collapse(job: Job) -> Finding | None:
    """Find a collapsed entropy; exploding answers make it certain. Exactly 0 means not computed or rounded."""
    entropy = job.series("entropy")
    if entropy is None or not 0 < recent_median(entropy) < COLLAPSED_NAT:
        return None
    now, longer = recent_median(entropy), _length_ratio(job)
    facts = (Evidence(text=f"{entropy.key} {now:.3g}", origin=origin_of(entropy)),)
    if longer is not None and longer >= GROWN_RATIO:
        title = (
            f"Collapse: entropy {now:.2g} nat while answers grew {longer:.1f} times as long; stop and fix this first"
        )
        return health_finding("entropy_collapse", title, facts, Severity.FAULT)
    num_steps = len(whole_steps(entropy))
    if num_steps < STATE_STEPS:
        here = "one step that is" if num_steps == 1 else f"{num_steps} steps that are"
        title = f"Entropy is {now:.2g} nat in the {here} here: a policy that stays there hardly explores"
        return health_finding("entropy_collapse", title, facts, Severity.INFO)
    title = f"Entropy is down to {now:.2g} nat: the policy hardly explores"
    return health_finding("entropy_collapse", title, facts, Severity.WARNING)


def length_growth(job: Job) -> Finding | None:
    """Find answers that grow: step times then grow with them, so compare per 1,000 tokens."""
    longer, series = _length_ratio(job), job.series("completion_mean")
    if series is None or longer is None or not longer >= GROWN_RATIO:
        return None
    values = whole_steps(series)
    first, last = ends(values)
    title = (
        f"Answers grow, {first:.0f} to {last:.0f} tokens (first and last third): step times grow with them, "
        f"compare per 1,000 tokens"
    )
    fact = Evidence(text=f"{series.key} {values[-1]:g}", origin=origin_of(series))
    return health_finding("length_growth", title, (fact,), Severity.INFO)


def _length_ratio(job: Job) -> float | None:
    """Last third / first third of the mean lengths, where they rise by more than chance."""
    series = job.series("completion_mean")
    values = [] if series is None else whole_steps(series)
    return growth(values) if rises(values) else None
