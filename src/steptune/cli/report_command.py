"""`steptune report`: writes the report of a run folder again, or checks the folder."""

import argparse
from pathlib import Path

from steptune.cli.report_files import write_report
from steptune.cli.streams import print_line
from steptune.report.json import render_json
from steptune.report.load import load_report
from steptune.store.run_folder import RunFolder


def run(args: argparse.Namespace) -> int:
    """Write and print the report; with ``--verify`` check it first (exit 3 on a mismatch)."""
    folder = RunFolder.open(Path(args.run))
    if args.verify:
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
    print_line(render_json(load_report(folder.path)) if args.json else write_report(folder.path))
    return 0
