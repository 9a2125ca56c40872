"""What a framework's timer means: phase, who works, and whether it is work or a wait.

One clock per log, the driver's, and its top-level timers follow one another::

    driver clock   |-- gen --|-- old_log_prob --|-- adv --|-- update_actor --|   (unattributed = step - these)
    rollout          busy       waits              waits     waits
    trainer          waits      busy               waits     busy
    controller       waits      waits              busy      waits

In an asynchronous job the rollout side runs on a clock of its own, so only trainer and controller appear
on the driver's, and a timer around "get samples" is a wait for both: it says nothing of rollout capacity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Role, SpanKind, is_child, parent_phase
from steptune.core.profile import Origin, PhaseTime, RoleProfile
from steptune.readers.average import KeptSteps


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Timer:
    """One row: ``Timer(key="timing_s/gen", phase="rollout", worker=Role.ROLLOUT)``."""

    key: str
    """As the log spells it."""
    phase: str
    """Canonical phase, or ``parent/child`` for a timer that runs inside another one."""
    worker: Role
    """Who is busy; for a wait, who is known to wait."""
    kind: SpanKind = SpanKind.BUSY
    often_outside: bool = False
    """Inside the step in some versions and after it in others: counted only where it fits in."""

    @property
    def is_top_level(self) -> bool:
        """Whether its seconds count towards the step."""
        return not is_child(self.phase)


def serial_roles(kept: KeptSteps, timers: Sequence[Timer], roles: Sequence[Role]) -> tuple[RoleProfile, ...]:
    """Book the driver's timers on the roles that share its clock; a role without own work is left out."""
    phases = [phase for timer in timers for phase in _book(kept, timer, roles)]
    own = {phase.role for phase in phases if phase.kind is SpanKind.BUSY and not is_child(phase.phase)}
    wall_s = kept.step_time.value
    return tuple(
        RoleProfile(role=role, wall_s=wall_s, phases=_fitting(phases, role))
        for role in roles
        if role in own or role is Role.TRAINER
    )


def _book(kept: KeptSteps, timer: Timer, roles: Sequence[Role]) -> list[PhaseTime]:
    seconds = kept.mean(timer.key)
    if seconds is None:
        return []
    origin = kept.origin(timer.key)
    mine = PhaseTime(role=timer.worker, phase=timer.phase, kind=timer.kind, seconds=seconds, origin=origin)
    if not timer.is_top_level:
        return [mine]
    others = [role for role in roles if role is not timer.worker]
    return [mine, *(_wait(role, timer, seconds, origin) for role in others)]


def _wait(role: Role, timer: Timer, seconds: Estimate, origin: Origin | None) -> PhaseTime:
    """The same seconds seen by a role that has nothing to do meanwhile."""
    note = f"waits while {timer.worker} works" if timer.kind is SpanKind.BUSY else f"waits together with {timer.worker}"
    derived = seconds.model_copy(update={"source": Source.DERIVED, "note": note})
    return PhaseTime(role=role, phase=timer.phase, kind=SpanKind.EXPOSED_WAIT, seconds=derived, origin=origin)


def _fitting(phases: Sequence[PhaseTime], role: Role) -> tuple[PhaseTime, ...]:
    """The role's phases; a child longer than its parent is not a child of it and is left out."""
    mine = [phase for phase in phases if phase.role is role]
    parent_s: dict[str, float] = {}
    for phase in mine:
        if not is_child(phase.phase):
            parent_s[phase.phase] = parent_s.get(phase.phase, 0.0) + phase.seconds.value
    return tuple(p for p in mine if not is_child(p.phase) or p.seconds.value <= _room_s(p, parent_s))


def _room_s(child: PhaseTime, parent_s: dict[str, float]) -> float:
    parent = parent_phase(child.phase).value
    return float("inf") if parent == "unattributed" else parent_s.get(parent, 0.0)
