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
from steptune.stats.trend import LONG_P, chance_of_rise, rises

NAME = "steady"
"""Name in verdicts."""

MANY_LAUNCHES = 3
"""Launches from which on they are judged together: a trial has two at the most, a confirmation three or more."""

MAX_IMBALANCE_FRAC = 0.03
"""Largest part by which tokens made and tokens used may differ: what a buffer gives or takes is gain that ends."""


def check_steady(candidate: Sequence[Observation], incumbent: Sequence[Observation], *, ages: Ages) -> Verdict:
    """Judge the counted steps of both arms, every launch by itself, for each begins with an empty queue.

    `MANY_LAUNCHES` and more, each of a few steps, are judged together.

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
    launches = long_launches(steps, MIN_STEPS)
    untold = [problem for launch in launches if (problem := _untold(name, launch)) is not None]
    if untold:
        return untold
    queues = [[step.queue for step in launch if step.queue is not None] for launch in launches]
    if not any(queues):
        return [held(True, f"the {name} is {max(step.lag_max for step in steps)} updates behind at every step")]
    return [_drift(name, queues)] if len(queues) >= MANY_LAUNCHES else [_drift(name, [launch]) for launch in queues]


def _untold(name: str, steps: Sequence[Observation]) -> Finding | None:
    """Return why a launch cannot be judged, or None."""
    if len(steps) < MIN_STEPS:
        return unknown(f"cannot tell: need {MIN_STEPS} steps of the {name}, got {len(steps)}")
    queues = [step.queue for step in steps if step.queue is not None]
    if not queues:
        return None
    if len(queues) != len(steps):
        return unknown(f"cannot tell: {len(steps) - len(queues)} steps of the {name} do not say what waits")
    if not all(queue.groups.is_conserved and queue.tokens.is_conserved for queue in queues):
        return unknown(f"cannot tell: the {name}'s made groups or tokens are not all used, dropped or waiting")
    if finite_or_none(queue.lag_mean for queue in queues) is None:
        return unknown(f"cannot tell: the age of the {name}'s tokens is not a number")
    return None


def _drift(name: str, launches: Sequence[Sequence[QueueStats]]) -> Finding:
    """Judge one launch, or the many short ones of a confirmation together: each alone would cry wolf too often."""
    for what, runs in (
        ("queue", [[float(queue.groups.buffered) for queue in launch] for launch in launches]),
        ("age", [[queue.lag_mean for queue in launch] for launch in launches]),
    ):
        if _have_trend(runs) or _have_trend([[-value for value in run] for run in runs]):
            return unknown(f"cannot tell: the {name}'s {what} has a trend ({runs[0][0]:.3g} to {runs[-1][-1]:.3g})")
    drifts = [drift for launch in launches if (drift := imbalance_frac(launch)) is not None]
    drift = statistics.fmean(drifts) if len(drifts) == len(launches) else None
    if drift is None or abs(drift) > MAX_IMBALANCE_FRAC:
        said = "no tokens are used" if drift is None else f"tokens made and used differ by {drift:+.1%}"
        return unknown(f"cannot tell: {said} in the {name}")
    return held(True, f"the {name}'s queue and age have no trend, tokens made and used differ by {drift:+.1%}")


def _have_trend(runs: Sequence[Sequence[float]]) -> bool:
    """Return whether one run rises, or many do together; a run of equal values says nothing."""
    if len(runs) == 1:
        return rises(runs[0])
    moving = [run for run in runs if len(set(run)) > 1]
    return bool(moving) and chance_of_rise(moving) < LONG_P


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
