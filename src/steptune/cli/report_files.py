"""Writes a run folder's report files and returns the terminal summary."""

from pathlib import Path

from steptune.report.html import render_html
from steptune.report.json import render_json
from steptune.report.load import load_report
from steptune.report.summary import summary_text
from steptune.store.files import replace
from steptune.store.journal import read_journal


def write_report(folder: Path) -> str:
    """Write `report.html` and `report.json` into ``folder`` and return the summary, path included.

    Raises:
        StoreError: the journal is damaged, or the files cannot be written.
    """
    report = load_report(folder)
    replace(folder / "report.html", render_html(report))
    replace(folder / "report.json", render_json(report))
    events = [entry.body for entry in read_journal(folder / "journal.jsonl")]
    return summary_text(events, str(folder / "report.html"))
