"""Why a difference may not be credited: a changed algorithm, two levers at once, another version, half a config."""

from steptune.compare.differences import as_text, is_partial, levers
from steptune.compare.judge import percent
from steptune.compare.key_facts import changed_keys
from steptune.compare.measure import Measure
from steptune.compare.side import Side, num_devices
from steptune.compare.work import Work, work_text
from steptune.core.comparison import SettingDifference
from steptune.core.estimate import Estimate
from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.published.misnomers import misnomers

MAX_LISTED = 8
"""Settings listed in one finding."""

BATCH_WORDS = ("prompts per step", "group size", "samples per step", "mini batch", "updates per step", "longest answer")
"""Declared work that makes another algorithm (needs study, never-list)."""


def algorithm_change(work: Work, settings: tuple[SettingDifference, ...]) -> Finding | None:
    """Return the finding where B trains something else than A."""
    batch = [one for one in work.declared() if one.what in BATCH_WORDS]
    others = [one for one in settings if one.touches == "algorithm"]
    if not batch and not others:
        return None
    named = "; ".join(work_text(one) for one in batch) or "; ".join(as_text(one) for one in others[:3])
    return Finding(
        code="compare/algorithm_change",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"B is another algorithm, not only another speed: {named}",
        evidence=tuple(Evidence(text=as_text(one)) for one in others[:MAX_LISTED]),
        remedies=(
            Remedy(text="Run B with A's batch, group size and lengths, then compare step times", keeps_algorithm=True),
        ),
    )


def two_changes(settings: tuple[SettingDifference, ...]) -> Finding | None:
    """Return the finding where several levers were turned at once, so that none can be credited."""
    turned = levers(settings)
    if len(turned) < 2:
        return None
    return Finding(
        code="two_changes",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"{len(turned)} levers differ at once: a gain cannot be credited to any one of them",
        evidence=tuple(Evidence(text=f"{as_text(one)} (touches {one.touches})") for one in turned[:MAX_LISTED]),
        remedies=(Remedy(text="Change one at a time, or switch them off one by one from B"),),
    )


def upgrade(a: Side, b: Side, settings: tuple[SettingDifference, ...]) -> Finding | None:
    """Return the finding where framework or version differs: defaults and meanings come before any tuning."""
    if a.paste.framework and b.paste.framework and a.paste.framework != b.paste.framework:
        return Finding(
            code="compare/framework",
            kind=FindingKind.NO_CLAIM,
            severity=Severity.WARNING,
            title=f"Two frameworks ({a.paste.framework}, {b.paste.framework}): equal names may time other things",
        )
    versions = a.paste.framework_version, b.paste.framework_version
    if versions[0] is None or versions[1] is None or versions[0] == versions[1]:
        return None
    same = "with the same settings" if not settings else f"and {len(settings)} setting(s)"
    changed = changed_keys(a.paste.framework, {**a.settings, **b.settings})[:MAX_LISTED]
    logged = {series.key for side in (a, b) for series in side.paste.series}
    misread = [one for one in misnomers() if one.framework in (a.paste.framework, "any") and one.key in logged]
    return Finding(
        code="compare/upgrade",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"The framework's version differs ({versions[0]} -> {versions[1]}) {same}",
        evidence=(
            Evidence(text="defaults and the meaning of metrics may have changed although no setting did"),
            *(Evidence(text=f"{one.old} {one.kind}: {one.what} (since {one.since or 'unknown'})") for one in changed),
            *(Evidence(text=f"{one.key} {one.meaning}") for one in misread),
        ),
        remedies=(
            Remedy(
                text="First compare the two effective configurations that the framework prints at start, the engine's "
                "version, its cache size, and what the step timer covers; then the phase that moved"
            ),
        ),
    )


def headline(work: Work, raw: Estimate | None, rate: Measure | None) -> Finding | None:
    """Return the finding that sets the quotable numbers side by side where the work differs."""
    if work.sameness != "differs" or raw is None:
        return None
    said = [f"step time {(1 / raw.value - 1) * 100:+.3g} %"]
    for what in ("prompts per step", "trained samples per step"):
        found = next((one for one in work.differences if one.what == what), None)
        if found is not None and found.a and found.b:
            said.append(f"{what.replace(' step', ' second')} {(raw.value * found.b / found.a - 1) * 100:+.3g} %")
    if rate is not None:
        said.append(f"{rate.name} {percent(rate.ratio)}")
    return Finding(
        code="compare/headline",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"The work differs, so the number that is quoted decides: {', '.join(said)}; only the last allows for it",
    )


def devices(a: Side, b: Side) -> Finding | None:
    """Return the finding where the devices differ in number or kind."""
    counts = num_devices(a), num_devices(b)
    names = [None if side.paste.devices is None else side.paste.devices.name for side in (a, b)]
    parts: list[str] = []
    if counts[0] and counts[1] and counts[0] != counts[1]:
        parts.append(f"{counts[0]:g} -> {counts[1]:g} devices")
    if names[0] and names[1] and names[0] != names[1]:
        parts.append(f"{names[0]} -> {names[1]}")
    if not parts:
        return None
    return Finding(
        code="compare/devices",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"Not the same devices ({', '.join(parts)}): only rates per device-second of one kind can be compared",
    )


def partial_config(a: Side, b: Side) -> Finding | None:
    """Return the finding where one side's configuration is missing or only a part."""
    lacking = [side.label for side, other in ((a, b), (b, a)) if other.settings and is_partial(side, other)]
    if not lacking:
        return None
    return Finding(
        code="compare/partial_config",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.INFO,
        title=f"The configuration of {' and '.join(lacking)} is missing or only a part: what it leaves out is unknown",
    )
