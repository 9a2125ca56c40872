"""The user's settings as the advice needs them: looked up by key, and written back in the user's own language.

The surprise: the same key is spelled with dashes on a command line and with underscores in Python; both are found.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.knob import KnobValue
from steptune.core.paste import Paste, Setting, effective
from steptune.memory.tables import FrameworkRule, framework_rules

NO_FRAMEWORK = FrameworkRule(name="", language="hydra")
"""Stands for a framework that is unknown or has no rule: no keys, so no lines."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Settings of one paste with the rule of its framework."""

    rule: FrameworkRule
    by_key: dict[str, Setting]

    def get(self, key: str) -> Setting | None:
        """Return the setting that counts, or None where it is not set or not resolved."""
        setting = self.by_key.get(_normal(key))
        return setting if setting is not None and setting.is_resolved else None

    def value(self, key: str, default: KnobValue = None) -> KnobValue:
        """Return a scalar setting, ``default`` where it is not set."""
        setting = self.get(key)
        if setting is None or isinstance(setting.value, tuple):
            return default
        return setting.value

    def number(self, key: str, default: KnobValue = None) -> float | None:
        """Return a numeric setting, None where it is not set or no number."""
        value = self.value(key, default)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def first_number(self, keys: tuple[str, ...]) -> float | None:
        """Return the first of ``keys`` that is set to a number."""
        return next((value for key in keys if (value := self.number(key)) is not None), None)

    def is_set(self, key: str) -> bool:
        """Return whether the key is set at all, resolved or not."""
        return _normal(key) in self.by_key

    def holds(self, when: dict[str, KnobValue]) -> bool:
        """Return whether every key has its value; an unset key counts as off."""
        return all(self.value(key, default=False) == wanted for key, wanted in when.items())

    def sequence_tokens(self) -> int | None:
        """Return the longest sequence (prompt and response) in tokens, None unless every part is set."""
        parts = [self.number(key) for key in self.rule.sequence_keys]
        known = [part for part in parts if part is not None]
        return int(sum(known)) if known and len(known) == len(parts) else None

    def line(self, key: str, value: KnobValue) -> str:
        """Return ``key`` set to ``value`` in the language that the user wrote it in."""
        setting = self.by_key.get(_normal(key))
        layer = setting.layer if setting is not None else None
        if key.startswith("env."):
            return f"export {key.removeprefix('env.')}={value}"
        spelled = setting.key if setting is not None else key
        match self.rule.language:
            case "flags":
                return f"--{spelled}" if value is True else f"--{spelled} {_text(value, lower=True)}"
            case "toml":
                return f"{spelled} = {_toml(value)}"
            case "python":
                return self._python_line(spelled, value, layer)
            case "hydra" | "hydra_lower":
                prefix = "" if setting is None else setting.prefix
                return f"{prefix}{spelled}={_text(value, lower=self.rule.language == 'hydra_lower')}"

    def _python_line(self, key: str, value: KnobValue, layer: str | None) -> str:
        if layer == "override":
            return f"--{key} {_text(value, lower=True)}"
        if layer == "file":
            return f"{key}: {_text(value, lower=True)}"
        return f"{key}={value!r},"


def view_of(paste: Paste) -> View:
    """Return the view on the settings of ``paste``."""
    rule = framework_rules().get(paste.framework or "", NO_FRAMEWORK)
    return View(rule=rule, by_key={_normal(key): setting for key, setting in effective(paste.settings).items()})


def _normal(key: str) -> str:
    return key.replace("-", "_").lower() if not key.startswith("env.") else key


def _text(value: KnobValue, *, lower: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower() if lower else str(value)
    return str(value)


def _toml(value: KnobValue) -> str:
    return f'"{value}"' if isinstance(value, str) else _text(value, lower=True)
