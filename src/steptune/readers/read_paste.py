"""Whatever a user hands in becomes one `Paste`: the way in for every command that takes logs, metrics or configs.

Strange content is never an error: what cannot be read is left out, and an unknown framework is None. Two looks at
every file, both streamed: the first finds the framework, the second reads its steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import final

from steptune.core.paste import Note, Paste, Setting
from steptune.core.profile import Origin
from steptune.readers.facts import FactFinder, JobFacts, job_facts
from steptune.readers.formats.loose_pairs import read_loose_pairs
from steptune.readers.frameworks import FRAMEWORKS, framework
from steptune.readers.metrics.records import records_of
from steptune.readers.one_job import check_one_framework, check_one_job, copy_notes, retold_notes, setting_notes
from steptune.readers.reading import FrameworkReader, LogReading
from steptune.readers.scan.copies import without_copies
from steptune.readers.scan.copies_on_disk import without_copies_on_disk
from steptune.readers.scan.devices import card_memory_gib
from steptune.readers.scan.head import head_lines
from steptune.readers.scan.inputs import InputFile, devices_of, look_at, without_parents
from steptune.readers.scan.keep import FIRST_STEPS, StepKeeper
from steptune.readers.scan.log import LogScan, scan_log
from steptune.readers.scan.phase_table import read_phase_table
from steptune.readers.scan.same_run import watch_for, without_retold
from steptune.readers.scan.step_table import read_step_table
from steptune.readers.scan.two_streams import num_told_twice
from steptune.readers.scan.votes import Votes, winner
from steptune.readers.scan.walk import files_of
from steptune.readers.series import series_of, with_status
from steptune.readers.step import StepRecord


def read_paste(paths: Sequence[Path]) -> Paste:
    """Return everything that one job's files say. A folder stands for the known kinds of files in it.

    Raises:
        ReadError: a path cannot be opened.
        MixedJobsError: two of the files are logs of different jobs.
    """
    different, copies = without_copies_on_disk(files_of(paths))
    files = without_parents([look_at(path) for path in different])
    name = winner(sum((file.votes for file in files), Votes()), sum((file.hints for file in files), Votes()))
    row = None if name is None else framework(name)
    check_one_framework(files, row)
    steps = _read_steps(files, row)
    check_one_job(steps.keeper.watch)
    paste = _paste(files, steps, row)
    return paste.model_copy(update={"notes": (*copy_notes(copies), *paste.notes)})


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Steps:
    """The second look: steps of all files, and what the text around them says."""

    keeper: StepKeeper
    facts: FactFinder
    scans: Sequence[LogScan]


def _read_steps(files: Sequence[InputFile], row: FrameworkReader | None) -> _Steps:
    keeper = StepKeeper() if row is None else StepKeeper(watch=watch_for(row.series))
    scans = list[LogScan]()
    facts = FactFinder(version_pattern=None, trainer_pattern=None) if row is None else _finder(row)
    for file in files:
        if file.metrics is None:
            scans.append(scan_log(file.path, row, keeper, facts))
        elif row is not None:
            keeper.take(records_of(file.metrics(file.path), row, str(file.path)))
    return _Steps(keeper=keeper, facts=facts, scans=scans)


def _finder(row: FrameworkReader) -> FactFinder:
    literals = tuple(needle.decode() for needle in row.fact_needles)
    return FactFinder(version_pattern=row.version, trainer_pattern=row.trainer, literals=literals)


def _paste(files: Sequence[InputFile], steps: _Steps, row: FrameworkReader | None) -> Paste:
    kept = without_retold(steps.keeper.kept(), steps.keeper.watch)
    records, scans = _with_quoted(kept, files, row), steps.scans
    excerpts = tuple(excerpt for scan in scans for excerpt in scan.excerpts)
    num_steps = max(steps.keeper.num_seen - steps.keeper.watch.num_retold(), len(records))
    devices, settings, version = devices_of(files, excerpts), _settings(files), _version(files, steps, row)
    card_gib = card_memory_gib(devices)
    job = job_facts(settings, version=version, trainer=steps.facts.trainer)
    reading, failed = (None, ()) if row is None else _reading(row, without_copies(records, row.step_keys()), job)
    logged = () if row is None else series_of(records, row.series, card_gib=card_gib)
    stated = (with_status(series, card_gib=card_gib) for scan in scans for series in scan.series)
    return Paste(
        paths=tuple(str(file.path) for file in files),
        framework=None if row is None else row.name,
        framework_version=version,
        settings=settings,
        series=(*logged, *stated),
        excerpts=(*excerpts, *(cells for file in files for cells in file.table_rows)),
        devices=devices,
        profile=None if reading is None else reading.profile,
        phases=() if reading is None else reading.phases,
        notes=(*failed, *(() if reading is None else reading.notes), *_restarts(records), *_notes(files, steps.keeper)),
        num_steps_seen=num_steps - num_told_twice(records, () if row is None else row.step_keys()),
        num_lines=sum(scan.num_lines for scan in scans),
    )


def _reading(
    row: FrameworkReader, records: Sequence[StepRecord], job: JobFacts
) -> tuple[LogReading | None, tuple[Note, ...]]:
    """The profile, or a note why its reader failed: settings, series and excerpts are worth an answer without it."""
    try:
        return row.to_reading(records, job), ()
    except Exception as error:  # noqa: BLE001 - the one edge where any fault in a framework's reader stops
        text = (
            f"the steps of {row.name} gave no profile, its reader failed with {type(error).__name__}: {error}; "
            "hint: report this line with the log"
        )
        return None, (Note(text=text),)


def _with_quoted(
    records: list[StepRecord], files: Sequence[InputFile], row: FrameworkReader | None
) -> list[StepRecord]:
    """Steps; where none is timed the one that a hand-made table tells; where there is none what people quote."""
    if row is None or any(key in record.readings for record in records for key in _printed_step_keys(row)):
        return records
    told = (read_phase_table(file.table_lines, str(file.path), row.table_key) for file in files)
    listed = (read_step_table(file.table_lines, str(file.path), row.known_key) for file in files)
    records = [*records, *(record for record in told if record is not None), *chain.from_iterable(listed)]
    if any(key not in row.step_keys() for record in records for key in record.readings):
        return records
    texts = [file.path for file in files if file.metrics is None]
    return [*records, *(r for path in texts for r in read_loose_pairs(head_lines(path), str(path), row.known_key))]


def _printed_step_keys(row: FrameworkReader) -> list[str]:
    """Return the keys of a step time that the framework prints: a bar tells less than a table made by hand."""
    return [key for key in row.step_keys() if not row.series[key].is_derived]


def _settings(files: Sequence[InputFile]) -> tuple[Setting, ...]:
    """Configuration lines first, then what the user tells in comments, which overrides them."""
    written = (setting for file in files for setting in file.config.settings)
    told = (setting for file in files for setting in file.told.settings(FRAMEWORKS))
    return tuple(chain(written, told))


def _version(files: Sequence[InputFile], steps: _Steps, row: FrameworkReader | None) -> str | None:
    if row is None:
        return None
    return next((told for file in files if (told := file.told.version(row.name))), steps.facts.version)


def _restarts(records: Sequence[StepRecord]) -> list[Note]:
    """Say where the step numbers of one file start again: another run, or a job that was resumed."""
    for before, after in pairwise(records):
        last, number, first = before.number, after.number, next(iter(after.readings.values()), None)
        if before.path == after.path and first and last is not None and number is not None and number < last:
            origin = Origin(path=after.path, line=first.line, key=first.key)
            return [Note(text=f"steps start again: {number} comes after {last}", origin=origin)]
    return []


def _notes(files: Sequence[InputFile], keeper: StepKeeper) -> list[Note]:
    notes = [*retold_notes(keeper.watch), *setting_notes([(str(f.path), f.config.settings) for f in files])]
    if keeper.num_left_out:
        text = (
            f"of {keeper.num_seen} steps the first {FIRST_STEPS} were kept, for what the run started from, and the "
            f"last {keeper.num_seen - keeper.num_left_out - FIRST_STEPS}, for what it does now; "
            f"the {keeper.num_left_out} between count in no mean"
        )
        notes.insert(0, Note(text=text, is_about_input=True))
    return [*notes, *(note for file in files for note in file.config.notes)]
