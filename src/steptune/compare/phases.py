"""Change of every phase, standardised to 1,000 tokens: fewer tokens make every phase shorter, and that is no speed-up.

The surprise: one phase stands in several roles of a profile, busy in one and waited for in the others. The busy row is
the phase; a wait is shown only where no role reports the work itself.
"""

from steptune.compare.ratio import log_mean, ratio_of
from steptune.compare.side import Side
from steptune.core.comparison import PhaseChange
from steptune.core.estimate import Estimate
from steptune.core.phase import SpanKind, is_child
from steptune.core.profile import Profile

TOKENS = 1000.0
"""Phases are given per this many tokens of the step."""

MIN_SECONDS = 1e-3
"""Phases shorter than this on both sides are left out: timers of nothing."""

MIN_SHARE = 0.002
"""Part of the step below which a phase is left out on both sides."""


def phase_changes(a: Side, b: Side, *, same_work: bool) -> tuple[PhaseChange, ...]:
    """Return the phases of both, the largest change first; empty without timing on both sides."""
    profiles = a.paste.profile, b.paste.profile
    if profiles[0] is None or profiles[1] is None:
        return ()
    times = _busy(profiles[0]), _busy(profiles[1])
    tokens = _tokens(a), _tokens(b)
    floor = max(MIN_SECONDS, MIN_SHARE * min(profile.step_time.value for profile in profiles if profile is not None))
    rows = [
        _change(phase, times[0][phase], times[1][phase], tokens, same_work=same_work)
        for phase in times[0]
        if phase in times[1] and max(times[0][phase].value, times[1][phase].value) >= floor
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.a_s - row.b_s)))


def moved_text(changes: tuple[PhaseChange, ...], total_s: float, *, num: int = 2) -> str:
    """Return which top-level phases moved most, in seconds a step: ``weight_sync +12 s, train +3 s of +31 s``."""
    top = [change for change in changes if not is_child(change.phase) and change.a_s != change.b_s][:num]
    parts = [f"{change.phase} {change.b_s - change.a_s:+.3g} s" for change in top]
    return f"{', '.join(parts)} of {total_s:+.3g} s" if parts else ""


def _tokens(side: Side) -> float | None:
    profile = side.paste.profile
    stated = None if profile is None or profile.tokens_per_step is None else profile.tokens_per_step.value
    return stated or side.mean("tokens")


def _busy(profile: Profile) -> dict[str, Estimate]:
    busy: dict[str, Estimate] = {}
    waits: dict[str, Estimate] = {}
    for role in profile.roles:
        for time in role.phases:
            into = busy if time.kind is SpanKind.BUSY else waits
            held = into.get(time.phase)
            if held is None or time.seconds.value > held.value:
                into[time.phase] = time.seconds
    return {**{f"wait for {phase}": time for phase, time in waits.items() if phase not in busy}, **busy}


def _change(
    phase: str, a: Estimate, b: Estimate, tokens: tuple[float | None, float | None], *, same_work: bool
) -> PhaseChange:
    has_tokens = bool(tokens[0]) and bool(tokens[1])
    scale = (tokens[0] / tokens[1]) if tokens[0] and tokens[1] else 1.0
    logs = log_mean(a), log_mean(b)
    ratio = None
    if (has_tokens or same_work) and logs[0] is not None and logs[1] is not None:
        note = "per 1,000 tokens, A / B" if has_tokens else "per step, A / B"
        raw = ratio_of(logs[0], logs[1], note=note)
        ratio = _scaled(raw, 1 / scale)
    return PhaseChange(
        phase=phase,
        a_s=a.value,
        b_s=b.value,
        a_s_per_1k=a.value / tokens[0] * TOKENS if tokens[0] else None,
        b_s_per_1k=b.value / tokens[1] * TOKENS if tokens[1] else None,
        ratio=ratio,
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    low, high = estimate.low, estimate.high
    return estimate.model_copy(
        update={
            "value": estimate.value * factor,
            "low": None if low is None else low * factor,
            "high": None if high is None else high * factor,
        }
    )
