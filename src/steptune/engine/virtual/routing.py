"""What a virtual replica's work is measured in when groups are shared out (`engine.routing`)."""

from collections.abc import Sequence

from steptune.engine.routing import Rule
from steptune.engine.virtual.work import Group


def sizes_of(rule: Rule, groups: Sequence[Group]) -> list[float]:
    """Return each group's predicted tokens where the longest go first, else its rows."""
    return [group.work.predicted if rule == "longest_first" else float(len(group.work.rows)) for group in groups]
