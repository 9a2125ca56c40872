"""The phase table: where every role's wall time goes, and what the step would be if a row took nothing.

The surprise: not every second lengthens the step. In a synchronous job the same seconds stand in two books (the
rollout generates, the trainer waits), so only the one who works gets a ceiling. In an asynchronous job only the
trainer's clock is the step: its waits have a ceiling, the rollout side's own time has none.
"""

import math
from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.core.finding import PhaseRow
from steptune.core.phase import Phase, Role, SpanKind, is_child
from steptune.core.profile import PhaseTime, Profile, RoleProfile
from steptune.diagnose.facts import busy_s

TOKENS_PER_ROW = 1000.0
"""Tokens that `s_per_1k_tokens` counts."""


def phase_table(profile: Profile) -> tuple[PhaseRow, ...]:
    """Return the rows of all roles: first those that lengthen the step, then waiting and hidden work.

    Within a role the longest stands first, children below everything else.
    """
    step_s = profile.step_time.value
    if not (math.isfinite(step_s) and step_s > 0):
        return ()
    rows = [row for role in profile.roles if role.wall_s > 0 and role.phases for row in _rows(profile, role)]
    return tuple(sorted(rows, key=lambda row: row.if_free is None))


def untimed_rows(phases: Sequence[PhaseTime]) -> tuple[PhaseRow, ...]:
    """Return the rows of phases whose step is not timed: seconds alone, without share or ceiling."""
    return tuple(
        PhaseRow(
            role=phase.role,
            phase=phase.phase,
            key=phase.origin.key if phase.origin else "",
            is_wait=_is_wait(phase),
            seconds=phase.seconds,
            share=None,
        )
        for phase in phases
    )


def _rows(profile: Profile, role: RoleProfile) -> list[PhaseRow]:
    ordered = sorted(role.phases, key=lambda p: (is_child(p.phase), -p.seconds.value))
    rows = [_row(profile, role, phase) for phase in ordered]
    unattributed_s = role.unattributed_s()
    if unattributed_s <= 0 or not math.isfinite(unattributed_s):
        return rows
    seconds = Estimate(value=unattributed_s, unit="s", source=Source.DERIVED, note="wall time that no timer covers")
    rest = PhaseTime(role=role.role, phase=Phase.UNATTRIBUTED.value, kind=SpanKind.BUSY, seconds=seconds)
    row = _row(profile, role, rest)
    is_step = role.role is Role.TRAINER
    return [*rows, row if is_step else row.model_copy(update={"if_free": None})]


def _row(profile: Profile, role: RoleProfile, phase: PhaseTime) -> PhaseRow:
    tokens = profile.tokens_per_step
    per_1k = phase.seconds.value * TOKENS_PER_ROW / tokens.value if tokens is not None and tokens.value > 0 else None
    return PhaseRow(
        role=role.role,
        phase=phase.phase,
        key=phase.origin.key if phase.origin else "",
        is_wait=phase.kind is SpanKind.EXPOSED_WAIT,
        seconds=phase.seconds,
        share=phase.seconds.value / role.wall_s,
        s_per_1k_tokens=per_1k,
        if_free=_if_free(profile, phase),
    )


def _if_free(profile: Profile, phase: PhaseTime) -> Estimate | None:
    step_s = profile.step_time.value
    if not _lengthens(profile, phase):
        return None
    floor_s = busy_s(profile, Phase.ROLLOUT) if profile.schedule == "async" and not _is_wait(phase) else 0.0
    value = max(step_s - phase.seconds.value, min(floor_s, step_s), 0.0)
    return Estimate(value=value, unit="s", source=Source.DERIVED, note="ceiling: everything else stays as it is")


def _lengthens(profile: Profile, phase: PhaseTime) -> bool:
    if profile.schedule == "async":
        return phase.role is Role.TRAINER
    if not _is_wait(phase):
        return True
    workers = [p for r in profile.roles for p in r.phases if p.phase == phase.phase and not _is_wait(p)]
    return not workers and phase.role is Role.TRAINER


def _is_wait(phase: PhaseTime) -> bool:
    return phase.kind is SpanKind.EXPOSED_WAIT
