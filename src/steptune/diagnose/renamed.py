"""Names in the input that mean something else than they say, or meant something else in another version.

The surprise: most of a log's odd names mislead nobody there. TRL's `step_time` is odd only where generating and reusing
steps differ, and an old name only beside the new one; elsewhere a warning would be a claim that the numbers refute.
"""

from collections.abc import Mapping, Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.profile import Origin
from steptune.diagnose.job import Job
from steptune.diagnose.vitals import whole_steps
from steptune.published.declared import normal_key
from steptune.published.misnomers import Misnomer, misnomers

KINDS_RATIO = 2.0
"""Longer over shorter step from which they are two kinds: steps of one kind wander by less from one to the next."""

KIND_FRAC = 0.1
"""Steps that each kind must have: a few long ones are saves, validations or a cold start."""

FEW_STEPS = 4
"""Steps below which a kind may be a single step."""


def renamed_metrics(job: Job) -> list[Finding]:
    """Return one finding for every meaning that misleading names in the input have."""
    places = _places(job)
    by_meaning: dict[str, list[Misnomer]] = {}
    for misnomer in misnomers():
        if misnomer.key in places and _applies(misnomer, job) and _is_shown(misnomer, job, places):
            by_meaning.setdefault(misnomer.meaning, []).append(misnomer)
    return [_finding(group, places) for group in by_meaning.values()]


def _places(job: Job) -> dict[str, Origin]:
    """Every key that was read, with its first place."""
    places: dict[str, Origin] = {}
    for series in job.paste.series:
        if series.points:
            places.setdefault(series.key, Origin(path=series.path, line=series.points[0].line, key=series.key))
    for setting in job.paste.settings:
        places.setdefault(normal_key(setting.key), setting.origin)
    for role in job.profile.roles if job.profile else ():
        for phase in role.phases:
            if phase.origin is not None:
                places.setdefault(phase.origin.key, phase.origin)
    return places


def _applies(misnomer: Misnomer, job: Job) -> bool:
    return misnomer.framework in ("any", job.paste.framework)


def _is_shown(misnomer: Misnomer, job: Job, places: Mapping[str, Origin]) -> bool:
    """Whether the input shows what makes the name mislead."""
    condition, _, other = misnomer.only_when.partition(" ")
    if condition == "beside":
        return other in places
    series = job.series(misnomer.key)
    return not condition or (series is not None and _has_two_kinds(whole_steps(series)))


def _has_two_kinds(seconds: Sequence[float]) -> bool:
    """Whether the values fall into two groups with a gap between them."""
    held = sorted(value for value in seconds if value > 0)
    fewest = max(2, round(KIND_FRAC * len(held))) if len(held) >= FEW_STEPS else 1
    splits = range(fewest, len(held) - fewest + 1)
    return any(held[i] >= KINDS_RATIO * held[i - 1] for i in splits if 0 < i < len(held))


def _finding(group: Sequence[Misnomer], places: Mapping[str, Origin]) -> Finding:
    names = ", ".join(f"`{misnomer.key}`" for misnomer in group)
    return Finding(
        code="implausible/renamed_metric",
        kind=FindingKind.IMPLAUSIBLE,
        severity=Severity.INFO,
        title=f"{names} {group[0].meaning}",
        evidence=tuple(Evidence(text=f"`{m.key}`; see {m.source}", origin=places[m.key]) for m in group),
    )
