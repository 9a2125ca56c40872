"""A changed value in the user's own configuration language."""

from steptune.core.paste import Setting
from steptune.lint.formula import Scalar
from steptune.lint.view import View

FLAGS = frozenset({"openrlhf", "slime"})
"""Frameworks configured by command-line flags alone."""

ENVIRONMENT = "env."
"""Prefix of environment variables among the settings."""


def change_line(name: str, value: Scalar, view: View) -> str:
    """Return the line that sets ``name`` to ``value``, spelt as the user spells it."""
    setting = view.setting(name)
    key = setting.key if setting is not None else _customary(name, view)
    if key.startswith(ENVIRONMENT):
        return f"export {key.removeprefix(ENVIRONMENT)}={_text(value)}"
    if view.framework in FLAGS or (view.framework == "trl" and setting is not None and setting.layer == "override"):
        return f"--{_original(key, view)} {_text(value)}"
    if view.framework == "trl":
        return _trl(key, value, setting)
    if view.framework == "prime_rl":
        return f"{key} = {_toml(value)}"
    is_added = setting is not None and setting.prefix in ("+", "++")
    return f"{'++' if is_added else ''}{key}={_text(value)}"


def _customary(name: str, view: View) -> str:
    """The spelling of the user's generation of the framework: dotted keys where any other key is dotted."""
    keys = view.names[name].keys
    is_dotted = any("." in key for key in view.settings if not key.startswith(ENVIRONMENT))
    return next((key for key in keys if ("." in key) is is_dotted), keys[0])


def _trl(key: str, value: Scalar, setting: Setting | None) -> str:
    if setting is not None and setting.layer == "code":
        return f"{key}={value!r},"
    return f"{key}: {_text(value)}"


def _original(key: str, view: View) -> str:
    return next((s.key for s in view.written if s.key.replace("-", "_") == key), key)


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _toml(value: Scalar) -> str:
    return f'"{value}"' if isinstance(value, str) else _text(value)
