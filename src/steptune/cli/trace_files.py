"""Writes the Chrome trace of every run under a folder: a training run is one, a tuned run's launches are many."""

import json
from pathlib import Path

from steptune.core.errors import StoreError, explain
from steptune.engine.knobs import MAX_REPLICAS
from steptune.report.trace import trace_of
from steptune.store.files import replace

EVENTS = {
    "events.jsonl": "trainer",
    "events.trainer-1.jsonl": "trainer rank 1",
    "events.rollout.jsonl": "rollout worker",
    **{f"events.rollout-{number}.jsonl": f"rollout replica {number}" for number in range(1, MAX_REPLICAS)},
}
"""Events files of one run, and the process that writes each."""

TRACE = "trace.json"


def write_traces(folder: Path) -> list[Path]:
    """Write `trace.json` beside every `events.jsonl` under ``folder``; return what was written.

    Raises:
        StoreError: there is no events file, or a trace cannot be written.
    """
    runs = sorted(path.parent for path in folder.rglob("events.jsonl")) if folder.is_dir() else []
    if not runs:
        raise StoreError(
            explain(
                f"`{folder}` holds no run's events",
                got="no `events.jsonl` in it or below it",
                allowed="the folder of a training run or of a tuning session",
                hint="give the folder that `steptune train` or `steptune tune` named",
            )
        )
    return [_write(run) for run in runs]


def _write(run: Path) -> Path:
    lines_of = {
        process: (run / name).read_text(encoding="utf-8", errors="replace").splitlines()
        for name, process in EVENTS.items()
        if (run / name).is_file()
    }
    replace(run / TRACE, json.dumps(trace_of(lines_of), separators=(",", ":")) + "\n")
    return run / TRACE
