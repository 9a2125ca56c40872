"""`steptune report --pack` and `--replicate`: a session in one file, and the same two configurations run from it.

Surprise: a pack may come from anybody, so it is checked before anything in it is believed, and its forecasts and
decisions are computed again where no string had to be hidden.
"""

from datetime import UTC, datetime
from pathlib import Path

from steptune.cli.frameworks import framework_of, running_framework_of
from steptune.cli.streams import say
from steptune.core.errors import StoreError, explain
from steptune.core.replicated import Replicated
from steptune.report.pack import make_pack, num_launches
from steptune.store.files import replace
from steptune.store.journal import read_journal
from steptune.store.pack import Pack, read_pack, write_pack
from steptune.store.run_folder import RunFolder
from steptune.tune.replicate import confirm_seeds, packed, replicate
from steptune.tune.session import wait_notice
from steptune.tune.verify import verify_events

REPLICATED = "replicated.json"
"""The record of a replication, in its run folder."""


def pack_run(run: Path, out: Path) -> str:
    """Pack the run folder ``run`` into ``out`` and return a line about it.

    Raises:
        StoreError: the journal is damaged, ``out`` is there already or cannot be written.
    """
    folder = RunFolder.open(run)
    if out.exists():
        hint = "give another name"
        raise StoreError(explain(f"`{out}` is there already", got="a file", allowed="a new name", hint=hint))
    events = tuple(entry.body for entry in read_journal(folder.journal_path))
    pack = make_pack(folder, confirm_seeds(folder.job(), num_launches(events)))
    write_pack(out, pack)
    header = pack.header
    return f"pack: {out}: {header.num_lines} lines, {header.num_redacted} strings redacted, SHA-256 {header.sha256}"


def replicate_pack(path: Path, root: Path) -> Replicated:
    """Check the pack at ``path``, run both arms again in a new folder under ``root`` and return both results.

    Raises:
        StepTuneError: the pack was changed or has no winner, or an arm does not run here.
    """
    pack = read_pack(path)
    what = packed(pack)
    job = what.started.job
    _check_computed(pack)
    folder = RunFolder.create(root, job, _now)
    say(f"replicate: {pack.header.name}, packed by steptune {pack.header.steptune_version}; runs in {folder.path}")
    found = replicate(pack, running_framework_of(job), folder, wait_notice(say))
    replace(folder.path / REPLICATED, found.model_dump_json(indent=2) + "\n")
    return found


def _check_computed(pack: Pack) -> None:
    """Refuse a pack whose decisions do not follow from its journal; say why where that cannot be checked.

    Raises:
        StoreError: a forecast, an outcome or the decision is not what this journal gives.
    """
    if pack.header.num_redacted:
        say(f"replicate: {pack.header.num_redacted} strings are redacted, so its decisions are not computed again")
        return
    job = packed(pack).started.job
    problems = verify_events(pack.events, framework_of(job).knobs(job))
    foreign = [problem for problem in problems if problem.startswith("the run was made by other code")]
    if foreign:
        say(f"replicate: {foreign[0]}")
        return
    if problems:
        raise StoreError(
            explain(
                "the pack's decisions do not follow from its journal",
                got=problems[0],
                allowed="forecasts and decisions that can be computed again",
                hint="ask for the file again; a pack that was changed proves nothing",
            )
        )


def _now() -> datetime:
    return datetime.now(UTC)
