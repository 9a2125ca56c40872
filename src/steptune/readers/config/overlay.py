"""Lays one configuration over another, as OmegaConf merges: mappings key by key, everything else as a whole.

The surprise: a list or a `null` in the child removes the parent's whole subtree, so a recipe that sets
`scheduler: null` has no `scheduler.kwargs` left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.readers.config.tree import Entry

OVERRIDE_MARK = "_override_"
"""NeMo RL's marker (nemo_rl/utils/config.py): the mapping that holds it replaces the parent's."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """An entry and the file it stands in."""

    entry: Entry
    path: str


def overlay(below: Sequence[Placed], above: Sequence[Placed]) -> list[Placed]:
    """Return what is in force when ``above`` is merged over ``below``; values that lost are left out."""
    replaced = {root for item in above for root in _replaced_roots(item.entry)}
    spelt = {key for item in above for key in _ancestors(item.entry.key)}
    kept = [
        item
        for item in below
        if not any(key in replaced for key in (item.entry.key, *_ancestors(item.entry.key)))
        and not (item.entry.key in spelt and item.entry.value != "{}")
    ]
    return kept + [item for item in above if not item.entry.key.endswith(OVERRIDE_MARK)]


def _replaced_roots(entry: Entry) -> list[str]:
    """Return the keys whose whole subtree ``entry`` replaces."""
    parts = entry.key.split(".")
    if parts[-1] == OVERRIDE_MARK:
        return [".".join(parts[:-1])]
    position = next((at for at, part in enumerate(parts) if part.isdigit()), None)
    if position is not None:
        return [".".join(parts[:position])]
    return [] if entry.value == "{}" else [entry.key]


def _ancestors(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:at]) for at in range(1, len(parts))]
