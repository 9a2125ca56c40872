"""Arguments of a launch command: Hydra overrides (`a.b=c`) and flags (`--name value`), mixed as people mix them.

The surprise: whether a flag takes a value can only be guessed from what follows; a flag that is followed by
another flag, an override or nothing is a switch, and its value is True.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from steptune.core.paste import Setting, SettingValue
from steptune.readers.config.literal import read_literal
from steptune.readers.config.scalars import parse_quoted_or_bare, parse_scalar, unquote
from steptune.readers.config.settings import Prefix, make_setting
from steptune.readers.config.shell_words import Word
from steptune.readers.config.tree import Leaf, flatten

_OVERRIDE = re.compile(r"(?P<prefix>\+\+|\+|~|)(?P<key>[A-Za-z_@][\w.@/$:-]*)(?P<append>\+?)=(?P<value>.*)", re.DOTALL)
_DELETION = re.compile(r"~(?P<key>[A-Za-z_][\w.@/-]*)")
_FLAG = re.compile(r"--?(?P<key>[A-Za-z][\w.:/-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")


def read_arguments(words: Sequence[Word], path: str, scope_key: str = "") -> Iterator[Setting]:
    """Yield the settings of ``words`` in order; positional arguments are passed over.

    ``scope_key`` goes before every flag: a `trl vllm-serve` command's flags are not the trainer's.
    """
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if is_override(word.text):
            yield from read_override(word, path)
        elif word.text == "@" and at < len(words):
            # prime-rl composes files: `rl @ base.toml --trainer @ train.toml`
            yield from _flag_with_values("config", word, words[at : at + 1], path)
            at += 1
        elif found := _FLAG.fullmatch(word.text):
            key = f"{scope_key}{found['key']}"
            if found["value"] is not None:
                yield from _flag_settings(key, found["value"], word, path)
                continue
            start = at
            while at < len(words) and _is_value(words[at]):
                at += 1
            if at > start or at == len(words) or words[at].text != "@":
                yield from _flag_with_values(key, word, words[start:at], path)


def is_override(text: str) -> bool:
    """Whether ``text`` has the form of a Hydra override."""
    return _OVERRIDE.fullmatch(text) is not None or _DELETION.fullmatch(text) is not None


def read_override(word: Word, path: str) -> Iterator[Setting]:
    """Yield the settings of one override; a mapping as value gives one per key."""
    if deleted := _DELETION.fullmatch(word.text):
        yield make_setting(
            key=deleted["key"],
            value=None,
            text="",
            layer="override",
            path=word.path or path,
            line=word.line,
            prefix="~",
        )
        return
    found = _OVERRIDE.fullmatch(word.text)
    if found is None:
        return
    key, text = found["key"], found["value"]
    prefix = _prefix(found["prefix"])
    if _ENV_NAME.fullmatch(key) and not prefix:
        yield env_setting(key, text, word, path)
        return
    for sub_key, value in values_of(key, text, word.line):
        yield make_setting(
            key=sub_key,
            value=value,
            text=text,
            layer="override",
            path=word.path or path,
            line=word.line,
            prefix=prefix,
            is_resolved=word.is_resolved and "${" not in text,
        )


def env_setting(name: str, text: str, word: Word, path: str) -> Setting:
    """Return the setting of an environment variable."""
    return make_setting(
        key=f"env.{name}",
        value=parse_scalar(text) if text else "",
        text=text,
        layer="env",
        path=word.path or path,
        line=word.line,
        is_resolved=word.is_resolved,
    )


def values_of(key: str, text: str, line: int) -> Iterator[tuple[str, SettingValue]]:
    """Yield key and value of ``key=text``; brackets are read as lists and mappings.

    >>> list(values_of("trainer.logger", "['console','wandb']", 1)), list(values_of("a", "{b: 1}", 1))
    ([('trainer.logger', ('console', 'wandb'))], [('a.b', 1)])
    """
    bare = unquote(text)[0] if text[:2] in ("'[", '"[', "'{", '"{') else text
    if bare[:1] in ("[", "{") and not bare.startswith("{{"):
        for entry in flatten(read_literal(bare, [line]), key):
            yield entry.key, entry.value
    else:
        yield key, parse_quoted_or_bare(text)


def _prefix(text: str) -> Prefix:
    return "++" if text == "++" else "+" if text == "+" else "~" if text == "~" else ""


def _is_value(word: Word) -> bool:
    text = word.text
    is_number = isinstance(parse_scalar(text), int | float)
    if text.startswith("-") and not is_number and not word.is_quoted:
        return False
    return word.array is None and text != "@" and (word.is_quoted or not is_override(text))


def _flag_settings(key: str, text: str, word: Word, path: str) -> Iterator[Setting]:
    for sub_key, value in values_of(key, text, word.line):
        yield make_setting(
            key=sub_key,
            value=value,
            text=text,
            layer="override",
            path=word.path or path,
            line=word.line,
            is_resolved=word.is_resolved and "${" not in text,
        )


def _flag_with_values(key: str, flag: Word, values: Sequence[Word], path: str) -> Iterator[Setting]:
    if len(values) == 1:
        joined = replace(values[0], line=flag.line, path=flag.path)
        yield from _flag_settings(key, joined.text, joined, path)
        return
    value: SettingValue = tuple(_scalar(word.text) for word in values) if values else True
    yield make_setting(
        key=key,
        value=value,
        text=" ".join(word.text for word in values),
        layer="override",
        path=flag.path or path,
        line=flag.line,
        is_resolved=all(word.is_resolved for word in values),
    )


def _scalar(text: str) -> bool | int | float | str | None:
    node = read_literal(text, [1]) if text[:1] in ("[", "{") else None
    return node.value if isinstance(node, Leaf) else parse_scalar(text)
