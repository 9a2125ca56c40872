"""Runs one launch of a trial: launch, take turns with the incumbent, stop when it is lost. Every ending is a result."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.ages import Ages
from steptune.core.change import Change
from steptune.core.errors import BudgetSpentError, KilledError, TrialError
from steptune.core.estimate import Estimate, Source
from steptune.core.framework import Launches, LaunchSpec, Session
from steptune.core.job import JobSpec
from steptune.core.trial import Arm, Observation, Trial, TrialState
from steptune.stats.intervals import mean_estimate
from steptune.stats.looks import TRIAL_LOOKS, repeated_ratio_interval
from steptune.stats.ratio import ratio_interval
from steptune.trial.blocks import BlockPlan, KeepGoing, Pair, RunsSteps, mean_step_s, take_turns, warm_up
from steptune.trial.settle import settle

WATCHED = "watched"
"""Label of the candidate's steps after its lead was clear: guards see them, no ratio counts them."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is known when a trial's launches begin."""

    pairs: tuple[Pair, ...] = ()
    """Of earlier launches of the same trial."""
    warm_up: tuple[Observation, ...] = ()
    """The live incumbent's warm-up steps; none of a run that is warm and does not run ahead of its trainer."""
    skip_to: Callable[[int], None] | None = None
    """Takes such an incumbent to a step of the reference lengths; None where it has to run there."""
    ages: Ages


NO_EVIDENCE = Evidence(ages=Ages(max_staleness=0, own_lag=0))
"""A first launch of a job without staleness, whose incumbent nobody watched warming up."""


def run_trial(
    framework: Launches,
    job: JobSpec,
    spec: LaunchSpec,
    *,
    number: int,
    change: Change,
    incumbent: RunsSteps,
    incumbent_signature: str,
    plan: BlockPlan,
    keep_going: KeepGoing,
    out_dir: Path,
    evidence: Evidence = NO_EVIDENCE,
    devices_ratio: float = 1.0,
    is_clear: Callable[[Sequence[Pair]], bool] = lambda pairs: False,
    num_watched: int = 0,
) -> Trial:
    """Run ``change`` against the live or recorded incumbent and return the trial in a terminal state.

    ``plan.max_pairs`` are run beside those of ``evidence``; ``keep_going`` stops a trial that is lost, ``is_clear``
    ends one that is won: its candidate then goes on alone until guards have seen ``num_watched`` of its steps.
    ``devices_ratio``: see `core.trial.Trial`.

    Raises:
        KilledError: a run of either arm was killed from outside.
    """
    started_s, load_avg = time.monotonic(), os.getloadavg()[0]
    pairs, watched = list(evidence.pairs), list[Observation]()
    state, cause = TrialState.FINISHED, ""
    session: Session | None = None
    try:
        session = framework.launch(job, spec, out_dir)
        plan = _begun(incumbent, session, plan, evidence)
        state, cause = judged_pairs(take_turns(incumbent, session, plan), pairs, keep_going, is_clear)
        if state is TrialState.FINISHED and is_clear(pairs):
            watched += watch(session, pairs, plan, num_watched)
    except (MemoryError, TrialError, BudgetSpentError) as error:
        state, cause = _ending(error), str(error)
    finally:
        if session is not None:
            session.close()
    return finished_trial(
        pairs,
        number=number,
        change=change,
        state=state,
        cause=cause,
        incumbent_signature=incumbent_signature,
        wall_s=time.monotonic() - started_s,
        num_cores=job.devices.num_cores,
        load_avg=load_avg,
        devices_ratio=devices_ratio,
        watched=watched,
    )


def judged_pairs(
    made: Iterable[Pair],
    pairs: list[Pair],
    keep_going: KeepGoing,
    is_clear: Callable[[Sequence[Pair]], bool],
) -> tuple[TrialState, str]:
    """Add ``made`` to ``pairs`` until the trial is lost or won; return how it ended, with its cause."""
    for pair in made:
        pairs.append(pair)
        if (verdict := keep_going(pairs)) is not None:
            return TrialState.STOPPED, verdict
        if is_clear(pairs):
            break
    return TrialState.FINISHED, ""


def _ending(error: MemoryError | TrialError | BudgetSpentError) -> TrialState:
    """Return how it ends a trial; a kill goes on: whose run it was is not known here, so it is nobody's result yet."""
    if isinstance(error, KilledError):
        raise error
    if isinstance(error, MemoryError):
        return TrialState.OUT_OF_MEMORY
    return TrialState.FAILED if isinstance(error, TrialError) else TrialState.STOPPED


