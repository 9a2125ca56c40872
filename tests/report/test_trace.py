"""A run's Chrome trace: valid by its format, every span on its own track, nothing invented."""

import json
from pathlib import Path
from typing import Any

import pytest

from steptune.cli.trace_files import write_traces
from steptune.core.errors import StoreError
from steptune.report.trace import trace_of


def span(role: str, phase: str, start_s: float, end_s: float, kind: str = "busy") -> str:
    return json.dumps(
        {"event": "span", "role": role, "phase": phase, "kind": kind, "start_s": start_s, "end_s": end_s, "step": 3}
    )


def count(name: str, value: float, at_s: float) -> str:
    return json.dumps({"event": "count", "name": name, "value": value, "at_s": at_s, "step": 3})


LINES = {
    "trainer": [
        span("trainer", "train", 100.5, 101.0),
        span("trainer", "train/forward", 100.5, 100.75),
        span("trainer", "rollout", 101.0, 101.25, "exposed_wait"),
        count("lag", 1.5, 101.25),
    ],
    "rollout worker": [span("rollout", "rollout", 100.25, 101.125), span("environment", "reward", 101.125, 101.25)],
}


def assert_valid(trace: dict[str, Any]) -> None:
    """The Trace Event Format's rules for the three kinds of event that we write."""
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    for event in trace["traceEvents"]:
        assert event["ph"] in "XCM"
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in named
        if event["ph"] == "C":
            assert event["ts"] >= 0
            assert all(isinstance(value, float | int) for value in event["args"].values())


def test_a_trace_has_a_process_per_file_a_track_per_role_and_counters() -> None:
    trace = trace_of(LINES)
    assert_valid(trace)
    names = [(e["name"], e["pid"], e["tid"], e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M"]
    assert names == [
        ("process_name", 1, 0, "trainer"),
        ("thread_name", 1, 1, "trainer"),
        ("process_name", 2, 0, "rollout worker"),
        ("thread_name", 2, 1, "environment"),
        ("thread_name", 2, 2, "rollout"),
    ]
    spans = {e["name"]: (e["pid"], e["tid"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"}
    # the run begins at 100.25 s; microseconds from there
    assert spans["train"] == (1, 1, 250_000.0, 500_000.0)
    assert spans["train/forward"] == (1, 1, 250_000.0, 250_000.0)
    assert spans["waits for rollout"] == (1, 1, 750_000.0, 250_000.0)
    assert spans["rollout"] == (2, 2, 0.0, 875_000.0)
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert [(e["name"], e["args"]["value"], e["ts"]) for e in counters] == [("lag", 1.5, 1_000_000.0)]


@pytest.mark.parametrize(
    "line",
    ['{"event": "span", "role": "tra', "[]", span("trainer", "train", 3.0, 2.0), count("lag", float("nan"), 1.0), "7"],
)
def test_a_line_that_cannot_be_read_is_counted_and_not_guessed(line: str) -> None:
    trace = trace_of({"trainer": [*LINES["trainer"], line]})
    assert_valid(trace)
    assert trace["otherData"]["unreadable_lines"] == 1
    assert len(trace["traceEvents"]) == 6


def test_every_run_below_a_folder_gets_its_trace(tmp_path: Path) -> None:
    for run in ("a", "trials/b"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "events.jsonl").write_text("\n".join(LINES["trainer"]) + "\n")
    (tmp_path / "a" / "events.rollout.jsonl").write_text("\n".join(LINES["rollout worker"]) + "\n")
    written = write_traces(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == ["a/trace.json", "trials/b/trace.json"]
    assert json.loads(written[0].read_text()) == trace_of(LINES)


def test_a_folder_without_events_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no run's events"):
        write_traces(tmp_path)
