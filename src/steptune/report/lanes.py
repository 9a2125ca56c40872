"""One role's step as a lane of a drawing."""

from steptune.core.phase import SpanKind, is_child
from steptune.core.profile import RoleProfile
from steptune.report.blocks import Lane, Segment
from steptune.report.numbers import derived, measured, value_text


def role_lane(group: str, role: RoleProfile) -> Lane:
    """Return the lane of ``role``; time that no span covers comes last, spans that overlap are said in the note."""
    top = [phase for phase in role.phases if not is_child(phase.phase)]
    segments = [
        Segment(
            phase=phase.phase,
            kind="busy" if phase.kind is SpanKind.BUSY else "exposed_wait",
            seconds=phase.seconds,
        )
        for phase in top
    ]
    rest_s = role.unattributed_s()
    if not rest_s < 0:
        rest = derived(rest_s, "s", note="wall time minus spans")
        segments.append(Segment(phase="unattributed", kind="unattributed", seconds=rest))
    note = f"spans overlap by {value_text(-rest_s, 's')} (derived)" if rest_s < 0 else ""
    wall = measured(role.wall_s, "s")
    return Lane(group=group, label=_role_text(role), wall=wall, segments=tuple(segments), note=note)


def _role_text(role: RoleProfile) -> str:
    held = f"{role.num_devices:g} devices" if role.num_devices is not None else ""
    copies = f"{role.num_replicas} replicas" if role.num_replicas not in (None, 1) else ""
    extra = ", ".join(part for part in (copies, held) if part)
    return f"{role.role} ({extra})" if extra else str(role.role)
