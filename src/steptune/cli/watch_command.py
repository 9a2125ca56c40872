"""`steptune watch`: follows a running job and leaves with exit code 3 when the decision it runs under no longer holds.

Surprise: it ends at the first alarm, so that `steptune watch ... || notify` is a whole monitor. Rotations and restarts
are said on standard error and followed.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from steptune.cli.diagnose_command import say_unread
from steptune.cli.log_files import FileState, age_s, happened, states_of
from steptune.cli.show import EXIT_FINE, EXIT_FOUND, EXIT_UNREAD, presentable, print_text
from steptune.cli.streams import print_plain, say
from steptune.cli.watch_inputs import WatchInputs, watch_inputs
from steptune.cli.watch_look import judge, look
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import ReadError, explain
from steptune.core.finding import Diagnosis
from steptune.core.watched import Watched
from steptune.report.watched_text import status_line, watched_text

LOOK_SHARE = 10.0
"""The wait is at least this many times as long as the look took: a huge log costs a tenth of a core, not one."""

MIN_EVERY_S = 0.1
"""Shortest wait between two looks, in seconds."""

UNKNOWN = "no_data"
"""Code of a diagnosis that recognised nothing."""


class Clocks(Protocol):
    """Time, so that tests need none."""

    def monotonic(self) -> float:
        """Seconds on a clock that does not jump."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class RealClocks:
    """The machine's."""

    def monotonic(self) -> float:
        """See `Clocks`."""
        return time.monotonic()

    def wall(self) -> float:
        """See `Clocks`."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """See `Clocks`."""
        time.sleep(seconds)


def run(args: argparse.Namespace) -> int:
    """Look once or follow; exit 3 at the first alarm."""
    _check(args)
    inputs = watch_inputs(args.targets)
    for note in inputs.notes:
        say(f"watch: {note}")
    return _once(inputs, args, RealClocks()) if args.once else follow(inputs, args, RealClocks())


def _check(args: argparse.Namespace) -> None:
    """Refuse a pipe that is to be followed, and times that are none.

    Raises:
        WrongCallError: one of them was asked for.
    """
    if "-" in args.targets and not args.once:
        hint = "`| tee train.log` and watch the file, or `--once` for what there is"
        raise WrongCallError(explain("standard input cannot be followed", got="`-`", allowed="a file", hint=hint))
    for flag, value in (("--every", args.every), ("--stall", args.stall)):
        if value is not None and not value > 0:
            sentence = explain(f"`{flag}` is a time", got=value, allowed="seconds above 0", hint="leave it out")
            raise WrongCallError(sentence)


def _once(inputs: WatchInputs, args: argparse.Namespace, clocks: Clocks) -> int:
    states = _states(inputs)
    diagnosis = look(inputs)
    silent_s = age_s(states, clocks.wall())
    watched = _judged(diagnosis, inputs, args, silent_s, states)
    if silent_s != silent_s and states:
        watched = watched.model_copy(update={"notes": (*watched.notes, FUTURE)})
    _print(watched, inputs, args)
    if watched.alarms:
        return EXIT_FOUND
    if UNKNOWN in diagnosis.codes() and inputs.training is None:
        say_unread("the log of a running job", diagnosis.paste.num_lines)
        return EXIT_UNREAD
    return EXIT_FINE


FUTURE = "the log is dated in the future, so its age is not known: a clock jumped, or the disk is another machine's"
"""Said where silence cannot be measured."""


def follow(inputs: WatchInputs, args: argparse.Namespace, clocks: Clocks) -> int:
    """Look whenever the log has grown, until there is an alarm.

    Raises:
        ReadError: the log cannot be read at the first look.
    """
    states = _states(inputs)
    age = age_s(states, clocks.wall())
    grown_s = clocks.monotonic() - (age if age == age else 0.0)
    diagnosis, told = look(inputs), ""
    took_s = 0.0
    while True:
        watched = _judged(diagnosis, inputs, args, clocks.monotonic() - grown_s, states)
        if watched.alarms:
            _print(watched, inputs, args)
            return EXIT_FOUND
        told = _say_once(status_line(watched), told)
        clocks.sleep(max(args.every, MIN_EVERY_S, LOOK_SHARE * took_s))
        now = _states(inputs)
        if now == states:
            continue
        for event in happened(states, now):
            say(f"watch: {event}")
        grown_s, states = clocks.monotonic(), now
        diagnosis = _looked(inputs, diagnosis)
        took_s = clocks.monotonic() - grown_s


def _looked(inputs: WatchInputs, before: Diagnosis) -> Diagnosis:
    """Look again; files that are gone or unreadable for a moment leave what was known."""
    try:
        return look(inputs)
    except ReadError as error:
        say(f"watch: {error}")
        return before


def _states(inputs: WatchInputs) -> dict[Path, FileState]:
    return states_of(inputs.logs if inputs.training is None else (str(inputs.training),))


def _judged(
    diagnosis: Diagnosis, inputs: WatchInputs, args: argparse.Namespace, silent_s: float, states: dict[Path, FileState]
) -> Watched:
    return presentable(judge(diagnosis, inputs, silent_s=silent_s, told_s=args.stall, states=states))


def _say_once(line: str, told: str, speak: Callable[[str], None] = say) -> str:
    if line != told:
        speak(line)
    return line


def _print(watched: Watched, inputs: WatchInputs, args: argparse.Namespace) -> None:
    if args.json:
        print_plain(watched.model_dump_json(indent=2) + "\n")
    else:
        print_text(watched_text(watched, inputs.back_to))
