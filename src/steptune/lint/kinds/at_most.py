"""A value that must not exceed another."""

from steptune.lint.formula import number
from steptune.lint.hit import Hit
from steptune.lint.rule import AtMost
from steptune.lint.view import View


def hits(check: AtMost, view: View) -> tuple[Hit, ...]:
    """Return one hit when both sides are known and ``value`` is above ``limit``."""
    value, limit = number(check.value, view), number(check.limit, view)
    if value is None or limit is None or not value > limit:
        return ()
    words = {"left": f"{value:g}", "right": f"{limit:g}"}
    return (Hit(evidence=view.evidence(check.value, check.limit), words=words),)
