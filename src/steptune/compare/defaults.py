"""What a setting is where it is not set, and what each key touches, from the tables of known keys and knobs.

The surprise: the tables are of one commit a framework, so a default is "what it is today". A default that the
framework computes (an interpolation, an expression) is unknown here.
"""

from collections.abc import Mapping
from functools import cache

from steptune.core.paste import SettingValue
from steptune.published.declared import normal_key
from steptune.published.keys import Rename, known_keys, renames
from steptune.published.knobs import knobs

COMPUTED_MARKS = ("${", "(", "lambda", "<")
"""What a default's text holds where the framework computes it."""

EFFECT_OF = {"preserving": "none", "precision": "precision", "staleness": "staleness", "algorithm": "algorithm"}
"""A knob's semantics as `SettingDifference.touches` names them."""

CHANGED_KINDS = ("meaning", "ignored", "removed", "renamed")
"""Kinds of change of a key that an upgrade must look at."""


def default_of(framework: str | None, key: str) -> tuple[bool, SettingValue]:
    """Return whether the default of ``key`` is known, and what it is."""
    fact = _by_key(framework or "").get(normal_key(key))
    if fact is None or not fact[0] or any(mark in fact[0] for mark in COMPUTED_MARKS):
        return False, None
    return True, fact[1]


def knob_effect(framework: str | None, key: str) -> str | None:
    """Return what the knob table says the key touches, or None where it is not in it."""
    return _effects(framework or "").get(normal_key(key))


def changed_keys(framework: str | None, keys: Mapping[str, object]) -> tuple[Rename, ...]:
    """Return the known changes of the keys that are set."""
    return tuple(one for one in renames(framework or "") if one.kind in CHANGED_KINDS and normal_key(one.old) in keys)


@cache
def _by_key(framework: str) -> dict[str, tuple[str, SettingValue]]:
    return {normal_key(key): (fact.default, fact.value) for key, fact in known_keys(framework).items()}


@cache
def _effects(framework: str) -> dict[str, str]:
    return {normal_key(knob.key): EFFECT_OF[knob.semantics] for knob in knobs(framework)}
