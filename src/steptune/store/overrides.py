"""`--set a.b=value` on the command line: one assignment into the tables of a job file."""

import re
import tomllib

from steptune.core.errors import JobError, explain

Table = dict[str, object]
"""A TOML table as read, before anything in it is believed."""

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""Dotted keys without quotes: every key a job has."""

BARE_WORD = re.compile(r"(?!(true|false|inf|nan)$)[A-Za-z_][A-Za-z0-9_-]*")
"""A value as typed without quotes in a shell, ``--set baseline=expert``: by itself no TOML value, so not ambiguous."""


def apply_override(raw: Table, text: str) -> str:
    """Write one ``a.b=value`` into ``raw`` and return its key. The value is TOML; a bare word is taken as text.

    Raises:
        JobError: ``text`` is no assignment, its value is no TOML, or its key leads through something that is no table.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not BARE_KEY.fullmatch(key):
        hint = "write it as `--set algorithm.group_size=16`"
        raise JobError(explain("cannot read `--set`", got=f"`{text}`", allowed="key=value", hint=hint))
    *tables, last = key.split(".")
    here = raw
    for name in tables:
        inner = here.setdefault(name, {})
        if not isinstance(inner, dict):
            hint = f"set `{name}` itself"
            raise JobError(explain(f"`--set {key}`: `{name}` is no table", got=inner, allowed="a table", hint=hint))
        here = inner
    here[last] = _toml_value(key, value)
    return key


def _toml_value(key: str, text: str) -> object:
    if BARE_WORD.fullmatch(text):
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        parsed = {}
    if set(parsed) != {"value"}:
        hint = "quote text, as in `--set 'name=\"my job\"'`"
        raise JobError(explain(f"`--set {key}` has no TOML value", got=f"`{text}`", allowed="a TOML value", hint=hint))
    return parsed["value"]
