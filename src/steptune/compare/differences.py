"""Settings that differ, effective defaults included, and what each may change besides speed.

The surprise: a pasted configuration is often only the changed lines. A side that leaves out most of what the other
states is taken as partial, and what it does not state is then unknown, not the framework's default.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import cast

from steptune.compare.key_facts import knob_effect
from steptune.compare.side import Side
from steptune.core.comparison import SettingDifference
from steptune.core.paste import Setting, SettingValue
from steptune.core.records import Record
from steptune.published.defaults import default_of

PARTIAL_FRAC = 0.5
"""Part of the other side's keys that a whole configuration states at least; rounds of V37 share 70 % to 95 %."""

LEVERS = ("none", "precision", "staleness", "unknown")
"""Effects of settings that are turned for speed."""

UNKNOWN = "unknown"
"""Effect of a key that no pattern knows."""

BOOKKEEPING = "bookkeeping"
"""Effect of settings that name, log or place things."""


class Touch(Record):
    """One row of `touches.toml`: keys that match ``pattern`` may change ``effect`` besides speed."""

    effect: str
    pattern: str
    source: str


@cache
def touch_rows() -> tuple[Touch, ...]:
    """Return the rows, first match first."""
    text = files("steptune.compare").joinpath("touches.toml").read_text(encoding="utf-8")
    rows = cast("list[dict[str, object]]", tomllib.loads(text)["touch"])
    return tuple(Touch.model_validate(row) for row in rows)


@cache
def touches(key: str, framework: str | None = None) -> str:
    """Return what the setting ``key`` may change besides speed, or ``bookkeeping``.

    The framework's table of knobs comes before the patterns, except for bookkeeping.
    """
    lowered = key.replace("-", "_").lower()
    by_name = next((row.effect for row in touch_rows() if re.search(row.pattern, lowered)), UNKNOWN)
    return by_name if by_name == BOOKKEEPING else knob_effect(framework, key) or by_name


def is_partial(side: Side, other: Side) -> bool:
    """Return whether the side's settings are only a part of a configuration, judged by the other side's."""
    if not other.settings:
        return False
    return len(side.settings.keys() & other.settings.keys()) < PARTIAL_FRAC * len(other.settings)


def setting_differences(a: Side, b: Side) -> tuple[SettingDifference, ...]:
    """Return what differs, algorithm first; empty where either side states no settings at all."""
    if not a.settings or not b.settings:
        return ()
    a_partial, b_partial = is_partial(a, b), is_partial(b, a)
    framework = a.paste.framework or b.paste.framework
    found: list[SettingDifference] = []
    for key in dict.fromkeys((*a.settings, *b.settings)):
        mine, theirs = a.settings.get(key), b.settings.get(key)
        if (mine is None and a_partial) or (theirs is None and b_partial):
            continue
        effect = touches(key, framework)
        difference = _difference(key, mine, theirs, framework, effect)
        if effect != BOOKKEEPING and not _is_equal(difference):
            found.append(difference)
    return tuple(sorted(found, key=lambda one: (one.touches != "algorithm", one.touches == UNKNOWN)))


def levers(differences: tuple[SettingDifference, ...]) -> tuple[SettingDifference, ...]:
    """Return the differences that were turned for speed."""
    return tuple(one for one in differences if one.touches in LEVERS)


def as_text(difference: SettingDifference) -> str:
    """Return ``rollout.n 5 -> 4``, with ``(default)`` behind what is not set."""
    a = _worded(difference.a, is_default=difference.a_is_default)
    b = _worded(difference.b, is_default=difference.b_is_default)
    return f"{difference.key} {a} -> {b}"


def _worded(value: SettingValue, *, is_default: bool) -> str:
    if not is_default:
        return _plain(value)
    return "default" if value is None else f"{_plain(value)} (default)"


def _difference(
    key: str, a: Setting | None, b: Setting | None, framework: str | None, effect: str
) -> SettingDifference:
    stated = a or b
    return SettingDifference(
        key=stated.key if stated is not None else key,
        a=_shown(a, framework, key),
        b=_shown(b, framework, key),
        a_is_default=a is None,
        b_is_default=b is None,
        touches=effect,
    )


def _shown(setting: Setting | None, framework: str | None, key: str) -> SettingValue:
    if setting is None:
        return default_of(framework, key)[1]
    return setting.value if setting.is_resolved else setting.text


def _is_equal(difference: SettingDifference) -> bool:
    """An unknown default (None) equals nothing but a setting that is null itself."""
    return _canonical(difference.a) == _canonical(difference.b)


def _canonical(value: SettingValue) -> object:
    if isinstance(value, tuple):
        return tuple(_canonical(item) for item in value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return "nan" if value != value else value
    return value.strip().strip("'\"")


def _plain(value: SettingValue) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)
