"""Numbers in the input that cannot be true, or that are easily misread: flagged, never praised."""

from collections.abc import Callable

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import DeviceClaim, Note, Paste, Series, ValueStatus
from steptune.core.phase import is_child
from steptune.core.profile import Profile, unattributed_frac
from steptune.diagnose.job import Job, has_possible_step, origin_of
from steptune.diagnose.phase_ratio import phase_ratio
from steptune.diagnose.renamed import renamed_metrics
from steptune.diagnose.rounding import rounded_zeros
from steptune.hardware.devices import find_device

MEMORY_SERIES = ("memory_allocated_gib", "memory_reserved_gib")
"""Device memory as frameworks print it; verl's `_gb` divides by 1024^3."""

THROUGHPUT_SERIES = ("tokens_per_device_s", "throughput", "tokens_per_s", "effective_tokens_per_device_s")

OVERLAP_FRAC = 0.01
"""Timers may exceed their step by this part of it before they are said to overlap: rounding to two decimals."""

BROKEN_WORDS = ("was left out", "lost digits", "broken", "not a number")
"""Words of the readers' notes on values that were damaged on their way into the paste."""


def implausible(job: Job) -> list[Finding]:
    """Return everything that cannot be true or reads wrongly."""
    checks: tuple[Callable[[Job], list[Finding]], ...] = (
        _mfu,
        _memory,
        _zero_throughput,
        _broken,
        rounded_zeros,
        renamed_metrics,
        _arithmetic,
        _mixed_steps,
    )
    odd = phase_ratio(job)
    return [*(finding for check in checks for finding in check(job)), *([odd] if odd else [])]


def finding(code: str, title: str, evidence: tuple[Evidence, ...], *, severity: Severity = Severity.WARNING) -> Finding:
    """Return a finding of this kind."""
    return Finding(
        code=f"implausible/{code}", kind=FindingKind.IMPLAUSIBLE, severity=severity, title=title, evidence=evidence
    )


def impossible_step(paste: Paste) -> list[Finding]:
    """Return a finding where the step time is zero, negative, not a number or beyond any job: nothing rests on it."""
    if paste.profile is None or has_possible_step(paste.profile):
        return []
    title = f"A step time of {paste.profile.step_time.value:g} s cannot be: no share and no ceiling is taken from it"
    return [finding("step_time", title, ())]


def _mfu(job: Job) -> list[Finding]:
    series = job.paste.get_series("mfu")
    above = [(i, p) for i, p in enumerate(series.points) if 1 < p.value < float("inf")] if series else []
    if series is None or not above:
        return []
    at, point = above[0]
    title = f"An MFU of {point.value:.4g} is impossible: the framework does not know this device's peak"
    return [finding("mfu", title, (Evidence(text=f"{series.key} {point.value:g}", origin=origin_of(series, at)),))]


def _memory(job: Job) -> list[Finding]:
    card_gib, card = _card(job.paste.devices)
    found = [job.paste.get_series(name) for name in MEMORY_SERIES]
    over = [(s, p) for s in found if s is not None for p in s.points if card_gib is not None and p.value > card_gib]
    if card_gib is None or not over:
        return []
    largest: dict[str, tuple[Series, float, int]] = {}
    for series, point in over:
        if series.key not in largest or point.value > largest[series.key][1]:
            largest[series.key] = (series, point.value, series.points.index(point))
    facts = tuple(Evidence(text=f"{s.key} {v:.1f} GiB", origin=origin_of(s, i)) for s, v, i in largest.values())
    peak = max(value for _, value, _ in largest.values())
    title = f"{peak:.1f} GiB in use on cards of {card_gib:g} GiB ({card}) cannot be: do not judge head-room by it"
    return [finding("memory", title, facts)]


def _card(claim: DeviceClaim | None) -> tuple[float | None, str]:
    if claim is None:
        return None, ""
    if claim.memory_gib is not None:
        return claim.memory_gib, "as stated"
    device = find_device(claim.name) if claim.name else None
    return (None, "") if device is None else (device.memory_gib, device.name)


def _zero_throughput(job: Job) -> list[Finding]:
    for series in job.paste.series:
        is_rate = series.name in THROUGHPUT_SERIES or "throughput" in series.key.lower()
        first = series.points[0] if series.points else None
        if is_rate and first is not None and first.value == 0:
            where = "" if first.step is None else f" of step {first.step}"
            title = f"A throughput of 0{where} is undefined, not zero: leave that step out of every mean"
            return [finding("zero_throughput", title, (Evidence(text=f"{series.key} 0", origin=origin_of(series, 0)),))]
    return []


def _broken(job: Job) -> list[Finding]:
    notes = [n for n in job.paste.notes if any(word in n.text for word in BROKEN_WORDS)]
    if not notes:
        return []
    title = f"{len(notes)} damaged {'value was' if len(notes) == 1 else 'values were'} dropped rather than guessed"
    return [finding("broken_value", title, _texts(notes), severity=Severity.INFO)]


def _texts(notes: list[Note]) -> tuple[Evidence, ...]:
    return tuple(Evidence(text=note.text, origin=note.origin) for note in notes)


def _arithmetic(job: Job) -> list[Finding]:
    profile: Profile | None = job.profile
    if profile is None or not unattributed_frac(profile) < -OVERLAP_FRAC:
        return []
    over = -unattributed_frac(profile)
    title = f"The timers add up to {1 + over:.0%} of the step: some overlap, so shares are upper bounds"
    return [finding("arithmetic", title, _longest_timers(profile))]


def _longest_timers(profile: Profile) -> tuple[Evidence, ...]:
    """The timers that make most of a sum above the step, each key once."""
    spans = [p for r in profile.roles for p in r.phases if p.origin is not None and not is_child(p.phase)]
    facts: dict[str, Evidence] = {}
    for span in sorted(spans, key=lambda p: -p.seconds.value):
        if span.origin is not None:
            text = f"{span.origin.key} {span.seconds.value:.6g} s of {profile.step_time.value:.6g} s"
            facts.setdefault(span.origin.key, Evidence(text=text, origin=span.origin))
    return tuple(facts.values())[:3]


def _mixed_steps(job: Job) -> list[Finding]:
    """Two runs in one input: a mean over them describes neither."""
    for series in job.paste.series:
        steps = [p.step for p in series.points if p.step is not None and p.status is ValueStatus.MEASURED]
        back = next((i for i in range(1, len(steps)) if steps[i] < steps[i - 1]), None)
        if back is not None:
            turn = f"{steps[back - 1]} to {steps[back]}"
            title = f"Steps go back from {turn}: several runs in one input, a mean describes none"
            return [finding("mixed_steps", title, (Evidence(text=series.key, origin=origin_of(series, back)),))]
    return []
