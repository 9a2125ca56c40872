"""A configuration as rules see it: values by name, with the lines they came from.

The surprise: a name may be unknown (an unresolved shell variable, a key cut off by the paste), and then every rule
that needs it stays silent. `replaced` asks "what if this key were that", which is how nearest valid values are found.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self, final

from steptune.core.finding import Evidence
from steptune.core.paste import Note, Paste, Setting, effective
from steptune.lint.formula import Scalar, evaluate, holds, names_in
from steptune.lint.rule import Name, RuleSet
from steptune.published.keys import former_names

DEVICES = "device_count"
"""Name under which formulas find the number of devices a log states."""

VERSION = "version"
"""Name under which formulas find the framework's version as 1000 x major + minor: 0.15 is 15, 1.9 is 1009."""

COUNT_IN_PROSE = re.compile(r"(\d+)(?:\s*[:(]|\s+[a-z])")
"""A number at the start of a sentence: ``32 prompts``, ``8 (1 node)``."""

MAX_COUNT = 2**53
"""Whole numbers beyond what a float holds exactly are damage, not settings."""

MAX_DEPTH = 8
"""Formulas name formulas at most this deep; the rule files' test fails on a circle."""


def version_number(text: str | None) -> int | None:
    """Return ``text`` as 1000 x major + minor; None when it does not start with two numbers.

    >>> version_number("0.15.2"), version_number("v1.9.0"), version_number("main")
    (15, 1009, None)
    """
    found = re.match(r"v?(\d+)\.(\d+)", text or "")
    return 1000 * int(found.group(1)) + int(found.group(2)) if found else None


def spelling(key: str) -> str:
    """Return ``key`` as keys are compared: kebab and snake case are one."""
    return key.replace("-", "_")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One configuration under one framework's names."""

    names: Mapping[str, Name]
    settings: Mapping[str, Setting]
    """Effective settings by `spelling`."""
    written: tuple[Setting, ...]
    """Everything as read, repeats included, in order."""
    notes: tuple[Note, ...]
    framework: str
    device_count: int | None
    version: int | None
    what_if: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    @classmethod
    def of(cls, paste: Paste, rules: RuleSet) -> Self:
        """Return ``paste``'s configuration under the names of ``rules``."""
        return cls(
            names=rules.names,
            settings=effective(_normal(setting) for setting in paste.settings),
            written=paste.settings,
            notes=paste.notes,
            framework=paste.framework or rules.framework,
            device_count=paste.devices.count if paste.devices else None,
            version=version_number(paste.framework_version),
        )

    def replaced(self, name: str, value: Scalar) -> Self:
        """Return the same configuration with ``name`` set to ``value``."""
        return replace(self, what_if={**self.what_if, name: value})

    def setting(self, name: str) -> Setting | None:
        """Return the setting behind ``name``, the newest spelling first; None when no spelling is set.

        Keys that were renamed count under their old names too: many posts are older than the present version.
        """
        known = self.names.get(name)
        keys = known.keys if known else ()
        former = former_names(self.framework)
        found = (self.settings.get(spelling(key)) for key in (*keys, *(old for k in keys for old in former.get(k, ()))))
        return next((setting for setting in found if setting is not None), None)

    def written_as(self, name: str) -> tuple[Setting, ...]:
        """Return every setting that spells ``name``, repeats included, in order."""
        keys = {spelling(key) for key in self.names[name].keys}
        return tuple(setting for setting in self.written if spelling(setting.key) in keys)

    def is_set(self, name: str) -> bool:
        """Return whether the user wrote a key of ``name`` with any value but null."""
        if name in self.what_if:
            return self.what_if[name] is not None
        setting = self.setting(name)
        return setting is not None and setting.value is not None

    def value(self, name: str) -> Scalar:
        """Return the value behind ``name``; None when unknown, off, a list or not resolved."""
        if name in self.what_if:
            return self.what_if[name]
        if name in (DEVICES, VERSION):
            return self.device_count if name == DEVICES else self.version
        setting = self.setting(name)
        if setting is not None and setting.value is not None:
            return _scalar(setting)
        known = self.names.get(name)
        if known is None:
            return None
        if known.formula:
            return evaluate(known.formula, self)
        return known.default if not known.default_if or holds(known.default_if, self) else None

    def evidence(self, *formulas: str) -> tuple[Evidence, ...]:
        """Return the lines that the values in ``formulas`` rest on, each once."""
        names = dict.fromkeys(name for text in formulas for name in self._leaves(text, depth=0))
        found = (self._fact(name) for name in names)
        return tuple(dict.fromkeys(fact for fact in found if fact is not None))

    def _leaves(self, text: str, depth: int) -> Iterator[str]:
        for name in names_in(text):
            known = self.names.get(name)
            if known is not None and known.formula and self.setting(name) is None and depth < MAX_DEPTH:
                yield from self._leaves(known.formula, depth + 1)
            else:
                yield name

    def _fact(self, name: str) -> Evidence | None:
        setting = self.setting(name)
        if setting is not None:
            is_computed = setting.is_resolved and "${" in setting.text
            said = f"{setting.value} ({setting.text})" if is_computed else setting.text
            return Evidence(text=f"{setting.key}={said}", origin=setting.origin)
        value = self.value(name)
        if value is None:
            return None
        known = self.names.get(name)
        key = known.keys[0] if known and known.keys else name
        return Evidence(text=_stated.get(name, f"{key} is not set: default {{}}").format(value))


def _scalar(setting: Setting) -> Scalar:
    value = setting.value
    is_damaged = isinstance(value, int) and abs(value) > MAX_COUNT
    return None if not setting.is_resolved or isinstance(value, tuple) or is_damaged else value


def _normal(setting: Setting) -> Setting:
    """Return the setting under its comparable key; an expression in code is no value, a count in prose is one.

    ``SP = 2: what follows`` is how people write posts; ``tp = args.tp`` is how they write scripts.
    """
    key = spelling(setting.key)
    if setting.layer != "code" or setting.value != setting.text or setting.text.isidentifier():
        return setting.model_copy(update={"key": key})
    count = COUNT_IN_PROSE.match(setting.text)
    if count is not None:
        return setting.model_copy(update={"key": key, "value": int(count.group(1))})
    return setting.model_copy(update={"key": key, "is_resolved": False})


_stated = {DEVICES: "{} devices, as the log says", VERSION: "version {} (1000 x major + minor)"}
