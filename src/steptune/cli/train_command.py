"""`steptune train`: SFT, then RL with the job's baseline and pins. No tuning. `--resume` goes on with a killed run."""

import argparse
from pathlib import Path

from steptune.cli.frameworks import running_framework_of
from steptune.cli.streams import print_line, say
from steptune.cli.training_run import TrainingRun
from steptune.cli.training_start import TrainingStart, new_training, resumed_training
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import explain
from steptune.core.training import TrainingPlan

INTERVALS = ("validate_every", "save_every", "state_every")
"""Options, and fields of `TrainingPlan`, that say what is due how often."""


def run(args: argparse.Namespace) -> int:
    """Train, validate, save; print progress and held-out accuracy before and after."""
    _check_call(args)
    begun = new_training(args) if args.resume is None else resumed_training(Path(args.resume), args.state_every)
    folder, plan = begun.folder, plan_of(args, begun)
    session = running_framework_of(begun.job).launch(begun.job, begun.launch, folder)
    try:
        training = TrainingRun(session, begun.training, folder, say).run(plan, begun.steps_done)
    finally:
        session.close()
    start, end = training.evaluations[0], training.evaluations[-1]
    print_line(f"held-out accuracy {start.accuracy:.3f} -> {end.accuracy:.3f} after {plan.num_steps} RL steps")
    print_line(f"report: {folder / 'report.html'}")
    return 0


def plan_of(args: argparse.Namespace, begun: TrainingStart) -> TrainingPlan:
    """Return what is due when: what is asked for, else what the run was begun with; it must have steps left."""
    asked = {"num_steps": args.steps, **{name: getattr(args, name) for name in INTERVALS}}
    known = begun.training.plan or TrainingPlan()
    plan = known.model_copy(update={name: number for name, number in asked.items() if number is not None})
    if plan.num_steps <= begun.steps_done:
        raise WrongCallError(
            explain(
                "the run has no step left",
                got=f"{begun.steps_done} steps done of {plan.num_steps} in all",
                allowed="more steps than are done",
                hint=f"use `--steps {begun.steps_done + plan.num_steps}`",
            )
        )
    return plan


def _check_call(args: argparse.Namespace) -> None:
    if (args.job is None) == (args.resume is None):
        raise WrongCallError(
            explain(
                "`steptune train` takes a job file or `--resume RUN`",
                got="both" if args.job else "neither",
                allowed="one of the two",
                hint="examples/math-dense.toml is a job file",
            )
        )
    if args.resume is not None and args.overrides:
        raise WrongCallError(
            explain(
                "a run goes on with the job that it was begun with",
                got=f"`--resume` and `--set {args.overrides[0]}`",
                allowed="`--resume` without `--set`",
                hint="train the other job from its file",
            )
        )
    for name in ("steps", *INTERVALS):
        given: int | None = getattr(args, name)
        if given is not None and given < 1:
            option = f"--{name.replace('_', '-')}"
            raise WrongCallError(explain(f"`{option}` must be positive", got=given, allowed="1 or more", hint="use 50"))
