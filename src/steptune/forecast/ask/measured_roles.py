"""The measured configuration's own roles: what the log timed, not what the model makes of it.

Surprise: a log's roles rarely add up to the step. What no span covers stands in `idle` with whatever the role waited
for, for nobody timed either; its note says so.
"""

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import SpanKind, is_child
from steptune.core.profile import Profile, RoleProfile
from steptune.forecast.ask.answer import RoleSeconds

IDLE_NOTE = "the step less its timed phases"
"""What a measured role's idle seconds are."""


def measured_roles(profile: Profile) -> tuple[RoleSeconds, ...]:
    """Return every role that was timed as busy, by the log's own clock; a phase timed twice counts with both."""
    return tuple(role for own in profile.roles if (role := _role(own, profile.step_time)).phases)


def _role(own: RoleProfile, step: Estimate) -> RoleSeconds:
    phases: dict[str, Estimate] = {}
    for span in own.phases:
        if span.kind is not SpanKind.BUSY or is_child(span.phase):
            continue
        known = phases.get(span.phase)
        value = span.seconds.value + (known.value if known else 0.0)
        phases[span.phase] = span.seconds if known is None else _derived(value)
    busy_s = own.busy_s()
    return RoleSeconds(
        role=own.role,
        phases=phases,
        busy=_derived(busy_s),
        idle=_derived(max(step.value - busy_s, 0.0), note=IDLE_NOTE),
    )


def _derived(value: float, *, note: str = "") -> Estimate:
    return Estimate(value=value, unit="s", source=Source.DERIVED, note=note)
