"""Settings that must not meet, or one that must not be at all."""

from steptune.lint.formula import holds
from steptune.lint.hit import Hit
from steptune.lint.rule import Together
from steptune.lint.view import View


def hits(check: Together, view: View) -> tuple[Hit, ...]:
    """Return one hit when every condition is known to hold."""
    if not all(holds(condition, view) for condition in check.all_of):
        return ()
    return (Hit(evidence=view.evidence(*check.all_of)),)
