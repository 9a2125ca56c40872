"""A framework's own default of a key, where it is a plain value.

The surprise: the tables are of one commit a framework, so a default is "what it is today"; and a default that the
framework computes (an interpolation, an expression) is unknown, not its text.
"""

from functools import cache

from steptune.core.knob import KnobValue
from steptune.published.declared import normal_key
from steptune.published.keys import known_keys

COMPUTED_MARKS = ("${", "???", "(", "lambda", "<", " * ")
"""What a default's text holds where the framework computes it, or must be told it (`???`)."""


def default_of(framework: str | None, key: str) -> tuple[bool, KnobValue]:
    """Return whether the default of ``key`` is known, and what it is (None may be a known default)."""
    fact = _by_key(framework or "").get(normal_key(key))
    if fact is None or not fact[0] or any(mark in fact[0] for mark in COMPUTED_MARKS):
        return False, None
    return True, fact[1]


@cache
def _by_key(framework: str) -> dict[str, tuple[str, KnobValue]]:
    return {normal_key(key): (fact.default, fact.value) for key, fact in known_keys(framework).items()}
