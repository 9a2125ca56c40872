"""Is the training itself sick? Then speed is beside the point: fix this first.

The surprise: a reward can look alive while nothing is learnt (all samples of a group score the same) and a healthy
effective sample size can hide answers that never end. So each sign is looked at alone.
"""

import math
import re
from collections.abc import Callable, Sequence

from steptune.core.finding import Evidence, Finding, Severity
from steptune.core.paste import Series
from steptune.diagnose.completion import low_completion, truncation
from steptune.diagnose.divergence import divergence
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.lengths_health import entropy_collapse, length_growth
from steptune.diagnose.no_gradient import no_gradient
from steptune.diagnose.reward_health import dead_reward, reward_drop
from steptune.diagnose.slowing import slowing
from steptune.diagnose.vitals import health_finding

VITAL = ("loss", "grad_norm", "entropy", "reward", "kl_ref", "mismatch_k3", "step_time")
"""Series whose NaN means that the run is broken, not that a metric was not computed."""

ENDLESS = ("loss", "kl_ref")
"""Series of which one infinite value has already gone into the weights."""

_TRAINED = re.compile(
    r"(?:^|[/_.])(?:loss|grad_norm|vpred_mean|(?:values|returns|advantages?)/(?:mean|max|min))(?:/mean)?$"
)
"""Keys of what an update computes, of the policy or of a critic: NaN there spreads into weights."""

_HELD_OUT = re.compile(r"(?:^|[/_.])(?:eval|val|validation|test)(?:[/_.]|$)")


def health(job: Job) -> list[Finding]:
    """Return every sign of a sick run."""
    checks: tuple[Callable[[Job], Finding | None], ...] = (
        nan,
        dead_reward,
        no_gradient,
        truncation,
        low_completion,
        entropy_collapse,
        divergence,
        length_growth,
        slowing,
        reward_drop,
    )
    return [finding for check in checks if (finding := check(job)) is not None]


def nan(job: Job) -> Finding | None:
    """Find NaN in a vital series, or an infinite loss or divergence from the reference.

    An infinite gradient norm alone is no sign: scaled fp16 skips such a step and goes on.
    """
    sick = [(s, i, "NaN") for s in _vital(job) if (i := _first(s, math.isnan)) is not None]
    sick += [(s, i, "infinite") for s in _vital(job) if s.name in ENDLESS and (i := _first(s, math.isinf)) is not None]
    if not sick:
        return None
    words = dict.fromkeys(word for *_, word in sick)
    named = ["NaN" if word == "NaN" else "infinite values" for word in words]
    names = ", ".join(dict.fromkeys(f"`{s.key}`" for s, *_ in sick))
    facts = tuple(Evidence(text=f"{s.key} is {word}", origin=origin_of(s, i)) for s, i, word in sick)
    title = f"{' and '.join(named)} in {names}: the run is broken, fix this first"
    return health_finding("nan", title[0].upper() + title[1:], facts, Severity.FAULT)


def _vital(job: Job) -> Sequence[Series]:
    return [s for s in job.paste.series if s.name in VITAL or (_TRAINED.search(s.key) and not _HELD_OUT.search(s.key))]


def _first(series: Series, is_sick: Callable[[float], bool]) -> int | None:
    return next((i for i, point in enumerate(series.points) if is_sick(point.value)), None)
