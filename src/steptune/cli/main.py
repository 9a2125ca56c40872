"""Entry point. Parsing knows every flag but imports no command, so `--help` answers at once.

Data goes to stdout, talk to stderr. Exit codes: 0 fine, 1 a problem that is named (an input that cannot be read),
2 a wrong call, 3 a check that failed: `report --verify` found a mismatch, `diagnose` or `lint` a fault, `compare` that
B is slower.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

FILES_HELP = "log, metrics, launch script or config of one job; a folder stands for its files, `-` for standard input"
"""What the commands that answer from files take; none of them sends anything anywhere."""

COMMON_CODES = "1 an input cannot be read, 2 a wrong call"
"""Exit codes that they share."""


class Command(Protocol):
    """A command module."""

    def run(self, args: argparse.Namespace) -> int:
        """Carry the command out and return the exit code."""
        ...


class _Parser(argparse.ArgumentParser):
    """A parser that complains without repeating a secret that was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(_without_secrets(message))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    args = build_parser().parse_args(argv)
    command = cast("Command", importlib.import_module(f"steptune.cli.{args.command}_command"))
    from steptune.cli.page_place import WrongCallError
    from steptune.core.errors import StepTuneError

    try:
        return command.run(args)
    except StepTuneError as error:
        print(f"steptune: {_without_secrets(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, WrongCallError) else 1
    except KeyboardInterrupt:
        hint = "; go on with `steptune tune --resume RUN`" if args.command == "tune" else ""
        print(f"steptune: interrupted{hint}", file=sys.stderr)
        return 130


def _without_secrets(text: str) -> str:
    from steptune.report.redact import redact_text

    return redact_text(text)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every command and flag."""
    parser = _Parser(
        prog="steptune",
        description="Faster RL post-training steps, with the evidence that training stayed inside your limits",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_diagnose(
        commands.add_parser("diagnose", help="a log, a config, an error: where does the time go, what is wrong?")
    )
    _add_compare(commands.add_parser("compare", help="two logs: is this speed-up real?"))
    _add_lint(commands.add_parser("lint", help="check a configuration before anything is launched"))
    _add_tune(commands.add_parser("tune", help="profile, forecast, try, guard, decide, report"))
    _add_forecast(commands.add_parser("forecast", help="what would a change do to the step?"))
    _add_report(commands.add_parser("report", help="write or check the report of a run folder"))
    _add_train(commands.add_parser("train", help="SFT, then RL, without tuning"))
    commands.add_parser("doctor", help="can this machine run the embedded engine, and how noisy is it?")
    return parser


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILES_HELP)
    _add_outputs(parser)
    parser.add_argument("--only", choices=("lint", "memory", "health"), help="show one sort of finding alone")
    parser.epilog = f"exit codes: 0 no fault found, {COMMON_CODES}, 3 a fault among what is shown"


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="what was before: a file, a folder, or files with commas between")
    parser.add_argument("b", metavar="B", help="what came after, likewise")
    _add_outputs(parser)
    parser.epilog = f"exit codes: 0 B is faster or there is no proof, {COMMON_CODES}, 3 B is slower"


def _add_lint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILES_HELP)
    _add_outputs(parser)
    parser.set_defaults(only="lint")
    parser.epilog = f"exit codes: 0 no fault found, {COMMON_CODES}, 3 a fault was found"


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--html", metavar="OUT", help="also write the answer as one HTML page that needs nothing else")


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="job file (TOML)")
    parser.add_argument("--resume", metavar="RUN", help="go on with a killed session in this run folder")
    parser.add_argument("--advise-only", action="store_true", help="profile and forecast, but try nothing")
    _add_common(parser)


def _add_forecast(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="JOB|RUN", help="job file, or run folder with a profile")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="KNOB=VALUE", help="knob to change"
    )
    parser.add_argument("--json", action="store_true", help="print the forecast as JSON")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="where run folders are kept (default: runs)")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument(
        "--verify", action="store_true", help="check the hash chain and recompute forecasts and decisions"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", help="job file (TOML)")
    parser.add_argument("--steps", type=int, default=50, help="RL steps (default: 50)")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a key of the job file",
    )
    parser.add_argument("--runs", default="runs", metavar="DIR", help="where run folders are kept (default: runs)")


if __name__ == "__main__":
    sys.exit(main())
