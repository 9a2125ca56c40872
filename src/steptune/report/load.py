"""Reads a run folder's journal into a report. The report reads nothing else, and writes nothing."""

from pathlib import Path

from steptune.report.build import build_report
from steptune.report.card import Report
from steptune.store.journal import read_journal
from steptune.store.run_folder import RunFolder


def load_report(run: Path) -> Report:
    """Return the report of the run folder ``run``; a session that is still running has one too.

    Raises:
        StoreError: no run folder, another version, or a journal that was tampered with.
    """
    return build_report([entry.body for entry in read_journal(RunFolder.open(run).journal_path)])
