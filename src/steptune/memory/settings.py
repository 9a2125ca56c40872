"""The user's settings as the advice needs them: looked up by key, and written back in the user's own language.

The surprise: the same key is spelled with dashes on a command line and with underscores in Python, and OpenRLHF and
SkyRL renamed theirs; all are found, and a user who writes the old names is answered in the old names.
"""

from dataclasses import dataclass, field
from typing import final

from steptune.core.knob import KnobValue
from steptune.core.paste import Paste, Setting, effective
from steptune.memory.tables import FrameworkRule, framework_rules
from steptune.published.defaults import default_of
from steptune.published.keys import renames

MAX_NUMBER = 1e15
"""Settings beyond are no sizes (infinity, NaN, an id); counts up to here are exact as floats."""

NO_FRAMEWORK = FrameworkRule(name="", language="hydra")
"""Stands for a framework that is unknown or has no rule: no keys, so no lines."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Settings of one paste with the rule of its framework."""

    rule: FrameworkRule
    by_key: dict[str, Setting]
    old_names: dict[str, str]
    """Former name of a key that was renamed, by its name of today."""
    speaks_old: bool
    """Whether the settings use a former name."""
    asked: set[str] = field(default_factory=set[str], compare=False)
    """Keys that were looked up so far, in the framework's spelling."""

    def found(self, key: str) -> Setting | None:
        """Return the setting under the name of today or the former one."""
        former = self.old_names.get(key)
        self.asked.update({key, former or key})
        return self.by_key.get(_normal(key)) or (self.by_key.get(_normal(former)) if former else None)

    def value(self, key: str, default: KnobValue = None) -> KnobValue:
        """Return a scalar setting; where it is not set the framework's own default, else ``default``."""
        setting = self.found(key)
        if setting is not None:
            return setting.value if setting.is_resolved and not isinstance(setting.value, tuple) else None
        known, own = default_of(self.rule.name, key)
        return own if known and own is not None else default

    def was_asked(self, key: str) -> bool:
        """Return whether ``key`` was looked up so far, in whichever spelling."""
        return _normal(key) in map(_normal, self.asked)

    def number(self, key: str, default: KnobValue = None) -> float | None:
        """Return a numeric setting, None where it is not set or no number."""
        value = self.value(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < MAX_NUMBER:
            return None
        return float(value)

    def first_number(self, keys: tuple[str, ...]) -> float | None:
        """Return the first of ``keys`` that is set to a number."""
        return next((value for key in keys if (value := self.number(key)) is not None), None)

    def is_set(self, key: str) -> bool:
        """Return whether the key is set at all, resolved or not."""
        return self.found(key) is not None

    def is_stated(self) -> bool:
        """Return whether there are any settings: without them nothing is computed from a default."""
        return bool(self.by_key)

    def backend(self, words: str = "") -> str:
        """Return the training backend, ``megatron`` or ``fsdp``, by the settings, else by the frames in ``words``."""
        if self.rule.megatron_switch and self.is_set(self.rule.megatron_switch):
            return "megatron" if self.value(self.rule.megatron_switch) is True else "fsdp"
        named = any(".megatron." in key for key in self.by_key) if self.rule.name == "verl" else False
        return "megatron" if named or "megatron" in words.lower() else "fsdp"

    def holds(self, when: dict[str, KnobValue]) -> bool:
        """Return whether every key has its value; an unset key has its default, or is off."""
        return all((self.value(key) or False) == wanted for key, wanted in when.items())

    def sequence_tokens(self) -> int | None:
        """Return the longest sequence (prompt and response) in tokens, None unless one is set and all are known."""
        if not any(self.is_set(key) for key in self.rule.sequence_keys):
            return None
        parts = [self.number(key) for key in self.rule.sequence_keys]
        known = [part for part in parts if part is not None]
        return int(sum(known)) if known and len(known) == len(parts) else None

    def line(self, key: str, value: KnobValue) -> str:
        """Return ``key`` set to ``value`` in the language that the user wrote it in."""
        setting = self.found(key)
        layer = setting.layer if setting is not None else None
        if key.startswith("env."):
            return f"export {key.removeprefix('env.')}={value}"
        today = self.old_names.get(key, key) if self.speaks_old else key
        spelled = setting.key if setting is not None else today
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
        if layer == "file" or "." in key:  # nested keys stand in accelerate's YAML
            return f"{key}: {_text(value, lower=True)}"
        return f"{key}={value!r},"


def view_of(paste: Paste) -> View:
    """Return the view on the settings of ``paste``."""
    rule = framework_rules().get(paste.framework or "", NO_FRAMEWORK)
    by_key = {_normal(key): setting for key, setting in effective(paste.settings).items()}
    old_names = {one.new: one.old for one in renames(rule.name) if one.kind == "renamed" and one.new}
    speaks_old = any(_normal(old) in by_key for old in old_names.values())
    return View(rule=rule, by_key=by_key, old_names=old_names, speaks_old=speaks_old)


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