def _begun(incumbent: RunsSteps, session: Session, plan: BlockPlan, evidence: Evidence) -> BlockPlan:
    """Warm the candidate up, let both arms settle (a warm incumbent is taken along), return the plan of the blocks."""
    seen = [*evidence.warm_up, *warm_up([session])]
    if evidence.skip_to is None:
        return settle([incumbent, session], seen, plan, evidence.ages)
    return settle([session], seen, plan, evidence.ages, evidence.skip_to)


def watch(session: Session, pairs: Sequence[Pair], plan: BlockPlan, num_steps: int) -> list[Observation]:
    """Run the candidate on, without its incumbent, until ``num_steps`` of its steps were seen; return the new ones.

    A speed that is settled needs no second arm any more, while a gap that grows shows only over steps.
    """
    owed = num_steps - sum(len(pair.candidate) for pair in pairs)
    return session.run_steps(plan.dropped_steps + owed)[plan.dropped_steps :] if owed > 0 else []


def finished_trial(
    pairs: Sequence[Pair],
    *,
    number: int,
    change: Change,
    state: TrialState,
    cause: str,
    incumbent_signature: str,
    wall_s: float,
    num_cores: int,
    load_avg: float | None,
    devices_ratio: float = 1.0,
    watched: Sequence[Observation] = (),
    alternate_because: str = "",
) -> Trial:
    """Return the record of a trial from its pairs (none when it never ran) and what was watched after them."""
    incumbent = [step for pair in pairs for step in pair.incumbent]
    candidate = [step for pair in pairs for step in pair.candidate]
    arms = [
        Arm(label="incumbent", signature=incumbent_signature, observations=tuple(incumbent)),
        Arm(label="candidate", signature=change.signature, observations=tuple(candidate)),
    ]
    if watched:
        arms.append(Arm(label=WATCHED, signature=change.signature, observations=tuple(watched)))
    return Trial(
        number=number,
        change=change,
        state=state,
        arms=tuple(arms) if pairs else (),
        ratio=paired_ratio(pairs, devices_ratio) if pairs else None,
        devices_ratio=devices_ratio,
        incumbent_signature=incumbent_signature,
        step_time=step_time(candidate) if candidate else None,
        cost_wall_s=wall_s,
        cost_device_s=wall_s * num_cores,
        load_avg=load_avg,
        cause=cause,
        alternate_because=alternate_because,
    )


def pairs_of(trial: Trial) -> tuple[Pair, ...]:
    """Return the pairs of a trial of one launch again: equally long blocks of both arms, in order."""
    num_pairs = trial.ratio.n if trial.ratio is not None and trial.ratio.n else 1
    blocks = [
        [arm.observations[i : i + kept] for i in range(0, len(arm.observations), kept)]
        for arm in trial.arms
        if arm.label != WATCHED and (kept := len(arm.observations) // num_pairs)
    ]
    return tuple(Pair(incumbent=a, candidate=b) for a, b in zip(*blocks, strict=True)) if blocks else ()


def paired_ratio(pairs: Sequence[Pair], devices_ratio: float = 1.0) -> Estimate:
    """Return candidate / incumbent with the 95 % interval over pairs (no interval for a single pair).

    From the first look of `TRIAL_LOOKS` on, the 95 % are those of all looks together; nobody judges fewer pairs.
    """
    if len(pairs) < 2:
        value = pairs[0].ratio * devices_ratio
        return Estimate(value=value, unit="x", source=Source.MEASURED, n=1, note="one pair: no interval")
    candidate, incumbent = pair_times(pairs, devices_ratio)
    if len(pairs) < TRIAL_LOOKS.first:
        return ratio_interval(candidate, incumbent).estimate(unit="x", source=Source.MEASURED)
    return repeated_ratio_interval(candidate, incumbent, TRIAL_LOOKS).estimate(unit="x", source=Source.MEASURED)


def pair_times(pairs: Sequence[Pair], devices_ratio: float = 1.0) -> tuple[list[float], list[float]]:
    """Return the mean cost of a step in every pair: (candidate, incumbent), in seconds on the incumbent's devices."""
    return [mean_step_s(p.candidate) * devices_ratio for p in pairs], [mean_step_s(p.incumbent) for p in pairs]


def step_time(steps: Sequence[Observation]) -> Estimate:
    """Return the mean step time with its 95 % interval."""
    return mean_estimate([step.step_time_s for step in steps], "s")
