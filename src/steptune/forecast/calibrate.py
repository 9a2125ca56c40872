"""Ties the machine model to the measured baseline: one factor per phase, and what no item explains.

::

    measured baseline      |== prefill ==|======= decode =======|rest|=== train ===|reward|unattributed|
    planned baseline       |= prefill =|====== decode ======|         |== train ==|
                            factor 1.2    factor 1.1          carried   factor 1.4   carried over unchanged

A factor says how much longer the real loop takes than its isolated primitives (Python, cache misses,
allocation). It is assumed to stay the same when settings change; the residuals learn where it does not. A factor has
a largest believable value: beyond it somebody waits, and waiting does not shrink with the work.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from steptune.core.errors import explain
from steptune.core.phase import Phase, Role, SpanKind, is_child, parent_phase
from steptune.core.profile import Profile
from steptune.core.work import PlannedWork
from steptune.forecast.curve import ForecastError
from steptune.forecast.side import Key, SideCosts
from steptune.forecast.step import Side, lay_out, side_totals, undisturbed
from steptune.forecast.uneven import excess_s, spread_of

FULL_TRUST_FRAC = 0.02
"""Part of the step from which a phase's own factor is believed entirely; smaller phases are mostly clock
noise and are shrunk linearly towards their role's factor. Prior, to be replaced by bench."""

MAX_SPREAD = 1.25
"""A phase's factor over the smallest of the large phases' (`LARGE_FRAC`), beyond which its seconds are no longer its
primitives' own: something waits there (a slow rank, a pause in the hand-over), and the rest is carried over unchanged.
In six undisturbed sessions of examples/math-dense.toml decode's and training's factors were 1.01 to 1.14 times apart
(two cores, 2026-11-30); a pause of 50 ms beside a hand-over of 0.7 ms is a factor of 70."""

LARGE_FRAC = 0.1
"""Part of the model's step from which a phase tells how much longer the real loop takes. Prior."""

WHOLE_IN: Mapping[str, frozenset[str]] = {Phase.TRAIN.value: frozenset({"train/forward", "train/backward"})}
"""Children that are, with whatever stands beside them, all computing of a phase, where all of them were measured."""

NEGLIGIBLE_FRAC = 1e-9
"""Part of a time below which a difference is floating-point rounding, not time."""

