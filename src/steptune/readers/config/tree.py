"""A configuration as a tree whose every leaf knows its line; all formats end here and are flattened alike.

The surprise: a list of scalars stays one value (`betas: [0.9, 0.999]`), but a list that holds a mapping is
spelt out by position (`scheduler.0.name`), because a `Setting` cannot hold a mapping.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from steptune.core.knob import KnobValue
from steptune.core.paste import SettingValue


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """A scalar: ``Leaf(value=1e-06, text="1e-6", line=7)``."""

    value: KnobValue
    text: str
    line: int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Seq:
    """A list, in order."""

    items: "tuple[Node, ...]"
    line: int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Map:
    """A mapping; keys may repeat, as they may in a pasted file."""

    items: "tuple[tuple[str, int, Node], ...]"
    """Key, the key's line, value."""
    line: int


Node = Leaf | Seq | Map

_OF_WANDB = frozenset(("wandb_version", "_wandb"))
"""Keys that W&B adds to a run's `config.yaml`: the first in older versions, the second in newer ones."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One flattened key: ``Entry(key="policy.optimizer.kwargs.lr", value=5e-06, text="5.0e-6", line=19)``."""

    key: str
    value: SettingValue
    text: str
    line: int


def flatten(node: Node, prefix: str = "", line: int | None = None) -> Iterator[Entry]:
    """Yield every leaf under its dotted key, in order; an empty mapping is kept as the text ``{}``."""
    at = node.line if line is None else line
    if isinstance(node, Leaf):
        yield Entry(key=prefix, value=node.value, text=node.text, line=at)
    elif isinstance(node, Seq):
        yield from _flatten_list(node, prefix, at)
    elif not node.items:
        yield Entry(key=prefix, value="{}", text="{}", line=at)
    else:
        for key, key_line, child in node.items:
            yield from flatten(child, join(prefix, key), key_line)


def join(prefix: str, key: str) -> str:
    """Return the dotted key below ``prefix`` (either may be empty)."""
    return f"{prefix}.{key}" if prefix and key else prefix or key


def unwrap_logged(tree: Map) -> Map:
    """Return the plain tree of a config file that W&B wrote: every key holds ``{desc: ..., value: ...}`` there.

    A fragment of one need not name W&B; then two keys or more have to look so, and no other may be there.
    """
    kept = [item for item in tree.items if item[0] not in _OF_WANDB]
    inner = [_logged_value(node) for _, _, node in kept]
    num_logged = sum(node is not None for node in inner)
    is_named = len(kept) < len(tree.items)
    if not num_logged or not (is_named or num_logged == len(kept) > 1):
        return tree
    pairs = zip(kept, inner, strict=True)
    return Map(items=tuple((key, line, value or node) for (key, line, node), value in pairs), line=tree.line)


def _logged_value(node: Node) -> Node | None:
    """The node below ``value``, where a mapping holds nothing else but a description."""
    fields = {name: value for name, _, value in node.items} if isinstance(node, Map) else {}
    return fields["value"] if "value" in fields and fields.keys() <= {"desc", "value"} else None


def _flatten_list(node: Seq, prefix: str, line: int) -> Iterator[Entry]:
    leaves = [item for item in node.items if isinstance(item, Leaf)]
    if len(leaves) == len(node.items):
        text = "[" + ", ".join(leaf.text for leaf in leaves) + "]"
        yield Entry(key=prefix, value=tuple(leaf.value for leaf in leaves), text=text, line=line)
        return
    for position, item in enumerate(node.items):
        yield from flatten(item, join(prefix, str(position)))
