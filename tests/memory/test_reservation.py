from pathlib import Path
from typing import Any

import pytest

from steptune.core.finding import Severity
from steptune.core.paste import ExcerptKind
from steptune.memory.advise import memory_findings
from steptune.readers.read_paste import read_paste

AREAL = (
    "controller CRITICAL: Ray does not have enough resources to launch workers. Required: 16.0 CPU, {gpus} GPU, "
    "{asked} GB memory. Available: 64.0 CPU, 2.0 GPU, {there} GB memory."
)
OLD_RAY = (
    "WARNING worker.py:17 -- The actor or task with ID ab is pending and cannot currently be scheduled. It requires "
    "{{CPU: 1.000000}}, {{memory: {asked} GiB}} for execution and {{CPU: 1.000000}} for placement, but this node only "
    "has remaining {{CPU: 30.000000}}, {{object_store_memory: 90.8 GiB}}, {{memory: {there} GiB}}."
)


@pytest.mark.parametrize("text", [AREAL, OLD_RAY])
def test_a_reservation_above_what_the_node_has_is_told_with_both_numbers(text: str, oom_paste: Any) -> None:
    line = text.format(gpus="2.0", asked="80.25", there="52.50")
    [finding] = memory_findings(oom_paste(line, kind=ExcerptKind.ERROR))
    assert (finding.code, finding.severity) == ("oom/host", Severity.FAULT)
    assert "80.25 GiB" in finding.title
    assert "52.50 GiB" in finding.title


@pytest.mark.parametrize("text", [AREAL, OLD_RAY])
def test_memory_that_is_there_is_not_what_a_launcher_lacks(text: str, oom_paste: Any) -> None:
    line = text.format(gpus="8.0", asked="40.00", there="52.50")
    assert memory_findings(oom_paste(line, kind=ExcerptKind.ERROR)) == ()


def test_a_list_of_wishes_does_not_say_which_one_could_not_be_met(oom_paste: Any) -> None:
    line = (
        "Error: No available node types can fulfill resource request {'CPU': 1.0, 'memory': 42949672960.0}. Add nodes"
    )
    [finding] = memory_findings(oom_paste(line, kind=ExcerptKind.ERROR))
    assert finding.severity is Severity.WARNING
    assert "40.00 GiB" in finding.title
    assert "does not say" in finding.title
    without = "Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0, 'CPU': 1.0}."
    assert memory_findings(oom_paste(without, kind=ExcerptKind.WARNING)) == ()


def test_a_scheduler_that_finds_no_node_is_told_from_the_text_itself(tmp_path: Path) -> None:
    events = tmp_path / "events.txt"
    events.write_text(
        "Warning  FailedScheduling  12s  default-scheduler  0/4 nodes are available: 1 Insufficient cpu, 3 "
        "Insufficient memory. preemption: 0/4 nodes are available: 4 No preemption victims found.\n"
    )
    [finding] = memory_findings(read_paste([events]))
    assert finding.code == "oom/host"


def test_the_launcher_of_a_framework_is_named_with_its_keys(oom_paste: Any) -> None:
    line = AREAL.format(gpus="1.0", asked="80.25", there="52.50")
    [finding] = memory_findings(oom_paste(line, kind=ExcerptKind.ERROR, framework="areal"))
    assert any("mem_per_model_worker" in remedy.text for remedy in finding.remedies)
