"""Memory over time: what stays after sleep and grows, and what a failure after it may be blamed on."""

from typing import Any

import pytest

from steptune.core.finding import Finding
from steptune.core.paste import Paste, Series, SeriesPoint
from steptune.memory.advise import memory_findings

BACKWARD_FRAMES = ("loss.backward()",)
TEXT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB. GPU 0 has a total capacity of 80.00 GiB "
    "of which 8.00 GiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and {reserved:.2f} GiB is "
    "reserved by PyTorch but unallocated."
)


def only(findings: tuple[Finding, ...]) -> Finding:
    (finding,) = findings
    return finding


def sleep_series(values: list[float]) -> Paste:
    points = tuple(SeriesPoint(step=i, value=v, line=i + 1) for i, v in enumerate(values))
    series = Series(name="memory_after_sleep_gib", key="memory is still in use", points=points, path="run.log")
    return Paste(paths=("run.log",), series=(series,))


def test_memory_that_stays_after_sleep_and_grows_is_an_alarm() -> None:
    # N09: 4.11 -> 11.57 -> 25.0 GiB, the failure comes later and elsewhere
    finding = only(memory_findings(sleep_series([4.11, 11.57, 25.0, 24.0])))
    assert finding.code == "memory/after_sleep_growth"
    assert "4.1 -> 11.6 -> 25.0" in finding.title
    assert "trainer" not in finding.title


def test_growth_on_a_card_that_the_trainer_fills_is_not_blamed_on_the_engine() -> None:
    # T05: DeepSpeed's gradients and cache, 49.25 -> 77.17 GiB
    finding = only(memory_findings(sleep_series([49.25, 48.55, 67.88, 77.17])))
    assert "trainer's own" in finding.title


def test_a_slow_leak_among_noise_is_an_alarm_too() -> None:
    leak = [4.0 + 0.2 * step + (0.7 if step % 3 else 0.0) for step in range(40)]
    assert only(memory_findings(sleep_series(leak))).code == "memory/after_sleep_growth"


# the first sleeps lie before any training: a step up after them is no growth, and engines of other sizes are none
LEVEL = [
    [4.56, 4.56, 9.97, 6.97, 10.52, 7.52, 7.52, 7.52, 7.52, 7.52],
    [4.56, 4.56, 9.97, 6.97, 10.52, 7.52],
    [4.56, 4.56, 9.97],
    [4.56, 9.97, 10.52],
    [5.0, 20.0, 20.1, 20.0, 20.2, 20.1, 20.0, 20.1],
    [5.0, 7.0, 9.0, 11.0] * 3,
    [3.0, 12.0, 5.0, 14.0],
    [8.0, 7.0, 9.0, 8.5, 6.0, 8.0, 9.5, 7.5, 8.0, 11.0],
]


@pytest.mark.parametrize("values", [[], [4.1], [4.1, 11.0], [49.25, 48.55, 49.0, 48.9], [25.0, 11.0, 4.0], *LEVEL])
def test_memory_that_does_not_grow_raises_nothing(values: list[float]) -> None:
    assert memory_findings(sleep_series(values)) == ()


def test_a_failure_after_growth_is_not_blamed_on_its_line(oom_paste: Any) -> None:
    failed = oom_paste(TEXT.format(reserved=1.0), frames=BACKWARD_FRAMES)
    both = failed.model_copy(update={"series": sleep_series([4.11, 11.57, 25.0]).series, "num_steps_seen": 3})
    found = {finding.code: finding for finding in memory_findings(both)}
    assert set(found) == {"oom/backward", "memory/after_sleep_growth"}
    assert any("may not be the cause" in evidence.text for evidence in found["oom/backward"].evidence)


@pytest.mark.parametrize(("steps", "is_late"), [(3, False), (120, True)])
def test_a_late_failure_is_told_apart_from_one_of_size(oom_paste: Any, steps: int, is_late: bool) -> None:
    paste = oom_paste(TEXT.format(reserved=1.0), frames=BACKWARD_FRAMES).model_copy(update={"num_steps_seen": steps})
    finding = only(memory_findings(paste))
    assert any("longest sample" in evidence.text for evidence in finding.evidence) is is_late


@pytest.mark.parametrize(
    ("values", "grows"),
    [
        ([363.0, 420.0, 579.0], True),
        ([363.0, 365.0], False),
        ([363.0, 579.0], False),
        ([363.0, 500.0, 360.0, 490.0, 365.0, 480.0], False),
    ],
)
def test_host_memory_that_grew_stands_by_a_host_failure(oom_paste: Any, values: list[float], grows: bool) -> None:
    series = sleep_series(values).series[0].model_copy(update={"name": "cpu_memory_gib"})
    text = "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM)"
    finding = only(memory_findings(oom_paste(text).model_copy(update={"series": (series,)})))
    assert any("host memory grew" in evidence.text for evidence in finding.evidence) is grows
