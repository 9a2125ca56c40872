"""What a speed comparison must not hide: truncation, other lengths, numbers that cannot be true."""

from steptune.compare.side import Side
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series, ValueStatus
from steptune.core.profile import Origin
from steptune.core.truncation import cut_severity

LENGTH_FRAC = 0.1
"""Change of the mean answer length from which tokens per second are not like for like: decoding batches and attention
cost follow the length (S08: 17 % more tokens a step at 9 % longer answers)."""

MEMORY_SLACK = 1.02
"""Cards hold this much more than people call them by."""

CARD_SERIES = ("memory_allocated_gib", "memory_reserved_gib")
"""Series that cannot exceed the card."""


def truncation(a: Side, b: Side) -> Finding | None:
    """Return the finding where either side cuts many answers off."""
    shares = {side.label: share for side in (a, b) if (share := _truncated(side)) is not None}
    severity = cut_severity(max(shares.values(), default=0.0))
    if severity is None:
        return None
    stated = ", ".join(f"{label} {share:.0%}" for label, share in shares.items())
    return Finding(
        code="health/truncation",
        kind=FindingKind.HEALTH,
        severity=severity,
        title=f"Many answers are cut off at the limit ({stated}): fix this before tuning speed",
        evidence=tuple(
            series_evidence(side, "clipped_frac", "truncated") for side in (a, b) if side.steps("clipped_frac")
        ),
    )


def lengths_moved(a: Side, b: Side) -> Finding | None:
    """Return the finding where answers became longer or shorter, which tokens per second do not fully allow for."""
    before, after = a.mean("completion_mean"), b.mean("completion_mean")
    if not before or not after or abs(after / before - 1) < LENGTH_FRAC:
        return None
    change = f"{abs(after / before - 1):.0%} {'longer' if after > before else 'shorter'}"
    return Finding(
        code="compare/lengths",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=f"Answers are {change} in B ({before:,.0f} -> {after:,.0f} tokens): rates are not like for like",
        evidence=tuple(series_evidence(side, "completion_mean", "mean answer length") for side in (a, b)),
    )


def implausible(a: Side, b: Side) -> tuple[Finding, ...]:
    """Return findings on numbers that cannot be true; they take no part in the comparison."""
    memory = [text for side in (a, b) for text in _memory_texts(side, _card(a) or _card(b))]
    found: list[Finding] = []
    if memory:
        found.append(
            _implausible("memory", "More memory in use than the card has: the unit or the counter is wrong", memory)
        )
    others = [
        (series.name, Evidence(text=f"{side.label}: {series.key} {point.value:g}", origin=_origin(series, point.line)))
        for side in (a, b)
        for series in side.paste.series
        if series.name not in CARD_SERIES
        for point in series.points
        if point.status is ValueStatus.IMPLAUSIBLE
    ]
    if others:
        is_mfu = any(name == "mfu" for name, _ in others)
        code = "mfu" if is_mfu else "broken_value"
        found.append(_implausible(code, "Numbers that cannot be true are left out", [one for _, one in others[:4]]))
    return tuple(found)


def _truncated(side: Side) -> float | None:
    stated = side.mean("clipped_frac")
    profile = side.paste.profile
    return stated if stated is not None or profile is None else profile.health.truncated_frac


def _card(side: Side) -> float | None:
    return None if side.paste.devices is None else side.paste.devices.memory_gib


def _memory_texts(side: Side, card_gib: float | None) -> list[Evidence]:
    series = [one for one in (side.paste.get_series(name) for name in CARD_SERIES) if one is not None]
    worst: list[Evidence] = []
    for one in series:
        over = [p for p in one.points if p.status is ValueStatus.IMPLAUSIBLE or _is_over(p.value, card_gib)]
        if over:
            point = max(over, key=lambda p: p.value)
            card = "" if card_gib is None else f" on a card of {card_gib:g} GiB"
            text = f"{side.label}: {one.key} {point.value:.4g}{card}"
            worst.append(Evidence(text=text, origin=_origin(one, point.line)))
    return worst


def _is_over(value: float, card_gib: float | None) -> bool:
    return card_gib is not None and value > card_gib * MEMORY_SLACK


def _implausible(what: str, title: str, evidence: list[Evidence]) -> Finding:
    return Finding(
        code=f"implausible/{what}",
        kind=FindingKind.IMPLAUSIBLE,
        severity=Severity.WARNING,
        title=title,
        evidence=tuple(evidence),
    )


def series_evidence(side: Side, name: str, word: str) -> Evidence:
    """Return one side's mean of a series with the place of its last point."""
    series = side.paste.get_series(name)
    mean = side.mean(name)
    origin = None if series is None or not series.points else _origin(series, series.points[-1].line)
    return Evidence(
        text=f"{side.label}: {word} {mean:.4g}" if mean is not None else f"{side.label}: {word} unknown", origin=origin
    )


def _origin(series: Series, line: int) -> Origin:
    return Origin(path=series.path, line=line, key=series.key)
