"""The loader reads the journal of a run folder and nothing else."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from report_records import started
from report_sessions import full_session

from steptune.core.errors import StoreError
from steptune.report.build import build_report
from steptune.report.json import render_json
from steptune.report.load import load_report
from steptune.store.journal import open_for_append
from steptune.store.run_folder import RunFolder


def clock() -> datetime:
    return datetime(2026, 1, 2, tzinfo=UTC)


def test_a_run_folder_gives_the_report_of_its_journal(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, started().job, clock)
    journal = open_for_append(folder.journal_path, clock)
    for event in full_session():
        journal.append(event)
    assert render_json(load_report(folder.path)) == render_json(build_report(full_session()))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no run folder"):
        load_report(tmp_path / "nowhere")
