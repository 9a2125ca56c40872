"""An option whose absence is the diagnosis."""

from steptune.lint.hit import Hit
from steptune.lint.rule import Missing
from steptune.lint.view import View


def hits(check: Missing, view: View) -> tuple[Hit, ...]:
    """Return one hit when none of the names is set."""
    if any(view.is_set(name) for name in check.names):
        return ()
    return (Hit(evidence=(), words={"key": view.names[check.names[0]].keys[0]}),)
