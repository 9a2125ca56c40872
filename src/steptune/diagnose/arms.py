"""Several runs in one input, and what they do not allow: notes of an experiment are often pasted as a whole.

The surprise: their step numbers start again, which is how one knows. A label such as ``fp8+cache_aware`` says that two
things changed between them; the gain of both together can be credited to neither.
"""

import re
import statistics
from collections.abc import Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series
from steptune.diagnose.job import Job, origin_of

REWARD_CHANGE_FRAC = 0.05
"""Relative difference of the mean reward between two runs that must be explained before either counts. Prior."""

MIN_COMMON_STEPS = 2
"""Steps that all runs must share: one step of one batch says nothing."""

_LABEL = re.compile(r"^\W*(?P<label>[A-Za-z][\w.-]*(?:\s?\+\s?(?:--)?[A-Za-z][\w.-]*(?:[ =][\w.-]+)?)+)\W*$")
"""A heading that joins names with plus signs: ``fp8+--router-policy cache_aware``."""


def arms(series: Series) -> list[dict[int, float]]:
    """Return step to finite value for each run in ``series``: a step number that does not rise starts another one."""
    runs: list[dict[int, float]] = [{}]
    last: int | None = None
    for point in series.points:
        if point.step is None:
            continue
        if last is not None and point.step <= last:
            runs.append({})
        last = point.step
        if abs(point.value) < float("inf"):
            runs[-1][point.step] = point.value
    return [run for run in runs if run]


def reward_differs(job: Job) -> Finding | None:
    """Find a reward that differs between the runs of one input, up or down, over the steps that all of them have.

    A resumed run repeats few steps or none, so it is not compared with itself.
    """
    series = job.series("reward")
    held = arms(series) if series is not None else []
    common = sorted(set.intersection(*map(set, held))) if len(held) > 1 else []
    if series is None or len(common) < MIN_COMMON_STEPS:
        return None
    runs = [[run[step] for step in common] for run in held]
    means = [statistics.fmean(run) for run in runs]
    furthest = max(means[1:], key=lambda mean: abs(mean - means[0]))
    if not abs(furthest - means[0]) > REWARD_CHANGE_FRAC * abs(means[0]):
        return None
    listed = "; ".join(", ".join(f"{value:.3f}" for value in run) for run in runs)
    title = (
        f"The reward differs between the runs of this input ({listed}): a difference to explain, up or down, "
        f"before any of them is called better"
    )
    fact = Evidence(text=f"{series.key}: means {', '.join(f'{m:.3f}' for m in means)}", origin=origin_of(series))
    return Finding(
        code="mismatch/reward_differs",
        kind=FindingKind.MISMATCH,
        severity=Severity.WARNING,
        title=title,
        evidence=(fact,),
    )


def two_changes(job: Job) -> Finding | None:
    """Find a heading that joins two changes in an input of several runs."""
    if not any(len(arms(series)) > 1 for series in job.paste.series):
        return None
    labels = [(e, label) for e in job.paste.excerpts if (label := _label(e.text))]
    if not labels:
        return None
    names = _joined([label for _, label in labels])
    return Finding(
        code="two_changes",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.INFO,
        title=f"Two things changed at once ({names}): what the runs differ by can be credited to neither",
        evidence=tuple(Evidence(text=label, origin=e.origin) for e, label in labels),
    )


def _label(text: str) -> str | None:
    found = _LABEL.match(text.strip())
    return found["label"] if found else None


def _joined(labels: Sequence[str]) -> str:
    return ", ".join(f"`{label}`" for label in dict.fromkeys(labels))
