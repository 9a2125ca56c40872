"""Runs every rule over a paste: those that need only the mean step, and those that need the whole input.

The surprise: the kinds are split over two tables. `RULES` (in `diagnose`) also serves the engine's own profiles;
`PASTE_RULES` needs settings, counts or timers of single engines, which only a paste holds.
"""

import math
from collections.abc import Callable

from steptune.core.bottleneck import BottleneckKind
from steptune.diagnose.backward_slow import backward_slow
from steptune.diagnose.cause import Cause
from steptune.diagnose.checkpoint_bound import checkpoint_bound
from steptune.diagnose.diagnose import diagnose
from steptune.diagnose.facts import share_threshold
from steptune.diagnose.idle_engines import idle_engines
from steptune.diagnose.job import Job
from steptune.diagnose.padded_batch import padded_batch
from steptune.diagnose.sample_waits import sample_waits
from steptune.diagnose.small_decode_batch import small_decode_batch
from steptune.diagnose.wasted_generation import wasted_generation

PasteRule = Callable[[Job, float, float], Cause | None]
"""Job, step time in seconds, smallest share worth a name -> the cause, if there."""

PASTE_RULES: dict[BottleneckKind, PasteRule] = {
    BottleneckKind.CHECKPOINT_BOUND: checkpoint_bound,
    BottleneckKind.WASTED_GENERATION: wasted_generation,
    BottleneckKind.BACKWARD_SLOW: backward_slow,
    BottleneckKind.SMALL_DECODE_BATCH: small_decode_batch,
    BottleneckKind.IDLE_ENGINES: idle_engines,
    BottleneckKind.PADDING_WASTE: padded_batch,
    BottleneckKind.ENVIRONMENT_BOUND: sample_waits,
}
"""Kinds that only a paste can show, and two that a paste can show where the mean step does not."""


def causes(job: Job) -> tuple[Cause, ...]:
    """Return the causes of the step's length, largest share first, one a kind; none without a step time."""
    profile = job.profile
    if profile is None or not (math.isfinite(profile.step_time.value) and profile.step_time.value > 0):
        return ()
    threshold = share_threshold(profile)
    found = [Cause(bottleneck=b) for b in diagnose(profile, None)]
    more = [rule(job, profile.step_time.value, threshold) for rule in PASTE_RULES.values()]
    found += [cause for cause in more if cause is not None]
    by_share = sorted(found, key=lambda cause: -cause.bottleneck.share.value)
    first: dict[BottleneckKind, Cause] = {}
    for cause in by_share:
        first.setdefault(cause.bottleneck.kind, cause)
    return tuple(first.values())
