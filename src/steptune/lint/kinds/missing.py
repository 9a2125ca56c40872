"""An option whose absence is the diagnosis."""

from steptune.core.finding import Evidence
from steptune.lint.hit import Hit
from steptune.lint.rule import Missing
from steptune.lint.view import View


def hits(check: Missing, view: View) -> tuple[Hit, ...]:
    """Return one hit when none of the names is set."""
    if any(view.is_set(name) for name in check.names):
        return ()
    key = view.names[check.names[0]].keys[0]
    fact = Evidence(text=f"{key} is not among the {len(view.written)} settings that were read")
    return (Hit(evidence=(fact,), words={"key": key}),)
