"""Interpolations between settings (`${a.b}`, `${mul:${a},2}`), resolved where the other setting is here.

The surprise: it runs last, over all settings together, because an override on the command line changes what a
YAML file's interpolation means.
"""

import re
from collections.abc import Callable, Sequence
from typing import final

from steptune.core.knob import KnobValue
from steptune.core.paste import Setting, SettingValue, effective
from steptune.readers.config.scalars import parse_scalar
from steptune.readers.config.settings import is_no_number
from steptune.readers.config.shell_variables import matching_bracket

MAX_NESTING = 12
"""References that may lead to further references before a value stays unresolved."""

MAX_SUBTREE = 500
"""Settings one reference may stand for."""

MAX_COPIES = 2_000
"""Settings all references to mappings together may add."""

_WHOLE = re.compile(r"\$\{(?P<key>[\w.]+)\}")

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "div": lambda a, b: a / b,
    "max": max,
    "min": min,
}
"""Resolvers that NeMo RL registers (nemo_rl/utils/config.py) and their usual companions."""


class _Unresolvable(Exception):  # noqa: N818 - a signal inside this module, never seen outside
    """A reference leads to something that is not here."""


def resolve(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Return the settings with every interpolation replaced whose target is known; the others stay unresolved."""
    if all("${" not in setting.text for setting in settings):
        return tuple(settings)
    spelt_out: list[Setting] = []
    for setting in settings:
        is_small = len(spelt_out) < len(settings) + MAX_COPIES
        spelt_out += _with_subtree(setting, settings) if is_small else [setting]
    resolver = _Resolver(effective(spelt_out))
    return tuple(resolver.setting(setting) if _is_open(setting) else setting for setting in spelt_out)


def _with_subtree(setting: Setting, settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that ``key: ${other}`` stands for when ``other`` is a mapping; itself otherwise."""
    found = _WHOLE.fullmatch(setting.text) if _is_open(setting) else None
    if found is None:
        return [setting]
    under = f"{found['key']}."
    below = [s for s in settings if s.key.startswith(under)]
    copies = [s.model_copy(update={"key": setting.key + s.key[len(under) - 1 :]}) for s in below]
    return copies[:MAX_SUBTREE] or [setting]


def _is_open(setting: Setting) -> bool:
    return not setting.is_resolved and setting.layer != "env" and "${" in setting.text


@final
class _Resolver:
    """Follows references through the settings that count."""

    def __init__(self, known: dict[str, Setting]) -> None:
        self._known = known

    def setting(self, setting: Setting) -> Setting:
        try:
            value = self._value(setting.value, setting.key, 0)
        except (_Unresolvable, ValueError, ZeroDivisionError, OverflowError, TypeError):
            return setting
        return setting if is_no_number(value) else setting.model_copy(update={"value": value, "is_resolved": True})

    def _value(self, value: SettingValue, key: str, depth: int) -> SettingValue:
        if isinstance(value, tuple):
            return tuple(self._scalar(item, key, depth) for item in value)
        if isinstance(value, str) and "${" in value:
            return self._text(value, key, depth)
        return value

    def _scalar(self, value: KnobValue, key: str, depth: int) -> KnobValue:
        resolved = self._value(value, key, depth)
        if isinstance(resolved, tuple):
            raise _Unresolvable
        return resolved

    def _text(self, text: str, key: str, depth: int) -> SettingValue:
        if depth > MAX_NESTING:
            raise _Unresolvable
        if text.startswith("${") and matching_bracket(text, 1, "{", "}") == len(text):
            return self._reference(text[2:-1], key, depth)
        pieces: list[str] = []
        at = 0
        while (start := text.find("${", at)) >= 0:
            stop = matching_bracket(text, start + 1, "{", "}")
            found = self._reference(text[start + 2 : stop - 1], key, depth)
            pieces += [text[at:start], "null" if found is None else str(found)]
            at = stop
        return "".join([*pieces, text[at:]])

    def _reference(self, body: str, key: str, depth: int) -> SettingValue:
        name, colon, rest = body.partition(":")
        if not colon:
            return self._follow(self._absolute(body.strip(), key), depth)
        arguments = [self._argument(part, key, depth) for part in _split(rest)]
        name = name.strip()
        if name == "oc.select" and arguments:
            return self._select(arguments, depth)
        if name == "oc.env" and len(arguments) == 2:
            return arguments[1]
        if name in _ARITHMETIC and len(arguments) >= 2:
            return self._compute(name, arguments)
        raise _Unresolvable

    def _argument(self, text: str, key: str, depth: int) -> SettingValue:
        bare = text.strip()
        return self._text(bare, key, depth + 1) if "${" in bare else parse_scalar(bare.strip("'\""))

    def _compute(self, name: str, arguments: Sequence[SettingValue]) -> SettingValue:
        numbers = [a for a in arguments if isinstance(a, int | float) and not isinstance(a, bool)]
        if len(numbers) != len(arguments):
            raise _Unresolvable
        total: float = numbers[0]
        for number in numbers[1:]:
            total = _ARITHMETIC[name](total, number)
        return int(total) if total == int(total) and all(isinstance(n, int) for n in numbers) else total

    def _select(self, arguments: Sequence[SettingValue], depth: int) -> SettingValue:
        try:
            return self._follow(str(arguments[0]), depth)
        except _Unresolvable:
            if len(arguments) < 2:
                raise
            return arguments[1]

    def _follow(self, key: str, depth: int) -> SettingValue:
        target = self._known.get(key)
        if target is None or (not target.is_resolved and "${" not in target.text):
            raise _Unresolvable
        return self._value(target.value, key, depth + 1)

    def _absolute(self, reference: str, key: str) -> str:
        """Return the full key of ``.sibling`` or ``..aunt``; a plain reference is full already."""
        ups = len(reference) - len(reference.lstrip("."))
        if not ups:
            return reference
        parents = key.split(".")[:-ups]
        return ".".join([*parents, reference[ups:]])


def _split(text: str) -> list[str]:
    """Split a resolver's arguments at the commas outside brackets."""
    parts = [""]
    depth = 0
    for found in re.finditer(r"[{}\[\](),]|[^{}\[\](),]+", text):
        piece = found[0]
        depth += (piece in "{[(") - (piece in "}])")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts
