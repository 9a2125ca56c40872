"""A value that must not exceed another."""

from steptune.lint.formula import number
from steptune.lint.hit import Hit, plain
from steptune.lint.rule import AtMost
from steptune.lint.view import View


def hits(check: AtMost, view: View) -> tuple[Hit, ...]:
    """Return one hit when both sides are known and ``value`` is above ``limit``."""
    value, limit = number(check.value, view), number(check.limit, view)
    if value is None or limit is None or not value > limit:
        return ()
    words = {"left": plain(value), "right": plain(limit)}
    return (Hit(evidence=view.evidence(check.value, check.limit), words=words),)
