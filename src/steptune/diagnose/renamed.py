"""Names in the input that mean something else than they say, or meant something else in another version."""

from collections.abc import Mapping, Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.profile import Origin
from steptune.diagnose.job import Job
from steptune.published.declared import normal_key
from steptune.published.misnomers import Misnomer, misnomers


def renamed_metrics(job: Job) -> list[Finding]:
    """Return one finding for every meaning that misleading names in the input have."""
    places = _places(job)
    by_meaning: dict[str, list[Misnomer]] = {}
    for misnomer in misnomers():
        if misnomer.key in places and _applies(misnomer, job):
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


def _finding(group: Sequence[Misnomer], places: Mapping[str, Origin]) -> Finding:
    names = ", ".join(f"`{misnomer.key}`" for misnomer in group)
    return Finding(
        code="implausible/renamed_metric",
        kind=FindingKind.IMPLAUSIBLE,
        severity=Severity.INFO,
        title=f"{names} {group[0].meaning}",
        evidence=tuple(Evidence(text=f"`{m.key}`; see {m.source}", origin=places[m.key]) for m in group),
    )
