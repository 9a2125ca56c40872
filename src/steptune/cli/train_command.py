"""`steptune train`: SFT, then RL with the job's baseline and pins. No tuning."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from steptune.cli.frameworks import running_framework_of
from steptune.cli.streams import print_line, say
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import explain
from steptune.core.framework import LaunchSpec
from steptune.core.trial import Observation
from steptune.store.job_file import load_job
from steptune.store.knob_checks import check_knobs

REPORT_EVERY = 5
"""Steps between two lines of output."""


def run(args: argparse.Namespace) -> int:
    """Train and print progress and held-out accuracy before and after."""
    if args.steps < 1:
        raise WrongCallError(explain("`--steps` must be positive", got=args.steps, allowed="1 or more", hint="use 50"))
    job = load_job(Path(args.job), args.overrides)
    framework = running_framework_of(job)
    check_knobs(job, framework.knobs(job))
    settings = {lever.knob: lever.value for lever in framework.baseline(job, job.baseline)}
    folder = Path(args.runs) / f"{job.name}-train-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    say(f"train: {job.name}, baseline `{job.baseline}`, files in {folder} (SFT first, unless it is cached)")
    session = framework.launch(job, LaunchSpec(settings=settings, seed=job.algorithm.seed), folder)
    try:
        start = session.evaluate()
        say(f"train: held-out accuracy of the SFT start {start.accuracy:.3f} ({start.num_problems} problems)")
        for done in range(0, args.steps, REPORT_EVERY):
            say(_line(session.run_steps(min(REPORT_EVERY, args.steps - done))))
        end = session.evaluate()
    finally:
        session.close()
    print_line(f"held-out accuracy {start.accuracy:.3f} -> {end.accuracy:.3f} after {args.steps} RL steps")
    return 0


def _line(steps: list[Observation]) -> str:
    last = steps[-1]
    seconds = sum(step.step_time_s for step in steps) / len(steps)
    rewards = [step.reward_mean for step in steps if step.reward_mean is not None]
    reward = f"{sum(rewards) / len(rewards):.3f}" if rewards else "unknown"
    return f"train: step {last.step + 1}: {seconds:.3f} s per step, reward {reward}, entropy {last.entropy}"
