"""Weights arrived: does every replica sample with the trainer's newest weights, all of them?

Version numbers alone prove nothing: they count hand-overs, whatever was handed over. So the bits are compared, tensor
by tensor, after the same cast. The surprise: a lost optimizer step cannot be seen in a bf16 replica, where a small
learning rate changes few elements or none; it is looked for in the trainer's own format.
"""

from collections.abc import Iterator, Sequence

from steptune.core.arrival import Arrival
from steptune.core.estimate import Estimate, Source
from steptune.core.trial import Observation
from steptune.core.verdict import Verdict
from steptune.guard.gaps import MIN_STEPS
from steptune.guard.judge import Finding, combined, held, unknown
from steptune.guard.launches import by_launch
from steptune.stats.finite import finite_or_none

NAME = "weights_arrived"
"""Name in verdicts."""


def check_weights_arrived(candidate: Sequence[Observation], *, num_replicas: int = 1) -> Verdict:
    """Judge the hand-overs of the candidate's steps, in order.

    A stream takes weights up when its bound on the age asks for it, each replica for itself, so its steps (those with a
    `queue`) may lack one.
    """
    limit = "every replica at the trainer's version, every tensor bit for bit after the cast, and moved by every update"
    missing = _missing(candidate, num_replicas)
    if missing is not None:
        return combined(NAME, [missing], limit=limit)
    findings = [
        _arrived([arrival for step in candidate for arrival in step.arrivals]),
        _moved(candidate),
    ]
    return combined(NAME, findings, limit=limit, measured=_measured(candidate))


def _missing(candidate: Sequence[Observation], num_replicas: int) -> Finding | None:
    num_owed = sum(1 for step in candidate if not step.arrivals and step.queue is None)
    if num_owed:
        return unknown(f"{num_owed} of {len(candidate)} steps do not say what arrived")
    told = [step for step in candidate if step.arrivals]
    if len(told) < MIN_STEPS:
        return unknown(f"need {MIN_STEPS} steps with a hand-over, got {len(told)}")
    few = next((step for step in told if step.queue is None and len(_replicas([step])) < num_replicas), None)
    if few is not None:
        return unknown(f"step {few.step} tells of {len(few.arrivals)} replicas, there are {num_replicas}")
    if len(_replicas(told)) < num_replicas:
        return unknown(f"the run tells of {len(_replicas(told))} replicas, there are {num_replicas}")
    empty = any(a.num_tensors < 1 or a.num_wrong < 0 for step in told for a in step.arrivals)
    return unknown("a hand-over counts no tensors") if empty else None


def _replicas(steps: Sequence[Observation]) -> set[int]:
    return {arrival.replica for step in steps for arrival in step.arrivals}


def _arrived(arrivals: Sequence[Arrival]) -> Finding:
    stale = [a for a in arrivals if a.version != a.trainer_version]
    if stale:
        worst = stale[0]
        text = f"replica {worst.replica} holds version {worst.version}, the trainer {worst.trainer_version}"
        return held(False, f"{text} ({len(stale)} of {len(arrivals)} hand-overs)")
    wrong = [a for a in arrivals if a.num_wrong]
    if wrong:
        worst = max(wrong, key=lambda a: a.num_wrong)
        text = f"replica {worst.replica}, version {worst.version}: {worst.num_wrong} of {worst.num_tensors} tensors are"
        return held(False, f"{text} not the trainer's, first `{worst.first_wrong}`")
    return held(True, f"{len(arrivals)} hand-overs arrived whole")


def _moved(candidate: Sequence[Observation]) -> Finding:
    """Judge every update by the hand-over of its weights; one without a gradient need not move a weight.

    The step that made a version is found by its number, in the same launch: rollouts that are ahead are handed older
    weights.
    """
    skipped = next((made_by for launch in by_launch(candidate) for made_by in _lost_updates(launch)), None)
    if skipped is None:
        return held(True, "every update that had a gradient moved the weights")
    text = f"the update of step {skipped.step} (gradient norm {skipped.grad_norm:.2g}) moved no tensor of the trainer"
    return held(False, f"{text}: a skipped optimizer step")


def _lost_updates(launch: Sequence[Observation]) -> Iterator[Observation]:
    maker = dict[int, Observation]()
    for step in launch:
        for arrival in step.arrivals:
            made_by = maker.get(arrival.trainer_version)
            if made_by is not None and made_by.grad_norm and arrival.num_moved == 0:
                yield made_by
        maker[step.weight_version] = step


def _measured(candidate: Sequence[Observation]) -> Estimate | None:
    fractions = [a.changed_frac for step in candidate for a in step.arrivals if a.changed_frac is not None]
    kept = finite_or_none(fractions)
    if not kept:
        return None
    return Estimate(
        value=sum(kept) / len(kept),
        low=min(kept),
        high=max(kept),
        unit="fraction",
        source=Source.MEASURED,
        n=len(kept),
        note="elements changed per hand-over; the interval is the range",
    )
