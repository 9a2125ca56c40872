"""Names in the input that mean something else than they say, or meant something else in another version."""

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.profile import Origin
from steptune.diagnose.job import Job
from steptune.published.declared import normal_key
from steptune.published.misnomers import Misnomer, misnomers


def renamed_metrics(job: Job) -> list[Finding]:
    """Return one finding for every misleading name that stands in the input."""
    places = _places(job)
    found = [(m, places[m.key]) for m in misnomers() if m.key in places and _applies(m, job)]
    return [_finding(misnomer, origin) for misnomer, origin in found]


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


def _finding(misnomer: Misnomer, origin: Origin) -> Finding:
    return Finding(
        code="implausible/renamed_metric",
        kind=FindingKind.IMPLAUSIBLE,
        severity=Severity.INFO,
        title=f"`{misnomer.key}` {misnomer.meaning}",
        evidence=(Evidence(text=f"`{misnomer.key}`; see {misnomer.source}", origin=origin),),
    )
