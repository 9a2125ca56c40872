"""Two values that must be the same."""

from steptune.lint.formula import number
from steptune.lint.hit import Hit, plain
from steptune.lint.rule import Equal
from steptune.lint.view import View


def hits(check: Equal, view: View) -> tuple[Hit, ...]:
    """Return one hit when both sides are known and differ."""
    value, to = number(check.value, view), number(check.to, view)
    if value is None or to is None or value == to:
        return ()
    return (Hit(evidence=view.evidence(check.value, check.to), words={"left": plain(value), "right": plain(to)}),)
