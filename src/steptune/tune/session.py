"""The session: wires the stages, keeps the budget, resumes. The only place that knows the whole sentence.

::

    start -> profile -> diagnose -> propose -> search -> waterfall, prune -> reward test -> confirm -> decide
                                                 ^             |                  |
                                                 '-- slimmer winner: search on ---+
                                                 |-- reward failed: ban the guilty moves, search on
                                                 '-- a fault in the confirmation: on with the next best that led

Every arrow is crossed only when its event is in the journal, so a killed session continues at the first
missing event.
"""

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune import __version__
from steptune.core.errors import (
    JobError,
    LimitError,
    StepTuneError,
    StoreError,
    explain,
)
from steptune.core.event import Decided, SessionEnded, SessionResumed, SessionStarted
from steptune.core.framework import Framework, LendsHelper, Prepares
from steptune.core.job import JobSpec
from steptune.store.codehash import code_hash
from steptune.store.journal import Clock
from steptune.store.knob_checks import check_knobs
from steptune.store.lock import machine_lock, session_lock
from steptune.store.run_folder import RunFolder
from steptune.tune.baseline import name_bottlenecks, profile_baseline
from steptune.tune.budget import worked_s
from steptune.tune.conclude import Spent, conclude
from steptune.tune.context import Context, make_context, settings_of
from steptune.tune.machine import describe_machine
from steptune.tune.space import build_space, record_proposal
from steptune.tune.winner import confirmed_winner


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TuneOptions:
    """How a session is run."""

    root: Path
    """Folder that run folders are made in."""
    is_advice_only: bool = False
    """Profile and forecast, but try nothing."""


def start_session(
    job: JobSpec,
    framework: Framework,
    options: TuneOptions,
    clock: Clock,
    say_waiting: Callable[[str], None],
    clock_s: Callable[[], float] = time.monotonic,
) -> Path:
    """Make a run folder, tune, and return the folder. ``clock_s`` is what the budget is counted by.

    Raises:
        StepTuneError: whatever ended the session; what was learnt until then is in the folder.
    """
    specs = framework.knobs(job)
    check_knobs(job, specs)
    check_devices(job)
    _check_baselines(job, framework)
    folder = RunFolder.create(options.root, job, clock)
    with session_lock(folder.path), machine_lock(wait_notice(say_waiting)):
        if isinstance(framework, Prepares):
            framework.prepare(job)  # before the budget's clock starts
        context = make_context(job, framework, folder, clock, clock_s=clock_s)
        record_start(context)
        _run(context, options)
    return folder.path


def record_start(context: Context) -> None:
    """Record the job and everything that is fixed before a clock was read."""
    job, framework = context.job, context.framework
    context.record(
        SessionStarted(
            steptune_version=__version__,
            code_hash=code_hash(),
            job=job,
            machine=describe_machine(framework),
            baseline_levers=framework.baseline(job, job.baseline),
            best_practice_levers=framework.baseline(job, "best_practice"),
        )
    )


def resume_session(
    path: Path, framework: Framework, options: TuneOptions, clock: Clock, say_waiting: Callable[[str], None]
) -> Path:
    """Go on with a killed session. Finished trials are neither lost nor repeated.

    Raises:
        StoreError: the folder is damaged, foreign, in use, or its session is done.
    """
    folder = RunFolder.open(path)
    with session_lock(folder.path), machine_lock(wait_notice(say_waiting)):
        context = make_context(folder.job(), framework, folder, clock)
        framework.clean_up(folder.path)  # first, so that nothing is left running even where there is nothing to resume
        state = context.state
        if state.started is None:
            raise StoreError(
                explain(
                    "the session never started",
                    got="an empty journal",
                    allowed="a started session",
                    hint="run `steptune tune JOB`",
                )
            )
        if state.decision is not None and state.session_ended is not None:
            raise StoreError(
                explain(
                    "the session is done",
                    got=f"decision {state.decision.outcome}",
                    allowed="a session without decision",
                    hint="read it with `steptune report`",
                )
            )
        context.budget.spent_before_s = worked_s(context.journal.entries)
        context.budget.num_trials = len(state.ended)
        context.record(SessionResumed(code_hash=code_hash(), abandoned_trials=state.running_numbers))
        _run(context, options)
    return folder.path


def _run(context: Context, options: TuneOptions) -> None:
    framework = context.framework
    try:
        with framework.helper() if isinstance(framework, LendsHelper) else nullcontext():
            _stages(context, options)
    except StoreError:
        raise
    except StepTuneError as error:
        context.record(_ended(context, f"{type(error).__name__}: {error}"))
        raise
    finally:
        context.runs.stop()
        framework.clean_up(context.folder.path)  # what left its run, as a daemon does
    context.record(_ended(context, "done"))


def _stages(context: Context, options: TuneOptions) -> None:
    if context.state.decision is None:
        _measure(context, options)
    decision = context.state.decision
    if decision is not None:
        context.folder.write_tuned(context.framework.render(context.job, decision.settings))
        context.progress.say(f"decide: {decision.outcome}: {'; '.join(decision.reasons)}")


def _measure(context: Context, options: TuneOptions) -> None:
    """Everything up to the decision; only advice ends before it."""
    if context.state.baseline is None:
        profile_baseline(context, is_capped=not options.is_advice_only)
    if context.state.bottlenecks is None:
        name_bottlenecks(context)
    space = build_space(context)
    if context.state.proposed is None:
        record_proposal(context, space)
    if options.is_advice_only:
        return
    found = confirmed_winner(context, space)
    spent = Spent(wall_s=context.budget.spent_wall_s(), device_s=context.budget.spent_device_s())
    context.record(Decided(decision=conclude(context.state, found, spent)))


def _ended(context: Context, why: str) -> SessionEnded:
    return SessionEnded(
        why=why, cost_wall_s=context.budget.spent_wall_s(), cost_device_s=context.budget.spent_device_s()
    )


def check_devices(job: JobSpec) -> None:
    """Refuse cores that this machine does not have.

    Raises:
        JobError: more cores than there are.
    """
    available = os.cpu_count() or 1
    if job.devices.num_cores > available:
        raise JobError(
            explain(
                "`devices.num_cores` must not exceed this machine's cores",
                got=job.devices.num_cores,
                allowed=f"1 to {available}",
                hint=f"set it to {available}",
            )
        )


def _check_baselines(job: JobSpec, framework: Framework) -> None:
    """Refuse a job whose baseline, or the best practice that the gain is stated over, cannot run as pinned.

    Raises:
        LimitError: names every conflict.
    """
    for kind in dict.fromkeys((job.baseline, "best_practice")):
        conflicts = framework.conflicts(job, settings_of(framework.baseline(job, kind)))
        if conflicts:
            raise LimitError(
                explain(
                    f"the `{kind}` baseline cannot run under the job's limits and `knobs.pin`",
                    got="; ".join(conflicts),
                    allowed="a configuration without conflicts",
                    hint="unpin a knob, or change the limit it meets",
                )
            )


WAIT_NOTICE_S = 30.0
"""Seconds between two notices that the session waits for the machine."""


def wait_notice(say: Callable[[str], None]) -> Callable[[int | None, float], None]:
    """Return the `machine_lock` callback that says at once, and then every `WAIT_NOTICE_S`, who holds the machine."""
    next_s = 0.0

    def wait(pid: int | None, waited_s: float) -> None:
        nonlocal next_s
        if waited_s >= next_s:
            next_s = waited_s + WAIT_NOTICE_S
            say(f"waiting for another measurement on this machine (pid {pid or 'unknown'}), {waited_s:.0f} s so far")

    return wait
