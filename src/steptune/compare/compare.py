"""`compare`: two jobs' logs side by side. Is this speed-up real?

The order matters. Work first (step times of different work are never compared), then steadiness, then the rate with
its interval, then what the speed may have cost. Every part is a pure function of the two sides.
"""

from steptune.compare.cautions import algorithm_change, devices, headline, partial_config, two_changes, upgrade
from steptune.compare.differences import setting_differences
from steptune.compare.judge import Facts, judge
from steptune.compare.measure import Measure, raw_step_ratio, steps_per_second, throughput
from steptune.compare.phases import moved_text, phase_changes
from steptune.compare.quality import implausible, lengths_moved, truncation
from steptune.compare.reward import reward_missing, reward_moved
from steptune.compare.settle import settle
from steptune.compare.side import Side, side_of
from steptune.compare.steady import unsteady_reason
from steptune.compare.work import Work, compare_work
from steptune.core.comparison import Comparison, PhaseChange, SettingDifference
from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Paste

UNKNOWN_VERSION = "unknown"
"""Stands for a version that neither log nor settings state."""


def compare(a: Paste, b: Paste) -> Comparison:
    """Return what may be said of B against A: verdict, ratios, differences, and what would settle it."""
    one, other = side_of(a, "A"), side_of(b, "B")
    work = compare_work(one, other)
    settings = setting_differences(one, other)
    unsteady = tuple(text for side in (one, other) if (text := unsteady_reason(side)) is not None)
    raw, rate = raw_step_ratio(one, other), throughput(one, other)
    phases = phase_changes(one, other, same_work=work.sameness == "same")
    reward = reward_moved(one, other)
    facts = Facts(
        work=work,
        measure=_judged(rate, one, other, work),
        raw=raw,
        unsteady=unsteady,
        has_reward_drop=reward is not None and reward.code == "health/reward_drop",
        moved=_moved(one, other, phases, work),
    )
    verdict, reason = judge(facts)
    return Comparison(
        verdict=verdict,
        reason=reason,
        raw_step_ratio=raw,
        throughput_ratio=None if rate is None else rate.ratio,
        work=work.differences,
        settings=settings,
        versions=(_version(a), _version(b)),
        phases=phases,
        findings=(*_findings(one, other, facts, settings, reward, rate), *implausible(one, other)),
        settle=settle(facts, one, other, verdict),
    )


def _judged(rate: Measure | None, a: Side, b: Side, work: Work) -> Measure | None:
    """Tokens per device-second where known; whole steps only for the same work."""
    if rate is not None:
        return rate
    return steps_per_second(a, b) if work.sameness == "same" else None


def _findings(
    a: Side,
    b: Side,
    facts: Facts,
    settings: tuple[SettingDifference, ...],
    reward: Finding | None,
    rate: Measure | None,
) -> tuple[Finding, ...]:
    maybe = (
        algorithm_change(facts.work, settings),
        headline(facts.work, facts.raw, rate),
        reward,
        truncation(a, b),
        lengths_moved(a, b),
        reward_missing(a, b, settings),
        _ramp_up(facts.unsteady),
        two_changes(settings),
        devices(a, b),
        upgrade(a, b, settings),
        partial_config(a, b),
        _no_timing(a, b) if rate is None else None,
    )
    return tuple(finding for finding in maybe if finding is not None)


def _ramp_up(unsteady: tuple[str, ...]) -> Finding | None:
    if not unsteady:
        return None
    return Finding(
        code="ramp_up",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title="Steps that still ramp up cannot be compared",
        evidence=tuple(Evidence(text=text) for text in unsteady),
    )


def _no_timing(a: Side, b: Side) -> Finding | None:
    silent = [side.label for side in (a, b) if side.step_time() is None]
    if not silent:
        return None
    return Finding(
        code="no_timing",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.INFO,
        title=f"No step time in {' and '.join(silent)}",
    )


def _moved(a: Side, b: Side, phases: tuple[PhaseChange, ...], work: Work) -> str:
    profiles = a.paste.profile, b.paste.profile
    if work.sameness == "differs" or profiles[0] is None or profiles[1] is None:
        return ""
    return moved_text(phases, profiles[1].step_time.value - profiles[0].step_time.value)


def _version(paste: Paste) -> str:
    parts = [part for part in (paste.framework, paste.framework_version) if part is not None]
    return " ".join(parts) if paste.framework_version is not None else UNKNOWN_VERSION