UNATTRIBUTED: Key = (Role.CONTROLLER, Phase.UNATTRIBUTED.value)
"""Where serial time that no span covers is booked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What one baseline taught: ``Calibration(factors={(Role.TRAINER, "train"): 1.31}, overall=1.2, ...)``."""

    factors: dict[Key, float]
    """Measured / model seconds by phase, and by parent phase for children the baseline did not have."""
    by_role: dict[Role, float]
    """The same over all phases of a role: for its phases that the baseline did not measure."""
    overall: float
    """The same over everything: for roles that the baseline did not measure."""
    carried_s: dict[Key, float]
    """Seconds per step that no item explains, the same for every candidate."""
    schedule: Literal["sync", "one_step_off"]
    """Of the baseline."""
    num_free: int
    """Constants fitted: factors that rest on a measurement of their own, and carried times."""
    uneven_frac: float = 0.0
    """Spread of the difference of an overlapped baseline's sides over their sum: what it has beyond the longer one."""

    def factor(self, key: Key) -> float:
        """Return the factor of a phase, from its parent, role or the whole step where it was not measured."""
        role, phase = key
        known = self.factors.get(key) or self.factors.get((role, parent_phase(phase).value))
        return known or self.by_role.get(role, self.overall)

    def under(self, schedule: Literal["sync", "one_step_off"]) -> "Calibration":
        """Return what it says of another schedule.

        What an overlapped baseline has beyond its longer side is the longer side of each step being now one, now the
        other (`uneven`): a synchronous step has no such thing.
        """
        if schedule != "sync" or self.schedule == "sync":
            return self
        return replace(self, uneven_frac=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """Phases of one role that were measured together: model and measured seconds."""

    role: Role
    names: tuple[str, ...]
    model_s: float
    measured_s: float


def calibrate(profile: Profile, planned: PlannedWork, costs: SideCosts) -> Calibration:
    """Fit the factors. ``planned`` and ``costs`` are the baseline's own.

    Raises:
        ForecastError: no planned phase was measured as busy, or a measured time is not a finite number.
    """
    busy_s = measured_busy(profile)
    step_s = profile.step_time.value
    if not all(math.isfinite(s) and s >= 0 for s in [*busy_s.values(), step_s]) or step_s == 0:
        raise ForecastError(
            f"the profile holds a time that is not a positive number of seconds: {busy_s}, step {step_s}"
        )
    top_s = {key: s for key, s in busy_s.items() if not is_child(key[1])}
    alone_s = undisturbed(planned.schedule, top_s)
    busy_s = {key: s * _quiet(key, alone_s, top_s) for key, s in busy_s.items()}
    groups = _capped(_groups(costs.seconds, busy_s))
    by_role = {role: _ratio([g for g in groups if g.role is role]) for role in {g.role for g in groups}}
    by_role = {role: factor for role, factor in by_role.items() if factor > 0}
    overall = _ratio(groups)
    if not overall > 0:
        raise ForecastError(_nothing_measured(costs.seconds, busy_s))
    factors, num_own = _factors(groups, by_role, overall, step_s)
    carried_s = _carried(groups, busy_s)
    fitted = Calibration(
        factors=factors,
        by_role=by_role,
        overall=overall,
        carried_s=carried_s,
        schedule=planned.schedule,
        num_free=num_own + len(carried_s),
    )
    return _with_unattributed(fitted, planned, costs, step_s)


def measured_busy(profile: Profile) -> dict[Key, float]:
    """Return busy seconds by (role, phase), children included; a parent that only has children gets their sum."""
    busy_s: dict[Key, float] = {}
    for span in (p for role in profile.roles for p in role.phases if p.kind is SpanKind.BUSY):
        key = (span.role, span.phase)
        busy_s[key] = busy_s.get(key, 0.0) + span.seconds.value
    named = set(busy_s)
    for role, phase in named:
        parent = (role, parent_phase(phase).value)
        if parent not in named:
            busy_s[parent] = math.fsum(s for key, s in busy_s.items() if key in named and _parent(key) == parent)
    return dict(sorted(busy_s.items()))


def calibrated(costs: SideCosts, calibration: Calibration) -> dict[Key, float]:
    """Return seconds per phase, undisturbed: model x factor, plus what is carried over."""
    seconds = dict(calibration.carried_s)
    for key, model_s in costs.seconds.items():
        seconds[key] = seconds.get(key, 0.0) + model_s * calibration.factor(key)
    if calibration.uneven_frac > 0:
        rollout_s, trainer_s = _sides(seconds)
        beyond_s = excess_s(calibration.uneven_frac * (rollout_s + trainer_s), abs(rollout_s - trainer_s))
        seconds[UNATTRIBUTED] = seconds.get(UNATTRIBUTED, 0.0) + beyond_s
    return seconds


def _sides(seconds: Mapping[Key, float]) -> tuple[float, float]:
    total = side_totals(seconds)
    return total[Side.ROLLOUT], total[Side.TRAINER]


def _parent(key: Key) -> Key:
    return (key[0], parent_phase(key[1]).value)


def _quiet(key: Key, alone_s: Mapping[Key, float], top_s: Mapping[Key, float]) -> float:
    parent = _parent(key)
    return alone_s[parent] / top_s[parent] if top_s[parent] > 0 else 1.0


def _groups(model_s: Mapping[Key, float], busy_s: Mapping[Key, float]) -> list[_Group]:
    """Split planned phases as finely as the profile measured them, else take a parent's children together."""
    groups: list[_Group] = []
    for parent in sorted({_parent(key) for key in model_s}):
        role, names = parent[0], sorted(p for r, p in model_s if _parent((r, p)) == parent)
        split = parent[1] not in names and all((role, name) in busy_s for name in names)
        for together in [(name,) for name in names] if split else [tuple(names)]:
            measured = busy_s.get((role, together[0]), 0.0) if split else _computed_s(parent, busy_s)
            total = math.fsum(model_s[role, name] for name in together)
            groups.append(_Group(role=role, names=together, model_s=total, measured_s=measured))
    return groups


def _computed_s(parent: Key, busy_s: Mapping[Key, float]) -> float:
    """Return a phase's measured seconds of computing: its children's where they are all of it, else its own.

    What an update has beyond plan, forward, backward and optimizer is no computing (a slow rank is waited for), and is
    carried over like every second that no item explains.
    """
    whole = WHOLE_IN.get(parent[1], frozenset())
    children = {phase: s for (role, phase), s in busy_s.items() if is_child(phase) and _parent((role, phase)) == parent}
    return math.fsum(children.values()) if whole and whole <= children.keys() else busy_s.get(parent, 0.0)


def _capped(groups: list[_Group]) -> list[_Group]:
    """Return the groups without the seconds that cannot be their primitives'; `_carried` finds them again."""
    model_s = math.fsum(g.model_s for g in groups)
    large = [g for g in groups if g.measured_s > 0 and g.model_s >= LARGE_FRAC * model_s > 0]
    if not large:
        return groups
    most = MAX_SPREAD * max(1.0, min(g.measured_s / g.model_s for g in large))
    return [replace(g, measured_s=min(g.measured_s, most * g.model_s)) if g.model_s > 0 else g for g in groups]


def _ratio(groups: list[_Group]) -> float:
    known = [g for g in groups if g.model_s > 0 and g.measured_s > 0]
    model_s = math.fsum(g.model_s for g in known)
    return math.fsum(g.measured_s for g in known) / model_s if known else 0.0


def _factors(
    groups: list[_Group], by_role: Mapping[Role, float], overall: float, step_s: float
) -> tuple[dict[Key, float], int]:
    factors: dict[Key, float] = {}
    num_own = 0
    for parent in sorted({_parent((g.role, g.names[0])) for g in groups}):
        members = [g for g in groups if _parent((g.role, g.names[0])) == parent]
        prior = by_role.get(parent[0], overall)
        factors[parent] = _ratio(members) or prior
        for group in members:
            trust = min(1.0, group.measured_s / (FULL_TRUST_FRAC * step_s)) if group.model_s > 0 else 0.0
            own = group.measured_s / group.model_s if trust > 0 else prior
            num_own += trust > 0
            factor = own if trust == 1.0 else math.exp(trust * math.log(own) + (1 - trust) * math.log(prior))
            factors.update({(group.role, name): factor for name in group.names})
    return factors, num_own


def _carried(groups: list[_Group], busy_s: Mapping[Key, float]) -> dict[Key, float]:
    """Return busy top-level time minus what the groups explain, where anything is left."""
    carried: dict[Key, float] = {}
    for key, seconds in busy_s.items():
        if is_child(key[1]):
            continue
        explained = math.fsum(g.measured_s for g in groups if _parent((g.role, g.names[0])) == key and g.model_s > 0)
        if seconds - explained > NEGLIGIBLE_FRAC * seconds:
            carried[key] = seconds - explained
    return carried


def _with_unattributed(fitted: Calibration, planned: PlannedWork, costs: SideCosts, step_s: float) -> Calibration:
    """Add what makes the calibrated baseline as long as the measured one: serial time, or sides that are uneven."""
    alone_s = calibrated(costs, fitted)
    spare_s = step_s - lay_out(planned.schedule, alone_s).step_s
    if not spare_s > NEGLIGIBLE_FRAC * step_s:
        return fitted
    if planned.schedule != "sync":
        rollout_s, trainer_s = _sides(alone_s)
        spread_s = spread_of(spare_s, abs(rollout_s - trainer_s))
        return replace(fitted, uneven_frac=spread_s / (rollout_s + trainer_s), num_free=fitted.num_free + 1)
    carried_s = {**fitted.carried_s, UNATTRIBUTED: fitted.carried_s.get(UNATTRIBUTED, 0.0) + spare_s}
    return replace(fitted, carried_s=carried_s, num_free=fitted.num_free + (UNATTRIBUTED not in fitted.carried_s))


def _nothing_measured(model_s: Mapping[Key, float], busy_s: Mapping[Key, float]) -> str:
    return explain(
        "no planned phase was measured as busy in the profile",
        got=", ".join(f"{role}:{phase}" for role, phase in busy_s) or "no busy phase",
        allowed=", ".join(f"{role}:{phase}" for role, phase in model_s) or "an empty plan",
        hint="profile the baseline whose work is planned",
    )
