"""What came before a failure: steps that fitted, memory that grew.

The surprise: a job that survives its first steps is not safe. Failures after 54, 120 and 160 steps are public
(unslothai/unsloth#1624, needs study X11, X10): a longer sample arrives, or something grows until it no longer fits.
"""

from collections.abc import Sequence
from itertools import pairwise

from steptune.core.finding import Evidence, Finding
from steptune.core.paste import Paste
from steptune.core.profile import Origin
from steptune.stats.trend import MIN_POINTS, rises

LATE_STEPS = 10
"""Steps that fitted, from which a failure in training is a matter of one long sample or of growth, not of size."""

LENGTH_PHASES = ("logits", "logprob", "forward", "update", "backward", "rollout", "refit", "wake_up")
"""Phases whose memory follows the longest sample or what is left of earlier steps."""

HOST_SERIES = "cpu_memory_gib"
"""Canonical name of the host memory in use."""

HOST_GROWTH = 1.1
"""Last over first host memory from which it grew: verl's own counter wavers by a few percent."""


def before(paste: Paste, phase: str, growth: Finding | None) -> tuple[Evidence, ...]:
    """Return what the paste says of the time before a failure in ``phase``."""
    told: list[Evidence] = []
    if paste.num_steps_seen >= LATE_STEPS and phase in LENGTH_PHASES:
        told.append(
            Evidence(
                text=f"{paste.num_steps_seen} steps fitted before: size for the longest sample that may come, not for "
                "the mean, and run one step at full length to test it"
            )
        )
    if growth is not None and phase != "host":
        told.append(Evidence(text=f"{growth.title}: the line that failed may not be the cause"))
    return (*told, *_host(paste)) if phase == "host" else tuple(told)


def _host(paste: Paste) -> tuple[Evidence, ...]:
    series = paste.get_series(HOST_SERIES)
    values = [] if series is None else series.finite()
    if series is None or not _climbs(values) or values[-1] < HOST_GROWTH * values[0]:
        return ()
    origin = Origin(path=series.path, line=series.points[-1].line, key=series.key)
    text = f"host memory grew from {values[0]:.0f} to {values[-1]:.0f} GiB over the steps"
    return (Evidence(text=text, origin=origin),)


def _climbs(values: Sequence[float]) -> bool:
    """Whether it rises by more than chance; three values, too few to test, must rise each time."""
    if len(values) < MIN_POINTS:
        return len(values) == MIN_POINTS - 1 and all(late > early for early, late in pairwise(values))
    return rises(values)
