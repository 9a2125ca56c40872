"""Where a step goes, per role, before and after, on one time scale.

Surprise: `after` is the profile of the tuned job, measured once; the reported speed-up comes from the
confirmation, so the two need not agree to the last digit.
"""

from steptune.core.profile import Profile
from steptune.report.blocks import Cell, Lane, Lanes, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.lanes import role_lane
from steptune.report.numbers import derived, estimate_text
from steptune.report.session_view import SessionView

Phases = dict[tuple[str, str, str], Cell]
"""Seconds by (role, phase, busy or waiting)."""


def card(view: SessionView) -> Shown | NotApplicable:
    """Draw the lanes of the baseline and, where it was profiled, of the tuned job."""
    if view.baseline is None:
        return NotApplicable(why="no profile was measured")
    before = view.baseline.profile
    after = view.tuned.profile if view.tuned else None
    line = f"a step takes {estimate_text(before.step_time)} before"
    line += f" and {estimate_text(after.step_time)} after" if after else "; the tuned job was not profiled"
    lanes = _lanes("before", before) + (_lanes("after", after) if after else ())
    caption = "One step per role, seconds; solid is busy, hatched is waiting that nothing hides, dotted is unattributed"
    return Shown(takeaway=line, blocks=(Lanes(caption=caption, lanes=lanes), _phases(before, after)))


def _lanes(group: str, profile: Profile) -> tuple[Lane, ...]:
    return tuple(role_lane(f"{group}, {profile.schedule}", role) for role in profile.roles)


def _phases(before: Profile, after: Profile | None) -> Table:
    profiles = [("before", _by_key(before)), *([("after", _by_key(after))] if after else [])]
    keys = dict.fromkeys(key for _, found in profiles for key in found)
    rows = tuple(
        (
            words(role),
            words(phase),
            words(kind.replace("_", " ")),
            *(found.get((role, phase, kind), muted("none")) for _, found in profiles),
        )
        for role, phase, kind in keys
    )
    heads = (column("role"), column("phase"), column("kind"), *(numbers(name, "per step") for name, _ in profiles))
    return Table(caption="Seconds per step; a child phase is inside its parent", columns=heads, rows=rows)


def _by_key(profile: Profile) -> Phases:
    found: Phases = {}
    for role in profile.roles:
        for phase in role.phases:
            found[str(role.role), phase.phase, str(phase.kind)] = number(phase.seconds)
        rest = derived(role.unattributed_s(), "s", note="wall time minus spans")
        found[str(role.role), "unattributed", "no span"] = number(rest)
    return found
