"""What a speed comparison must not hide: truncation, rewards that moved, numbers that cannot be true."""

import math
import statistics

from steptune.compare.side import Side
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series, ValueStatus
from steptune.core.profile import Origin
from steptune.stats.noise import Z_95

TRUNCATED_FRAC = 0.3
"""Share of answers that hit the limit from which a comparison must say so (V37: 0.90; healthy runs stay below 0.1)."""

REWARD_FRAC = 0.1
"""Change of a reward, as a part of its size, that counts where there is only one step a side (S08: 0.678 to 0.604)."""

REWARD_SHIFT = 0.02
"""Smallest change of a mean reward worth a finding, in reward units: the error of 512 samples of a 0/1 reward."""

MEMORY_SLACK = 1.02
"""Cards hold this much more than people call them by."""

CARD_SERIES = ("memory_allocated_gib", "memory_reserved_gib")
"""Series that cannot exceed the card."""


def truncation(a: Side, b: Side) -> Finding | None:
    """Return the finding where either side cuts many answers off."""
    shares = {side.label: share for side in (a, b) if (share := _truncated(side)) is not None}
    if not shares or max(shares.values()) < TRUNCATED_FRAC:
        return None
    stated = ", ".join(f"{label} {share:.0%}" for label, share in shares.items())
    return Finding(
        code="health/truncation",
        kind=FindingKind.HEALTH,
        severity=Severity.WARNING,
        title=f"Many answers are cut off at the limit ({stated}): fix this before tuning speed",
        evidence=tuple(_evidence(side, "clipped_frac", "truncated") for side in (a, b) if side.steps("clipped_frac")),
    )


def reward_moved(a: Side, b: Side) -> Finding | None:
    """Return the finding where the reward of the same steps moved; None where it did not or cannot be compared."""
    pairs = _same_steps(a, b)
    if not pairs:
        return None
    mine, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    before, after = statistics.fmean(mine), statistics.fmean(theirs)
    shift = after - before
    if abs(shift) < max(REWARD_SHIFT, _reward_noise(mine, theirs, before)):
        return None
    is_drop = shift < 0
    what = "fell" if is_drop else "rose"
    more = (
        "a change that costs reward is not a speed-up until repeats say otherwise"
        if is_drop
        else "a speed change should not do that: explain it (lengths, staleness, filtering) before it is credited"
    )
    return Finding(
        code="health/reward_drop" if is_drop else "health/reward_jump",
        kind=FindingKind.HEALTH,
        severity=Severity.WARNING,
        title=f"The reward {what} from {before:.3g} to {after:.3g} over the same {len(pairs)} step(s): {more}",
        evidence=tuple(_evidence(side, "reward", "reward") for side in (a, b)),
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


def _same_steps(a: Side, b: Side) -> list[tuple[float, float]]:
    series = a.paste.get_series("reward"), b.paste.get_series("reward")
    if series[0] is None or series[1] is None:
        return []
    by_step = [{p.step: p.value for p in one.points if math.isfinite(p.value)} for one in series if one is not None]
    common = by_step[0].keys() & by_step[1].keys()
    return [
        (by_step[0][step], by_step[1][step]) for step in sorted(common, key=lambda step: -1 if step is None else step)
    ]


def _reward_noise(mine: list[float], theirs: list[float], before: float) -> float:
    if len(mine) < 3:
        return REWARD_FRAC * abs(before)
    shifts = [after - start for start, after in zip(mine, theirs, strict=True)]
    return Z_95 * statistics.stdev(shifts) / math.sqrt(len(shifts))


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


def _evidence(side: Side, name: str, word: str) -> Evidence:
    series = side.paste.get_series(name)
    mean = side.mean(name)
    origin = None if series is None or not series.points else _origin(series, series.points[-1].line)
    return Evidence(
        text=f"{side.label}: {word} {mean:.4g}" if mean is not None else f"{side.label}: {word} unknown", origin=origin
    )


def _origin(series: Series, line: int) -> Origin:
    return Origin(path=series.path, line=line, key=series.key)
