"""A value that must be a multiple of another."""

from steptune.lint.formula import number
from steptune.lint.hit import Hit, plain
from steptune.lint.rule import Divides
from steptune.lint.view import View


def hits(check: Divides, view: View) -> tuple[Hit, ...]:
    """Return one hit when both sides are known, positive and the remainder is not zero."""
    value, by = number(check.value, view), number(check.by, view)
    if value is None or by is None or value <= 0 or by <= 0 or value % by == 0:
        return ()
    return (Hit(evidence=view.evidence(check.value, check.by), words={"left": plain(value), "right": plain(by)}),)
