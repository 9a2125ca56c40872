"""What each key touches and which keys changed, from the tables of knobs and renames."""

from collections.abc import Mapping
from functools import cache

from steptune.published.declared import normal_key
from steptune.published.keys import Rename, renames
from steptune.published.knobs import knobs

EFFECT_OF = {"preserving": "none", "precision": "precision", "staleness": "staleness", "algorithm": "algorithm"}
"""A knob's semantics as `SettingDifference.touches` names them."""

CHANGED_KINDS = ("meaning", "ignored", "removed", "renamed")
"""Kinds of change of a key that an upgrade must look at."""


def knob_effect(framework: str | None, key: str) -> str | None:
    """Return what the knob table says the key touches, or None where it is not in it."""
    return _effects(framework or "").get(normal_key(key))


def changed_keys(framework: str | None, keys: Mapping[str, object]) -> tuple[Rename, ...]:
    """Return the known changes of the keys that are set."""
    return tuple(one for one in renames(framework or "") if one.kind in CHANGED_KINDS and normal_key(one.old) in keys)


@cache
def _effects(framework: str) -> dict[str, str]:
    return {normal_key(knob.key): EFFECT_OF[knob.semantics] for knob in knobs(framework)}
