"""Entry point. Parsing knows every flag but imports no command, so `--help` answers at once.

Data goes to stdout, talk to stderr. Exit codes: 0 fine, 1 a problem that is named (an input that cannot be read, a disk
that is full), 2 a wrong call (files of different jobs are one), 3 a check that failed: `report --verify` found a
mismatch, `diagnose` or `lint` a fault, `compare` that B is slower, `watch` that a
decision no longer holds.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from steptune import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

FILES_HELP = "log, metrics, launch script or config of one job; a folder stands for its files, `-` for standard input"
"""What the commands that answer from files take; none of them sends anything anywhere."""

COMMON_CODES = (
    "1 nothing in an input was recognised, one cannot be read or the output not be written, "
    "2 a wrong call or files of different jobs"
)
"""Exit codes that they share."""

RUN_CODES = "1 a problem that is named (the job, a limit, the disk), 2 a wrong call, 130 interrupted"
"""Exit codes of the commands that run something."""


class Command(Protocol):
    """A command module."""

    def run(self, args: argparse.Namespace) -> int:
        """Carry the command out and return the exit code."""
        ...


class _Parser(argparse.ArgumentParser):
    """A parser that complains without repeating a secret that was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(_without_secrets(message))

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print help or a version where a full disk is an error: argparse passes over it."""
        if not message or (file is not None and file is not sys.stdout):
            super()._print_message(message, file)
            return
        try:
            sys.stdout.write(message)
            sys.stdout.flush()
        except (AttributeError, OSError):
            from steptune.cli.streams import print_plain

            print_plain(message)


class _Once(argparse.Action):
    """Stores a value, and refuses a second one instead of forgetting the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Keep the value."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, f"given twice: `{getattr(namespace, self.dest)}` and `{values}`")
        setattr(namespace, self.dest, values)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    called = argparse.Namespace(command="")
    try:
        build_parser().parse_args(argv, namespace=called)
        command = cast("Command", importlib.import_module(f"steptune.cli.{called.command}_command"))
        return command.run(called)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - our errors are imported only when one is there
        return _ended_by(error, called.command)


def _ended_by(error: Exception | KeyboardInterrupt, command: str) -> int:
    """Say what ended the command and return its exit code; what is our fault goes on as a traceback."""
    from steptune.cli.streams import say
    from steptune.cli.wrong_call import WrongCallError
    from steptune.core.errors import MixedJobsError, StepTuneError

    if isinstance(error, KeyboardInterrupt):
        say(f"steptune: interrupted{'; go on with `steptune tune --resume RUN`' if command == 'tune' else ''}")
        return 130
    if not isinstance(error, StepTuneError):
        raise error
    say(f"steptune: {error}")
    return 2 if isinstance(error, WrongCallError | MixedJobsError) else 1


