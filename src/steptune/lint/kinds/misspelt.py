"""Keys that no version knows while a known one is one slip away.

Only near misses count: a key that resembles nothing may be the user's own, and permissive frameworks allow that.
"""

from difflib import SequenceMatcher
from functools import cache

from steptune.core.finding import Evidence
from steptune.core.paste import Setting
from steptune.lint.hit import Hit
from steptune.lint.rule import Misspelt
from steptune.lint.view import View, spelling
from steptune.published.keys import known_keys, renames

MIN_LIKENESS = 0.84
"""SequenceMatcher ratio of two last parts above which one is taken for the other: one or two slips in ten letters."""

MIN_LETTERS = 5
"""Shorter parts differ by meaning, not by slips: ``lr`` and ``tp``."""


def hits(check: Misspelt, view: View) -> tuple[Hit, ...]:
    """Return one hit per unknown key with a known near miss under the same parent."""
    asked = (s for s in view.written if s.layer != "env" and (not check.prefixes or s.prefix in check.prefixes))
    found = ((setting, nearest_key(spelling(setting.key), view.framework)) for setting in asked)
    return tuple(_hit(setting, near) for setting, near in found if near is not None)


@cache
def nearest_key(key: str, framework: str) -> str | None:
    """Return the known key that ``key`` was probably meant to be; None when it is known or resembles none."""
    children = _children(framework)
    parent, _, last = key.rpartition(".")
    siblings = children.get(parent, frozenset())
    if last in siblings or len(last) < MIN_LETTERS:
        return None
    rated = [(SequenceMatcher(None, last, other).ratio(), other) for other in sorted(siblings)]
    likeness, best = max(rated, default=(0.0, ""))
    return f"{parent}.{best}".lstrip(".") if likeness >= MIN_LIKENESS else None


@cache
def _children(framework: str) -> dict[str, frozenset[str]]:
    """The last parts that are known under every parent, sections included."""
    found: dict[str, set[str]] = {}
    for key in (*known_keys(framework), *(change.old for change in renames(framework))):
        parts = spelling(key).split(".")
        for depth in range(len(parts)):
            found.setdefault(".".join(parts[:depth]), set()).add(parts[depth])
    return {parent: frozenset(lasts) for parent, lasts in found.items()}


def _hit(setting: Setting, near: str) -> Hit:
    fact = Evidence(text=f"{setting.prefix}{setting.key}={setting.text}", origin=setting.origin)
    return Hit(evidence=(fact,), words={"key": setting.key, "got": setting.text, "new": near})
