"""`steptune tune`: the whole loop, from a job file or on a killed session's run folder."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from steptune.cli.frameworks import running_framework_of
from steptune.cli.job_files import read_job
from steptune.cli.report_files import write_report
from steptune.cli.streams import print_line, say
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import StepTuneError, explain
from steptune.store.run_folder import RunFolder
from steptune.tune.session import TuneOptions, resume_session, start_session


def run(args: argparse.Namespace) -> int:
    """Tune, then write the report and print the summary."""
    options = TuneOptions(root=Path(args.runs), is_advice_only=args.advise_only)
    if (args.job is None) == (args.resume is None):
        raise WrongCallError(
            explain(
                "`steptune tune` takes a job file or `--resume RUN`",
                got="both" if args.job else "neither",
                allowed="one of them",
                hint="`steptune tune examples/math-dense.toml`",
            )
        )
    if args.resume is not None:
        path = Path(args.resume)
        job = RunFolder.open(path).job()
        folder = resume_session(path, running_framework_of(job), options, _now, say)
    else:
        job = read_job(Path(args.job), args.overrides)
        folder = _start(args, job, options)
    print_line(write_report(folder))
    return 0


def _start(args: argparse.Namespace, job: object, options: TuneOptions) -> Path:
    from steptune.core.job import JobSpec

    assert isinstance(job, JobSpec), "read_job returns a job"
    before = set(options.root.glob("*")) if options.root.exists() else set()
    try:
        return start_session(job, running_framework_of(job), options, _now, say)
    except StepTuneError:
        new = set(options.root.glob("*")) - before if options.root.exists() else set()
        for folder in new:
            say(f"the run folder is {folder}")
        raise


def _now() -> datetime:
    return datetime.now(UTC)
