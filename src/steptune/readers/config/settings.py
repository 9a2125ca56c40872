"""Entries of any format become `Setting` records, and interpolations are resolved once all of them are known."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, final

from steptune.core.paste import Note, Setting, SettingValue
from steptune.core.profile import Origin
from steptune.readers.config.tree import Entry
from steptune.readers.values import MAX_MAGNITUDE

Layer = Literal["default", "file", "code", "override", "env"]
Prefix = Literal["", "+", "++", "~"]

MAX_TEXT = 2_000
"""Characters of a value's text that are kept; longer ones are embedded programs or prompts."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigReading:
    """What was read: the settings in order, and what could not be followed."""

    settings: tuple[Setting, ...] = ()
    notes: tuple[Note, ...] = ()
    files: tuple[str, ...] = ()
    """Other files whose settings are in here: parents and sourced scripts that were found on disk."""


def make_setting(
    *,
    key: str,
    value: SettingValue,
    text: str,
    layer: Layer,
    path: str,
    line: int,
    prefix: Prefix = "",
    is_resolved: bool = True,
) -> Setting:
    """Return the record; an overlong value keeps its head only, and a number that no program can use is text."""
    kept = clean(text) if is_no_number(value) else clean(value) if isinstance(value, str) else value
    key = clean(key)
    origin = Origin(path=path, line=line, key=key)
    return Setting(
        key=key,
        value=kept,
        text=clean(text),
        layer=layer,
        origin=origin,
        prefix=prefix,
        is_resolved=is_resolved,
    )


def is_no_number(value: SettingValue) -> bool:
    """Whether ``value`` is NaN, or larger or smaller than what can be reckoned with."""
    return isinstance(value, int | float) and value != 0 and not 1 / MAX_MAGNITUDE <= abs(value) <= MAX_MAGNITUDE


def unresolved_parent(name: str, path: str, line: int) -> tuple[Setting, Note]:
    """Return what stands for a `defaults:` parent that is not here: an unresolved setting and a note."""
    setting = make_setting(key="defaults", value=name, text=name, layer="file", path=path, line=line, is_resolved=False)
    text = f"parent `{clean(name)}` is not here: the values it sets are unknown; hint: hand in the file too"
    return setting, Note(text=text, origin=setting.origin)


def clean(text: str) -> str:
    """Return ``text`` at most `MAX_TEXT` long, without the half characters that damaged input may hold."""
    head = text[:MAX_TEXT]
    return head if head.isascii() else head.encode("utf-8", "replace").decode("utf-8")


def from_entries(entries: Iterable[Entry], layer: Layer, path: str) -> Iterator[Setting]:
    """Yield one setting per entry that has a key."""
    for entry in entries:
        if entry.key:
            yield make_setting(
                key=entry.key,
                value=entry.value,
                text=entry.text,
                layer=layer,
                path=path,
                line=entry.line,
                is_resolved="${" not in entry.text,
            )
