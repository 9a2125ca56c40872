"""The table of contents of rule kinds."""

from collections.abc import Callable

from steptune.lint.hit import Hit
from steptune.lint.kinds import (
    allocation,
    at_most,
    changed,
    debug_switch,
    divides,
    equal,
    ignored,
    in_range,
    missing,
    misspelt,
    noted,
    renamed,
    repeated,
    together,
)
from steptune.lint.rule import Check
from steptune.lint.view import View

KINDS: dict[str, Callable[..., tuple[Hit, ...]]] = {
    "allocation": allocation.hits,
    "at_most": at_most.hits,
    "changed": changed.hits,
    "debug_switch": debug_switch.hits,
    "divides": divides.hits,
    "equal": equal.hits,
    "ignored": ignored.hits,
    "in_range": in_range.hits,
    "missing": missing.hits,
    "misspelt": misspelt.hits,
    "noted": noted.hits,
    "renamed": renamed.hits,
    "repeated": repeated.hits,
    "together": together.hits,
}
"""What makes each kind fire, by the `kind` its check carries."""


def check_hits(check: Check, view: View) -> tuple[Hit, ...]:
    """Return where ``check`` fires on ``view``."""
    return KINDS[check.kind](check, view)
