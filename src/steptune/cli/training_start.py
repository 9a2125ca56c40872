"""Where a training run begins: at a job file, or where a killed run of it was last saved."""

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from steptune.cli.frameworks import running_framework_of
from steptune.cli.job_files import read_job
from steptune.cli.streams import say
from steptune.cli.training_run import TRAINING
from steptune.core.errors import StoreError, explain
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.training import Training, TrainingPlan
from steptune.engine.checkpoint_file import newest_whole, step_of
from steptune.engine.compiler import COMPILE, check_compiler
from steptune.engine.serve import RunFile
from steptune.store.knob_checks import check_knobs

RUN_FILE = "run.json"
"""What the run was started with."""

STATES = "state"
"""Folder of the run's saved states."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingStart:
    """A run that is about to begin, or to go on."""

    job: JobSpec
    launch: LaunchSpec
    folder: Path
    training: Training
    """What is known of the steps done."""
    steps_done: int


def new_training(args: argparse.Namespace) -> TrainingStart:
    """Return a run of the job file, in a folder of its own.

    What the owner pinned is run as it is, and what the tuner would refuse of it is said.
    """
    job = read_job(Path(args.job), args.overrides)
    framework = running_framework_of(job)
    check_knobs(job, framework.knobs(job))
    settings = {lever.knob: lever.value for lever in framework.baseline(job, job.baseline)}
    if settings.get(COMPILE) is True:
        check_compiler()  # before the SFT start, which takes its time
    folder = Path(args.runs) / f"{job.name}-train-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    say(f"train: {job.name}, baseline `{job.baseline}`, files in {folder} (SFT first, unless it is cached)")
    for reason in framework.conflicts(job, settings):
        say(f"train: the tuner would not choose this configuration: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    every = args.state_every or TrainingPlan().state_every
    launch = LaunchSpec(settings=settings, seed=job.algorithm.seed, checkpoint_every=every)
    return TrainingStart(job=job, launch=launch, folder=folder, training=Training(job_name=job.name), steps_done=0)


def resumed_training(folder: Path, state_every: int | None = None) -> TrainingStart:
    """Return the run of ``folder`` from its newest whole state, or from its start where none was saved.

    ``state_every`` None saves states as often as before.

    Raises:
        StoreError: the folder is of no training run, or its record was edited.
    """
    try:
        begun = RunFile.model_validate_json((folder / RUN_FILE).read_bytes())
        known = Training.model_validate_json((folder / TRAINING).read_bytes())
    except (OSError, ValidationError) as error:
        raise StoreError(
            explain(
                f"`{folder}` cannot be resumed",
                got=f"no whole `{RUN_FILE}` and `{TRAINING}` in it",
                allowed="the folder that `steptune train` named",
                hint="`steptune tune --resume` goes on with a tuning session",
            )
        ) from error
    found = newest_whole(folder / STATES)
    for problem in found.problems:
        say(f"train: {problem}")
    done = step_of(found.path) if found.path is not None else 0
    say(f"train: {begun.job.name} goes on after step {done}" if done else "train: nothing was saved, from the start")
    return TrainingStart(
        job=begun.job,
        launch=LaunchSpec(
            settings=dict(begun.knobs),
            seed=begun.seed,
            checkpoint_every=state_every or begun.checkpoint_every,
            resume=True,
        ),
        folder=folder,
        training=before(known, done),
        steps_done=done,
    )


def before(known: Training, done: int) -> Training:
    """Return the record as it was after ``done`` steps: what came later is done again."""
    return Training(
        job_name=known.job_name,
        plan=known.plan,
        evaluations=tuple(held for held in known.evaluations if held.step <= done),
        steps=tuple(step for step in known.steps if step.step < done),
        models=tuple(model for model in known.models if model.step <= done),
    )
