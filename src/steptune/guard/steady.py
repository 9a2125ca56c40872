"""Steady: has a run become itself, or is it still living off its start?

One that samples ahead of its trainer fills a queue; one that compiles has done so before its first counted step, or
that step is no measurement. A queue that fills makes steps look slow, one that empties makes them look fast, and fresh
weights flatter the gap. The surprise: a run that is not steady is never FAILED. Its number is not bad, it is no
number: cannot tell.
"""

import statistics
from collections.abc import Sequence

from steptune.core.ages import Ages
from steptune.core.estimate import Estimate, Source
from steptune.core.trial import Observation, QueueStats
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.guard.launches import by_launch, long_launches
from steptune.stats.finite import finite_or_none
from steptune.stats.trend import rises

NAME = "steady"
"""Name in verdicts."""

MAX_IMBALANCE_FRAC = 0.03
"""Largest part by which tokens made and tokens used may differ: what a buffer gives or takes is gain that ends."""


def check_steady(candidate: Sequence[Observation], incumbent: Sequence[Observation], *, ages: Ages) -> Verdict:
    """Judge the counted steps of both arms, every launch by itself, for each begins with an empty queue.

    An arm that does not run ahead of its trainer is steady by construction.
    """
    limit = (
        "counted from max(staleness bound, oldest token) + 2 on, no trend in queue or age, tokens made and used "
        f"within {MAX_IMBALANCE_FRAC:.0%}"
    )
    arms = [("candidate", candidate), ("incumbent", incumbent)]
    findings = [finding for name, steps in arms if ages.runs_ahead(steps) for finding in _arm(name, steps, ages)]
    findings += [finding for name, steps in arms if (finding := _compiling(name, steps)) is not None]
    if not findings:
        return combined(NAME, [held(True, "no arm runs ahead of its trainer")], limit=limit)
    return combined(NAME, findings, limit=limit, measured=_measured(candidate))


def imbalance_frac(queues: Sequence[QueueStats]) -> float | None:
    """Return (made - used) / used tokens between the middles of the first and the second half; None if none were used.

    Means of halves, because a block ends with another stock than it begins with.
    """
    half = len(queues) // 2
    halves = [[queue.tokens for queue in part] for part in (queues[:half], queues[half:])]
    if not all(halves):
        return None
    made, used = (
        statistics.fmean(count(t) for t in halves[1]) - statistics.fmean(count(t) for t in halves[0])
        for count in (lambda t: t.generated, lambda t: t.trained + t.dropped)
    )
    return (made - used) / used if used > 0 else None


def _compiling(name: str, steps: Sequence[Observation]) -> Finding | None:
    """Return what is wrong with an arm that compiled in its counted steps; None where none did."""
    num_graphs = sum(step.num_compiled or 0 for step in steps)
    return unknown(f"cannot tell: the {name} compiled {num_graphs} graphs in its counted steps") if num_graphs else None


def _arm(name: str, steps: Sequence[Observation], ages: Ages) -> list[Finding]:
    owed, first = ages.steps_owed(steps), min(launch[0].step for launch in by_launch(steps))
    if first < owed:
        return [unknown(f"cannot tell: the {name} is counted from step {first} on, it settles at step {owed}")]
    return [_launch(name, launch) for launch in long_launches(steps, MIN_STEPS)]


def _launch(name: str, steps: Sequence[Observation]) -> Finding:
    if len(steps) < MIN_STEPS:
        return unknown(f"cannot tell: need {MIN_STEPS} steps of the {name}, got {len(steps)}")
    queues = [step.queue for step in steps if step.queue is not None]
    if not queues:
        return held(True, f"the {name} is {max(step.lag_max for step in steps)} updates behind at every step")
    if len(queues) != len(steps):
        return unknown(f"cannot tell: {len(steps) - len(queues)} steps of the {name} do not say what waits")
    if not all(queue.groups.is_conserved and queue.tokens.is_conserved for queue in queues):
        return unknown(f"cannot tell: the {name}'s made groups or tokens are not all used, dropped or waiting")
    if finite_or_none(queue.lag_mean for queue in queues) is None:
        return unknown(f"cannot tell: the age of the {name}'s tokens is not a number")
    return _drift(name, queues)


def _drift(name: str, queues: Sequence[QueueStats]) -> Finding:
    for what, values in (
        ("queue", [float(queue.groups.buffered) for queue in queues]),
        ("age", [queue.lag_mean for queue in queues]),
    ):
        if rises(values) or rises([-value for value in values]):
            return unknown(f"cannot tell: the {name}'s {what} has a trend ({values[0]:.3g} to {values[-1]:.3g})")
    drift = imbalance_frac(queues)
    if drift is None or abs(drift) > MAX_IMBALANCE_FRAC:
        said = "no tokens are used" if drift is None else f"tokens made and used differ by {drift:+.1%}"
        return unknown(f"cannot tell: {said} in the {name}")
    return held(True, f"the {name}'s queue and age have no trend, tokens made and used differ by {drift:+.1%}")


def _measured(candidate: Sequence[Observation]) -> Estimate | None:
    queues = [[step.queue for step in launch if step.queue is not None] for launch in by_launch(candidate)]
    drifts = [drift for drift in map(imbalance_frac, queues) if drift is not None]
    if not drifts:
        return None
    return Estimate(
        value=max(drifts, key=abs),
        unit="fraction",
        source=Source.DERIVED,
        n=len(candidate),
        note="tokens made beyond used, of the launch where it is most",
    )