def _without_secrets(text: str) -> str:
    from steptune.report.redact import redact_text

    return redact_text(text)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every command and flag."""
    parser = _Parser(
        prog="steptune",
        description="Faster RL post-training steps, with the evidence that training stayed inside your limits",
    )
    parser.add_argument("--version", action="version", version=f"steptune {__version__}", help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_diagnose(
        commands.add_parser("diagnose", help="a log, a config, an error: where does the time go, what is wrong?")
    )
    _add_compare(commands.add_parser("compare", help="two logs: is this speed-up real?"))
    _add_lint(commands.add_parser("lint", help="check a configuration before anything is launched"))
    _add_tune(commands.add_parser("tune", help="profile, forecast, try, guard, decide, report"))
    _add_forecast(commands.add_parser("forecast", help="what would a change do to the step?"))
    _add_watch(commands.add_parser("watch", help="a running job: does the decision it runs under still hold?"))
    _add_report(commands.add_parser("report", help="write or check the report of a run folder"))
    _add_score(commands.add_parser("score", help="how good are forecasts? our own, and any model on public runs"))
    _add_train(commands.add_parser("train", help="SFT, then RL, without tuning"))
    _add_serve(commands.add_parser("serve", help="a model folder behind an OpenAI-compatible endpoint"))
    doctor = commands.add_parser("doctor", help="can this machine run the embedded engine, and how noisy is it?")
    doctor.epilog = "exit codes: 0 the embedded engine can run, 1 it cannot, 2 a wrong call"
    return parser


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILES_HELP)
    _add_outputs(parser)
    parser.add_argument(
        "--only",
        choices=("lint", "memory", "health"),
        action="append",
        default=[],
        help="show one sort of finding alone; may be given again for another sort",
    )
    parser.epilog = f"exit codes: 0 no fault found, {COMMON_CODES}, 3 a fault among what is shown"


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="what was before: a file, a folder, or files with commas between")
    parser.add_argument("b", metavar="B", help="what came after, likewise")
    _add_outputs(parser)
    parser.epilog = f"exit codes: 0 B is faster or there is no proof, {COMMON_CODES}, 3 B is slower"


def _add_lint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILES_HELP)
    _add_outputs(parser)
    parser.set_defaults(only=["lint"])
    parser.epilog = f"exit codes: 0 no fault found, {COMMON_CODES}, 3 a fault was found"


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument(
        "--html", metavar="OUT", action=_Once, help="also write the answer as one HTML page that needs nothing else"
    )


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="job file (TOML)")
    parser.add_argument("--resume", metavar="RUN", action=_Once, help="go on with a killed session in this run folder")
    parser.add_argument("--advise-only", action="store_true", help="profile and forecast, but try nothing")
    _add_common(parser)
    parser.epilog = f"exit codes: 0 a decision was made, whatever it is, {RUN_CODES}"


def _add_forecast(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets",
        nargs="+",
        metavar="JOB|RUN|CONFIG|LOG",
        help="job file, run folder with a profile, a configuration of verl, NeMo RL or TRL (its memory), or, with one "
        "of the questions below, a pasted log and what else there is of its job",
    )
    _add_questions(parser)
    parser.add_argument("--device", metavar="NAME", help="of a configuration: the device, as `H100` or `A100 40GB`")
    parser.add_argument("--model", metavar="NAME|FILE", help="of a configuration: a public model, or its config.json")
    parser.add_argument(
        "--num-devices", type=int, metavar="N", help="of a configuration or log: devices it has, where it does not say"
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        type=_assignment,
        default=[],
        metavar="KNOB=VALUE",
        help="knob to change; of a configuration: a key that its bytes depend on; of a log: `prompts_per_step` or "
        "`group_size`",
    )
    parser.add_argument("--json", action="store_true", help="print the forecast as JSON")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="where run folders are kept (default: runs)")
    problem, wrong_call, interrupted = RUN_CODES.rsplit(", ", 2)
    ours = f"{problem} or a forecast that was refused, {wrong_call} or no known device, 3 the job does not fit"
    parser.epilog = f"exit codes: 0 a forecast was made, {ours}, {interrupted}"


def _add_questions(parser: argparse.ArgumentParser) -> None:
    asked = parser.add_argument_group("questions to the step model about a log")
    asked.add_argument("--on", type=int, metavar="N", action=_Once, help="the same job on N devices")
    asked.add_argument("--fewest", action="store_true", help="the fewest devices that keep the step time")
    asked.add_argument(
        "--async",
        dest="max_lag",
        type=int,
        metavar="LAG",
        action=_Once,
        help="each side on its own devices, samples at most LAG updates behind",
    )
    asked.add_argument(
        "--split", metavar="TRAIN:ROLLOUT", action=_Once, help="devices of each side (default: the best split)"
    )
    asked.add_argument("--sweep", action="store_true", help="rank device counts, synchronous and not, and splits")
    asked.add_argument(
        "--given",
        action="append",
        type=_assignment,
        default=[],
        metavar="FACT=N",
        help="a fact of the measured run that the log lacks; the answer names them",
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN|PACK", help="run folder; with `--replicate` a pack")
    parser.add_argument(
        "--verify", action="store_true", help="check the hash chain and recompute forecasts and decisions"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--trace", action="store_true", help="write each run's spans as a trace for ui.perfetto.dev")
    parser.add_argument(
        "--pack",
        metavar="FILE",
        action=_Once,
        help="write the session into one file for others: job, machine, seeds, every event; secrets taken out",
    )
    parser.add_argument(
        "--replicate", action="store_true", help="run a pack's baseline and winner here and print both results"
    )
    parser.add_argument(
        "--runs", default="runs", metavar="DIR", help="where the replication's folder is made (default: runs)"
    )
    codes = "0 fine, 1 no run folder, a pack that was changed, or the output cannot be written, 2 a wrong call"
    parser.epilog = f"exit codes: {codes}"


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets",
        nargs="+",
        metavar="LOG|RUN",
        help="the running job's log or metrics, or the folder of a `steptune train`; and the run folder of the "
        "session whose decision it runs under, without which health and stalls alone are watched",
    )
    parser.add_argument("--once", action="store_true", help="look once and leave, instead of following the log")
    parser.add_argument(
        "--stall", type=float, metavar="SECONDS", help="silence that counts as hung (default: 5 steps, at least 300 s)"
    )
    parser.add_argument(
        "--every", type=float, default=30.0, metavar="SECONDS", help="time between two looks (default: 30)"
    )
    parser.add_argument("--json", action="store_true", help="print the last look as JSON")
    codes = "0 `--once` found nothing, 1 nothing was recognised or a file cannot be read, 2 a wrong call"
    parser.epilog = f"exit codes: {codes}, 3 the decision no longer holds, or the job is sick or hangs"


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="run folders, pooled; forecasts written too late do not count"
    )
    parser.add_argument("--public", action="store_true", help="score every arm on the public runs")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    parser.add_argument(
        "--plot", metavar="OUT", action=_Once, help="also write the public scoreboard as one SVG picture"
    )
    parser.epilog = "exit codes: 0 scored, 1 a run folder cannot be read, or the plot not be written, 2 a wrong call"


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", help="job file (TOML)")
    parser.add_argument("--resume", metavar="RUN", action=_Once, help="go on with a killed run in this run folder")
    parser.add_argument("--steps", type=int, help="RL steps in all (default: 50, or as begun)")
    parser.add_argument(
        "--validate-every", type=int, metavar="N", help="RL steps between validations (default: 25, or as begun)"
    )
    parser.add_argument(
        "--save-every",
        type=int,
        metavar="N",
        help="RL steps between checkpoints (default: one at the end, or as begun)",
    )
    parser.add_argument(
        "--state-every", type=int, metavar="N", help="RL steps between states to resume from (default: 10, or as begun)"
    )
    _add_common(parser)
    parser.epilog = f"exit codes: 0 trained, {RUN_CODES}"


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="a checkpoint of `steptune train`, or any model folder")
    parser.add_argument("--port", type=int, default=8000, help="of the loopback address, 0 for a free one (8000)")
    parser.epilog = "exit codes: 0 interrupted, 1 the folder or the port cannot be used, 2 a wrong call"


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        type=_assignment,
        default=[],
        metavar="KEY=VALUE",
        help="override a key of the job file",
    )
    parser.add_argument("--runs", default="runs", metavar="DIR", help="where run folders are kept (default: runs)")


def _assignment(text: str) -> str:
    if not text.partition("=")[1]:
        raise argparse.ArgumentTypeError(f"got `{text}`; allowed: a name, `=` and a value; hint: `{text}=VALUE`")
    return text


if __name__ == "__main__":
    sys.exit(main())
