"""`steptune train`: SFT, then RL with the job's baseline and pins. No tuning."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from steptune.cli.frameworks import running_framework_of
from steptune.cli.streams import print_line, say
from steptune.cli.training_run import TrainingPlan, TrainingRun
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import explain
from steptune.core.framework import LaunchSpec
from steptune.core.training import Training
from steptune.store.job_file import load_job
from steptune.store.knob_checks import check_knobs


def run(args: argparse.Namespace) -> int:
    """Train, validate, save; print progress and held-out accuracy before and after."""
    _check_counts(args)
    job = load_job(Path(args.job), args.overrides)
    framework = running_framework_of(job)
    check_knobs(job, framework.knobs(job))
    settings = {lever.knob: lever.value for lever in framework.baseline(job, job.baseline)}
    folder = Path(args.runs) / f"{job.name}-train-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    say(f"train: {job.name}, baseline `{job.baseline}`, files in {folder} (SFT first, unless it is cached)")
    folder.mkdir(parents=True, exist_ok=True)
    session = framework.launch(job, LaunchSpec(settings=settings, seed=job.algorithm.seed), folder)
    plan = TrainingPlan(num_steps=args.steps, validate_every=args.validate_every, save_every=args.save_every)
    try:
        training = TrainingRun(session, Training(job_name=job.name), folder, say).run(plan)
    finally:
        session.close()
    start, end = training.evaluations[0], training.evaluations[-1]
    print_line(f"held-out accuracy {start.accuracy:.3f} -> {end.accuracy:.3f} after {args.steps} RL steps")
    print_line(f"report: {folder / 'report.html'}")
    return 0


def _check_counts(args: argparse.Namespace) -> None:
    for name in ("steps", "validate_every", "save_every"):
        given: int | None = getattr(args, name)
        if given is not None and given < 1:
            option = f"--{name.replace('_', '-')}"
            raise WrongCallError(explain(f"`{option}` must be positive", got=given, allowed="1 or more", hint="use 50"))
