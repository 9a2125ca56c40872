"""Are these files of one job? Different jobs are refused by name, copies and contradictions are said.

Surprise: two configurations that contradict each other may still be one job's, a base and what goes over it; then the
reader is told which counts.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from steptune.core.errors import MixedJobsError, explain
from steptune.core.paste import Note, Setting, effective
from steptune.readers.facts import FactFinder
from steptune.readers.frameworks import framework
from steptune.readers.metrics.records import records_of
from steptune.readers.reading import FrameworkReader
from steptune.readers.scan.inputs import InputFile
from steptune.readers.scan.keep import StepKeeper
from steptune.readers.scan.log import scan_log
from steptune.readers.scan.same_run import Kinship, RunWatch
from steptune.readers.scan.votes import winner

MIN_VOTES = 2
"""Votes for a framework from which a file may be called its log; a word in passing gives one."""

MIN_CONFLICTS = 2
"""Settings that two files must contradict each other in before it is said; one is an override."""

SHOWN_CONFLICTS = 3
"""Contradicting settings that are named."""

HINT = "hand in one job's files at a time, or let `steptune compare` hold one job against the other"


def check_one_framework(files: Sequence[InputFile], row: FrameworkReader | None) -> None:
    """Check that no file is the log of another framework than ``row``.

    Raises:
        MixedJobsError: a file tells steps of another one, and one of ``row`` does too.
    """
    if row is None or len(files) == 1:
        return
    ours = [file for file in files if file.votes[row.name] >= MIN_VOTES]
    for file in files:
        name = winner(file.votes)
        is_foreign = name is not None and file.votes[name] >= MIN_VOTES and not file.votes[row.name]
        if name is None or not is_foreign or not _num_steps(file, framework(name)):
            continue
        own = next((other for other in ours if not other.votes[name] and _num_steps(other, row)), None)
        if own is not None:
            raise _mixed(f"`{own.path}` of {row.name} and `{file.path}` of {name}")


def check_one_job(watch: RunWatch) -> None:
    """Check that no two files tell different values of the same steps.

    Raises:
        MixedJobsError: two files do.
    """
    for pair in watch.pairs():
        if pair.kinship is Kinship.OTHER_JOB:
            shared = len(watch.files[pair.first].numbers & watch.files[pair.second].numbers)
            told = f"{pair.num_agreeing} of {pair.num_compared} values compared agree"
            raise _mixed(f"`{pair.first}` and `{pair.second}`, which both count {shared} same steps: {told}")


def copy_notes(copies: Mapping[Path, Path]) -> list[Note]:
    """Say which files are another one's copy."""
    return [
        Note(text=f"`{copy}` is a copy of `{first}`: read once", is_about_input=True) for copy, first in copies.items()
    ]


def retold_notes(watch: RunWatch) -> list[Note]:
    """Say which files tell a run that another one tells too."""
    return [
        Note(text=f"`{again}` tells the same run as `{first}`: steps that both have count once", is_about_input=True)
        for again, first in watch.retold().items()
    ]


def setting_notes(files: Sequence[tuple[str, Sequence[Setting]]]) -> list[Note]:
    """Say where two files give the same settings different values on the same level."""
    held = [(path, effective(settings)) for path, settings in files if settings]
    notes: list[Note] = []
    for (a, first), (b, second) in combinations(held, 2):
        both = [(first[key], second[key]) for key in first if key in second]
        differing = [(one, two) for one, two in both if _is_conflict(one, two)]
        if len(differing) >= MIN_CONFLICTS:
            named = ", ".join(f"`{one.key}` {one.text} and {two.text}" for one, two in differing[:SHOWN_CONFLICTS])
            text = f"`{a}` and `{b}` differ in {len(differing)} settings ({named}): the last file counts; if they are "
            notes.append(Note(text=f"{text}two jobs, {HINT}", is_about_input=True))
    return notes


def _is_conflict(one: Setting, two: Setting) -> bool:
    is_known = one.is_resolved and two.is_resolved
    return is_known and one.layer == two.layer != "env" and one.value != two.value


def _num_steps(file: InputFile, row: FrameworkReader) -> int:
    keeper = StepKeeper()
    if file.metrics is None:
        scan_log(file.path, row, keeper, FactFinder(version_pattern=None, trainer_pattern=None))
    else:
        keeper.take(records_of(file.metrics(file.path), row, str(file.path)))
    return keeper.num_seen


def _mixed(got: str) -> MixedJobsError:
    sentence = explain("these files are logs of different jobs", got=got, allowed="the files of one job", hint=HINT)
    return MixedJobsError(sentence)
