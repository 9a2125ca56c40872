"""`steptune report`: writes the report of a run folder again, checks or packs the folder, or runs a pack again."""

import argparse
from pathlib import Path

from pydantic import ValidationError

from steptune.cli.report_files import write_report
from steptune.cli.streams import print_line, print_plain
from steptune.cli.trace_files import write_traces
from steptune.cli.training_run import TRAINING
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import StoreError, explain
from steptune.core.training import Training
from steptune.report.json import render_json
from steptune.report.load import load_report
from steptune.report.training_html import training_html
from steptune.report.training_text import training_text
from steptune.store.files import replace
from steptune.store.run_folder import RunFolder


def run(args: argparse.Namespace) -> int:
    """Write and print the report, or do what one of the flags asks for instead."""
    _check(args)
    if args.trace:
        for path in write_traces(Path(args.run)):
            print_line(f"trace: {path}")
        return 0
    if args.replicate:
        return _replicate(args)
    training = Path(args.run) / TRAINING
    if training.is_file() and not args.verify and not args.pack:
        return _of_training(training, as_json=args.json)
    folder = RunFolder.open(Path(args.run))
    if args.verify:
        return _verify(folder)
    if args.pack:
        from steptune.cli.pack_files import pack_run

        print_line(pack_run(folder.path, Path(args.pack)))
        return 0
    print_line(render_json(load_report(folder.path)) if args.json else write_report(folder.path))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse two things to do at once.

    Raises:
        WrongCallError: two of the flags that each replace the report.
    """
    asked = [f"`--{name}`" for name in ("verify", "trace", "pack", "replicate") if getattr(args, name)]
    if len(asked) > 1:
        hint = "call it once for each"
        raise WrongCallError(
            explain("`steptune report` does one thing at a time", got=" and ".join(asked), allowed="one", hint=hint)
        )


def _verify(folder: RunFolder) -> int:
    from steptune.cli.frameworks import framework_of
    from steptune.tune.verify import verify

    job = folder.job()
    problems = verify(folder, framework_of(job).knobs(job))
    for problem in problems:
        print_line(f"verify: {problem}")
    if problems:
        return 3
    print_line("verify: the hash chain is whole; every forecast and decision was recomputed and agrees")
    return 0


def _replicate(args: argparse.Namespace) -> int:
    from steptune.cli.pack_files import replicate_pack
    from steptune.report.replicated_text import replicated_text

    found = replicate_pack(Path(args.run), Path(args.runs))
    print_plain(found.model_dump_json(indent=2) + "\n" if args.json else replicated_text(found))
    return 0


def _of_training(path: Path, *, as_json: bool) -> int:
    """Write the report of a training run again and print it."""
    try:
        training = Training.model_validate_json(path.read_bytes())
    except ValidationError as error:
        what, hint = f"`{path}` was edited or is from another version", "train again"
        raise StoreError(
            explain(what, got=f"{error.error_count()} bad fields", allowed="the record as it was written", hint=hint)
        ) from error
    replace(path.parent / "report.html", training_html(training))
    print_line(training.model_dump_json(indent=2) if as_json else training_text(training).rstrip("\n"))
    return 0
