"""Runs baseline and winner of a pack again on this machine, on the seeds and lengths of its confirmation.

Surprise: nothing is searched, and the other machine's numbers steer nothing but the number of launches a look takes:
noise, order and stop rule are this machine's own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.errors import StoreError, explain
from steptune.core.estimate import Estimate
from steptune.core.event import Confirmed, Event, SessionResumed, SessionStarted
from steptune.core.framework import Framework, LaunchSpec, Prepares, Session
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue, Settings
from steptune.core.profile import SampledLengths
from steptune.core.replicated import Replicated, Side
from steptune.core.work import objective_weight
from steptune.decide.final import judge_speedup
from steptune.decide.gain import Gain
from steptune.stats.intervals import mean_estimate
from steptune.store.codehash import code_hash
from steptune.store.lock import machine_lock, session_lock
from steptune.store.pack import Pack
from steptune.store.replay import fold
from steptune.store.run_folder import RunFolder
from steptune.trial.blocks import rotate_arms, warm_up
from steptune.trial.settle import settle
from steptune.tune.confirm import CONFIRM_SEED_SHIFT
from steptune.tune.context import settings_of
from steptune.tune.launches import Blocks, confirm_launches, launch_ratio, steps_of
from steptune.tune.machine import describe_machine
from steptune.tune.plans import CONFIRM_PLAN
from steptune.tune.session import check_devices
from steptune.tune.step_guards import ages_of


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """What a pack's session confirmed."""

    started: SessionStarted
    confirmed: Confirmed
    winner: dict[str, KnobValue]
    lengths: SampledLengths


def confirm_seeds(job: JobSpec, num_launches: int) -> tuple[int, ...]:
    """Return the seeds of a confirmation's launches."""
    return tuple(job.algorithm.seed + CONFIRM_SEED_SHIFT + number for number in range(num_launches))


def packed(pack: Pack) -> Packed:
    """Return what there is to replicate.

    Raises:
        StoreError: the session confirmed no winner.
    """
    state = fold(pack.events)
    started, confirmed, decision, baseline = state.started, state.confirmed, state.decision, state.baseline
    lengths = baseline.lengths if baseline is not None else None
    if started is None or confirmed is None or decision is None or not isinstance(lengths, SampledLengths):
        raise _nothing("no decision after a confirmation" if decision is None else f"decision {decision.outcome}")
    if not decision.tripwires:
        raise _nothing(f"decision {decision.outcome}, which hands the baseline back")
    return Packed(started=started, confirmed=confirmed, winner=decision.settings, lengths=lengths)


def replicate(
    pack: Pack, framework: Framework, folder: RunFolder, say_waiting: Callable[[int | None, float], None]
) -> Replicated:
    """Run both arms again and return both results.

    Args:
        pack: read and found whole.
        framework: of the pack's job, on this machine.
        folder: new folder for the runs' files.
        say_waiting: told who holds the machine, as `store.lock.machine_lock` does.

    Raises:
        StoreError: there is no winner to replicate.
        JobError: the job asks for more cores than there are.
        TrialError, MemoryError: an arm does not run here.
    """
    what = packed(pack)
    job = what.started.job
    check_devices(job)
    settings = (settings_of(what.started.baseline_levers), what.winner)
    weights = [_weight(framework, job, each, settings[0], what.lengths) for each in settings]
    with session_lock(folder.path), machine_lock(say_waiting):
        if isinstance(framework, Prepares):
            framework.prepare(job)
        began_s = time.monotonic()
        try:
            launches = confirm_launches(
                lambda number: _launch(framework, what, settings, folder.path / "arms" / str(number), number),
                weights,
                lambda: job.budget.wall_time_s - (time.monotonic() - began_s),
            )
        finally:
            framework.clean_up(folder.path)  # what left its run, as a daemon does
    here = Side(
        machine=describe_machine(framework),
        baseline_step=_step(launches, 0),
        winner_step=_step(launches, 1),
        speedup=launch_ratio(launches, 0, 1, weights),
    )
    there = _there(what)
    return Replicated(
        name=pack.header.name,
        winner=what.winner,
        there=there,
        here=here,
        is_same_code=_codes(pack.events) == {code_hash()},
        verdict=verdict_of(there.speedup, here.speedup),
    )


def verdict_of(there: Estimate, here: Estimate) -> str:
    """Return what may be said: does the gain stand here, and do the two intervals meet?"""
    gain = judge_speedup(here)
    if gain is Gain.FASTER:
        head = "the winner is faster here too"
    elif gain is Gain.SLOWER:
        head = "the winner is slower here"
    else:
        head = (
            "no gain worth having was seen here" if gain is not Gain.CANNOT_TELL else "cannot tell from these launches"
        )
    ends = (there.low, there.high, here.low, here.high)
    if any(end is None for end in ends):
        return f"{head}; one side states no interval, so the two gains cannot be held against each other"
    low, high = max(there.low or 0.0, here.low or 0.0), min(there.high or 0.0, here.high or 0.0)
    return f"{head}; the two intervals {'overlap' if low <= high else 'do not overlap: the gain is another one here'}"


def _launch(
    framework: Framework, what: Packed, settings: tuple[Settings, Settings], folder: Path, number: int
) -> Blocks:
    job = what.started.job
    forced = None if job.algorithm.dynamic_sampling else what.lengths
    seed = confirm_seeds(job, number + 1)[-1]
    sessions: list[Session] = []
    try:
        for index, each in enumerate(settings):
            spec = LaunchSpec(settings=dict(each), seed=seed, forced_lengths=forced)
            sessions.append(framework.launch(job, spec, folder / str(index)))
        settled = settle(sessions, warm_up(sessions), CONFIRM_PLAN, ages_of(job))
        return rotate_arms(sessions, CONFIRM_PLAN.max_pairs, settled)
    finally:
        for session in sessions:
            session.close()


def _weight(
    framework: Framework, job: JobSpec, settings: Settings, baseline: Settings, lengths: SampledLengths
) -> float:
    planned, of_baseline = (framework.planned_work(job, each, lengths) for each in (settings, baseline))
    return objective_weight(job.objective, planned, of_baseline)


def _step(launches: list[Blocks], arm: int) -> Estimate:
    return mean_estimate([step.step_time_s for step in steps_of(launches, arm)], "s")


def _there(what: Packed) -> Side:
    times = {arm.label: [step.step_time_s for step in arm.observations] for arm in what.confirmed.arms}
    return Side(
        machine=what.started.machine,
        baseline_step=mean_estimate(times["baseline"], "s"),
        winner_step=mean_estimate(times["candidate"], "s"),
        speedup=what.confirmed.speedup,
    )


def _codes(events: tuple[Event, ...]) -> set[str]:
    return {event.code_hash for event in events if isinstance(event, SessionStarted | SessionResumed)}


def _nothing(got: str) -> StoreError:
    hint = "`steptune report` on the run folder says why; there is no second arm to run"
    return StoreError(
        explain("the pack has no winner to replicate", got=got, allowed="a session that adopted a change", hint=hint)
    )
