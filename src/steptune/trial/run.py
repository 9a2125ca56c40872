"""Runs one trial: launch, take turns with the incumbent, stop when it is settled. Every ending is a result."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from steptune.core.change import Change
from steptune.core.errors import TrialError
from steptune.core.estimate import Estimate, Source
from steptune.core.framework import Framework, LaunchSpec, Session
from steptune.core.job import JobSpec
from steptune.core.trial import Arm, Observation, Trial, TrialState
from steptune.stats.intervals import mean_estimate
from steptune.stats.ratio import ratio_interval
from steptune.trial.blocks import BlockPlan, KeepGoing, Pair, mean_step_s, take_turns, warm_up


def run_trial(
    framework: Framework,
    job: JobSpec,
    spec: LaunchSpec,
    *,
    number: int,
    change: Change,
    incumbent: Session,
    incumbent_signature: str,
    plan: BlockPlan,
    keep_going: KeepGoing,
    out_dir: Path,
) -> Trial:
    """Run ``change`` against the live incumbent and return the trial in a terminal state."""
    started_s, load_avg = time.monotonic(), os.getloadavg()[0]
    pairs: list[Pair] = []
    state, cause = TrialState.FINISHED, ""
    session: Session | None = None
    try:
        session = framework.launch(job, spec, out_dir)
        warm_up([session])
        for pair in take_turns(incumbent, session, plan):
            pairs.append(pair)
            verdict = keep_going(pairs)
            if verdict is not None:
                state, cause = TrialState.STOPPED, verdict
                break
    except MemoryError as error:
        state, cause = TrialState.OUT_OF_MEMORY, str(error)
    except TrialError as error:
        state, cause = TrialState.FAILED, str(error)
    finally:
        if session is not None:
            session.close()
    wall_s = time.monotonic() - started_s
    return finished_trial(
        pairs,
        number=number,
        change=change,
        state=state,
        cause=cause,
        incumbent_signature=incumbent_signature,
        wall_s=wall_s,
        num_cores=job.devices.num_cores,
        load_avg=load_avg,
    )


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
) -> Trial:
    """Return the record of a trial from its pairs (none when it never ran)."""
    incumbent = [step for pair in pairs for step in pair.incumbent]
    candidate = [step for pair in pairs for step in pair.candidate]
    arms = (
        Arm(label="incumbent", signature=incumbent_signature, observations=tuple(incumbent)),
        Arm(label="candidate", signature=change.signature, observations=tuple(candidate)),
    )
    return Trial(
        number=number,
        change=change,
        state=state,
        arms=arms if pairs else (),
        ratio=paired_ratio(pairs) if pairs else None,
        incumbent_signature=incumbent_signature,
        step_time=step_time(candidate) if candidate else None,
        cost_wall_s=wall_s,
        cost_device_s=wall_s * num_cores,
        load_avg=load_avg,
        cause=cause,
    )


def paired_ratio(pairs: Sequence[Pair]) -> Estimate:
    """Return candidate / incumbent with the 95 % interval over pairs (no interval for a single pair)."""
    if len(pairs) < 2:
        return Estimate(value=pairs[0].ratio, unit="x", source=Source.MEASURED, n=1, note="one pair: no interval")
    candidate, incumbent = pair_times(pairs)
    return ratio_interval(candidate, incumbent).estimate(unit="x", source=Source.MEASURED)


def pair_times(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """Return mean step times in seconds of every pair: (candidate, incumbent)."""
    return [mean_step_s(p.candidate) for p in pairs], [mean_step_s(p.incumbent) for p in pairs]


def step_time(steps: Sequence[Observation]) -> Estimate:
    """Return the mean step time with its 95 % interval."""
    return mean_estimate([step.step_time_s for step in steps], "s")
