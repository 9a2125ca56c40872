"""`steptune forecast`: what a change would do, from a run's profile (or a job's latest run).

Given a framework's configuration instead, the answer is the memory of its job; given a log and a question, the step
model's.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from steptune.cli.frameworks import framework_of, running_framework_of
from steptune.cli.job_files import read_job
from steptune.cli.memory_forecast import DOES_NOT_FIT, is_config, print_memory
from steptune.cli.step_forecast import is_asked, print_answer
from steptune.cli.streams import print_line, say
from steptune.cli.wrong_call import WrongCallError
from steptune.core.change import Change, Move
from steptune.core.errors import JobError, explain, nearest
from steptune.core.forecast import Forecast
from steptune.core.framework import Framework
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, KnobValue
from steptune.core.profile import Profile
from steptune.core.units import duration_text
from steptune.forecast.forecast import forecast_change
from steptune.forecast.lag.forecast import with_lag
from steptune.propose.make import make_change
from steptune.report.lag_text import lag_text
from steptune.report.numbers import count_text
from steptune.store.journal import read_journal
from steptune.store.replay import SessionState, fold
from steptune.store.run_folder import RunFolder
from steptune.tune.session import TuneOptions, start_session


def run(args: argparse.Namespace) -> int:
    """Print the forecast of the given settings against the baseline, a configuration's memory or a log's step."""
    if is_asked(args):
        return print_answer(args)
    target = Path(args.targets[0])
    if is_config(target):
        return print_memory(args)
    if len(args.targets) > 1:
        raise WrongCallError(
            explain("one job or run at a time", got=f"{len(args.targets)}", allowed="1", hint="forecast them in turn")
        )
    _check_own(args)
    job, state = _find_profile(target, Path(args.runs))
    profile = state.baseline
    assert profile is not None, "a run without a profile is not chosen"
    framework = framework_of(job)
    baseline = dict(profile.settings)
    specs = {spec.name: spec for spec in framework.knobs(job)}
    wanted = dict(_setting(text, specs) for text in args.settings)
    moves = tuple(Move(knob=k, old=baseline[k], new=v) for k, v in sorted(wanted.items()) if v != baseline[k])
    change = make_change(moves, specs, state.bottlenecks or ())
    settings = change.applied_to(baseline)
    against = framework.conflicts(job, settings)
    forecast = _forecast(framework, job, profile, change)
    if args.json:
        print_line(forecast.model_dump_json(indent=2))
    else:
        print_line(_text(profile, forecast, against))
    if forecast.refused:
        return 1
    return DOES_NOT_FIT if forecast.memory_fits is False else 0


def _check_own(args: argparse.Namespace) -> None:
    """Raise WrongCallError for flags of a configuration or log beside a job or run, whose profile has these facts."""
    given = {"--device": args.device, "--model": args.model, "--num-devices": args.num_devices}
    for flag, value in given.items():
        if value is not None:
            what, allowed = f"`{flag}` is for a configuration or a log", "`--set` for a job or run"
            hint = "leave it out: a profile is of the machine it was measured on"
            raise WrongCallError(explain(what, got=f"it beside `{args.targets[0]}`", allowed=allowed, hint=hint))


def _forecast(framework: Framework, job: JobSpec, profile: Profile, change: Change) -> Forecast:
    baseline = framework.planned_work(job, profile.settings, profile.lengths)
    planned = framework.planned_work(job, change.applied_to(profile.settings), profile.lengths)
    made = forecast_change(
        profile=profile,
        planned_baseline=baseline,
        planned=planned,
        change=change,
        history=(),
        total_memory_bytes=framework.total_memory_bytes(),
        headroom_frac=job.limits.memory_headroom_frac,
        objective=job.objective,
    )
    return with_lag(made, profile=profile, planned_baseline=baseline, planned=planned, history=())


def _find_profile(target: Path, runs: Path) -> tuple[JobSpec, SessionState]:
    """Return the job and a session with its profile: the run itself, the job's latest run, or a fresh profile."""
    if target.is_dir():
        folder = RunFolder.open(target)
        state = _state(folder)
        if state.baseline is None:
            raise JobError(
                explain(
                    f"`{target}` holds no profile",
                    got="a session that ended before its profile",
                    allowed="a run with a profile",
                    hint="give the job file: it will be profiled",
                )
            )
        return folder.job(), state
    job = read_job(target)
    for path in sorted(runs.glob(f"{job.name}-*"), reverse=True):
        if not (path / "version.json").exists():
            continue
        folder = RunFolder.open(path)
        state = _state(folder)
        if folder.job() == job and state.baseline is not None:
            say(f"forecast: using the profile of {path}")
            return job, state
    say("forecast: no run of this job has a profile yet; profiling it now")
    options = TuneOptions(root=runs, is_advice_only=True)
    path = start_session(job, running_framework_of(job), options, lambda: datetime.now(UTC), say)
    return job, _state(RunFolder.open(path))


def _state(folder: RunFolder) -> SessionState:
    return fold(entry.body for entry in read_journal(folder.journal_path))


def _setting(text: str, specs: dict[str, KnobSpec]) -> tuple[str, KnobValue]:
    """Parse ``knob=value``; the value is JSON (``true``, ``4096``), a bare word, or ``off`` for None."""
    name, equals, value = text.partition("=")
    if name not in specs or not equals:
        raise JobError(
            explain("`--set` takes KNOB=VALUE", got=f"`{text}`", allowed=", ".join(specs), hint=nearest(name, specs))
        )
    if value in ("off", "none") and None in specs[name].values:
        return name, None
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        parsed = value
    return name, _checked(specs[name], parsed)


def _checked(spec: KnobSpec, value: object) -> KnobValue:
    """Return ``value`` if the knob takes it: one of its values, or any size where its values are sizes.

    Raises:
        JobError: it does not.
    """
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value > 0
        and any(type(v) is int for v in spec.values)
    ):
        return value
    for known in spec.values:
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return known
    allowed = ", ".join(f"`{'off' if v is None else json.dumps(v).strip(chr(34))}`" for v in spec.values)
    words = [v for v in spec.values if isinstance(v, str)]
    close = nearest(str(value), words) if words else f"use one of {allowed}"
    raise JobError(explain(f"`{spec.name}` has no such value", got=f"`{value}`", allowed=allowed, hint=close))


def _text(profile: Profile, forecast: Forecast, against: tuple[str, ...]) -> str:
    if forecast.refused:
        return f"refused: {forecast.refused}"
    fits = {True: "fits", False: "does not fit", None: "too close to call"}[forecast.memory_fits]
    lines = [
        f"change     {forecast.change}",
        f"baseline   {profile.step_time}",
        f"forecast   {forecast.step_time}, 80 % interval",
        f"ratio      {forecast.ratio}",
        *(f"  {p.role:<12}{p.phase:<20}{duration_text(p.seconds)}" for p in forecast.phases),
        *(f"  {role:<12}{'idle':<20}{duration_text(seconds)}" for role, seconds in forecast.idle_s.items()),
        f"lag        {count_text(forecast.lag, 'update')} at most",
        *([f"ages       {lag_text(forecast.ages)}"] if forecast.ages and forecast.lag else []),
        f"memory     {fits}",
        f"fitted     {forecast.num_free_parameters} constants, profile {forecast.profile_hash}",
    ]
    return "\n".join([*lines, *(f"may not be tried: {reason}" for reason in against)])
